/* The event ring: order, overwriting, cut and harmless texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/alloc.h"
#include "stats/ring.h"

static void the_newest_events_are_kept_in_order(void **state) {
  struct stats_ring ring;
  struct stats_event events[8];
  assert_int_equal(stats_ring_init(&ring, 5), KVF_OK);
  assert_int_equal(stats_ring_snapshot(&ring, events, 8), 0);
  for (uint64_t i = 0; i < 12; i++) {
    stats_ring_push(&ring, 100 + i, STATS_EVENT_ROOM_END, i, "decode-2", "done");
    size_t count = stats_ring_snapshot(&ring, events, 8);
    assert_int_equal(count, i < 5 ? i + 1 : 5);
    for (size_t k = 0; k < count; k++) {
      assert_int_equal(events[k].sequence, i + 1 - count + k);
      assert_int_equal(events[k].room, events[k].sequence);
      assert_int_equal(events[k].time_ns, 100 + events[k].sequence);
    }
  }
  assert_string_equal(events[4].peer, "decode-2");
  assert_string_equal(events[4].detail, "done");
  assert_int_equal(stats_ring_snapshot(&ring, events, 2), 2);
  assert_int_equal(events[0].room, 10);
  assert_int_equal(events[1].room, 11);
  stats_ring_fini(&ring);
}

static void texts_are_cut_and_made_printable(void **state) {
  struct stats_ring ring;
  struct stats_event event;
  char text[300];
  memset(text, 'y', sizeof text);
  text[0] = '\n';
  text[1] = '\x80';
  text[sizeof text - 1] = '\0';
  assert_int_equal(stats_ring_init(&ring, 1), KVF_OK);
  stats_ring_push(&ring, 1, STATS_EVENT_PEER_UP, 0, text, text);
  assert_int_equal(stats_ring_snapshot(&ring, &event, 1), 1);
  assert_int_equal(strlen(event.peer), STATS_PEER_LIMIT_BYTES);
  assert_int_equal(strlen(event.detail), STATS_DETAIL_LIMIT_BYTES);
  assert_memory_equal(event.peer, "??yy", 4);
  stats_ring_push(&ring, 2, STATS_EVENT_PEER_UP, 0, NULL, "");
  assert_int_equal(stats_ring_snapshot(&ring, &event, 1), 1);
  assert_string_equal(event.peer, "");
  assert_string_equal(event.detail, "");
  stats_ring_fini(&ring);
}

static void a_ring_that_cannot_be_made_says_so(void **state) {
  struct stats_ring ring;
  assert_int_equal(stats_ring_init(&ring, 0), KVF_INVALID);
  base_alloc_fail_after(1);
  assert_int_equal(stats_ring_init(&ring, 8), KVF_NO_MEMORY);
  base_alloc_fail_after(0);
}

static void every_kind_has_a_name(void **state) {
  for (uint32_t kind = STATS_EVENT_PEER_UP; kind <= STATS_EVENT_WAY_CHOSEN; kind++)
    assert_string_not_equal(stats_event_name(kind), "UNKNOWN");
  assert_string_equal(stats_event_name(0), "UNKNOWN");
  assert_string_equal(stats_event_name(1000), "UNKNOWN");
}

enum { PUSHES = 20000 };

static void *push_many(void *context) {
  for (uint64_t i = 0; i < PUSHES; i++) stats_ring_push(context, i, STATS_EVENT_PIECE_RETRY, i, "peer", "detail");
  return NULL;
}

static void no_event_is_torn_between_threads(void **state) {
  struct stats_ring ring;
  struct stats_event events[16];
  pthread_t threads[2];
  assert_int_equal(stats_ring_init(&ring, 16), KVF_OK);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, push_many, &ring), 0);
  for (int i = 0; i < 1000; i++) {
    size_t count = stats_ring_snapshot(&ring, events, 16);
    for (size_t k = 0; k < count; k++) {
      assert_int_equal(events[k].time_ns, events[k].room);
      if (k) assert_int_equal(events[k].sequence, events[k - 1].sequence + 1);
    }
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_int_equal(stats_ring_snapshot(&ring, events, 16), 16);
  assert_int_equal(events[15].sequence, 2 * PUSHES - 1);
  stats_ring_fini(&ring);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_newest_events_are_kept_in_order), cmocka_unit_test(texts_are_cut_and_made_printable),
      cmocka_unit_test(a_ring_that_cannot_be_made_says_so),  cmocka_unit_test(every_kind_has_a_name),
      cmocka_unit_test(no_event_is_torn_between_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
