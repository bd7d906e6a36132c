/* The shape of the blocks: what is merged into one run, what becomes equally spaced rows, and what a walk costs.
 * That the bytes are the right ones is shown by tests/plan/test_random.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "layout/block.h"

enum { PLANES = 4, PAGES = 16, HEAD = 256 };

/* A source rank with @p source_heads of 8 heads (its first ones), a target with all of them. */
struct scene {
  kvf_plane source[PLANES], target[PLANES];
  struct layout_cut cuts[PLANES];
  struct layout_link link;
  struct layout_pages pages;
  struct layout_piece piece;
};

static const uint32_t ascending[PAGES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const uint32_t scattered[PAGES] = {9, 2, 13, 0, 11, 6, 4, 15, 1, 8, 3, 12, 7, 14, 5, 10};

static void make_scene(struct scene *scene, uint32_t source_layout, uint32_t target_layout, uint32_t source_ranks,
                       uint32_t page_tokens, const uint32_t *pages) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  uint32_t count;
  *scene = (struct scene){0};
  options.layer_count = PLANES / 2;
  options.heads_total = 8;
  options.head_bytes = HEAD;
  options.page_tokens = page_tokens;
  options.page_count = PAGES;
  options.address = 1 << 20;
  options.layout = target_layout;
  assert_int_equal(kvf_planes_fill(&options, scene->target, PLANES, &count, NULL, NULL), KVF_OK);
  options.layout = source_layout;
  options.rank_count = source_ranks;
  assert_int_equal(kvf_planes_fill(&options, scene->source, PLANES, &count, NULL, NULL), KVF_OK);
  for (uint32_t i = 0; i < PLANES; i++) scene->cuts[i] = (struct layout_cut){i, i, 0, scene->source[i].head_count};
  scene->link = (struct layout_link){scene->source, scene->target, scene->cuts, PLANES};
  scene->pages.lists[0] = (kvf_page_list){0, PAGES, pages, 0};
  scene->piece = (struct layout_piece){0, 1, 0, PAGES * page_tokens};
}

static size_t walk(const struct scene *scene, enum layout_side side, struct layout_block *blocks, size_t capacity) {
  struct layout_walk walk;
  layout_walk_init(&walk, &scene->link, side, &scene->pages, &scene->piece);
  size_t count = layout_walk_next(&walk, blocks, capacity);
  assert_int_equal(layout_walk_next(&walk, blocks + count, 1), 0);
  return count;
}

#define EXPECT_ROWS(block, address_, row_bytes_, row_stride_, row_count_)    \
  do {                                                                       \
    assert_int_equal((block).address, address_);                             \
    assert_int_equal((block).row_bytes, row_bytes_);                         \
    if ((row_count_) > 1) assert_int_equal((block).row_stride, row_stride_); \
    assert_int_equal((block).row_count, row_count_);                         \
  } while (0)

static void all_heads_in_contiguous_pages_are_one_run(void **state) {
  struct scene scene;
  struct layout_block blocks[PAGES];
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 1, 64, ascending);
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, blocks, PAGES), 1);
  EXPECT_ROWS(blocks[0], 1 << 20, PAGES * 64 * 8 * HEAD, 0, 1);
  /* The next cut's pool follows in memory, so that even it continues. */
  scene.piece.cut_count = PLANES;
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, blocks, PAGES), 1);
  EXPECT_ROWS(blocks[0], 1 << 20, PLANES * PAGES * 64 * 8 * HEAD, 0, 1);
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 1, 64, scattered);
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, blocks, PAGES), PAGES);
  EXPECT_ROWS(blocks[1], (1 << 20) + 2 * 64 * 8 * HEAD, 64 * 8 * HEAD, 0, 1);
}

static void a_head_slice_is_a_block_a_page_with_a_row_a_token(void **state) {
  struct scene scene;
  struct layout_block blocks[PAGES];
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 4, 64, scattered);
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, PAGES), PAGES);
  for (int i = 0; i < PAGES; i++) EXPECT_ROWS(blocks[i], (1 << 20) + scattered[i] * 64ull * 8 * HEAD, 2 * HEAD, 8 * HEAD, 64);
  scene.pages.lists[0].pages = ascending;
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, PAGES), 1);
  EXPECT_ROWS(blocks[0], 1 << 20, 2 * HEAD, 8 * HEAD, 64 * PAGES);
  /* Tokens 71 to 135 of pages that begin at position 6: slot 1 of the second page, and on. */
  scene.pages.lists[0] = (kvf_page_list){0, PAGES, scattered, 6};
  scene.piece = (struct layout_piece){0, 1, 71, 65};
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, PAGES), 2);
  EXPECT_ROWS(blocks[0], (1 << 20) + (2 * 64 + 1) * 8 * HEAD, 2 * HEAD, 8 * HEAD, 63);
  EXPECT_ROWS(blocks[1], (1 << 20) + 13 * 64 * 8 * HEAD, 2 * HEAD, 8 * HEAD, 2);
}

static void a_head_of_a_head_major_page_is_one_run(void **state) {
  struct scene scene;
  struct layout_block blocks[2 * PAGES];
  make_scene(&scene, KVF_LAYOUT_HND, KVF_LAYOUT_HND, 4, 64, scattered);
  assert_true(layout_cut_head_major(&scene.link, 0));
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, 2 * PAGES), 2 * PAGES);
  EXPECT_ROWS(blocks[1], (1 << 20) + 2 * 64 * 8 * HEAD, 64 * HEAD, 0, 1);
  EXPECT_ROWS(blocks[PAGES], (1 << 20) + (9 * 8 + 1) * 64 * HEAD, 64 * HEAD, 0, 1);
  assert_int_equal(blocks[PAGES].packed_offset, PAGES * 64 * HEAD);
  /* Equally spaced pages become equally spaced rows. */
  scene.pages.lists[0].pages = ascending;
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, 2 * PAGES), 2);
  EXPECT_ROWS(blocks[1], (1 << 20) + 64 * HEAD, 64 * HEAD, 8 * 64 * HEAD, PAGES);
  /* One page, all heads: one run. */
  make_scene(&scene, KVF_LAYOUT_HND, KVF_LAYOUT_HND, 1, 64, scattered);
  scene.piece.token_count = 64;
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, blocks, PAGES), 1);
  EXPECT_ROWS(blocks[0], (1 << 20) + 9 * 64 * 8 * HEAD, 8 * 64 * HEAD, 0, 1);
}

static void heads_that_lie_apart_are_a_block_a_token(void **state) {
  struct scene scene;
  struct layout_block blocks[64];
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_HND, 4, 64, scattered);
  assert_false(layout_cut_head_major(&scene.link, 0));
  scene.piece.token_count = 64;
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, 64), 64);
  EXPECT_ROWS(blocks[3], (1 << 20) + 9 * 8 * 64 * HEAD + 3 * HEAD, HEAD, 64 * HEAD, 2);
}

static void pages_of_one_token_are_packed_by_token(void **state) {
  struct scene scene;
  struct layout_block blocks[PAGES];
  make_scene(&scene, KVF_LAYOUT_HND, KVF_LAYOUT_HND, 4, 1, scattered);
  assert_false(layout_cut_head_major(&scene.link, 0));
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, PAGES), PAGES);
  EXPECT_ROWS(blocks[2], (1 << 20) + 13 * 8 * HEAD, 2 * HEAD, 0, 1);
}

static void pairs_are_the_longest_rows_of_both_sides(void **state) {
  static const struct {
    uint32_t source, target, ranks, count;
    uint64_t row_bytes, row_count;
  } rows[] = {
      {KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 1, PAGES, 64 * 8 * HEAD, 1}, {KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 4, PAGES, 2 * HEAD, 64},
      {KVF_LAYOUT_HND, KVF_LAYOUT_HND, 1, PAGES, 64 * 8 * HEAD, 1}, {KVF_LAYOUT_HND, KVF_LAYOUT_HND, 4, PAGES, 2 * 64 * HEAD, 1},
      {KVF_LAYOUT_NHD, KVF_LAYOUT_HND, 4, 2 * PAGES, HEAD, 64},     {KVF_LAYOUT_HND, KVF_LAYOUT_HND, 8, PAGES, 64 * HEAD, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct scene scene;
    struct layout_pair_walk walk;
    struct layout_pair pairs[2 * PAGES + 1];
    make_scene(&scene, rows[i].source, rows[i].target, rows[i].ranks, 64, scattered);
    layout_pair_walk_init(&walk, &scene.link, &scene.pages, &scene.pages, &scene.piece);
    assert_int_equal(layout_pair_walk_next(&walk, pairs, 2 * PAGES + 1), rows[i].count);
    assert_int_equal(pairs[1].row_bytes, rows[i].row_bytes);
    assert_int_equal(pairs[1].row_count, rows[i].row_count);
  }
}

/* Every second entry by one, from a rank of two: one run of the sender's page, equally spaced rows of the receiver's. */
static void entries_dealt_out_in_turn_are_equally_spaced_rows(void **state) {
  struct scene scene;
  struct layout_block blocks[PAGES];
  struct layout_pair pairs[PAGES];
  struct layout_pair_walk walk_both;
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 1, 64, scattered);
  scene.source[0].token_parts = 2;
  scene.source[0].token_part = 1;
  scene.piece = (struct layout_piece){0, 1, 0, 128};
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, blocks, PAGES), 1);
  EXPECT_ROWS(blocks[0], (1 << 20) + 9 * 64 * 8 * HEAD, 64 * 8 * HEAD, 0, 1);
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, PAGES), 2);
  EXPECT_ROWS(blocks[0], (1 << 20) + (9 * 64 + 1) * 8 * HEAD, 8 * HEAD, 2 * 8 * HEAD, 32);
  EXPECT_ROWS(blocks[1], (1 << 20) + (2 * 64 + 1) * 8 * HEAD, 8 * HEAD, 2 * 8 * HEAD, 32);
  layout_pair_walk_init(&walk_both, &scene.link, &scene.pages, &scene.pages, &scene.piece);
  assert_int_equal(layout_pair_walk_next(&walk_both, pairs, PAGES), PAGES);
  /* By four of eight: runs of four tokens in the receiver's pages. */
  scene.source[0].token_block = 4;
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, PAGES), 2);
  EXPECT_ROWS(blocks[1], (1 << 20) + (2 * 64 + 4) * 8 * HEAD, 4 * 8 * HEAD, 8 * 8 * HEAD, 8);
}

/* No list is looked for where a cut moves nothing. */
static void cuts_without_entries_need_no_pages(void **state) {
  struct scene scene;
  struct layout_block block;
  struct layout_pair pair;
  struct layout_pair_walk walk_both;
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 1, 64, scattered);
  scene.pages.lists[0] = (kvf_page_list){0};
  scene.piece = (struct layout_piece){0, 2, 66, 8};
  for (uint32_t i = 0; i < 2; i++) {
    scene.source[i].entry_tokens = scene.target[i].entry_tokens = i ? 1 : 128;
    scene.source[i].token_parts = scene.target[i].token_parts = i ? 2 : 0;
    scene.target[i].token_part = i;
  }
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, &block, 1), 0);
  layout_pair_walk_init(&walk_both, &scene.link, &scene.pages, &scene.pages, &scene.piece);
  assert_int_equal(layout_pair_walk_next(&walk_both, &pair, 1), 0);
}

/* The second plane begins exactly where a further row of the first would, but steps differently from there. */
static void rows_of_unequal_steps_are_not_merged(void **state) {
  struct scene scene;
  struct layout_block blocks[4];
  struct layout_pair pairs[4];
  struct layout_pair_walk walk_both;
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 4, 64, ascending);
  scene.piece = (struct layout_piece){0, 2, 0, 64};
  scene.target[1].address = scene.target[0].address + 64 * 8 * HEAD;
  scene.source[1].address = scene.source[0].address + 64 * 2 * HEAD;
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, 4), 1);
  scene.target[1].token_stride_bytes = 16 * HEAD;
  assert_int_equal(walk(&scene, LAYOUT_TARGET, blocks, 4), 2);
  EXPECT_ROWS(blocks[1], (1 << 20) + 64 * 8 * HEAD, 2 * HEAD, 16 * HEAD, 64);
  for (int unequal = 1; unequal >= 0; unequal--) {
    scene.target[1].token_stride_bytes = unequal ? 16 * HEAD : 8 * HEAD;
    layout_pair_walk_init(&walk_both, &scene.link, &scene.pages, &scene.pages, &scene.piece);
    assert_int_equal(layout_pair_walk_next(&walk_both, pairs, 4), unequal ? 2 : 1);
  }
}

static void bytes_of_a_piece_are_checked(void **state) {
  struct scene scene;
  uint64_t bytes = 7;
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 4, 64, scattered);
  assert_int_equal(layout_cut_token_bytes(&scene.link, 2), 2 * HEAD);
#define EXPECT(ok, ...) assert_int_equal(layout_piece_bytes(&scene.link, &(struct layout_piece){__VA_ARGS__}, &bytes), ok)
  EXPECT(true, 1, 3, 5, 10);
  assert_int_equal(bytes, 3 * 10 * 2 * HEAD);
  EXPECT(true, 4, 0, 5, 10);
  assert_int_equal(bytes, 0);
  EXPECT(false, 1, 4, 5, 10);
  EXPECT(false, 5, 0, 5, 10);
  EXPECT(false, 1, UINT32_MAX, 5, 10);
  EXPECT(false, 0, 1, UINT64_MAX - 9, 10);
  /* C14: more than 32 bits of bytes are kept, more than 64 refused. */
  EXPECT(true, 0, 1, 0, UINT32_MAX);
  assert_true(bytes == 2ull * HEAD * UINT32_MAX);
  for (uint32_t i = 0; i < PLANES; i++) {
    scene.source[i].head_bytes = UINT32_MAX;
    scene.cuts[i].head_count = UINT32_MAX / 2;
  }
  EXPECT(false, 0, 1, 0, UINT32_MAX);
  EXPECT(true, 0, 1, 0, 2);
#undef EXPECT
}

static void an_empty_piece_has_no_blocks(void **state) {
  struct scene scene;
  struct layout_block blocks[2];
  struct layout_pair pair;
  struct layout_pair_walk pairs;
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 4, 64, scattered);
  scene.piece.token_count = 0;
  assert_int_equal(walk(&scene, LAYOUT_SOURCE, blocks, 1), 0);
  layout_pair_walk_init(&pairs, &scene.link, &scene.pages, &scene.pages, &scene.piece);
  assert_int_equal(layout_pair_walk_next(&pairs, &pair, 1), 0);
}

/* A walk must vanish beside the copying: 64 tokens of 512 bytes take more than a microsecond to copy. */
static void a_walk_costs_little(void **state) {
  struct scene scene;
  struct layout_block blocks[32];
  uint64_t count = 0, start_ns = base_clock_ns();
  make_scene(&scene, KVF_LAYOUT_NHD, KVF_LAYOUT_NHD, 4, 64, scattered);
  for (int round = 0; round < 100000; round++) {
    struct layout_walk walk;
    layout_walk_init(&walk, &scene.link, LAYOUT_TARGET, &scene.pages, &scene.piece);
    for (size_t got; (got = layout_walk_next(&walk, blocks, 32)) > 0;) count += got;
  }
  uint64_t taken_ns = base_clock_ns() - start_ns;
  print_message("%.1f ns a block\n", (double)taken_ns / (double)count);
  assert_int_equal(count, 100000 * PAGES);
  assert_true(taken_ns < count * 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_heads_in_contiguous_pages_are_one_run),
      cmocka_unit_test(a_head_slice_is_a_block_a_page_with_a_row_a_token),
      cmocka_unit_test(a_head_of_a_head_major_page_is_one_run),
      cmocka_unit_test(heads_that_lie_apart_are_a_block_a_token),
      cmocka_unit_test(pages_of_one_token_are_packed_by_token),
      cmocka_unit_test(pairs_are_the_longest_rows_of_both_sides),
      cmocka_unit_test(entries_dealt_out_in_turn_are_equally_spaced_rows),
      cmocka_unit_test(cuts_without_entries_need_no_pages),
      cmocka_unit_test(rows_of_unequal_steps_are_not_merged),
      cmocka_unit_test(bytes_of_a_piece_are_checked),
      cmocka_unit_test(an_empty_piece_has_no_blocks),
      cmocka_unit_test(a_walk_costs_little),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
