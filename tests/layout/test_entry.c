/* Shares and what they have in common, against a count over single entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "layout/lane.h"

static uint64_t random_state;

static uint64_t pick(uint64_t count) {
  return base_random_next(&random_state) % count;
}

static kvf_plane make_plane(uint32_t parts, uint32_t part, uint32_t block) {
  return (kvf_plane){.head_count = 1, .head_bytes = 1, .token_parts = parts, .token_part = part, .token_block = block};
}

static kvf_plane pick_plane(void) {
  uint32_t parts = (uint32_t)pick(6);
  return make_plane(parts, parts ? (uint32_t)pick(parts) : 0, (uint32_t)pick(6));
}

static bool owns(const kvf_plane *plane, uint64_t entry) {
  uint64_t block = plane->token_block ? plane->token_block : 1;
  return plane->token_parts == 0 || entry / block % plane->token_parts == plane->token_part;
}

static void a_share_is_what_the_words_say(void **state) {
  for (int round = 0; round < 300; round++) {
    const kvf_plane plane = pick_plane();
    const struct layout_share share = layout_share_of(&plane);
    uint64_t count = 0;
    for (uint64_t entry = 0; entry < 100; entry++) {
      uint64_t ahead = 0, row = 0;
      while (!owns(&plane, entry + ahead)) ahead++;
      while (row < 200 && owns(&plane, entry + row)) row++;
      assert_int_equal(layout_share_count(&share, entry), count);
      assert_int_equal(layout_share_ahead(&share, entry), ahead);
      if (ahead == 0) assert_int_equal(layout_share_row(&share, entry) < 200 ? layout_share_row(&share, entry) : 200, row);
      count += owns(&plane, entry);
    }
  }
}

static void what_two_shares_have_in_common_is_counted_and_found(void **state) {
  for (int round = 0; round < 2000; round++) {
    const kvf_plane a = pick_plane(), b = pick_plane();
    const struct layout_share left = layout_share_of(&a), right = layout_share_of(&b);
    struct layout_overlap overlap;
    uint64_t from = pick(50), end = from + pick(60), next = from, count = 0;
    assert_true(layout_overlap_open(&left, &right, &overlap));
    for (uint64_t entry = 0; entry < end; entry++) {
      if (entry == from) assert_int_equal(layout_overlap_count(&overlap, from), count);
      count += owns(&a, entry) && owns(&b, entry);
    }
    assert_int_equal(layout_overlap_count(&overlap, end), count);
    for (uint64_t first, last; layout_overlap_next(&overlap, next, end, &first, &last); next = last) {
      assert_true(first >= next && first < last && last <= end);
      for (uint64_t entry = next; entry < last; entry++) assert_int_equal(owns(&a, entry) && owns(&b, entry), entry >= first);
      /* A run ends only where one of them does not go on, or at the end. */
      if (last < end && owns(&a, last) && owns(&b, last)) {
        uint64_t left_block = a.token_block ? a.token_block : 1, right_block = b.token_block ? b.token_block : 1;
        assert_true(last % left_block == 0 || last % right_block == 0);
      }
    }
    for (uint64_t entry = next; entry < end; entry++) assert_false(owns(&a, entry) && owns(&b, entry));
  }
}

/* Positions at the end of 64 bits: distances do not wrap. */
static void the_last_entries_of_64_bits_are_found(void **state) {
  const kvf_plane a = make_plane(7, 3, 5), b = make_plane(0, 0, 0);
  const struct layout_share left = layout_share_of(&a), right = layout_share_of(&b);
  struct layout_overlap overlap;
  uint64_t next = UINT64_MAX - 100, count = 0;
  assert_true(layout_overlap_open(&left, &right, &overlap));
  for (uint64_t first, last; layout_overlap_next(&overlap, next, UINT64_MAX, &first, &last); next = last) count += last - first;
  assert_int_equal(count, layout_overlap_count(&overlap, UINT64_MAX) - layout_overlap_count(&overlap, UINT64_MAX - 100));
}

static void periods_above_the_limit_are_refused(void **state) {
  const kvf_plane planes[] = {make_plane(1024, 1, 1),     make_plane(1023, 1, 1),
                              make_plane(1025, 1, 1),     make_plane(UINT32_MAX, 1, UINT32_MAX),
                              make_plane(1u << 20, 5, 1), make_plane((1u << 20) + 1, 5, 1)};
  static const struct {
    int a, b;
    bool fits;
  } pairs[] = {{0, 1, true}, {0, 2, false}, {3, 3, false}, {3, 0, false}, {4, 0, true}, {5, 5, false}, {4, 4, true}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    const struct layout_share a = layout_share_of(&planes[pairs[i].a]), b = layout_share_of(&planes[pairs[i].b]);
    struct layout_overlap overlap;
    assert_int_equal(layout_overlap_open(&a, &b, &overlap), pairs[i].fits);
  }
}

/* A list's first slot is the first entry that the rank has at or after its first token. */
static void slots_begin_where_the_list_does(void **state) {
  for (int round = 0; round < 1000; round++) {
    kvf_plane plane = pick_plane();
    plane.entry_tokens = (uint32_t)pick(5);
    const uint64_t ratio = plane.entry_tokens ? plane.entry_tokens : 1;
    const kvf_page_list list = {.first_token = pick(80)};
    uint64_t slot = 0;
    for (uint64_t entry = list.first_token / ratio; entry < 120; entry++)
      if (owns(&plane, entry)) assert_int_equal(layout_list_slot(&plane, &list, entry), slot++);
  }
}

static struct layout_link make_link(const kvf_plane *source, const kvf_plane *target) {
  static const struct layout_cut cut = {.head_count = 1};
  return (struct layout_link){source, target, &cut, 1};
}

/* Portions tile the entries, hold no more than they may, and begin with one. */
static void portions_follow_each_other_and_leave_nothing_out(void **state) {
  for (int round = 0; round < 3000; round++) {
    kvf_plane source = pick_plane(), target = pick_plane();
    source.entry_tokens = target.entry_tokens = (uint32_t)pick(5);
    const struct layout_link link = make_link(&source, &target);
    uint64_t first = pick(100), end = first + pick(200), limit = 1 + pick(20), at = first;
    uint64_t left = layout_cut_entries(&link, 0, first, end);
    while (left > 0) {
      uint64_t from, to;
      layout_cut_portion(&link, 0, at, end, limit, &from, &to);
      uint64_t entries = layout_cut_entries(&link, 0, from, to);
      assert_true(from >= at && to <= end && from < to);
      assert_int_equal(layout_cut_entries(&link, 0, at, from), 0);
      assert_int_equal(entries, limit < left ? limit : left);
      left -= entries;
      at = to;
    }
    assert_int_equal(layout_cut_entries(&link, 0, at, end), 0);
  }
}

static void a_portion_has_at_most_32_bits_of_tokens(void **state) {
  const kvf_plane whole = make_plane(0, 0, 0);
  kvf_plane part = make_plane(4, 3, 1 << 10), ratio = make_plane(0, 0, 0);
  uint64_t first, end;
  ratio.entry_tokens = part.entry_tokens = 1 << 20;
  struct layout_link link = make_link(&part, &ratio);
  layout_cut_portion(&link, 0, 0, 1ull << 60, UINT64_MAX, &first, &end);
  assert_true(first == 3ull << 30 && end - first <= UINT32_MAX && end - first > UINT32_MAX - (1u << 20));
  layout_cut_portion(&link, 0, UINT64_MAX - 5000, UINT64_MAX, 7, &first, &end);
  assert_true(first == UINT64_MAX - 5000 || layout_cut_entries(&link, 0, UINT64_MAX - 5000, UINT64_MAX) == 0);
  link = make_link(&whole, &whole);
  layout_cut_portion(&link, 0, 7, 1ull << 60, UINT64_MAX, &first, &end);
  assert_true(first == 7 && end - first == UINT32_MAX);
}

/* Should a cut that nobody checked come this far, it moves nothing. */
static void an_unbounded_period_moves_nothing(void **state) {
  const kvf_plane plane = make_plane(UINT32_MAX, 0, UINT32_MAX);
  const struct layout_link link = make_link(&plane, &plane);
  assert_int_equal(layout_cut_entries(&link, 0, 0, 1000), 0);
}

static void ranges_follow_windows_and_slots(void **state) {
  static const struct {
    uint32_t window, ratio, per_request;
    uint64_t first, end, range_first, range_end, bytes;
  } rows[] = {
      {0, 0, 0, 5, 90, 5, 90, 85},   {20, 0, 0, 5, 90, 70, 90, 20}, {20, 0, 0, 80, 90, 80, 90, 10}, {20, 8, 0, 5, 90, 64, 90, 3},
      {20, 8, 0, 67, 90, 67, 90, 3}, {20, 0, 0, 50, 50, 50, 50, 0}, {0, 0, 1, 5, 90, 0, 1, 1},      {0, 0, 1, 50, 50, 0, 1, 1},
      {90, 0, 0, 0, 90, 0, 90, 90},  {89, 0, 0, 0, 90, 1, 90, 89},  {0, 128, 0, 0, 127, 0, 127, 0}, {0, 128, 0, 0, 128, 0, 128, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kvf_plane plane = make_plane(0, 0, 0);
    plane.window_tokens = rows[i].window;
    plane.entry_tokens = rows[i].ratio;
    plane.per_request = rows[i].per_request;
    const struct layout_link link = make_link(&plane, &plane);
    uint64_t first, end;
    layout_cut_range(&link, 0, rows[i].first, rows[i].end, &first, &end);
    assert_int_equal(first, rows[i].range_first);
    assert_int_equal(end, rows[i].range_end);
    assert_int_equal(layout_room_bytes(&link, rows[i].first, rows[i].end), rows[i].bytes);
    if (rows[i].per_request) assert_int_equal(layout_cut_entries(&link, 0, rows[i].first, rows[i].end), 0);
  }
}

static void room_bytes_beyond_64_bits_are_said_to_be_all_of_them(void **state) {
  kvf_plane plane = make_plane(0, 0, 0);
  plane.head_bytes = UINT32_MAX;
  struct layout_link link = make_link(&plane, &plane);
  assert_true(layout_room_bytes(&link, 0, 1ull << 40) == UINT64_MAX);
  const struct layout_cut twice[] = {{.head_count = 1}, {.head_count = 1}};
  link.cuts = twice;
  link.cut_count = 2;
  assert_true(layout_room_bytes(&link, 0, 1ull << 31) == 2ull * UINT32_MAX * (1ull << 31));
  assert_true(layout_room_bytes(&link, 0, 1ull << 32) == UINT64_MAX);
}

int main(void) {
  const char *text = getenv("KVF_SEED");
  random_state = text ? strtoull(text, NULL, 0) : base_clock_ns();
  print_message("KVF_SEED=%llu\n", (unsigned long long)random_state);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_share_is_what_the_words_say),
      cmocka_unit_test(what_two_shares_have_in_common_is_counted_and_found),
      cmocka_unit_test(the_last_entries_of_64_bits_are_found),
      cmocka_unit_test(periods_above_the_limit_are_refused),
      cmocka_unit_test(slots_begin_where_the_list_does),
      cmocka_unit_test(portions_follow_each_other_and_leave_nothing_out),
      cmocka_unit_test(a_portion_has_at_most_32_bits_of_tokens),
      cmocka_unit_test(an_unbounded_period_moves_nothing),
      cmocka_unit_test(ranges_follow_windows_and_slots),
      cmocka_unit_test(room_bytes_beyond_64_bits_are_said_to_be_all_of_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
