/* `kvferry bench`: finds the benchmark. */
#include "bench.h"

#include <string.h>

#include "command.h"
#include "suggest.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} benches[] = {
    {"transfer", bench_transfer, "whole transfers between two instances here, against a memcpy of the same bytes"},
    {"submit", bench_submit, "long page lists: what posting costs the caller, and others who poll"},
    {"idle", bench_idle, "what an engine costs while its rooms wait"},
    {"limits", bench_limits, "what this host can do: copies, a socket pair, waking a process"},
};

enum { BENCH_COUNT = sizeof benches / sizeof *benches };

static void print_help(FILE *out) {
  fprintf(out,
          "kvferry bench - how fast, against what this host can do in the same run\n\nusage: kvferry bench NAME [options]\n\n");
  for (size_t i = 0; i < BENCH_COUNT; i++) fprintf(out, "  %-10s %s\n", benches[i].name, benches[i].help);
  fprintf(out, "\n  kvferry bench NAME --help tells more\n");
}

int command_bench(int argc, char **argv) {
  const char *names[BENCH_COUNT];
  char text[160];
  if (argc < 2) return command_refuse("bench", "a benchmark is needed: transfer, submit, idle or limits");
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
    print_help(stdout);
    return 0;
  }
  for (size_t i = 0; i < BENCH_COUNT; i++) {
    names[i] = benches[i].name;
    if (!strcmp(argv[1], names[i])) return benches[i].run(argc - 1, argv + 1);
  }
  const char *meant = suggest_word(argv[1], names, BENCH_COUNT);
  if (argv[1][0] == '-')
    snprintf(text, sizeof text, "unknown option %.64s", argv[1]);
  else
    snprintf(text, sizeof text, "no benchmark \"%.64s\"%s%s", argv[1], meant ? "; did you mean " : "", meant ? meant : "");
  return command_refuse("bench", text);
}

int bench_parse(const char *name, const char *usage, const struct option *options, size_t count, int argc, char **argv) {
  struct complaint complaint;
  char command[32];
  enum options_result result = options_parse(options, count, argc, argv, NULL, 0, NULL, &complaint);
  if (result == OPTIONS_DONE) return -1;
  snprintf(command, sizeof command, "bench %s", name);
  if (result == OPTIONS_WRONG) return command_refuse(command, complaint.text);
  printf("%s\n", usage);
  options_print(stdout, options, count);
  return 0;
}

int bench_fail(const char *name, const struct complaint *complaint) {
  fprintf(stderr, "kvferry bench %s: %s\n", name, complaint->text);
  return 1;
}
