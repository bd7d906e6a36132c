/* `kvferry bench transfer`: whole transfers. A case is one way, fabric, page order and number of concurrent rooms; its rounds are
 * run between copies of the same bytes, and each round is held against the copies beside it. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "command.h"
#include "geometry.h"
#include "moment.h"
#include "quantity.h"

enum { OWN_OPTION_COUNT = 9, BORROWED_OPTION_LIMIT = 16, LIST_LIMIT = 16, ROUND_LIMIT = 101 };

static const char *const way_names[] = {"auto", "staged", "direct", "all", NULL};
static const char *const order_names[] = {"random", "contiguous", "both", NULL};
static const char *const all_fabrics[] = {"shm", "tcp", "ucx"};
enum { WAY_ALL = 3, ORDER_BOTH = 2 };

/* Rows of `replay` that mean the same here. */
static const char *const borrowed[] = {"model", "heads",  "prefill", "decode", "verify",   "seed",
                                       "arena", "gather", "piece",   "pool",   "deadline", "secret", "checksum"};
enum { BORROWED_COUNT = sizeof borrowed / sizeof *borrowed };

struct list {
  uint32_t values[LIST_LIMIT];
  size_t count;
};

struct transfer {
  struct settings settings;
  struct bench_output output;
  uint64_t tokens, layers;
  uint32_t way, order;
  double layer_us; /* below 0: no computing, one post */
  struct list concurrency, runs;
  struct bench_host hosts[2];
  char host_text[160];
  size_t case_index, case_count;
  bool failed;
};

struct transfer_case {
  uint32_t way, concurrency, run_pages;
  const char *fabric;
  bool in_order, layerwise;
};

/* The rounds of a case. */
struct measured {
  uint64_t payload_bytes;
  double rates[ROUND_LIMIT], copies[ROUND_LIMIT], ratios[ROUND_LIMIT], latencies_ns[ROUND_LIMIT];
  double passes[ROUND_LIMIT]; /* processor time of all ranks, in copies of the same bytes */
  struct bench_round last;
  double core_share; /* of the copies */
  char fabric[16];
  char reason[512];
  uint32_t way;
};

static bool parse_list(const char *text, void *target, struct complaint *complaint) {
  struct list list = {.count = 0};
  char copy[128], *rest = copy;
  uint64_t number;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
    if (!quantity_parse_count(word, &number) || number < 1 || number > 4096)
      return complain(complaint, "\"%s\": numbers from 1 to 4096 with commas are expected", text);
    if (list.count == LIST_LIMIT) return complain(complaint, "\"%s\": too many numbers", text);
    list.values[list.count++] = (uint32_t)number;
  }
  *(struct list *)target = list;
  return true;
}

/* "NAMESPACE=ADDRESS,NAMESPACE=ADDRESS": prefill, decode. */
static bool parse_hosts(const char *text, void *target, struct complaint *complaint) {
  struct transfer *transfer = target;
  char *rest = transfer->host_text;
  snprintf(transfer->host_text, sizeof transfer->host_text, "%s", text);
  for (int role = 0; role < 2; role++) {
    char *address = strsep(&rest, ",");
    char *network = strsep(&address, "=");
    if (!network || !network[0] || !address || !address[0] || (role && rest) || strlen(text) >= sizeof transfer->host_text)
      return complain(complaint, "\"%s\": NAMESPACE=ADDRESS of the prefill side, a comma, and the same of the decode side", text);
    transfer->hosts[role] = (struct bench_host){network, address};
  }
  return true;
}

static bool parse_layer_time(const char *text, void *target, struct complaint *complaint) {
  return quantity_parse_real(text, target) || complain(complaint, "--layerwise takes microseconds, not \"%s\"", text);
}

static size_t list_options(struct transfer *transfer, struct option *options) {
  struct option shared[SETTINGS_OPTION_COUNT];
  const struct option own[OWN_OPTION_COUNT] = {
      {"tokens", "N", "of one request; 4096", OPTION_COUNT, &transfer->tokens, 1, 1 << 24},
      {"layers", "N", "cut the model to N layers; 0 = all that fit into memory", OPTION_COUNT, &transfer->layers, 0, 4096},
      {"way", "auto|staged|direct|all", "how the bytes go; auto", OPTION_CHOICE, &transfer->way, .choices = way_names},
      {"fabric", "NAMES|all", "auto, a list in order of preference, or shm, tcp and ucx one after the other; auto", OPTION_TEXT,
       &transfer->settings.fabric},
      {"order", "random|contiguous|both", "of the pages; random", OPTION_CHOICE, &transfer->order, .choices = order_names},
      {"concurrency", "N[,N...]", "rooms posted at once; 1", OPTION_OWN, &transfer->concurrency, .parse = parse_list},
      {"runs", "N[,N...]", "instead of --order: pages in runs of N, the runs in random order; a case each", OPTION_OWN,
       &transfer->runs, .parse = parse_list},
      {"layerwise", "US", "each layer takes so many us to compute; post each when it is done, and all at the end", OPTION_OWN,
       &transfer->layer_us, .parse = parse_layer_time},
      {"hosts", "NS=ADDR,NS=ADDR", "network namespace and listen address of the prefill and of the decode ranks; this host's own",
       OPTION_OWN, transfer, .parse = parse_hosts},
  };
  size_t count = OWN_OPTION_COUNT;
  memcpy(options, own, count * sizeof *own);
  settings_list(&transfer->settings, shared);
  for (size_t i = 0; i < SETTINGS_OPTION_COUNT; i++)
    for (size_t j = 0; j < BORROWED_COUNT; j++)
      if (!strcmp(shared[i].name, borrowed[j])) options[count++] = shared[i];
  bench_output_list(&transfer->output, options + count);
  return count + BENCH_OUTPUT_OPTION_COUNT;
}

/* What all decode ranks receive of one request. */
static uint64_t count_payload(const struct settings *settings, uint64_t tokens, struct complaint *complaint) {
  struct geometry *side = geometry_init_side(settings, ROLE_DECODE, complaint);
  uint32_t ranks = settings_rank_count(settings, ROLE_DECODE);
  uint64_t bytes = 0;
  for (uint32_t i = 0; side && i < ranks; i++) bytes += geometry_room_bytes(&side[i], 0, tokens);
  geometry_fini_side(side, ranks);
  return bytes;
}

static uint64_t count_free_bytes(void) {
  char line[128];
  unsigned long long kib = 0;
  FILE *file = fopen("/proc/meminfo", "r");
  while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %llu", &kib) != 1) continue;
  if (file) fclose(file);
  return kib * 1024;
}

/* Without --layers, as many as fit: both pools, the buffers of the copies, and a fifth left alone. */
static bool fit_layers(struct transfer *transfer, struct complaint *complaint) {
  struct settings *settings = &transfer->settings;
  uint32_t most = 1;
  for (size_t i = 0; i < transfer->concurrency.count; i++)
    if (transfer->concurrency.values[i] > most) most = transfer->concurrency.values[i];
  double need = 2.2 * (double)most * (double)count_payload(settings, transfer->tokens, complaint);
  double room = 0.8 * (double)count_free_bytes() - 2.0 * BENCH_COPY_LIMIT_BYTES;
  if (need == 0) return false;
  if (room <= 0 || need <= room || transfer->layers) return true;
  uint32_t fit = (uint32_t)((double)settings->model.layers * room / need), least = model_count_kinds(&settings->model);
  if (fit < least) fit = least;
  fprintf(stderr, "kvferry bench transfer: %u of %u layers, because no more fit into memory\n", fit, settings->model.layers);
  return model_cut(&settings->model, fit, complaint);
}

/* Between the first post and the last. */
static double count_posting_ns(const struct transfer *transfer, const struct transfer_case *one) {
  const struct model *model = &transfer->settings.model;
  return one->layerwise ? (double)(model->layers + model->draft_layers - 1) * transfer->layer_us * 1e3 : 0;
}

static bool measure_rounds(struct transfer *transfer, struct bench_run *run, uint64_t copy_bytes, double posting_ns,
                           struct measured *measured) {
  struct bench_copy copy;
  struct bench_round *round = &measured->last;
  if (!bench_copy_init(&copy, copy_bytes, &run->complaint)) return false;
  bench_copy_run(&copy, copy_bytes);
  bool good = bench_run_round(run, round); /* fills and checks, and warms up */
  double before = bench_copy_run(&copy, copy_bytes);
  for (uint64_t i = 0; good && i < transfer->output.rounds; i++) {
    bench_progress(transfer->output.quiet, "case %zu of %zu, round %llu of %llu", transfer->case_index, transfer->case_count,
                   (unsigned long long)i + 1, (unsigned long long)transfer->output.rounds);
    good = bench_run_round(run, round);
    double after = bench_copy_run(&copy, copy_bytes);
    if (!good) break;
    measured->latencies_ns[i] = (double)(round->end_ns - round->posted_ns);
    measured->rates[i] = (double)round->bytes * 1e9 / (measured->latencies_ns[i] + posting_ns);
    measured->copies[i] = (before + after) / 2;
    measured->ratios[i] = measured->rates[i] / measured->copies[i];
    measured->passes[i] = (double)round->cpu_ns * measured->copies[i] / 1e9 / (double)round->bytes;
    before = after;
  }
  measured->core_share = bench_copy_share(&copy);
  bench_copy_fini(&copy);
  measured->payload_bytes = round->bytes;
  return good;
}

static bool run_case(struct transfer *transfer, const struct transfer_case *one, struct measured *measured,
                     struct complaint *complaint) {
  struct settings settings = transfer->settings;
  const struct bench_task task = {.kind = BENCH_TRANSFER,
                                  .verify_first = true,
                                  .in_order = one->in_order,
                                  .run_pages = one->run_pages,
                                  .layerwise = one->layerwise,
                                  .hosts = {transfer->hosts[0], transfer->hosts[1]},
                                  .layer_ns = transfer->layer_us > 0 ? (uint64_t)(transfer->layer_us * 1e3) : 0};
  struct bench_run run;
  uint64_t payload = count_payload(&settings, transfer->tokens, complaint) * one->concurrency;
  settings.way = one->way;
  settings.fabric = one->fabric;
  settings.concurrency = one->concurrency;
  settings.chunk_tokens = transfer->tokens;
  bool good = payload && bench_run_start(&run, &settings, &task, transfer->tokens, (uint32_t)transfer->output.rounds + 1) &&
              measure_rounds(transfer, &run, payload, count_posting_ns(transfer, one), measured) && bench_run_end(&run);
  if (payload) {
    *complaint = run.complaint;
    memcpy(measured->fabric, run.fabric, sizeof measured->fabric);
    memcpy(measured->reason, run.reason, sizeof measured->reason);
    measured->way = run.way;
    bench_run_fini(&run);
  }
  bench_progress(transfer->output.quiet, "%s", "");
  return good;
}

/* The least time after the last post: what it brought over the fabric's own limit, and one notification. */
static double count_raw_ns(const struct transfer *transfer, const struct transfer_case *one, const struct measured *measured,
                           double copy_rate) {
  const struct bench_limits *limits = &transfer->output.limits;
  const struct model *model = &transfer->settings.model;
  bool shm = !strcmp(measured->fabric, "shm");
  double rate = shm ? copy_rate : limits->tcp.median;
  double bytes = (double)measured->payload_bytes / (one->layerwise ? model->layers + model->draft_layers : 1);
  return bytes * 1e9 / rate + (shm ? limits->wake_ns.median : limits->tcp_trip_ns.median / 2);
}

/* "random", "contiguous", or how long the runs are. */
static const char *describe_order(const struct transfer_case *one, char *text) {
  if (!one->run_pages) return order_names[one->in_order];
  snprintf(text, QUANTITY_TEXT_BYTES, "runs of %u", one->run_pages);
  return text;
}

static json_t *encode_case(const struct transfer *transfer, const struct transfer_case *one) {
  const struct settings *settings = &transfer->settings;
  char sides[2][64], order[QUANTITY_TEXT_BYTES];
  for (int role = 0; role < 2; role++) {
    const struct side *side = &settings->sides[role];
    snprintf(sides[role], sizeof sides[role], "tp=%u,pp=%u,page=%u,layout=%s,cp=%u", side->tp, side->pp, side->page_tokens,
             settings_layout_name(side->layout), settings_cp(side));
  }
  return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:i, s:b, s:f}", "model", settings->model.name, "layers",
                   (int)settings->model.layers, "prefill", sides[ROLE_PREFILL], "decode", sides[ROLE_DECODE], "asked_way",
                   settings_way_name(one->way), "asked_fabric", one->fabric, "order", describe_order(one, order), "run_pages",
                   (int)one->run_pages, "tokens",
                   (json_int_t)transfer->tokens, "concurrency", (int)one->concurrency, "layerwise", (int)one->layerwise, "layer_us",
                   transfer->layer_us > 0 ? transfer->layer_us : 0.0);
}

static void set_stat(json_t *object, const char *name, struct bench_stat stat, double unit) {
  char key[64];
  json_object_set_new(object, name, json_real(stat.median / unit));
  snprintf(key, sizeof key, "%s_least", name);
  json_object_set_new(object, key, json_real(stat.least / unit));
  snprintf(key, sizeof key, "%s_most", name);
  json_object_set_new(object, key, json_real(stat.most / unit));
}

/* The route, and what the last round counted; the times are sums over ranks and pieces. */
static void set_counts(json_t *object, const struct transfer *transfer, const struct measured *measured) {
  const struct bench_round *round = &measured->last;
  const struct {
    const char *name;
    uint64_t time_ns;
  } times[] = {{"grant_wait_ms", round->grant_wait_ns},
               {"gather_ms", round->gather_ns},
               {"write_ms", round->write_ns},
               {"scatter_ms", round->scatter_ns}};
  json_object_set_new(object, "way", json_string(settings_way_name(measured->way)));
  json_object_set_new(object, "fabric", json_string(measured->fabric));
  json_object_set_new(object, "reason", json_string(measured->reason));
  json_object_set_new(object, "payload_bytes", json_integer((json_int_t)measured->payload_bytes));
  json_object_set_new(object, "bulk_writes", json_integer((json_int_t)round->pieces));
  json_object_set_new(object, "slices_replaced", json_integer((json_int_t)round->slices));
  json_object_set_new(object, "verified", json_boolean(transfer->settings.verify == VERIFY_FULL));
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    json_object_set_new(object, times[i].name, json_real((double)times[i].time_ns / 1e6));
}

/* Prints the row and keeps the result; returns the median latency. */
static double report_case(struct transfer *transfer, const struct transfer_case *one, struct measured *measured) {
  size_t rounds = transfer->output.rounds;
  const struct bench_round *round = &measured->last;
  struct bench_stat copy = bench_stat_of(measured->copies, rounds), rate = bench_stat_of(measured->rates, rounds),
                    ratio = bench_stat_of(measured->ratios, rounds);
  struct bench_stat latency = bench_stat_of(measured->latencies_ns, rounds), passes = bench_stat_of(measured->passes, rounds);
  double raw_ns = count_raw_ns(transfer, one, measured, copy.median);
  json_t *result = encode_case(transfer, one);
  set_counts(result, transfer, measured);
  set_stat(result, "memcpy_ratio", ratio, 1);
  set_stat(result, "payload_bytes_per_second", rate, 1);
  set_stat(result, "memcpy_bytes_per_second", copy, 1);
  set_stat(result, "latency_us", latency, 1e3);
  set_stat(result, "cpu_copies", passes, 1);
  json_object_set_new(result, "core_share", json_real(measured->core_share));
  json_object_set_new(result, "tcp_ratio", json_real(rate.median / transfer->output.limits.tcp.median));
  json_object_set_new(result, "raw_ratio", json_real(latency.median / raw_ns));
  bench_output_add(&transfer->output, result);
  if (!transfer->output.quiet) {
    char texts[4][QUANTITY_TEXT_BYTES];
    fprintf(bench_output_table(&transfer->output), "%-6s %-7s %-12s %4u %-9s %-20s %-17s %-24s %9.2f %9.2f %9llu %5.0f%%\n",
            measured->fabric, settings_way_name(measured->way), describe_order(one, texts[3]), one->concurrency,
            one->layerwise ? "layers" : "one", bench_format_stat(rate, 1 << 20, 0, texts[0]),
            bench_format_stat(ratio, 1, 2, texts[1]), bench_format_stat(latency, 1e6, 2, texts[2]), latency.median / raw_ns,
            passes.median, (unsigned long long)round->pieces, 100 * measured->core_share);
    fflush(bench_output_table(&transfer->output));
  }
  return latency.median;
}

/* A case that cannot be had here is told; it is a failure only when it was asked for by name. */
static void report_failure(struct transfer *transfer, const struct transfer_case *one, const struct complaint *complaint) {
  bool all = transfer->way == WAY_ALL || !strcmp(transfer->settings.fabric, "all");
  bool cannot = strstr(complaint->text, "UNAVAILABLE") || strstr(complaint->text, "UNSUPPORTED");
  json_t *result = encode_case(transfer, one);
  json_object_set_new(result, "error", json_string(complaint->text));
  json_array_append_new(json_object_get(transfer->output.root, "failures"), result);
  fprintf(stderr, "%s %s: %s: %s\n", one->fabric, settings_way_name(one->way), all && cannot ? "cannot be had here" : "failed",
          complaint->text);
  if (!(all && cannot)) transfer->failed = true;
}

static double measure_case(struct transfer *transfer, const struct transfer_case *one) {
  static struct measured measured;
  struct complaint complaint;
  transfer->case_index++;
  if (!run_case(transfer, one, &measured, &complaint)) {
    report_failure(transfer, one, &complaint);
    return 0;
  }
  return report_case(transfer, one, &measured);
}

static void measure_way(struct transfer *transfer, struct transfer_case one) {
  for (size_t i = 0; i < transfer->concurrency.count; i++) {
    one.concurrency = transfer->concurrency.values[i];
    one.layerwise = false;
    double at_end_ns = measure_case(transfer, &one);
    if (transfer->layer_us < 0) continue;
    one.layerwise = true;
    double rest_ns = measure_case(transfer, &one);
    json_t *result = json_array_get(json_object_get(transfer->output.root, "results"),
                                    json_array_size(json_object_get(transfer->output.root, "results")) - 1);
    if (at_end_ns == 0 || rest_ns == 0) continue;
    json_object_set_new(result, "at_end_ratio", json_real(rest_ns / at_end_ns));
    if (!transfer->output.quiet)
      fprintf(bench_output_table(&transfer->output), "       after the last layer: %.3f of sending all at the end (1/%.1f)\n",
              rest_ns / at_end_ns, at_end_ns / rest_ns);
  }
}

static void measure_all(struct transfer *transfer) {
  const char *asked = transfer->settings.fabric;
  bool every_fabric = !strcmp(asked, "all");
  size_t fabrics = every_fabric ? sizeof all_fabrics / sizeof *all_fabrics : 1;
  uint32_t ways = transfer->way == WAY_ALL ? WAY_ALL : 1;
  size_t runs = transfer->runs.count, orders = runs ? runs : transfer->order == ORDER_BOTH ? 2 : 1;
  transfer->case_count = fabrics * ways * orders * transfer->concurrency.count * (transfer->layer_us < 0 ? 1 : 2);
  for (size_t fabric = 0; fabric < fabrics; fabric++)
    for (uint32_t way = 0; way < ways; way++)
      for (uint32_t order = 0; order < (uint32_t)orders; order++)
        measure_way(transfer, (struct transfer_case){.way = ways > 1 ? way : transfer->way,
                                                     .fabric = every_fabric ? all_fabrics[fabric] : asked,
                                                     .in_order = runs || (orders > 1 ? order : transfer->order),
                                                     .run_pages = runs ? transfer->runs.values[order] : 0});
}

static void print_title(struct transfer *transfer) {
  const struct settings *settings = &transfer->settings;
  FILE *out = bench_output_table(&transfer->output);
  if (transfer->output.quiet) return;
  bench_output_print_limits(&transfer->output, out);
  fprintf(out, "%s, %u layers, %llu tokens, prefill %u ranks, decode %u ranks; median of %llu rounds (least-most)\n",
          settings->model.name, settings->model.layers, (unsigned long long)transfer->tokens,
          settings_rank_count(settings, ROLE_PREFILL), settings_rank_count(settings, ROLE_DECODE),
          (unsigned long long)transfer->output.rounds);
  fprintf(out, "%-6s %-7s %-12s %4s %-9s %-20s %-17s %-24s %9s %9s %9s %6s\n", "fabric", "way", "pages", "n", "posts", "MiB/s",
          "of memcpy", "latency ms", "x raw", "copies", "writes", "core");
}

static bool check_request(struct transfer *transfer, struct complaint *complaint) {
  struct settings *settings = &transfer->settings;
  settings->layers = transfer->layers;
  if (!settings_resolve(settings, complaint)) return false;
  if (transfer->layer_us >= 0 && settings->sides[ROLE_PREFILL].pp > 1)
    return complain(complaint, "--layerwise computes all layers on every rank: pp=1 is needed on the prefill side");
  if (transfer->layer_us > 1e6) return complain(complaint, "--layerwise must be at most 1000000 us");
  return geometry_check(settings, complaint) && fit_layers(transfer, complaint);
}

int bench_transfer(int argc, char **argv) {
  static struct transfer transfer;
  struct option options[OWN_OPTION_COUNT + BORROWED_OPTION_LIMIT + BENCH_OUTPUT_OPTION_COUNT];
  struct complaint complaint;
  transfer = (struct transfer){.tokens = 4096, .layer_us = -1, .output.rounds = 5, .concurrency = {{1}, 1}};
  settings_init(&transfer.settings);
  transfer.settings.sides[ROLE_PREFILL].tp = 4;
  transfer.settings.sides[ROLE_DECODE].tp = 2;
  transfer.settings.pool_bytes = 1ull << 40;
  transfer.settings.deadline_s = 60;
  size_t count = list_options(&transfer, options);
  int status =
      bench_parse("transfer",
                  "kvferry bench transfer - whole transfers between two instances, all their ranks processes on this host\n\n"
                  "Measured from the post of a filled request to the last decode rank's end of the room.\n\n"
                  "usage: kvferry bench transfer [options]\n",
                  options, count, argc, argv);
  if (status >= 0) return status;
  if (!check_request(&transfer, &complaint)) return command_refuse("bench transfer", complaint.text);
  if (!bench_output_init(&transfer.output, "transfer", &complaint)) return bench_fail("transfer", &complaint);
  json_object_set_new(transfer.output.root, "failures", json_array());
  print_title(&transfer);
  measure_all(&transfer);
  status = transfer.failed;
  if (!bench_output_save(&transfer.output, &complaint)) status = bench_fail("transfer", &complaint);
  bench_output_fini(&transfer.output);
  return status;
}
