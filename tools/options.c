/* Options: finding the row, then parsing by its kind. */
#include "options.h"

#include <string.h>

#include "quantity.h"
#include "suggest.h"

enum { OPTION_LIMIT = 64, HELP_COLUMN = 28 };

static const struct option *find_option(const struct option *options, size_t count, const char *name, size_t length) {
  for (size_t i = 0; i < count; i++)
    if (strlen(options[i].name) == length && !strncmp(options[i].name, name, length)) return &options[i];
  return NULL;
}

static bool complain_unknown(const struct option *options, size_t count, const char *name, size_t length,
                             struct complaint *complaint) {
  const char *names[OPTION_LIMIT];
  char word[OPTION_LIMIT];
  for (size_t i = 0; i < count && i < OPTION_LIMIT; i++) names[i] = options[i].name;
  snprintf(word, sizeof word, "%.*s", (int)length, name);
  const char *meant = suggest_word(word, names, count < OPTION_LIMIT ? count : OPTION_LIMIT);
  if (meant) return complain(complaint, "unknown option --%s; did you mean --%s?", word, meant);
  return complain(complaint, "unknown option --%s", word);
}

static bool check_limits(const struct option *option, uint64_t value, struct complaint *complaint) {
  if (value < option->least)
    return complain(complaint, "--%s must be at least %llu", option->name, (unsigned long long)option->least);
  if (option->most && value > option->most)
    return complain(complaint, "--%s must be at most %llu", option->name, (unsigned long long)option->most);
  *(uint64_t *)option->target = value;
  return true;
}

static bool parse_choice(const struct option *option, const char *text, struct complaint *complaint) {
  char known[256] = "";
  size_t used = 0;
  for (uint32_t i = 0; option->choices[i]; i++) {
    if (!strcmp(option->choices[i], text)) {
      *(uint32_t *)option->target = i;
      return true;
    }
    int length = snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", option->choices[i]);
    if (length > 0 && used + (size_t)length < sizeof known) used += (size_t)length;
  }
  return complain(complaint, "--%s takes one of %s, not \"%s\"", option->name, known, text);
}

static bool parse_value(const struct option *option, const char *text, struct complaint *complaint) {
  uint64_t number;
  switch (option->kind) {
    case OPTION_FLAG:
      *(bool *)option->target = true;
      return true;
    case OPTION_TEXT:
      *(const char **)option->target = text;
      return true;
    case OPTION_COUNT:
      if (!quantity_parse_count(text, &number)) return complain(complaint, "--%s takes a number, not \"%s\"", option->name, text);
      return check_limits(option, number, complaint);
    case OPTION_SIZE:
      if (!quantity_parse_size(text, &number))
        return complain(complaint, "--%s takes a size such as 65536, 64KiB or 1MiB, not \"%s\"", option->name, text);
      return check_limits(option, number, complaint);
    case OPTION_REAL:
      if (quantity_parse_real(text, option->target)) return true;
      return complain(complaint, "--%s takes a number that is not negative, not \"%s\"", option->name, text);
    case OPTION_CHOICE:
      return parse_choice(option, text, complaint);
    case OPTION_OWN:
      return option->parse(text, option->target, complaint);
  }
  return complain(complaint, "--%s cannot be parsed", option->name);
}

/* One "--name[=value]" with its value; moves *index past what it took. */
static bool parse_option(const struct option *options, size_t count, int argc, char **argv, int *index,
                         struct complaint *complaint) {
  const char *name = argv[*index] + 2;
  const char *equals = strchr(name, '=');
  size_t length = equals ? (size_t)(equals - name) : strlen(name);
  const struct option *option = find_option(options, count, name, length);
  if (!option) return complain_unknown(options, count, name, length, complaint);
  const char *value = equals ? equals + 1 : NULL;
  if (option->kind == OPTION_FLAG) {
    if (value) return complain(complaint, "--%s takes no value", option->name);
  } else if (!value) {
    if (*index + 1 >= argc) return complain(complaint, "--%s needs a value: %s", option->name, option->value);
    value = argv[++*index];
  }
  return parse_value(option, value, complaint);
}

enum options_result options_parse(const struct option *options, size_t count, int argc, char **argv, const char **words,
                                  size_t word_capacity, size_t *word_count_out, struct complaint *complaint) {
  size_t word_count = 0;
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) return OPTIONS_HELP;
    if (word[0] == '-' && word[1] == '-' && word[2]) {
      if (!parse_option(options, count, argc, argv, &i, complaint)) return OPTIONS_WRONG;
    } else if (word[0] == '-' && word[1]) {
      complain(complaint, "unknown option %s", word);
      return OPTIONS_WRONG;
    } else if (word_count == word_capacity) {
      complain(complaint, "unexpected argument \"%s\"", word);
      return OPTIONS_WRONG;
    } else {
      words[word_count++] = word;
    }
  }
  if (word_count_out) *word_count_out = word_count;
  return OPTIONS_DONE;
}

void options_print(FILE *out, const struct option *options, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", options[i].name, options[i].value ? " " : "", options[i].value ? options[i].value : "");
    const char *gap = strlen(left) < HELP_COLUMN ? "" : "\n  ";
    fprintf(out, "  %-*s%s", HELP_COLUMN, left, gap);
    if (*gap) fprintf(out, "%*s", HELP_COLUMN, "");
    for (const char *line = options[i].help; *line;) {
      size_t length = strcspn(line, "\n");
      fprintf(out, "%.*s\n", (int)length, line);
      line += length + (line[length] == '\n');
      if (*line) fprintf(out, "  %*s", HELP_COLUMN, "");
    }
  }
  fprintf(out, "  %-*sthis text\n", HELP_COLUMN, "--help");
}
