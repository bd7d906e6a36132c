/* Results: a JSON object with a list of flat objects, from which the CSV is made too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvferry/version.h>

#include "bench.h"
#include "quantity.h"

enum { ROUND_LIMIT = 101, LIMIT_ROUNDS = 5 };
static const double mib = 1 << 20;

void bench_output_list(struct bench_output *output, struct option *options) {
  const struct option rows[BENCH_OUTPUT_OPTION_COUNT] = {
      {"rounds", "N", "measured rounds of each case; 5", OPTION_COUNT, &output->rounds, 1, ROUND_LIMIT},
      {"json", "FILE", "write the results as JSON; - is standard output", OPTION_TEXT, &output->json_path},
      {"csv", "FILE", "the same as comma-separated values", OPTION_TEXT, &output->csv_path},
      {"quiet", NULL, "no progress and no table", OPTION_FLAG, &output->quiet},
  };
  memcpy(options, rows, sizeof rows);
}

json_t *bench_encode_stat(struct bench_stat stat) {
  return json_pack("{s:f, s:f, s:f}", "median", stat.median, "least", stat.least, "most", stat.most);
}

bool bench_output_init(struct bench_output *output, const char *name, struct complaint *complaint) {
  const struct bench_limits *limits = &output->limits;
  bench_progress(output->quiet, "measuring the limits of this host");
  bool good = bench_limits_measure(LIMIT_ROUNDS, &output->limits, complaint);
  bench_progress(output->quiet, "%s", "");
  if (!good) return false;
  output->root =
      json_pack("{s:s, s:s, s:I, s:I, s:{s:o, s:o, s:o, s:o, s:o}, s:[]}", "bench", name, "version", kvf_version(), "cores",
                (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "rounds", (json_int_t)output->rounds, "limits",
                "memcpy_small_bytes_per_second", bench_encode_stat(limits->copy_small), "memcpy_bytes_per_second",
                bench_encode_stat(limits->copy_large), "tcp_bytes_per_second", bench_encode_stat(limits->tcp), "tcp_trip_ns",
                bench_encode_stat(limits->tcp_trip_ns), "wake_ns", bench_encode_stat(limits->wake_ns), "results");
  return output->root || complain(complaint, "out of memory");
}

void bench_output_add(struct bench_output *output, json_t *result) {
  json_array_append_new(json_object_get(output->root, "results"), result);
}

void bench_output_fini(struct bench_output *output) {
  json_decref(output->root);
  output->root = NULL;
}

static bool is_stdout(const char *path) {
  return path && !strcmp(path, "-");
}

FILE *bench_output_table(const struct bench_output *output) {
  return is_stdout(output->json_path) || is_stdout(output->csv_path) ? stderr : stdout;
}

static void write_cell(FILE *file, const json_t *value) {
  if (!json_is_string(value)) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(8));
    fputs(text ? text : "", file);
    free(text);
    return;
  }
  fputc('"', file);
  for (const char *c = json_string_value(value); *c; c++) {
    if (*c == '"') fputc('"', file);
    fputc(*c == '\n' ? ' ' : *c, file);
  }
  fputc('"', file);
}

/* Columns are what the first result has; nested values have none. */
static void write_csv(FILE *file, json_t *results) {
  json_t *first = json_array_get(results, 0), *result, *value;
  const char *key, *comma = "";
  size_t index;
  json_object_foreach(first, key, value) {
    fprintf(file, "%s%s", comma, key);
    comma = ",";
  }
  fputc('\n', file);
  json_array_foreach(results, index, result) {
    comma = "";
    json_object_foreach(first, key, value) {
      fputs(comma, file);
      write_cell(file, json_object_get(result, key));
      comma = ",";
    }
    fputc('\n', file);
  }
}

static bool save_file(const struct bench_output *output, const char *path, bool csv, struct complaint *complaint) {
  if (!path) return true;
  FILE *file = is_stdout(path) ? stdout : fopen(path, "w");
  bool good = file != NULL;
  if (good && csv)
    write_csv(file, json_object_get(output->root, "results"));
  else if (good)
    good = json_dumpf(output->root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(8)) == 0 && fputc('\n', file) != EOF;
  good = good && fflush(file) == 0 && !ferror(file);
  if (!good) complain(complaint, "%s: %s", path, strerror(errno));
  if (file && file != stdout) fclose(file);
  return good;
}

bool bench_output_save(const struct bench_output *output, struct complaint *complaint) {
  return save_file(output, output->json_path, false, complaint) && save_file(output, output->csv_path, true, complaint);
}

const char *bench_format_stat(struct bench_stat stat, double unit, int decimals, char *text) {
  snprintf(text, QUANTITY_TEXT_BYTES, "%.*f (%.*f-%.*f)", decimals, stat.median / unit, decimals, stat.least / unit, decimals,
           stat.most / unit);
  return text;
}

void bench_output_print_limits(const struct bench_output *output, FILE *out) {
  const struct bench_limits *limits = &output->limits;
  char text[QUANTITY_TEXT_BYTES];
  fprintf(out, "limits of this host, %ld cores, median of %d (least-most):\n", sysconf(_SC_NPROCESSORS_ONLN), LIMIT_ROUNDS);
  fprintf(out, "  %-32s %s MiB/s\n", "memcpy, 4 KiB in cache", bench_format_stat(limits->copy_small, mib, 0, text));
  fprintf(out, "  %-32s %s MiB/s\n", "memcpy, 256 MiB", bench_format_stat(limits->copy_large, mib, 0, text));
  fprintf(out, "  %-32s %s MiB/s\n", "TCP over 127.0.0.1, 256 KiB", bench_format_stat(limits->tcp, mib, 0, text));
  fprintf(out, "  %-32s %s us\n", "TCP, a byte there and back", bench_format_stat(limits->tcp_trip_ns, 1e3, 1, text));
  fprintf(out, "  %-32s %s us\n\n", "waking another process", bench_format_stat(limits->wake_ns, 1e3, 1, text));
}
