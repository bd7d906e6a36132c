/* The Prometheus text, against golden/metrics.txt (written anew with KVF_UPDATE_GOLDEN=1), and its exact counts (C134). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "stats/golden_path.h"
#include "stats/render.h"

enum { TEXT_BYTES = 32768 };

static struct stats_counters counters;
static struct stats_phases phases;
static char text[TEXT_BYTES];

static void assert_line(const char *line) {
  char whole[256];
  snprintf(whole, sizeof whole, "\n%s\n", line);
  if (!strstr(text, whole)) print_error("missing: %s\n", line);
  assert_non_null(strstr(text, whole));
}

/* 10 done, 3 failed of 2 classes, 2 cancelled, 1 piece retried. */
static int fill(void **state) {
  const kvf_status ends[] = {KVF_TIMEOUT, KVF_STAGED_WRITE_FAILED, KVF_TIMEOUT, KVF_CANCELLED, KVF_CANCELLED};
  for (int i = 0; i < 10; i++) stats_counters_room_ended(&counters, KVF_OK);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) stats_counters_room_ended(&counters, ends[i]);
  stats_counter_add(&counters.pieces_retried, 1);
  stats_counter_add(&counters.bytes_sent, 14680064);
  stats_counter_add(&counters.pieces_sent, 56);
  stats_counter_add(&counters.slices_replaced, 28672);
  stats_counter_add(&counters.gather_ns, 1500000001);
  stats_counter_set(&counters.arena_capacity_bytes, 67108864);
  stats_counter_add(&counters.peers_up, 2);
  stats_counter_add(&counters.control_bytes_received, UINT64_MAX);
  const uint64_t gathers_ns[] = {900, 1023, 1024, 50000, 50001, 2000000000, 30000000000};
  for (size_t i = 0; i < sizeof gathers_ns / sizeof gathers_ns[0]; i++) stats_histogram_record(&phases.gather, gathers_ns[i]);
  return 0;
}

static void the_text_is_the_golden_one(void **state) {
  size_t need = stats_render(&counters, &phases, text, sizeof text);
  assert_true(need < sizeof text);
  assert_int_equal(need, strlen(text));
  if (getenv("KVF_UPDATE_GOLDEN")) {
    FILE *file = fopen(STATS_GOLDEN_PATH "/metrics.txt", "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
  }
  static char golden[TEXT_BYTES];
  FILE *file = fopen(STATS_GOLDEN_PATH "/metrics.txt", "r");
  assert_non_null(file);
  golden[fread(golden, 1, sizeof golden - 1, file)] = '\0';
  fclose(file);
  assert_string_equal(text, golden);
}

static void every_class_is_counted_exactly(void **state) {
  stats_render(&counters, &phases, text, sizeof text);
  assert_line("kvferry_rooms_total{end=\"done\"} 10");
  assert_line("kvferry_rooms_total{end=\"failed\"} 3");
  assert_line("kvferry_rooms_total{end=\"cancelled\"} 2");
  assert_line("kvferry_room_failures_total{status=\"TIMEOUT\"} 2");
  assert_line("kvferry_room_failures_total{status=\"STAGED_WRITE_FAILED\"} 1");
  assert_line("kvferry_room_failures_total{status=\"PEER_LOST\"} 0");
  assert_line("kvferry_room_failures_total{status=\"UNKNOWN\"} 0");
  assert_line("kvferry_retried_pieces_total 1");
  assert_line("kvferry_piece_time_seconds_total{phase=\"gather\"} 1.500000001");
  assert_line("kvferry_piece_phase_seconds_bucket{phase=\"gather\",le=\"0.000001023\"} 2");
  assert_line("kvferry_piece_phase_seconds_bucket{phase=\"gather\",le=\"17.179869183\"} 6");
  assert_line("kvferry_piece_phase_seconds_bucket{phase=\"gather\",le=\"+Inf\"} 7");
  assert_line("kvferry_piece_phase_seconds_sum{phase=\"gather\"} 32.000102948");
  assert_line("kvferry_piece_phase_seconds_count{phase=\"gather\"} 7");
}

static void a_small_buffer_gets_the_beginning(void **state) {
  static char whole[TEXT_BYTES];
  size_t need = stats_render(&counters, &phases, whole, sizeof whole);
  assert_int_equal(stats_render(&counters, &phases, NULL, 0), need);
  for (size_t capacity = 1; capacity <= need + 1; capacity += capacity < 200 ? 1 : 97) {
    char *small = malloc(capacity);
    assert_int_equal(stats_render(&counters, &phases, small, capacity), need);
    assert_int_equal(strlen(small), capacity - 1 < need ? capacity - 1 : need);
    assert_memory_equal(small, whole, strlen(small));
    free(small);
  }
  assert_true(stats_render(&counters, NULL, NULL, 0) < need);
}

static void rendering_allocates_nothing(void **state) {
  base_alloc_fail_after(1);
  size_t need = stats_render(&counters, &phases, text, sizeof text);
  /* The fault was armed for the first allocation, and that is this one. */
  void *first = base_alloc(8);
  base_alloc_fail_after(0);
  assert_true(need > 0);
  assert_null(first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_text_is_the_golden_one),
      cmocka_unit_test(every_class_is_counted_exactly),
      cmocka_unit_test(a_small_buffer_gets_the_beginning),
      cmocka_unit_test(rendering_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, fill, NULL);
}
