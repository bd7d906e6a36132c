/* `kvferry bench limits`: the limits that the other benchmarks are held against, alone. */
#include "bench.h"

int bench_limits(int argc, char **argv) {
  struct bench_output output = {.rounds = 5};
  struct option options[BENCH_OUTPUT_OPTION_COUNT];
  struct complaint complaint;
  bench_output_list(&output, options);
  /* The limits are always of five rounds, so the first row does not apply. */
  int status = bench_parse("limits", "kvferry bench limits - what this host can do\n\nusage: kvferry bench limits [options]\n",
                           options + 1, BENCH_OUTPUT_OPTION_COUNT - 1, argc, argv);
  if (status >= 0) return status;
  if (!bench_output_init(&output, "limits", &complaint)) return bench_fail("limits", &complaint);
  if (!output.quiet) bench_output_print_limits(&output, bench_output_table(&output));
  status = bench_output_save(&output, &complaint) ? 0 : bench_fail("limits", &complaint);
  bench_output_fini(&output);
  return status;
}
