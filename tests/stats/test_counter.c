/* Counters are exact, from any number of threads, and cover the public struct. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "stats/counter.h"

static void every_public_counter_is_read(void **state) {
  struct stats_counters counters = {0};
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  uint64_t next = 1000, count = 0;
#define SET(name) stats_counter_set(&counters.name, next++);
  STATS_COUNTERS(SET)
#undef SET
  stats_counters_read(&counters, &stats);
  next = 1000;
#define CHECK(name)                     \
  assert_int_equal(stats.name, next++); \
  count++;
  STATS_COUNTERS(CHECK)
#undef CHECK
  assert_int_equal(stats.struct_bytes, sizeof stats);
  assert_int_equal(sizeof stats, sizeof(size_t) + count * sizeof(uint64_t)); /* none was left out */
}

static void every_known_status_has_a_place(void **state) {
  kvf_status_text text;
  assert_int_equal(kvf_status_query(STATS_STATUS_COUNT - 1, &text), KVF_OK);
  assert_int_equal(kvf_status_query(STATS_STATUS_COUNT, &text), KVF_INVALID);
}

/* C134: 10 done, 3 failed of 2 classes, 2 cancelled. */
static void ends_of_rooms_are_counted_by_class(void **state) {
  struct stats_counters counters = {0};
  for (int i = 0; i < 10; i++) stats_counters_room_ended(&counters, KVF_OK);
  stats_counters_room_ended(&counters, KVF_TIMEOUT);
  stats_counters_room_ended(&counters, KVF_PEER_LOST);
  stats_counters_room_ended(&counters, KVF_TIMEOUT);
  for (int i = 0; i < 2; i++) stats_counters_room_ended(&counters, KVF_CANCELLED);
  assert_int_equal(stats_counter_get(&counters.rooms_done), 10);
  assert_int_equal(stats_counter_get(&counters.rooms_failed), 3);
  assert_int_equal(stats_counter_get(&counters.rooms_cancelled), 2);
  for (kvf_status status = 0; status < STATS_STATUS_COUNT; status++) {
    uint64_t expected = status == KVF_TIMEOUT ? 2 : status == KVF_PEER_LOST ? 1 : 0;
    assert_int_equal(stats_counter_get(&counters.failures[status]), expected);
  }
  const kvf_status strange[] = {-1, STATS_STATUS_COUNT, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < 4; i++) stats_counters_room_ended(&counters, strange[i]);
  assert_int_equal(stats_counter_get(&counters.failures[KVF_OK]), 4);
  assert_int_equal(stats_counter_get(&counters.rooms_failed), 7);
}

enum { THREADS = 4, ROUNDS = 100000 };

static void *count_rounds(void *context) {
  struct stats_counters *counters = context;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    stats_counter_add(&counters->pieces_sent, 1);
    stats_counter_add(&counters->arena_used_bytes, 3);
    stats_counter_raise(&counters->arena_peak_bytes, i);
    stats_counter_subtract(&counters->arena_used_bytes, 2);
  }
  return NULL;
}

static void no_count_is_lost_between_threads(void **state) {
  static struct stats_counters counters;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_rounds, &counters), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(stats_counter_get(&counters.pieces_sent), THREADS * ROUNDS);
  assert_int_equal(stats_counter_get(&counters.arena_used_bytes), THREADS * ROUNDS);
  assert_int_equal(stats_counter_get(&counters.arena_peak_bytes), ROUNDS - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_public_counter_is_read),
      cmocka_unit_test(every_known_status_has_a_place),
      cmocka_unit_test(ends_of_rooms_are_counted_by_class),
      cmocka_unit_test(no_count_is_lost_between_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
