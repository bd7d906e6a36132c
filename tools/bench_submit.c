/* `kvferry bench submit`: page lists of 112,000 one-page runs, and of 100,000 pages in 64 layers. Pages of one token and heads of
 * few bytes keep it in memory: what counts here is how long the lists are. */
#include <string.h>

#include "bench.h"
#include "command.h"
#include "quantity.h"

enum { OWN_OPTION_COUNT = 3, ROUND_LIMIT = 101, VALUE_COUNT = 8 };

static const struct { uint32_t pages, layers, width; } cases[] = {{112000, 1, 64}, {100000, 64, 8}};

static const char *const value_names[VALUE_COUNT] = {"post_us",          "recv_open_us",     "send_poll_p50_us", "send_poll_p99_us",
                                                     "recv_poll_p50_us", "recv_poll_p99_us", "first_piece_us",   "latency_us"};

struct submit {
  struct settings settings;
  struct bench_output output;
  double values[VALUE_COUNT][ROUND_LIMIT];
  double first_latency_us, poll_most_us;
  char fabric[16];
  uint32_t way;
};

static bool make_model(struct submit *submit, size_t index, struct complaint *complaint) {
  char text[160];
  snprintf(text, sizeof text, "{\"name\": \"lists\", \"layers\": %u, \"kv_heads\": 1, \"head_dim\": %u, \"dtype\": \"bf16\"}",
           cases[index].layers, cases[index].width);
  return model_parse(text, "lists", &submit->settings.model, complaint);
}

static void keep_round(struct submit *submit, const struct bench_run *run, const struct bench_round *round, uint64_t index) {
  const struct bench_sample *send = bench_run_sample(run, ROLE_PREFILL, 0), *recv = bench_run_sample(run, ROLE_DECODE, 0);
  const double ns[VALUE_COUNT] = {(double)send->call_ns,
                                  (double)recv->call_ns,
                                  send->poll_p50_ns,
                                  send->poll_p99_ns,
                                  recv->poll_p50_ns,
                                  recv->poll_p99_ns,
                                  (double)send->first_piece_ns,
                                  (double)(round->end_ns - round->posted_ns)};
  if (send->poll_most_ns / 1e3 > submit->poll_most_us) submit->poll_most_us = send->poll_most_ns / 1e3;
  if (recv->poll_most_ns / 1e3 > submit->poll_most_us) submit->poll_most_us = recv->poll_most_ns / 1e3;
  if (index == 0) submit->first_latency_us = ns[VALUE_COUNT - 1] / 1e3;
  for (size_t i = 0; i < VALUE_COUNT && index > 0; i++) submit->values[i][index - 1] = ns[i] / 1e3;
}

static bool run_case(struct submit *submit, size_t index, struct complaint *complaint) {
  const struct bench_task task = {.kind = BENCH_SUBMIT};
  struct bench_run run;
  struct bench_round round;
  submit->poll_most_us = 0;
  bool good = bench_run_start(&run, &submit->settings, &task, cases[index].pages, (uint32_t)submit->output.rounds + 1);
  for (uint64_t i = 0; good && i <= submit->output.rounds; i++) { /* round 0 is the first transfer to a new peer */
    bench_progress(submit->output.quiet, "case %zu of 2, round %llu", index + 1, (unsigned long long)i);
    good = bench_run_round(&run, &round);
    if (good) keep_round(submit, &run, &round, i);
  }
  good = good && bench_run_end(&run);
  bench_progress(submit->output.quiet, "%s", "");
  *complaint = run.complaint;
  memcpy(submit->fabric, run.fabric, sizeof submit->fabric);
  submit->way = run.way;
  bench_run_fini(&run);
  return good;
}

static void report_case(struct submit *submit, size_t index) {
  FILE *out = bench_output_table(&submit->output);
  double latency = 0;
  json_t *result = json_pack("{s:i, s:i, s:s, s:s}", "pages", (int)cases[index].pages, "layers", (int)cases[index].layers, "way",
                             settings_way_name(submit->way), "fabric", submit->fabric);
  if (!submit->output.quiet)
    fprintf(out, "%u pages in random order, %u layers; %s, %s; us, median of %llu (least-most)\n", cases[index].pages,
            cases[index].layers, submit->fabric, settings_way_name(submit->way), (unsigned long long)submit->output.rounds);
  for (size_t i = 0; i < VALUE_COUNT; i++) {
    char text[QUANTITY_TEXT_BYTES], key[64];
    struct bench_stat stat = bench_stat_of(submit->values[i], submit->output.rounds);
    latency = stat.median;
    json_object_set_new(result, value_names[i], json_real(stat.median));
    snprintf(key, sizeof key, "%s_most", value_names[i]);
    json_object_set_new(result, key, json_real(stat.most));
    if (!submit->output.quiet) fprintf(out, "  %-20s %s\n", value_names[i], bench_format_stat(stat, 1, 2, text));
  }
  json_object_set_new(result, "poll_most_us", json_real(submit->poll_most_us));
  json_object_set_new(result, "first_latency_us", json_real(submit->first_latency_us));
  json_object_set_new(result, "first_ratio", json_real(latency > 0 ? submit->first_latency_us / latency : 0));
  bench_output_add(&submit->output, result);
  if (!submit->output.quiet)
    fprintf(out, "  %-20s %.1f\n  %-20s %.1f, %.2f of the later ones\n\n", "longest poll", submit->poll_most_us, "first transfer",
            submit->first_latency_us, latency > 0 ? submit->first_latency_us / latency : 0);
}

int bench_submit(int argc, char **argv) {
  static struct submit submit;
  struct option options[OWN_OPTION_COUNT + BENCH_OUTPUT_OPTION_COUNT], shared[SETTINGS_OPTION_COUNT];
  struct complaint complaint;
  size_t count = 0;
  submit = (struct submit){.output.rounds = 5};
  settings_init(&submit.settings);
  settings_list(&submit.settings, shared);
  for (size_t i = 0; i < SETTINGS_OPTION_COUNT; i++)
    if (!strcmp(shared[i].name, "fabric") || !strcmp(shared[i].name, "way") || !strcmp(shared[i].name, "deadline"))
      options[count++] = shared[i];
  bench_output_list(&submit.output, options + count);
  int status = bench_parse("submit",
                           "kvferry bench submit - long page lists: what kvf_send_post and kvf_recv_open cost the caller, and\n"
                           "kvf_engine_poll another thread meanwhile\n\nusage: kvferry bench submit [options]\n",
                           options, count + BENCH_OUTPUT_OPTION_COUNT, argc, argv);
  if (status >= 0) return status;
  if (!settings_resolve(&submit.settings, &complaint)) return command_refuse("bench submit", complaint.text);
  for (int role = 0; role < 2; role++) submit.settings.sides[role] = (struct side){.tp = 1, .pp = 1, .page_tokens = 1, .layout = 1};
  submit.settings.concurrency = 1;
  submit.settings.chunk_tokens = 1 << 24;
  submit.settings.pool_bytes = 1ull << 40;
  if (!bench_output_init(&submit.output, "submit", &complaint)) return bench_fail("submit", &complaint);
  if (!submit.output.quiet) bench_output_print_limits(&submit.output, bench_output_table(&submit.output));
  status = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (make_model(&submit, i, &complaint) && run_case(&submit, i, &complaint))
      report_case(&submit, i);
    else
      status = bench_fail("submit", &complaint);
  }
  if (!bench_output_save(&submit.output, &complaint)) status = bench_fail("submit", &complaint);
  bench_output_fini(&submit.output);
  return status;
}
