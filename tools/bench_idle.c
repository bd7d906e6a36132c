/* `kvferry bench idle`: the processor time of a decode rank whose rooms wait for posts that do not come. */
#include <string.h>

#include "bench.h"
#include "command.h"
#include "quantity.h"

enum { OWN_OPTION_COUNT = 4, ROUND_LIMIT = 101 };

struct idle {
  struct settings settings;
  struct bench_output output;
  uint64_t peers, rooms;
  double seconds;
  double shares[2][ROUND_LIMIT]; /* percent of a core, by role; of the prefill ranks the busiest */
};

static double share_of(const struct bench_sample *sample) {
  return sample->wall_ns ? 100.0 * (double)sample->cpu_ns / (double)sample->wall_ns : 0;
}

static bool measure(struct idle *idle, struct complaint *complaint) {
  const struct bench_task task = {.kind = BENCH_IDLE, .idle_s = idle->seconds};
  struct bench_run run;
  struct bench_round round;
  bool good = true;
  for (uint64_t i = 0; good && i < idle->output.rounds; i++) { /* new ranks each time: the rooms end with them */
    bench_progress(idle->output.quiet, "round %llu of %llu", (unsigned long long)i + 1, (unsigned long long)idle->output.rounds);
    good = bench_run_start(&run, &idle->settings, &task, 16, 1) && bench_run_round(&run, &round) && bench_run_end(&run);
    idle->shares[ROLE_DECODE][i] = good ? share_of(bench_run_sample(&run, ROLE_DECODE, 0)) : 0;
    idle->shares[ROLE_PREFILL][i] = 0;
    for (uint32_t rank = 0; good && rank < idle->peers; rank++) {
      double share = share_of(bench_run_sample(&run, ROLE_PREFILL, rank));
      if (share > idle->shares[ROLE_PREFILL][i]) idle->shares[ROLE_PREFILL][i] = share;
    }
    *complaint = run.complaint;
    bench_run_fini(&run);
  }
  bench_progress(idle->output.quiet, "%s", "");
  return good;
}

static void report(struct idle *idle) {
  char text[QUANTITY_TEXT_BYTES];
  FILE *out = bench_output_table(&idle->output);
  struct bench_stat decode = bench_stat_of(idle->shares[ROLE_DECODE], idle->output.rounds);
  struct bench_stat prefill = bench_stat_of(idle->shares[ROLE_PREFILL], idle->output.rounds);
  bench_output_add(&idle->output, json_pack("{s:I, s:I, s:f, s:f, s:f, s:f}", "peers", (json_int_t)idle->peers, "rooms",
                                            (json_int_t)idle->rooms, "seconds", idle->seconds, "cpu_percent", decode.median,
                                            "cpu_percent_most", decode.most, "peer_cpu_percent", prefill.median));
  if (idle->output.quiet) return;
  bench_output_print_limits(&idle->output, out);
  fprintf(out, "%llu peers, %llu rooms waiting, %.1f s; %% of a core, median of %llu (least-most)\n",
          (unsigned long long)idle->peers, (unsigned long long)idle->rooms, idle->seconds, (unsigned long long)idle->output.rounds);
  fprintf(out, "  %-32s %s\n", "engine with the rooms", bench_format_stat(decode, 1, 3, text));
  fprintf(out, "  %-32s %s\n", "busiest of its peers", bench_format_stat(prefill, 1, 3, text));
}

static bool make_settings(struct idle *idle, struct complaint *complaint) {
  struct settings *settings = &idle->settings;
  char text[128];
  if (!(idle->seconds > 0) || idle->seconds > 20) return complain(complaint, "--seconds must be above 0 and at most 20");
  if (!settings_resolve(settings, complaint)) return false;
  snprintf(text, sizeof text, "{\"name\": \"idle\", \"layers\": 2, \"kv_heads\": %llu, \"head_dim\": 16, \"dtype\": \"bf16\"}",
           (unsigned long long)idle->peers);
  if (!model_parse(text, "idle", &settings->model, complaint)) return false;
  settings->sides[ROLE_PREFILL] = (struct side){.tp = (uint32_t)idle->peers, .pp = 1, .page_tokens = 16, .layout = 1};
  settings->sides[ROLE_DECODE] = (struct side){.tp = 1, .pp = 1, .page_tokens = 16, .layout = 1};
  settings->concurrency = idle->rooms;
  return true;
}

int bench_idle(int argc, char **argv) {
  static struct idle idle;
  struct complaint complaint;
  idle = (struct idle){.peers = 4, .rooms = 1000, .seconds = 10, .output.rounds = 3};
  settings_init(&idle.settings);
  struct option options[OWN_OPTION_COUNT + BENCH_OUTPUT_OPTION_COUNT] = {
      {"peers", "N", "prefill ranks; 4", OPTION_COUNT, &idle.peers, 1, 32},
      {"rooms", "N", "that wait; 1000", OPTION_COUNT, &idle.rooms, 1, 4096},
      {"seconds", "S", "of each round; 10, at most 20", OPTION_REAL, &idle.seconds},
      {"fabric", "NAMES", "auto, or a list in order of preference; auto", OPTION_TEXT, &idle.settings.fabric},
  };
  bench_output_list(&idle.output, options + OWN_OPTION_COUNT);
  options[OWN_OPTION_COUNT].help = "measured rounds; 3";
  int status = bench_parse("idle",
                           "kvferry bench idle - what an engine costs while its rooms wait for posts that do not come\n\n"
                           "usage: kvferry bench idle [options]\n",
                           options, OWN_OPTION_COUNT + BENCH_OUTPUT_OPTION_COUNT, argc, argv);
  if (status >= 0) return status;
  if (!make_settings(&idle, &complaint)) return command_refuse("bench idle", complaint.text);
  if (!bench_output_init(&idle.output, "idle", &complaint)) return bench_fail("idle", &complaint);
  bool good = measure(&idle, &complaint);
  if (good) report(&idle);
  good = good && bench_output_save(&idle.output, &complaint);
  bench_output_fini(&idle.output);
  return good ? 0 : bench_fail("idle", &complaint);
}
