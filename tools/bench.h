/* What the benchmarks share: the common options, the limits of the host, and where results go. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <jansson.h>

#include "bench_measure.h"
#include "bench_run.h"
#include "options.h"

struct bench_output {
  const char *json_path, *csv_path;
  bool quiet;
  uint64_t rounds;
  struct bench_limits limits;
  json_t *root; /* with a list "results" of flat objects */
};

enum { BENCH_OUTPUT_OPTION_COUNT = 4 };

void bench_output_list(struct bench_output *output, struct option *options);
/** Measure the limits of this host and begin the results of benchmark @p name. */
bool bench_output_init(struct bench_output *output, const char *name, struct complaint *complaint);
/** Takes @p result over. */
void bench_output_add(struct bench_output *output, json_t *result);
/** Write the files that were asked for. */
bool bench_output_save(const struct bench_output *output, struct complaint *complaint);
void bench_output_fini(struct bench_output *output);
/** Where tables go: standard output, unless the JSON or the CSV does. */
FILE *bench_output_table(const struct bench_output *output);
void bench_output_print_limits(const struct bench_output *output, FILE *out);

/** Parse the words of a benchmark: -1 = go on, otherwise the exit status. @p usage is what --help begins with. */
int bench_parse(const char *name, const char *usage, const struct option *options, size_t count, int argc, char **argv);
/** Say what went wrong; always 1. */
int bench_fail(const char *name, const struct complaint *complaint);

/** A stat as "median (least-most)", each divided by @p unit. At most QUANTITY_TEXT_BYTES. */
const char *bench_format_stat(struct bench_stat stat, double unit, int decimals, char *text);
json_t *bench_encode_stat(struct bench_stat stat);

int bench_transfer(int argc, char **argv);
int bench_submit(int argc, char **argv);
int bench_idle(int argc, char **argv);
int bench_limits(int argc, char **argv);

#endif
