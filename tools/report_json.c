/* The report as JSON for programs. Keys are only ever added. */
#include "report.h"

#include <errno.h>
#include <string.h>

#include <kvferry/status.h>

/* Text that may come from a file name or another host: what is not UTF-8 becomes question marks instead of no report. */
static json_t *encode_text(const char *text) {
  json_t *value = json_string(text);
  char plain[RECORD_TEXT_LIMIT + 1];
  if (value) return value;
  snprintf(plain, sizeof plain, "%s", text);
  for (char *letter = plain; *letter; letter++)
    if ((unsigned char)*letter > 0x7e) *letter = '?';
  return json_string(plain);
}

static json_t *encode_side(const struct side *side) {
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:s}", "tp", (int)side->tp, "pp", (int)side->pp, "cp", (int)settings_cp(side),
                   "cp_block", side->cp_block ? (int)side->cp_block : 1, "page", (int)side->page_tokens, "layout",
                   settings_layout_name(side->layout));
}

static json_t *encode_model(const struct settings *settings) {
  const struct model *model = &settings->model;
  char layers[1024];
  return json_pack("{s:o, s:i, s:i, s:i, s:o, s:i, s:i, s:s, s:b, s:I}", "name", encode_text(model->name), "layers",
                   (int)model->layers, "model_layers", (int)settings->model_layers, "draft_layers", (int)model->draft_layers,
                   "layer_ids", encode_text(model_describe_layers(model, layers, sizeof layers)), "kv_heads", (int)model->kv_heads,
                   "head_dim", (int)model->head_dim, "dtype", model_dtype_name(model->dtype), "mla", (int)model->mla, "token_bytes",
                   (json_int_t)model_token_bytes(model));
}

static const char *name_status(const struct report_error *error) {
  if (error->request < 0) return "RUN";
  return error->status == KVF_OK ? "CHECK" : kvf_status_name(error->status);
}

static json_t *encode_errors(const struct report *report) {
  json_t *list = json_array();
  for (size_t i = 0; i < report->error_count; i++) {
    const struct report_error *error = &report->errors[i];
    json_t *entry =
        json_pack("{s:s, s:s, s:o}", "rank", error->rank, "status", name_status(error), "text", encode_text(error->text));
    if (error->request >= 0) {
      json_object_set_new(entry, "request", json_integer((json_int_t)error->request));
      char room[24];
      snprintf(room, sizeof room, "%llu", (unsigned long long)error->room); /* beyond what JSON numbers hold exactly */
      json_object_set_new(entry, "room", json_string(room));
    }
    json_array_append_new(list, entry);
  }
  return list;
}

static json_t *encode_path(const struct report *report) {
  enum role role = report->has_side[ROLE_PREFILL] ? ROLE_PREFILL : ROLE_DECODE;
  return json_pack("{s:{s:f, s:f, s:f, s:f}, s:{s:I, s:I}, s:I, s:s, s:s, s:o, s:{s:I, s:I}, s:I}", "phases_ms", "grant",
                   (double)report->grant_wait_ns / 1e6, "gather", (double)report->gather_ns / 1e6, "write",
                   (double)report->write_ns / 1e6, "scatter", (double)report->scatter_ns / 1e6, "writes", "bulk",
                   (json_int_t)report->pieces[role], "slices_replaced", (json_int_t)report->slices[role], "retries",
                   (json_int_t)report->retries[role], "fabric", report->fabric, "way",
                   report->way_mixed ? "mixed" : settings_way_name(report->way), "reason", encode_text(report->reason), "arena",
                   "bytes", (json_int_t)report->arena_bytes, "peak_bytes", (json_int_t)report->arena_peak_bytes, "messages_refused",
                   (json_int_t)report->messages_refused);
}

static json_t *encode_totals(const struct report *report) {
  const struct report_totals *totals = &report->totals;
  enum role role = report->has_side[ROLE_DECODE] ? ROLE_DECODE : ROLE_PREFILL;
  return json_pack("{s:b, s:b, s:{s:I, s:I, s:I}, s:I, s:f, s:f, s:f, s:f, s:{s:f, s:f, s:f}, s:I}", "ok", (int)totals->good,
                   "verified", (int)totals->verified, "rooms", "done", (json_int_t)totals->done, "failed",
                   (json_int_t)totals->failed, "cancelled", (json_int_t)totals->cancelled, "bytes", (json_int_t)report->bytes[role],
                   "flight_seconds", totals->flight_s, "throughput_bytes_per_second", totals->bytes_per_second,
                   "memcpy_bytes_per_second", totals->memcpy_bytes_per_second, "memcpy_ratio", totals->memcpy_ratio, "latency_ms",
                   "p50", totals->latency_p50_ms, "p95", totals->latency_p95_ms, "p99", totals->latency_p99_ms, "error_total",
                   (json_int_t)report->error_total);
}

static json_t *encode_work(const struct report *report) {
  const struct settings *settings = report->settings;
  const struct workload *workload = report->workload;
  return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:f}", "trace", encode_text(settings->trace_path), "seed",
                   (json_int_t)settings->seed, "requests", (json_int_t)workload->count, "tokens", (json_int_t)workload->tokens,
                   "prefix_tokens", (json_int_t)workload->prefix_tokens, "full_hits", (json_int_t)workload->full_hits,
                   "cut_prompts", (json_int_t)workload->cut_count, "verify", settings_verify_name(settings->verify), "concurrency",
                   (json_int_t)settings->concurrency, "chunk_tokens", (json_int_t)settings->chunk_tokens, "time_scale",
                   settings->time_scale);
}

json_t *report_encode(const struct report *report) {
  json_t *root = encode_totals(report);
  json_t *work = encode_work(report), *path = encode_path(report);
  if (!root || !work || !path) {
    json_decref(root);
    json_decref(work);
    json_decref(path);
    return NULL;
  }
  json_object_update(root, path);
  json_object_update(root, work);
  json_decref(path);
  json_decref(work);
  json_object_set_new(root, "model", encode_model(report->settings));
  json_object_set_new(root, "layers", json_integer((json_int_t)report->settings->model.layers));
  json_object_set_new(root, "prefill", encode_side(&report->settings->sides[ROLE_PREFILL]));
  json_object_set_new(root, "decode", encode_side(&report->settings->sides[ROLE_DECODE]));
  json_object_set_new(root, "errors", encode_errors(report));
  return root;
}

bool report_save(const struct report *report, const char *path, struct complaint *complaint) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(12);
  bool to_stdout = !strcmp(path, "-");
  json_t *root = report_encode(report);
  if (!root) return complain(complaint, "out of memory");
  FILE *file = to_stdout ? stdout : fopen(path, "w");
  bool good = file && json_dumpf(root, file, flags) == 0 && fputc('\n', file) != EOF && fflush(file) == 0;
  if (!good) complain(complaint, "%s: %s", path, strerror(errno));
  if (file && !to_stdout) fclose(file);
  json_decref(root);
  return good;
}
