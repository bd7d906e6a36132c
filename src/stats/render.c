/* One table row a metric; families with labels have a function each. Sizes in bytes, times in seconds, as Prometheus wants them. */
#include "stats/render.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"

struct output {
  char *text;
  size_t capacity_bytes;
  size_t used; /* goes on counting when the text is full */
};

BASE_PRINTF(2, 3)
static void print(struct output *out, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  bool fits = out->used < out->capacity_bytes;
  int length = vsnprintf(fits ? out->text + out->used : NULL, fits ? out->capacity_bytes - out->used : 0, format, arguments);
  va_end(arguments);
  if (length > 0) out->used += (size_t)length;
}

static void print_head(struct output *out, const char *name, const char *type, const char *help) {
  print(out, "# HELP kvferry_%s %s\n# TYPE kvferry_%s %s\n", name, help, name, type);
}

/* The metrics of one number without labels. */
static const struct {
  size_t offset; /* in kvf_engine_stats */
  const char *name, *type, *help;
} simple_metrics[] = {
#define ROW(member, name, type, help) \
  { offsetof(kvf_engine_stats, member), name, type, help }
    ROW(bytes_sent, "sent_bytes_total", "counter", "Payload sent and acknowledged."),
    ROW(bytes_received, "received_bytes_total", "counter", "Payload received and placed."),
    ROW(pieces_sent, "sent_pieces_total", "counter", "Bulk writes sent and acknowledged."),
    ROW(pieces_received, "received_pieces_total", "counter", "Bulk writes received and placed."),
    ROW(slices_replaced, "replaced_slices_total", "counter", "Contiguous runs that the bulk writes stood for."),
    ROW(pieces_retried, "retried_pieces_total", "counter", "Pieces that were sent again."),
    ROW(pieces_failed, "failed_pieces_total", "counter", "Pieces given up after all attempts."),
    ROW(arena_capacity_bytes, "arena_capacity_bytes", "gauge", "Size of the receive staging."),
    ROW(arena_used_bytes, "arena_used_bytes", "gauge", "Receive staging that is granted or being scattered."),
    ROW(arena_peak_bytes, "arena_peak_bytes", "gauge", "Most receive staging that was ever in use."),
    ROW(peers_up, "up_peers", "gauge", "Peers whose handshake is done."),
    ROW(peers_lost, "lost_peers_total", "counter", "Established peers that went away."),
    ROW(peers_suspect, "suspect_peers", "gauge", "Peers that have left a heartbeat unanswered."),
    ROW(regions, "regions", "gauge", "Registered regions."),
    ROW(region_bytes, "region_bytes", "gauge", "Bytes in registered regions."),
    ROW(control_bytes_sent, "control_sent_bytes_total", "counter", "Bytes of control messages sent."),
    ROW(control_bytes_received, "control_received_bytes_total", "counter", "Bytes of control messages received."),
    ROW(messages_refused, "refused_messages_total", "counter", "Messages dropped as stale, unknown or malformed."),
    ROW(peers_partial, "partial_peers_total", "counter", "Peers that came up with a component left out by agreement."),
    ROW(pieces_corrupt, "corrupt_pieces_total", "counter", "Pieces that arrived damaged, as their checksum told, and were asked for again."),
#undef ROW
};

static void print_simple(struct output *out, const kvf_engine_stats *stats) {
  for (size_t i = 0; i < sizeof simple_metrics / sizeof simple_metrics[0]; i++) {
    uint64_t value = *(const uint64_t *)((const char *)stats + simple_metrics[i].offset);
    print_head(out, simple_metrics[i].name, simple_metrics[i].type, simple_metrics[i].help);
    print(out, "kvferry_%s %" PRIu64 "\n", simple_metrics[i].name, value);
  }
}

static void print_rooms(struct output *out, const kvf_engine_stats *stats) {
  print_head(out, "rooms_total", "counter", "Rooms of this rank that ended, by how.");
  print(out, "kvferry_rooms_total{end=\"done\"} %" PRIu64 "\n", stats->rooms_done);
  print(out, "kvferry_rooms_total{end=\"failed\"} %" PRIu64 "\n", stats->rooms_failed);
  print(out, "kvferry_rooms_total{end=\"cancelled\"} %" PRIu64 "\n", stats->rooms_cancelled);
}

/* Every status, also those that never happened: an alert on a rate needs the zero before the one. */
static void print_failures(struct output *out, const struct stats_counters *counters) {
  print_head(out, "room_failures_total", "counter", "Rooms that failed, by status; see kvferry explain STATUS.");
  for (kvf_status status = 0; status < STATS_STATUS_COUNT; status++) {
    const char *name = status == KVF_OK ? "UNKNOWN" : kvf_status_name(status);
    if (status == KVF_CANCELLED) continue; /* not a failure */
    print(out, "kvferry_room_failures_total{status=\"%s\"} %" PRIu64 "\n", name, stats_counter_get(&counters->failures[status]));
  }
}

static void print_seconds(struct output *out, uint64_t value_ns) {
  print(out, "%" PRIu64 ".%09" PRIu64, (uint64_t)(value_ns / BASE_NS_PER_S), (uint64_t)(value_ns % BASE_NS_PER_S));
}

static void print_silence(struct output *out, const kvf_engine_stats *stats) {
  print_head(out, "peer_silence_seconds", "gauge", "Longest silence of a suspect peer; 0: all answer.");
  print(out, "kvferry_peer_silence_seconds ");
  print_seconds(out, stats->peer_silence_ns);
  print(out, "\n");
}

static void print_phase_sum(struct output *out, const char *phase, uint64_t value_ns) {
  print(out, "kvferry_piece_time_seconds_total{phase=\"%s\"} ", phase);
  print_seconds(out, value_ns);
  print(out, "\n");
}

static void print_phase_sums(struct output *out, const kvf_engine_stats *stats) {
  print_head(out, "piece_time_seconds_total", "counter", "Time that pieces spent in each phase.");
  print_phase_sum(out, "grant_wait", stats->grant_wait_ns);
  print_phase_sum(out, "gather", stats->gather_ns);
  print_phase_sum(out, "write", stats->write_ns);
  print_phase_sum(out, "scatter", stats->scatter_ns);
}

/* Bounds from 1 µs to 17 s, each four times the last; one nanosecond short of a power of two, where our own buckets end. */
enum { BOUND_POWER_FIRST = 10, BOUND_POWER_LAST = 34, BOUND_POWER_STEP = 2 };

static void print_histogram(struct output *out, const char *phase, const struct stats_histogram *histogram) {
  /* The total is read first: a bucket read later may only have grown, and no bucket may exceed the total. */
  uint64_t count = stats_histogram_count(histogram);
  for (uint32_t power = BOUND_POWER_FIRST; power <= BOUND_POWER_LAST; power += BOUND_POWER_STEP) {
    print(out, "kvferry_piece_phase_seconds_bucket{phase=\"%s\",le=\"", phase);
    print_seconds(out, (1ull << power) - 1);
    print(out, "\"} %" PRIu64 "\n", base_min_u64(stats_histogram_below(histogram, power), count));
  }
  print(out, "kvferry_piece_phase_seconds_bucket{phase=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", phase, count);
  print(out, "kvferry_piece_phase_seconds_sum{phase=\"%s\"} ", phase);
  print_seconds(out, stats_histogram_sum_ns(histogram));
  print(out, "\nkvferry_piece_phase_seconds_count{phase=\"%s\"} %" PRIu64 "\n", phase, count);
}

static void print_phases(struct output *out, const struct stats_phases *phases) {
  print_head(out, "piece_phase_seconds", "histogram", "Time that one piece spent in a phase.");
  print_histogram(out, "grant_wait", &phases->grant_wait);
  print_histogram(out, "gather", &phases->gather);
  print_histogram(out, "write", &phases->write);
  print_histogram(out, "scatter", &phases->scatter);
}

size_t stats_render(const struct stats_counters *counters, const struct stats_phases *phases, char *text, size_t capacity_bytes) {
  struct output out = {.text = text, .capacity_bytes = text ? capacity_bytes : 0};
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  stats_counters_read(counters, &stats);
  if (out.capacity_bytes) text[0] = '\0';
  print_rooms(&out, &stats);
  print_failures(&out, counters);
  print_simple(&out, &stats);
  print_silence(&out, &stats);
  print_phase_sums(&out, &stats);
  if (phases) print_phases(&out, phases);
  return out.used;
}
