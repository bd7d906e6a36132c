/* Counters that any thread adds to and any thread reads. Each is exact; two of them may be read a moment apart. */
#ifndef STATS_COUNTER_H
#define STATS_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

#include <kvferry/engine.h>

typedef _Atomic uint64_t stats_counter;

enum { STATS_STATUS_COUNT = KVF_UNKNOWN_ROOM + 1 };

/* The members of kvf_engine_stats, in its order. */
/* clang-format off */
#define STATS_COUNTERS(X)                                                                                               \
  X(rooms_done) X(rooms_failed) X(rooms_cancelled) X(bytes_sent) X(bytes_received) X(pieces_sent) X(pieces_received)    \
  X(slices_replaced) X(pieces_retried) X(pieces_failed) X(grant_wait_ns) X(gather_ns) X(write_ns) X(scatter_ns)         \
  X(arena_capacity_bytes) X(arena_used_bytes) X(arena_peak_bytes) X(peers_up) X(peers_lost) X(regions) X(region_bytes)  \
  X(control_bytes_sent) X(control_bytes_received) X(messages_refused) X(peers_partial)  \
  X(peers_suspect) X(peer_silence_ns) X(pieces_corrupt)
/* clang-format on */

/* Zero-initialised is all zero. */
struct stats_counters {
#define STATS_MEMBER(name) stats_counter name;
  STATS_COUNTERS(STATS_MEMBER)
#undef STATS_MEMBER
  /* Rooms that failed, by the status they failed with; those of no known status are at KVF_OK, which fails nothing. */
  stats_counter failures[STATS_STATUS_COUNT];
};

static inline void stats_counter_add(stats_counter *counter, uint64_t amount) {
  atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}
/* For what goes down too: bytes in use, peers up. */
static inline void stats_counter_subtract(stats_counter *counter, uint64_t amount) {
  atomic_fetch_sub_explicit(counter, amount, memory_order_relaxed);
}
static inline void stats_counter_set(stats_counter *counter, uint64_t value) {
  atomic_store_explicit(counter, value, memory_order_relaxed);
}
static inline uint64_t stats_counter_get(const stats_counter *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}
/* For high-water marks. */
static inline void stats_counter_raise(stats_counter *counter, uint64_t value) {
  uint64_t seen = stats_counter_get(counter);
  while (seen < value &&
         !atomic_compare_exchange_weak_explicit(counter, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* A room has ended with @p status: done, cancelled, or failed and of which class. */
void stats_counters_room_ended(struct stats_counters *counters, kvf_status status);

/* Fill in everything but struct_bytes. */
void stats_counters_read(const struct stats_counters *counters, kvf_engine_stats *stats_out);

#endif
