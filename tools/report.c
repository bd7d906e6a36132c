/* The report: merging records and computing the totals. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include <kvferry/status.h>

bool report_init(struct report *report, const struct settings *settings, const struct workload *workload, bool has_prefill,
                 bool has_decode) {
  *report = (struct report){.settings = settings, .workload = workload, .has_side = {has_prefill, has_decode}};
  report->rooms = calloc(workload->count, sizeof *report->rooms);
  report->errors = calloc(REPORT_ERROR_LIMIT, sizeof *report->errors);
  for (size_t i = 0; report->rooms && i < workload->count; i++) report->rooms[i].opened_ns = UINT64_MAX;
  if (report->rooms && report->errors) return true;
  report_fini(report);
  return false;
}

void report_fini(struct report *report) {
  free(report->rooms);
  free(report->errors);
  *report = (struct report){0};
}

static uint32_t count_ranks(const struct report *report) {
  uint32_t count = 0;
  for (int role = 0; role < 2; role++)
    if (report->has_side[role]) count += settings_rank_count(report->settings, (enum role)role);
  return count;
}

static void name_rank(enum role role, uint32_t rank, char *name, size_t capacity) {
  snprintf(name, capacity, "%s-%u", settings_role_name(role), rank);
}

/* The error kept for this request, or NULL. */
static struct report_error *find_error(struct report *report, int64_t request) {
  for (size_t i = 0; i < report->error_count; i++)
    if (report->errors[i].request == request) return &report->errors[i];
  return NULL;
}

/* Every room keeps one chain: the first, unless that one only repeats what the other side said. */
static void add_room_error(struct report *report, const char *rank_name, const struct record_room *room, const char *text) {
  struct report_error *error = find_error(report, room->index);
  if (error && error->status != KVF_PEER_FAILED && error->status != KVF_CANCELLED) return;
  if (!error) {
    if (report->error_count == REPORT_ERROR_LIMIT) return;
    error = &report->errors[report->error_count++];
  }
  error->request = room->index;
  error->room = report->workload->requests[room->index].room;
  error->status = room->status;
  snprintf(error->rank, sizeof error->rank, "%s", rank_name);
  snprintf(error->text, sizeof error->text, "%s", *text ? text : kvf_status_name(room->status));
}

static void merge_room(struct report *report, enum role role, const struct record_room *room, const char *rank_name,
                       const char *text) {
  struct report_room *merged = &report->rooms[room->index];
  bool wrong = room->check == RECORD_WRONG;
  bool was_bad = merged->failed || merged->cancelled;
  merged->ends++;
  if (room->opened_ns < merged->opened_ns) merged->opened_ns = room->opened_ns;
  if (room->ready_ns > merged->ready_ns) merged->ready_ns = room->ready_ns;
  if ((role == ROLE_DECODE || !report->has_side[ROLE_DECODE]) && room->end_ns > merged->end_ns) merged->end_ns = room->end_ns;
  if (room->status == KVF_CANCELLED) merged->cancelled = true;
  if ((room->status != KVF_OK && room->status != KVF_CANCELLED) || wrong) merged->failed = true;
  if (room->status == KVF_OK && !wrong) return;
  if (!was_bad) report->error_total++;
  add_room_error(report, rank_name, room, text);
}

bool report_add_room(struct report *report, enum role role, uint32_t rank, const struct record_room *room, const char *text) {
  char rank_name[24];
  if (room->index >= report->workload->count) return false;
  name_rank(role, rank, rank_name, sizeof rank_name);
  merge_room(report, role, room, rank_name, text);
  report->bytes[role] += room->bytes;
  report->pieces[role] += room->pieces;
  report->slices[role] += room->slices;
  report->retries[role] += room->retries;
  if (role == ROLE_PREFILL) {
    report->grant_wait_ns += room->grant_wait_ns;
    report->gather_ns += room->gather_ns;
    report->write_ns += room->write_ns;
  } else {
    report->scatter_ns += room->scatter_ns;
  }
  if (role == ROLE_DECODE || !report->has_side[ROLE_DECODE]) report->live_bytes += room->bytes;
  if (report->rooms[room->index].ends == count_ranks(report)) report->ended_rooms++;
  return true;
}

void report_add_summary(struct report *report, enum role role, uint32_t rank, const struct record_summary *summary,
                        const char *reason) {
  char rank_name[24];
  report->summaries++;
  report->pool_bytes += summary->pool_bytes;
  report->messages_refused += summary->messages_refused;
  if (summary->arena_bytes > report->arena_bytes) report->arena_bytes = summary->arena_bytes;
  if (summary->arena_peak_bytes > report->arena_peak_bytes) report->arena_peak_bytes = summary->arena_peak_bytes;
  if (summary->check == RECORD_WRONG) {
    name_rank(role, rank, rank_name, sizeof rank_name);
    report->stained_pools++;
    report_add_failure(report, rank_name, "wrong data: after the last room the pool holds bytes outside every room's pages");
  }
  if (role != ROLE_PREFILL || !summary->fabric[0]) return;
  if (!report->fabric[0]) {
    report->way = summary->way;
    snprintf(report->fabric, sizeof report->fabric, "%s", summary->fabric);
    snprintf(report->reason, sizeof report->reason, "%s", reason);
    return;
  }
  if (strcmp(report->fabric, summary->fabric)) snprintf(report->fabric, sizeof report->fabric, "mixed");
  report->way_mixed = report->way_mixed || report->way != summary->way;
}

void report_add_failure(struct report *report, const char *rank_name, const char *text) {
  report->error_total++;
  if (report->error_count == REPORT_ERROR_LIMIT && report->errors[REPORT_ERROR_LIMIT - 1].request < 0) return;
  if (report->error_count == REPORT_ERROR_LIMIT) report->error_count--; /* it says more than one room among many */
  struct report_error *error = &report->errors[report->error_count++];
  error->request = -1;
  snprintf(error->rank, sizeof error->rank, "%s", rank_name);
  snprintf(error->text, sizeof error->text, "%s", text);
}

static int compare_numbers(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static int compare_opened(const void *left, const void *right) {
  const struct report_room *a = *(const struct report_room *const *)left, *b = *(const struct report_room *const *)right;
  return (a->opened_ns > b->opened_ns) - (a->opened_ns < b->opened_ns);
}

/* The nearest rank: the least value that at least @p share of all are not above. */
static double pick_percentile(const double *sorted, size_t count, double share) {
  if (count == 0) return 0;
  size_t index = (size_t)(share * (double)count);
  if ((double)index < share * (double)count) index++;
  return sorted[index ? index - 1 : 0];
}

static void compute_latency(struct report *report) {
  double *latencies = calloc(report->workload->count, sizeof *latencies);
  size_t count = 0;
  for (size_t i = 0; latencies && i < report->workload->count; i++) {
    const struct report_room *room = &report->rooms[i];
    if (room->ends != count_ranks(report) || room->failed || room->cancelled) continue;
    latencies[count++] = room->end_ns > room->ready_ns ? (double)(room->end_ns - room->ready_ns) / 1e6 : 0;
  }
  if (count) qsort(latencies, count, sizeof *latencies, compare_numbers);
  report->totals.latency_p50_ms = pick_percentile(latencies, count, 0.50);
  report->totals.latency_p95_ms = pick_percentile(latencies, count, 0.95);
  report->totals.latency_p99_ms = pick_percentile(latencies, count, 0.99);
  free(latencies);
}

/* The length of the union of all rooms' times. */
static double measure_flight_s(const struct report *report) {
  const struct report_room **order = calloc(report->workload->count, sizeof(void *));
  size_t count = 0;
  uint64_t flight_ns = 0, covered_to = 0;
  for (size_t i = 0; order && i < report->workload->count; i++)
    if (report->rooms[i].ends && report->rooms[i].end_ns > report->rooms[i].opened_ns) order[count++] = &report->rooms[i];
  if (count) qsort(order, count, sizeof(void *), compare_opened);
  for (size_t i = 0; i < count; i++) {
    uint64_t from = order[i]->opened_ns > covered_to ? order[i]->opened_ns : covered_to;
    if (order[i]->end_ns <= from) continue;
    flight_ns += order[i]->end_ns - from;
    covered_to = order[i]->end_ns;
  }
  free(order);
  return (double)flight_ns / 1e9;
}

static void count_rooms(struct report *report) {
  struct report_totals *totals = &report->totals;
  for (size_t i = 0; i < report->workload->count; i++) {
    const struct report_room *room = &report->rooms[i];
    bool ended = room->ends == count_ranks(report);
    if (room->failed || (!ended && !room->cancelled))
      totals->failed++;
    else if (room->cancelled)
      totals->cancelled++;
    else
      totals->done++;
  }
}

void report_finish(struct report *report, double memcpy_bytes_per_second) {
  struct report_totals *totals = &report->totals;
  *totals = (struct report_totals){.memcpy_bytes_per_second = memcpy_bytes_per_second};
  count_rooms(report);
  compute_latency(report);
  totals->good = totals->done == report->workload->count && report->error_total == 0 && report->summaries == count_ranks(report);
  totals->verified = totals->good && report->has_side[ROLE_DECODE] && report->settings->verify == VERIFY_FULL;
  totals->flight_s = measure_flight_s(report);
  uint64_t bytes = report->bytes[report->has_side[ROLE_DECODE] ? ROLE_DECODE : ROLE_PREFILL];
  if (totals->flight_s > 0) totals->bytes_per_second = (double)bytes / totals->flight_s;
  if (memcpy_bytes_per_second > 0) totals->memcpy_ratio = totals->bytes_per_second / memcpy_bytes_per_second;
}
