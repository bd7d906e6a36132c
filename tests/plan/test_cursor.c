/* The cursor on planes without memory: what it refuses, what it shares, what it splits, and how fast it counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "plan/plan.h"

enum { LAYERS = 36, PLANES = 2 * LAYERS };

struct pair {
  kvf_plane source[PLANES], target[PLANES];
  struct layout_cut cuts[PLANES];
  struct layout_link link;
};

/* @p ranks source ranks' rank 0 against a target that holds everything. */
static void make_pair(struct pair *pair, uint32_t layout, uint32_t ranks, uint32_t head_bytes, uint32_t page_tokens,
                      uint32_t pages) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  uint32_t count;
  options.layer_count = LAYERS;
  options.heads_total = 8;
  options.layout = layout;
  options.head_bytes = head_bytes;
  options.page_tokens = page_tokens;
  options.page_count = pages;
  assert_int_equal(kvf_planes_fill(&options, pair->target, PLANES, &count, NULL, NULL), KVF_OK);
  options.rank_count = ranks;
  assert_int_equal(kvf_planes_fill(&options, pair->source, PLANES, &count, NULL, NULL), KVF_OK);
  for (uint32_t i = 0; i < PLANES; i++) pair->cuts[i] = (struct layout_cut){i, i, 0, pair->source[i].head_count};
  pair->link = (struct layout_link){pair->source, pair->target, pair->cuts, PLANES};
}

static void one_token_above_a_limit_is_too_large_with_its_numbers(void **state) {
  struct pair pair;
  struct plan_cursor cursor;
  kvf_error *error = NULL;
  const struct plan_range range = {0, 10, 5, 7};
  make_pair(&pair, KVF_LAYOUT_NHD, 1, 256, 64, 4);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){2048, 0}, NULL), KVF_OK);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){2047, 0}, &error), KVF_TOO_LARGE);
  assert_string_equal(kvf_error_find(error, "need"), "2048");
  assert_string_equal(kvf_error_find(error, "limit"), "2047");
  assert_string_equal(kvf_error_find(error, "layer"), "5");
  kvf_error_free(error);
  make_pair(&pair, KVF_LAYOUT_HND, 1, 256, 64, 4);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){1 << 20, 8}, NULL), KVF_OK);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){1 << 20, 7}, &error), KVF_TOO_LARGE);
  assert_string_equal(kvf_error_find(error, "need"), "8");
  kvf_error_free(error);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &(struct plan_range){3, 2, 0, 9}, &(struct plan_limits){1 << 20, 0}, NULL),
                   KVF_INVALID);
}

/* C14: lengths beyond 4 GiB keep all their bits; what does not fit 64 bits is refused. */
static void sizes_beyond_32_bits_are_split_and_beyond_64_refused(void **state) {
  struct pair pair;
  struct plan_cursor cursor;
  struct plan_totals totals;
  struct layout_piece piece;
  uint64_t bytes, sum = 0, next = 5ull << 30, count = (4ull << 30) + 4096;
  make_pair(&pair, KVF_LAYOUT_NHD, 8, 1u << 20, 64, 4);
  pair.link.cut_count = 1;
  struct plan_range range = {next, next + count, 0, 1};
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){1ull << 51, 0}, NULL), KVF_OK);
  plan_totals_get(&cursor, &totals);
  assert_int_equal(totals.pieces, 3);
  assert_true(totals.bytes == count << 20);
  while (plan_cursor_next(&cursor, &piece, &bytes)) {
    assert_true(piece.token_first == next && bytes == (uint64_t)piece.token_count << 20);
    next += piece.token_count;
    sum += bytes;
  }
  assert_true(next == range.token_end && sum == totals.bytes);
  /* A piece counts its tokens in 32 bits, however many bytes it may have. */
  struct pair narrow;
  make_pair(&narrow, KVF_LAYOUT_NHD, 8, 1, 64, 4);
  const struct plan_range long_range = {0, 5ull << 30, 0, 1};
  assert_int_equal(plan_cursor_init(&cursor, &narrow.link, &long_range, &(struct plan_limits){1ull << 40, 0}, NULL), KVF_OK);
  for (next = 0; plan_cursor_next(&cursor, &piece, &bytes); next += bytes) assert_int_equal(bytes, piece.token_count);
  assert_true(next == 2 * long_range.token_end);
  range.token_end = range.token_first + (1ull << 44);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){1ull << 40, 0}, NULL), KVF_TOO_LARGE);
  range = (struct plan_range){0, 1ull << 43, 0, 2};
  pair.link.cut_count = 2; /* each fits, the sum does not */
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){1ull << 40, 0}, NULL), KVF_TOO_LARGE);
}

/* Each piece but the last of a group is as full as the limits allow. */
static void whole_cuts_share_a_piece_while_they_fit(void **state) {
  struct pair pair;
  struct plan_cursor cursor;
  struct layout_piece piece;
  uint64_t bytes;
  const struct plan_range range = {100, 110, 0, UINT32_MAX};
  make_pair(&pair, KVF_LAYOUT_NHD, 4, 256, 64, 4);
  const uint64_t cut_bytes = 10 * 512;
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){5 * cut_bytes + 5119, 0}, NULL), KVF_OK);
  for (uint32_t first = 0; first < PLANES; first += 5) {
    assert_true(plan_cursor_next(&cursor, &piece, &bytes));
    assert_int_equal(piece.cut_first, first);
    assert_int_equal(piece.cut_count, first + 5 <= PLANES ? 5 : PLANES - first);
    assert_int_equal(piece.token_first, 100);
    assert_int_equal(piece.token_count, 10);
    assert_int_equal(bytes, piece.cut_count * cut_bytes);
  }
  assert_false(plan_cursor_next(&cursor, &piece, &bytes));
  /* The target has one row a token here: 34 rows hold three cuts of ten. */
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){1 << 20, 34}, NULL), KVF_OK);
  assert_true(plan_cursor_next(&cursor, &piece, &bytes));
  assert_int_equal(piece.cut_count, 3);
}

static void a_cut_that_does_not_fit_is_split_at_page_multiples(void **state) {
  struct pair pair;
  struct plan_cursor cursor;
  struct layout_piece piece;
  uint64_t bytes;
  make_pair(&pair, KVF_LAYOUT_HND, 4, 256, 64, 99);
  const struct plan_range range = {0, 300, 3, 4};
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &range, &(struct plan_limits){150 * 512, 0}, NULL), KVF_OK);
  for (uint32_t cut = 6; cut < 8; cut++) {
    const uint32_t firsts[] = {0, 128, 256}, counts[] = {128, 128, 44};
    for (int i = 0; i < 3; i++) {
      assert_true(plan_cursor_next(&cursor, &piece, &bytes));
      assert_int_equal(piece.cut_first, cut);
      assert_int_equal(piece.cut_count, 1);
      assert_int_equal(piece.token_first, firsts[i]);
      assert_int_equal(piece.token_count, counts[i]);
    }
  }
  assert_false(plan_cursor_next(&cursor, &piece, &bytes));
}

static void an_empty_range_has_no_pieces_and_no_limits(void **state) {
  struct pair pair;
  struct plan_cursor cursor;
  struct layout_piece piece;
  struct plan_totals totals;
  uint64_t bytes;
  make_pair(&pair, KVF_LAYOUT_NHD, 4, 256, 64, 4);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &(struct plan_range){7, 7, 0, 99}, &(struct plan_limits){1, 1}, NULL),
                   KVF_OK);
  assert_false(plan_cursor_next(&cursor, &piece, &bytes));
  plan_totals_get(&cursor, &totals);
  assert_true(totals.pieces == 0 && totals.bytes == 0);
  assert_int_equal(plan_cursor_init(&cursor, &pair.link, &(struct plan_range){0, 7, 36, 99}, &(struct plan_limits){1, 1}, NULL),
                   KVF_OK);
  assert_false(plan_cursor_next(&cursor, &piece, &bytes));
}

/* C123: 36 layers of 8 heads, four ranks to two, 4,096 tokens: at least 100 times fewer bulk writes than slices. */
static void pieces_are_a_hundredth_of_the_slices_or_less(void **state) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  kvf_plane planes[2][PLANES];
  struct layout_cuts cuts;
  struct layout_pages pages = {0};
  struct plan_cursor cursor;
  struct layout_piece piece;
  uint32_t count, numbers[64];
  uint64_t pieces = 0, slices = 0, bytes;
  options.layer_count = LAYERS;
  options.heads_total = 8;
  options.head_bytes = 256;
  options.page_tokens = 64;
  options.page_count = 128;
  for (int side = 0; side < 2; side++) {
    options.rank_count = side ? 2 : 4;
    assert_int_equal(kvf_planes_fill(&options, planes[side], PLANES, &count, NULL, NULL), KVF_OK);
  }
  for (uint32_t i = 0; i < 64; i++) numbers[i] = i * 37 % 128;
  pages.lists[0] = (kvf_page_list){0, 64, numbers, 0};
  /* Rank 0 and 1 feed target 0; here rank 0 alone with the half of target 0 that it has. */
  kvf_rank_planes sources[2] = {{planes[0], PLANES, 0}, {0}}, target = {planes[1], PLANES, 0};
  kvf_plane other[PLANES];
  options.rank_count = 4;
  options.rank = 1;
  assert_int_equal(kvf_planes_fill(&options, other, PLANES, &count, NULL, NULL), KVF_OK);
  sources[1] = (kvf_rank_planes){other, PLANES, 0};
  struct layout_cuts built[2];
  assert_int_equal(layout_cuts_build(sources, 2, &target, 0, built, NULL), KVF_OK);
  cuts = built[0];
  const struct layout_link link = {planes[0], planes[1], cuts.cuts, cuts.count};
  const struct plan_range range = {0, 4096, 0, LAYERS};
  assert_int_equal(plan_cursor_init(&cursor, &link, &range, &(struct plan_limits){256 << 10, 0}, NULL), KVF_OK);
  for (; plan_cursor_next(&cursor, &piece, &bytes); pieces++) slices += layout_piece_slices(&link, LAYOUT_TARGET, &pages, &piece);
  assert_int_equal(slices, 2ull * LAYERS * 4096);
  assert_true(pieces * 100 <= slices);
  layout_cuts_fini(&built[0]);
  layout_cuts_fini(&built[1]);
}

/* ---- what is not all tokens of all layers ---- */

/* A layer each of: everything, a window of 20, one entry for 16 tokens, and a slot. One head of 8 bytes. */
struct mixture {
  kvf_plane source[4], target[4];
  struct layout_cut cuts[4];
  struct layout_link link;
};

static void make_mixture(struct mixture *mixture) {
  *mixture = (struct mixture){.link = {mixture->source, mixture->target, mixture->cuts, 4}};
  for (uint32_t i = 0; i < 4; i++) {
    mixture->source[i] = (kvf_plane){.layer = i,
                                     .role = KVF_ROLE_K,
                                     .dtype = KVF_DTYPE_BF16,
                                     .heads_total = 1,
                                     .head_count = 1,
                                     .head_bytes = 8,
                                     .page_tokens = i == 3 ? 1 : 4,
                                     .page_count = 100,
                                     .page_stride_bytes = 32,
                                     .token_stride_bytes = 8,
                                     .head_stride_bytes = 8};
    mixture->cuts[i] = (struct layout_cut){i, i, 0, 1};
  }
  mixture->source[1].window_tokens = 20;
  mixture->source[2].entry_tokens = 16;
  mixture->source[3].per_request = 1;
  memcpy(mixture->target, mixture->source, sizeof mixture->source);
}

struct expected {
  uint32_t cut_first, cut_count;
  uint64_t token_first, token_count, bytes;
};

static void expect_pieces(const struct layout_link *link, const struct plan_range *range, uint64_t piece_bytes,
                          const struct expected *expected, size_t count) {
  struct plan_cursor cursor;
  struct plan_totals totals;
  struct layout_piece piece;
  uint64_t bytes;
  assert_int_equal(plan_cursor_init(&cursor, link, range, &(struct plan_limits){piece_bytes, 0}, NULL), KVF_OK);
  plan_totals_get(&cursor, &totals);
  assert_int_equal(totals.pieces, count);
  for (size_t i = 0; i < count; i++) {
    assert_true(plan_cursor_next(&cursor, &piece, &bytes));
    assert_int_equal(piece.cut_first, expected[i].cut_first);
    assert_int_equal(piece.cut_count, expected[i].cut_count);
    assert_int_equal(piece.token_first, expected[i].token_first);
    assert_int_equal(piece.token_count, expected[i].token_count);
    assert_int_equal(bytes, expected[i].bytes);
    totals.bytes -= bytes;
  }
  assert_false(plan_cursor_next(&cursor, &piece, &bytes));
  assert_int_equal(totals.bytes, 0);
}

#define EXPECT_PIECES(link, range, piece_bytes, ...)                              \
  expect_pieces(link, range, piece_bytes, (const struct expected[]){__VA_ARGS__}, \
                sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

static void a_chunk_takes_of_each_cut_what_the_room_wants(void **state) {
  struct mixture mixture;
  make_mixture(&mixture);
  const struct layout_link *link = &mixture.link;
  /* The whole room at once: the slot by itself, although its tokens could share. */
  EXPECT_PIECES(link, (&(struct plan_range){0, 100, 0, 9, 0, 100, true}), 1 << 20, {0, 1, 0, 100, 800}, {1, 1, 80, 20, 160},
                {2, 1, 0, 100, 48}, {3, 1, 0, 1, 8});
  /* Before the window, and before an entry is complete. */
  EXPECT_PIECES(link, (&(struct plan_range){50, 60, 0, 9, 0, 100, false}), 1 << 20, {0, 1, 50, 10, 80});
  /* The chunk in which the window begins. */
  EXPECT_PIECES(link, (&(struct plan_range){70, 90, 0, 9, 0, 100, false}), 1 << 20, {0, 1, 70, 20, 160}, {1, 1, 80, 10, 80},
                {2, 1, 70, 20, 8});
  /* Within the window all three move the same tokens. */
  EXPECT_PIECES(link, (&(struct plan_range){90, 100, 0, 9, 0, 100, false}), 1 << 20, {0, 3, 90, 10, 168});
  /* One that has no entry in between goes along, at the end it does not. */
  EXPECT_PIECES(link, (&(struct plan_range){84, 90, 0, 9, 0, 100, false}), 1 << 20, {0, 2, 84, 6, 96});
  mixture.source[1].window_tokens = mixture.target[1].window_tokens = 0;
  mixture.source[1].entry_tokens = mixture.target[1].entry_tokens = 50;
  EXPECT_PIECES(link, (&(struct plan_range){60, 70, 0, 9, 0, 100, false}), 1 << 20, {0, 3, 60, 10, 88});
}

static void slots_come_with_the_last_chunk_of_any_layers(void **state) {
  struct mixture mixture;
  make_mixture(&mixture);
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){100, 100, 0, 9, 0, 100, true}), 1 << 20, {3, 1, 0, 1, 8});
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){0, 0, 0, 9, 0, 0, true}), 1 << 20, {3, 1, 0, 1, 8});
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){0, 10, 0, 1, 0, 10, true}), 1 << 20, {0, 1, 0, 10, 80}, {3, 1, 0, 1, 8});
  /* Tokens [0, 1) and a slot look alike, and stay apart. */
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){0, 1, 0, 2, 0, 1, true}), 1 << 20, {0, 2, 0, 1, 16}, {3, 1, 0, 1, 8});
  /* Without a room the range is it. */
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){60, 100, 1, 2}), 1 << 20, {1, 1, 80, 20, 160});
}

static void compressed_cuts_are_split_by_entries(void **state) {
  struct mixture mixture;
  make_mixture(&mixture);
  /* 5 entries a piece, of which whole pages are 4; the last tokens complete no entry. */
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){40, 200, 2, 3}), 47, {2, 1, 40, 64, 32}, {2, 1, 104, 64, 32},
                {2, 1, 168, 32, 16});
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){40, 170, 2, 3}), 47, {2, 1, 40, 64, 32}, {2, 1, 104, 64, 32});
}

/* Ranks 0 of 2 and 1 of 3, by one: entries 4, 10, 16 … are common. */
static void cuts_between_unequal_shares_are_split_by_common_entries(void **state) {
  struct mixture mixture;
  make_mixture(&mixture);
  mixture.source[0].token_parts = 2;
  mixture.target[0].token_parts = 3;
  mixture.target[0].token_part = 1;
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){0, 30, 0, 1}), 1 << 20, {0, 1, 0, 30, 40});
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){0, 30, 0, 1}), 16, {0, 1, 4, 12, 16}, {0, 1, 16, 12, 16}, {0, 1, 28, 2, 8});
  EXPECT_PIECES(&mixture.link, (&(struct plan_range){0, 28, 0, 1}), 16, {0, 1, 4, 12, 16}, {0, 1, 16, 12, 16});
  /* Rows are counted by entries, since nothing need touch. */
  struct plan_cursor cursor;
  struct layout_piece piece;
  uint64_t bytes;
  assert_int_equal(
      plan_cursor_init(&cursor, &mixture.link, &(struct plan_range){0, 30, 0, 1}, &(struct plan_limits){1 << 20, 3}, NULL), KVF_OK);
  assert_true(plan_cursor_next(&cursor, &piece, &bytes));
  assert_int_equal(bytes, 24);
}

/* 100,000 pages, 64 layers, K and V: meant to be below 50 ms, see bench/plan_bench.c; the bound leaves room for sanitizers and busy
 * machines. Nothing is allocated. */
static void a_very_long_room_is_planned_quickly_and_without_memory(void **state) {
  enum { PAGES = 100000, PAGE_TOKENS = 16, MANY = 128 };
  static kvf_plane planes[MANY];
  static struct layout_cut cuts[MANY];
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  uint32_t count;
  options.layer_count = MANY / 2;
  options.heads_total = 8;
  options.head_bytes = 256;
  options.page_count = PAGES;
  assert_int_equal(kvf_planes_fill(&options, planes, MANY, &count, NULL, NULL), KVF_OK);
  for (uint32_t i = 0; i < MANY; i++) cuts[i] = (struct layout_cut){i, i, 0, 8};
  const struct layout_link link = {planes, planes, cuts, MANY};
  const struct plan_range range = {0, (uint64_t)PAGES * PAGE_TOKENS, 0, UINT32_MAX};
  struct plan_cursor cursor;
  struct layout_piece piece;
  uint64_t bytes, pieces = 0, start_ns = base_clock_ns();
  base_alloc_fail_after(1);
  assert_int_equal(plan_cursor_init(&cursor, &link, &range, &(struct plan_limits){256 << 10, 0}, NULL), KVF_OK);
  while (plan_cursor_next(&cursor, &piece, &bytes)) pieces++;
  uint64_t taken_ns = base_clock_ns() - start_ns;
  assert_null(base_alloc(1));
  base_alloc_fail_after(0);
  print_message("%llu pieces in %llu us\n", (unsigned long long)pieces, (unsigned long long)taken_ns / 1000);
  assert_int_equal(pieces, MANY * (range.token_end * 8 * 256 / (256 << 10)));
  assert_true(taken_ns < 2 * BASE_NS_PER_S);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_token_above_a_limit_is_too_large_with_its_numbers),
      cmocka_unit_test(sizes_beyond_32_bits_are_split_and_beyond_64_refused),
      cmocka_unit_test(whole_cuts_share_a_piece_while_they_fit),
      cmocka_unit_test(a_cut_that_does_not_fit_is_split_at_page_multiples),
      cmocka_unit_test(an_empty_range_has_no_pieces_and_no_limits),
      cmocka_unit_test(pieces_are_a_hundredth_of_the_slices_or_less),
      cmocka_unit_test(a_chunk_takes_of_each_cut_what_the_room_wants),
      cmocka_unit_test(slots_come_with_the_last_chunk_of_any_layers),
      cmocka_unit_test(compressed_cuts_are_split_by_entries),
      cmocka_unit_test(cuts_between_unequal_shares_are_split_by_common_entries),
      cmocka_unit_test(a_very_long_room_is_planned_quickly_and_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
