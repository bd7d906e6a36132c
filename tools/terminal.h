/* The terminal: colours only where a person looks, never in a file, and never against NO_COLOR. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum terminal_style { TERMINAL_PLAIN, TERMINAL_BOLD, TERMINAL_DIM, TERMINAL_RED, TERMINAL_GREEN };

/** True when @p stream is a terminal that understands control sequences. */
bool terminal_is_live(FILE *stream);
/** True when it is live and NO_COLOR is unset or empty. */
bool terminal_has_colour(FILE *stream);
/** The control sequence for @p style on @p stream, or "". */
const char *terminal_style(FILE *stream, enum terminal_style style);

#endif
