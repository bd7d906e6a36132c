/* Options: one table per command serves parsing and --help. "--name value" and "--name=value" mean the same.
 * Values go straight into the variables that the rows point at. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "complaint.h"

enum option_kind {
  OPTION_FLAG,   /* bool */
  OPTION_TEXT,   /* const char * */
  OPTION_COUNT,  /* uint64_t within [least, most]; most 0 = no limit */
  OPTION_SIZE,   /* uint64_t, bytes, within the same limits */
  OPTION_REAL,   /* double */
  OPTION_CHOICE, /* uint32_t: the index in `choices`, a NULL-ended list */
  OPTION_OWN     /* parsed by `parse` */
};

struct option {
  const char *name;  /* without the dashes */
  const char *value; /* what --help calls the value; NULL for a flag */
  const char *help;
  enum option_kind kind;
  void *target;
  uint64_t least, most;
  const char *const *choices;
  bool (*parse)(const char *text, void *target, struct complaint *complaint);
};

enum options_result { OPTIONS_DONE, OPTIONS_HELP, OPTIONS_WRONG };

/** Parse @p argv[1…]. Words that are no options go to @p words[word_capacity]; more of them is a complaint. */
enum options_result options_parse(const struct option *options, size_t count, int argc, char **argv, const char **words,
                                  size_t word_capacity, size_t *word_count_out, struct complaint *complaint);

/** The rows as --help shows them. */
void options_print(FILE *out, const struct option *options, size_t count);

#endif
