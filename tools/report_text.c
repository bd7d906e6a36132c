/* The report as a table for people. */
#include "report.h"

#include <ctype.h>

#include "quantity.h"
#include "terminal.h"

static void print_key(FILE *out, const char *key) {
  fprintf(out, "  %-12s ", key);
}

static void print_side(const struct settings *settings, enum role role, FILE *out) {
  const struct side *side = &settings->sides[role];
  fprintf(out, "%s tp=%u pp=%u page=%u %s", settings_role_name(role), side->tp, side->pp, side->page_tokens,
          settings_layout_name(side->layout));
  if (settings_cp(side) > 1) fprintf(out, " cp=%u cpblock=%u", side->cp, side->cp_block ? side->cp_block : 1);
}

static void print_title(const struct report *report, FILE *out) {
  const struct settings *settings = report->settings;
  char layers[1024];
  fprintf(out, "%s%s%s, layers %s of %u, %u KV heads x %u %s; trace %s, seed %llu\n", terminal_style(out, TERMINAL_BOLD),
          settings->model.name, terminal_style(out, TERMINAL_PLAIN), model_describe_layers(&settings->model, layers, sizeof layers),
          settings->model_layers, settings->model.kv_heads, settings->model.head_dim, model_dtype_name(settings->model.dtype),
          settings->trace_path, (unsigned long long)settings->seed);
  fprintf(out, "  ");
  print_side(settings, ROLE_PREFILL, out);
  fprintf(out, "  ->  ");
  print_side(settings, ROLE_DECODE, out);
  if (!report->has_side[ROLE_DECODE]) fprintf(out, " (here: prefill only)");
  if (!report->has_side[ROLE_PREFILL]) fprintf(out, " (here: decode only)");
  fprintf(out, "\n");
}

static const char *describe_check(const struct report *report) {
  if (!report->has_side[ROLE_DECODE]) return "bytes are checked on the decode side";
  if (report->settings->verify == VERIFY_OFF) return "bytes were not checked (--verify off)";
  if (!report->totals.good) return "see the errors below";
  return report->totals.verified ? "every byte and every canary checked and right" : "a sample of the bytes checked and right";
}

static void print_rooms(const struct report *report, FILE *out) {
  const struct report_totals *totals = &report->totals;
  print_key(out, "rooms");
  fprintf(out, "%s%llu done%s, %s%llu failed%s, %llu cancelled; %s\n",
          terminal_style(out, totals->good ? TERMINAL_GREEN : TERMINAL_PLAIN), (unsigned long long)totals->done,
          terminal_style(out, TERMINAL_PLAIN), terminal_style(out, totals->failed ? TERMINAL_RED : TERMINAL_PLAIN),
          (unsigned long long)totals->failed, terminal_style(out, TERMINAL_PLAIN), (unsigned long long)totals->cancelled,
          describe_check(report));
}

static void print_tokens(const struct report *report, FILE *out) {
  const struct workload *workload = report->workload;
  char all[QUANTITY_TEXT_BYTES], moved[QUANTITY_TEXT_BYTES];
  print_key(out, "tokens");
  fprintf(out, "%s in %zu prompts, %s to move; decode already held %.1f %%", quantity_format_count(workload->tokens, all),
          workload->count, quantity_format_count(workload->tokens - workload->prefix_tokens, moved),
          workload->tokens ? 100.0 * (double)workload->prefix_tokens / (double)workload->tokens : 0.0);
  if (workload->full_hits) fprintf(out, " (%llu whole)", (unsigned long long)workload->full_hits);
  if (workload->cut_count)
    fprintf(out, "; %zu of them cut to %llu tokens", workload->cut_count, (unsigned long long)report->settings->max_tokens);
  fprintf(out, "\n");
}

static void print_speed(const struct report *report, FILE *out) {
  const struct report_totals *totals = &report->totals;
  char bytes[QUANTITY_TEXT_BYTES], rate[QUANTITY_TEXT_BYTES], memcpy_rate[QUANTITY_TEXT_BYTES];
  enum role role = report->has_side[ROLE_DECODE] ? ROLE_DECODE : ROLE_PREFILL;
  print_key(out, "bytes");
  fprintf(out, "%s %s in %.2f s with a room in flight\n", quantity_format_bytes((double)report->bytes[role], bytes),
          role == ROLE_DECODE ? "received" : "sent", totals->flight_s);
  print_key(out, "throughput");
  fprintf(out, "%s/s", quantity_format_bytes(totals->bytes_per_second, rate));
  if (totals->memcpy_ratio > 0)
    fprintf(out, ", %.2f of a memcpy by one thread (%s/s)", totals->memcpy_ratio,
            quantity_format_bytes(totals->memcpy_bytes_per_second, memcpy_rate));
  fprintf(out, report->settings->verify == VERIFY_OFF ? "\n" : "; filling and checking the pattern share the cores and the time\n");
}

static void print_latency(const struct report *report, FILE *out) {
  const struct report_totals *totals = &report->totals;
  print_key(out, "latency");
  fprintf(out, "p50 %.2f ms, p95 %.2f ms, p99 %.2f ms", totals->latency_p50_ms, totals->latency_p95_ms, totals->latency_p99_ms);
  if (!report->has_side[ROLE_DECODE])
    fprintf(out, " from posting the last chunk to the end of the send\n");
  else if (!report->has_side[ROLE_PREFILL])
    fprintf(out, " from opening the receive to its end on the last rank\n");
  else
    fprintf(out, " from last chunk posted and receive open on all ranks to the last decode rank's end\n");
}

static void print_path(const struct report *report, FILE *out) {
  char replaced[QUANTITY_TEXT_BYTES], bulk[QUANTITY_TEXT_BYTES];
  print_key(out, "phases");
  if (report->has_side[ROLE_PREFILL])
    fprintf(out, "grant wait %.1f ms, gather %.1f ms, write %.1f ms", (double)report->grant_wait_ns / 1e6,
            (double)report->gather_ns / 1e6, (double)report->write_ns / 1e6);
  if (report->has_side[ROLE_PREFILL] && report->has_side[ROLE_DECODE]) fprintf(out, ", ");
  if (report->has_side[ROLE_DECODE]) fprintf(out, "scatter %.1f ms", (double)report->scatter_ns / 1e6);
  fprintf(out, "; summed over pieces\n");
  enum role role = report->has_side[ROLE_PREFILL] ? ROLE_PREFILL : ROLE_DECODE;
  print_key(out, "writes");
  fprintf(out, "%s bulk writes in place of %s slices, %llu retried\n", quantity_format_count(report->pieces[role], bulk),
          quantity_format_count(report->slices[role], replaced), (unsigned long long)report->retries[role]);
  if (!report->fabric[0]) return;
  print_key(out, "path");
  fprintf(out, "%s, %s", report->fabric, report->way_mixed ? "mixed ways" : settings_way_name(report->way));
  if (report->reason[0]) fprintf(out, ": %s", report->reason);
  fprintf(out, "\n");
}

/* The text may come from another host: nothing in it may steer the terminal. */
static void print_lines(const char *text, FILE *out) {
  bool fresh = true;
  for (; *text; text++) {
    if (fresh) fputs("    ", out);
    fresh = *text == '\n';
    fputc(iscntrl((unsigned char)*text) && !fresh ? '?' : *text, out);
  }
  if (!fresh) fputc('\n', out);
}

static void print_error(const struct report_error *error, FILE *out) {
  fprintf(out, "%serror%s", terminal_style(out, TERMINAL_RED), terminal_style(out, TERMINAL_PLAIN));
  if (error->request >= 0) fprintf(out, " room %llu (request %lld)", (unsigned long long)error->room, (long long)error->request);
  if (error->rank[0]) fprintf(out, " on %s", error->rank);
  fputc('\n', out);
  print_lines(error->text, out);
}

void report_print_errors(const struct report *report, FILE *out) {
  for (size_t i = 0; i < report->error_count; i++) print_error(&report->errors[i], out);
  if (report->error_total > report->error_count)
    fprintf(out, "and %llu more\n", (unsigned long long)(report->error_total - report->error_count));
}

void report_print(const struct report *report, FILE *out) {
  print_title(report, out);
  print_rooms(report, out);
  print_tokens(report, out);
  if (report->totals.flight_s > 0) {
    print_speed(report, out);
    print_latency(report, out);
    print_path(report, out);
  }
  report_print_errors(report, out);
}
