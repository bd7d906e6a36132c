/* Whole pieces through pages of two ranks with other layouts, against the address formula of kvferry/plane.h, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copy/copy.h"
#include "copy/order.h"
#include "seed.h"
#include "tile_reference.h"

enum { LAYERS = 2, HEADS = 4, PAGES = 40, POOL_BYTES = 6 << 20, TOKENS = 150 };

/* One rank: LAYERS planes of one role, all heads or the upper half of them, pages in a random order. */
struct rank {
  uint8_t *pool;
  kvf_plane planes[LAYERS];
  uint32_t pages[PAGES];
  struct layout_pages lists;
};

static void make_rank(struct rank *rank, uint64_t *random, uint32_t head_first, uint32_t head_bytes, uint32_t page_tokens) {
  uint32_t head_count = HEADS - head_first;
  bool head_major = random_below(random, 2);
  uint64_t pad = random_below(random, 2) * 48;
  uint64_t inner = head_major ? (uint64_t)page_tokens * head_bytes : head_bytes;
  uint64_t page_bytes = (uint64_t)head_count * page_tokens * head_bytes + pad;
  rank->pool = malloc(POOL_BYTES);
  assert_non_null(rank->pool);
  assert_true(page_bytes * PAGES * LAYERS <= POOL_BYTES);
  for (size_t i = 0; i < POOL_BYTES; i++) rank->pool[i] = (uint8_t)base_random_next(random);
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    rank->planes[layer] = (kvf_plane){
        .layer = layer,
        .role = KVF_ROLE_K,
        .dtype = KVF_DTYPE_UINT8,
        .heads_total = HEADS,
        .head_first = head_first,
        .head_count = head_count,
        .head_bytes = head_bytes,
        .page_tokens = page_tokens,
        .page_count = PAGES,
        .page_stride_bytes = page_bytes,
        .token_stride_bytes = head_major ? head_bytes : (uint64_t)head_count * head_bytes,
        .head_stride_bytes = inner,
        .address = (uintptr_t)rank->pool + layer * page_bytes * PAGES,
    };
  }
  for (uint32_t i = 0; i < PAGES; i++) {
    uint32_t j = (uint32_t)random_below(random, i + 1);
    rank->pages[i] = rank->pages[j];
    rank->pages[j] = i;
  }
  rank->lists = (struct layout_pages){0};
  rank->lists.lists[0] = (kvf_page_list){.page_count = PAGES, .pages = rank->pages};
}

static uint8_t *find_head(const struct rank *rank, uint32_t layer, uint32_t token, uint32_t head) {
  const kvf_plane *plane = &rank->planes[layer];
  uint64_t page = rank->pages[token / plane->page_tokens];
  uint64_t address = plane->address + page * plane->page_stride_bytes + token % plane->page_tokens * plane->token_stride_bytes +
                     (head - plane->head_first) * plane->head_stride_bytes;
  return (uint8_t *)(uintptr_t)address;
}

/* By tiles, as a GPU does it; a few at a time, so that blocks are cut by the room that there is. */
static void run_tiles(const struct copy_order *order) {
  struct copy_tiling tiling;
  struct copy_tile tiles[7];
  uint32_t count;
  copy_tiling_begin(&tiling, order);
  for (uint64_t alignment; alignment = 0, (count = copy_tiling_next(&tiling, tiles, 7, &alignment)) > 0;) {
    for (uint32_t i = 0; i < count; i++) assert_in_range((uint64_t)tiles[i].row_bytes * tiles[i].row_count, 1, COPY_TILE_BYTES);
    tile_reference_run(tiles, count, copy_tile_shift(alignment), NULL);
  }
}

static void check_piece(const struct copy_backend *backend, uint64_t *random) {
  static const uint32_t sizes[] = {1, 12, 64, 72, 128, 256};
  static const uint32_t page_sizes[] = {4, 16, 64};
  uint32_t head_bytes = sizes[random_below(random, 6)];
  struct rank source, target;
  make_rank(&source, random, 0, head_bytes, page_sizes[random_below(random, 3)]);
  make_rank(&target, random, HEADS / 2, head_bytes, page_sizes[random_below(random, 3)]);
  const struct layout_cut cuts[LAYERS] = {{0, 0, HEADS / 2, HEADS / 2}, {1, 1, HEADS / 2, HEADS / 2}};
  const struct layout_link link = {source.planes, target.planes, cuts, LAYERS};
  struct layout_piece piece = {.cut_first = (uint32_t)random_below(random, LAYERS)};
  piece.cut_count = 1 + (uint32_t)random_below(random, LAYERS - piece.cut_first);
  piece.token_first = random_below(random, TOKENS);
  piece.token_count = 1 + (uint32_t)random_below(random, TOKENS - piece.token_first);

  uint8_t *expected = malloc(POOL_BYTES), *before = malloc(POOL_BYTES), *packed = malloc(POOL_BYTES);
  memcpy(before, target.pool, POOL_BYTES);
  for (uint32_t layer = piece.cut_first; layer < piece.cut_first + piece.cut_count; layer++) {
    for (uint32_t token = (uint32_t)piece.token_first; token < piece.token_first + piece.token_count; token++) {
      for (uint32_t head = HEADS / 2; head < HEADS; head++) {
        memcpy(find_head(&target, layer, token, head), find_head(&source, layer, token, head), head_bytes);
      }
    }
  }
  memcpy(expected, target.pool, POOL_BYTES);

  memcpy(target.pool, before, POOL_BYTES);
  copy_piece_gather(backend, packed, &link, &source.lists, &piece);
  copy_piece_scatter(backend, packed, &link, &target.lists, &piece);
  assert_memory_equal(target.pool, expected, POOL_BYTES);

  memcpy(target.pool, before, POOL_BYTES);
  copy_piece_pairs(backend, &link, &source.lists, &target.lists, &piece);
  assert_memory_equal(target.pool, expected, POOL_BYTES);

  struct copy_order order = {.link = &link, .source_pages = &source.lists, .target_pages = &target.lists, .piece = piece};
  uint8_t *by_tiles = malloc(POOL_BYTES);
  uint64_t packed_bytes;
  assert_true(layout_piece_bytes(&link, &piece, &packed_bytes));
  order.packed = (uintptr_t)by_tiles;
  run_tiles(&order);
  assert_memory_equal(by_tiles, packed, packed_bytes);
  memcpy(target.pool, before, POOL_BYTES);
  order.kind = COPY_SCATTER;
  run_tiles(&order);
  assert_memory_equal(target.pool, expected, POOL_BYTES);
  memcpy(target.pool, before, POOL_BYTES);
  order.kind = COPY_PAIRS;
  run_tiles(&order);
  assert_memory_equal(target.pool, expected, POOL_BYTES);
  free(by_tiles);
  free(source.pool);
  free(target.pool);
  free(expected);
  free(before);
  free(packed);
}

static void random_pieces_arrive_where_the_formula_says(void **state) {
  static const char *const names[] = {"avx512", "avx2", "neon", "portable"};
  uint64_t random = seed_get();
  for (int i = 0; i < 4; i++) {
    const struct copy_backend *backend = copy_host_backend_find(names[i]);
    for (int round = 0; backend && round < 40; round++) check_piece(backend, &random);
  }
}

/* Rows from one byte to several tiles, every width of vectors: the lanes reach each byte once and no other. */
static void lanes_share_a_tile_without_gap_or_overlap(void **state) {
  uint64_t random = seed_get();
  enum { LIMIT = COPY_TILE_BYTES * 5 };
  static uint8_t source[LIMIT], target[LIMIT];
  for (int round = 0; round < 2000; round++) {
    uint32_t shift = (uint32_t)random_below(&random, COPY_TILE_SHIFT_LIMIT + 1), unit = 1u << shift;
    uint32_t row_bytes = unit * (1 + (uint32_t)random_below(&random, COPY_TILE_BYTES / unit));
    if (round % 2) row_bytes = unit * (1 + (uint32_t)random_below(&random, 70 < COPY_TILE_BYTES / unit ? 70 : COPY_TILE_BYTES / unit));
    uint32_t row_count = 1 + (uint32_t)random_below(&random, COPY_TILE_BYTES / row_bytes);
    uint64_t gap = unit * random_below(&random, 3);
    if ((row_bytes + gap) * row_count > LIMIT) gap = 0;
    for (size_t i = 0; i < LIMIT; i++) source[i] = (uint8_t)(i * 7 + (i >> 8) + 1), target[i] = 0;
    const struct copy_tile tile = {.source = (uintptr_t)source,
                                   .target = (uintptr_t)target,
                                   .source_stride = row_bytes,
                                   .target_stride = row_bytes + gap,
                                   .row_bytes = row_bytes,
                                   .row_count = row_count};
    uint64_t moved = 0;
    for (uint32_t lane = 0; lane < COPY_TILE_LANES; lane++) moved += (uint64_t)copy_tile_begin(&tile, lane, shift).left << shift;
    assert_int_equal(moved, (uint64_t)row_bytes * row_count);
    tile_reference_run(&tile, 1, shift, NULL);
    for (size_t i = 0; i < (row_bytes + gap) * row_count; i++) {
      size_t row = i / (row_bytes + gap), column = i % (row_bytes + gap);
      assert_int_equal(target[i], column < row_bytes ? source[row * row_bytes + column] : 0);
    }
  }
}

static void the_width_is_what_all_addresses_allow(void **state) {
  assert_int_equal(copy_tile_shift(0), 4);
  assert_int_equal(copy_tile_shift(0x1000), 4);
  assert_int_equal(copy_tile_shift(16 | 8), 3);
  assert_int_equal(copy_tile_shift(512 | 4), 2);
  assert_int_equal(copy_tile_shift(2), 1);
  assert_int_equal(copy_tile_shift(0x1001), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_pieces_arrive_where_the_formula_says),
                                     cmocka_unit_test(lanes_share_a_tile_without_gap_or_overlap),
                                     cmocka_unit_test(the_width_is_what_all_addresses_allow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
