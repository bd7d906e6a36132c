/* The terminal: the few control sequences in use. */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_is_live(FILE *stream) {
  const char *kind = getenv("TERM");
  return isatty(fileno(stream)) && kind && *kind && strcmp(kind, "dumb");
}

bool terminal_has_colour(FILE *stream) {
  const char *no_colour = getenv("NO_COLOR");
  return terminal_is_live(stream) && !(no_colour && *no_colour);
}

const char *terminal_style(FILE *stream, enum terminal_style style) {
  static const char *const sequences[] = {"\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m"};
  return terminal_has_colour(stream) ? sequences[style] : "";
}
