/* Counting the ends of rooms, and reading all counters at once. */
#include "stats/counter.h"

void stats_counters_room_ended(struct stats_counters *counters, kvf_status status) {
  if (status == KVF_OK) {
    stats_counter_add(&counters->rooms_done, 1);
  } else if (status == KVF_CANCELLED) {
    stats_counter_add(&counters->rooms_cancelled, 1);
  } else {
    stats_counter_add(&counters->rooms_failed, 1);
    stats_counter_add(&counters->failures[status > 0 && status < STATS_STATUS_COUNT ? status : KVF_OK], 1);
  }
}

void stats_counters_read(const struct stats_counters *counters, kvf_engine_stats *stats_out) {
#define READ(name) stats_out->name = stats_counter_get(&counters->name);
  STATS_COUNTERS(READ)
#undef READ
}
