/* See world.h. */
#include "plan/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"

uint64_t world_pick(uint64_t *random, uint64_t count) {
  return base_random_next(random) % count;
}

uint64_t world_seed(void) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : base_clock_ns();
  print_message("KVF_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

void world_rank_bind(struct world_rank *rank, size_t memory_bytes) {
  rank->memory = malloc(memory_bytes + 1);
  assert_non_null(rank->memory);
  rank->memory_bytes = memory_bytes;
  for (uint32_t i = 0; i < rank->plane_count; i++) rank->planes[i].address += (uintptr_t)rank->memory;
  kvf_error *error = NULL;
  if (layout_planes_validate(rank->planes, rank->plane_count, &error) != KVF_OK) {
    char text[1024];
    kvf_error_format(error, text, sizeof text);
    fail_msg("%s", text);
  }
}

void world_rank_list(struct world_rank *rank, uint32_t list, uint32_t page_tokens, uint32_t pool_pages, uint64_t first_token,
                     uint64_t token_end, uint64_t *random) {
  uint32_t *all = malloc(pool_pages * sizeof *all), count = (uint32_t)((token_end - first_token + page_tokens - 1) / page_tokens);
  assert_true(count <= pool_pages);
  for (uint32_t i = 0; i < pool_pages; i++) all[i] = i;
  /* Now and then in order, so that contiguous pages occur. */
  bool shuffled = world_pick(random, 4) != 0;
  for (uint32_t i = 0; shuffled && i < count; i++) {
    uint32_t other = i + (uint32_t)world_pick(random, pool_pages - i), keep = all[i];
    all[i] = all[other];
    all[other] = keep;
  }
  free(rank->numbers[list]);
  rank->numbers[list] = malloc((count + 1) * sizeof *all);
  memcpy(rank->numbers[list], all, count * sizeof *all);
  free(all);
  rank->pages.lists[list] =
      (kvf_page_list){.page_list = list, .page_count = count, .pages = rank->numbers[list], .first_token = first_token};
}

void world_rank_lists(struct world_rank *rank, uint64_t token_first, uint64_t token_end, uint32_t lead, uint64_t *random) {
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    uint64_t back = world_pick(random, lead + 1);
    if (rank->numbers[plane->page_list]) continue;
    world_rank_list(rank, plane->page_list, plane->page_tokens, plane->page_count,
                    token_first - (back < token_first ? back : token_first), token_end, random);
  }
}

void world_side_fini(struct world_side *side) {
  for (uint32_t i = 0; i < side->rank_count; i++) {
    free(side->ranks[i].memory);
    for (int list = 0; list < KVF_PAGE_LIST_LIMIT; list++) free(side->ranks[i].numbers[list]);
  }
}

void world_side_fill(struct world_side *side, kvf_planes_options options, uint32_t stages) {
  const uint32_t layer_first = options.layer_first, layers = options.layer_count, ranks = options.rank_count;
  *side = (struct world_side){.rank_count = ranks * stages};
  for (uint32_t i = 0; i < side->rank_count; i++) {
    struct world_rank *rank = &side->ranks[i];
    uint64_t pool_bytes;
    rank->stage = i / ranks;
    options.rank = i % ranks;
    options.layer_first = layer_first + layers * rank->stage / stages;
    options.layer_count = layer_first + layers * (rank->stage + 1) / stages - options.layer_first;
    assert_int_equal(kvf_planes_fill(&options, rank->planes, WORLD_PLANES, &rank->plane_count, &pool_bytes, NULL), KVF_OK);
    world_rank_bind(rank, pool_bytes);
  }
}

/* ---- contents ---- */

static uint8_t *find_element(const struct world_rank *rank, const kvf_plane *plane, uint32_t head, uint64_t token) {
  const kvf_page_list *list = &rank->pages.lists[plane->page_list];
  uint64_t page = list->pages[(token - list->first_token) / plane->page_tokens];
  uint64_t slot = (token - list->first_token) % plane->page_tokens;
  uint64_t address = plane->address + page * plane->page_stride_bytes + slot * plane->token_stride_bytes +
                     (head - plane->head_first) * plane->head_stride_bytes;
  return (uint8_t *)(uintptr_t)address;
}

static void write_pattern(uint8_t *element, const kvf_plane *plane, uint32_t head, uint64_t token) {
  uint64_t name = base_mix_u64(((uint64_t)plane->layer << 40 | (uint64_t)plane->role << 32 | head) ^ base_mix_u64(token));
  for (uint32_t i = 0; i < plane->head_bytes; i++) {
    if (i > 0 && i % 8 == 0) name = name * 0x9e3779b97f4a7c15ull + i;
    element[i] = (uint8_t)(name >> (i % 8 * 8));
  }
}

void world_rank_blank(struct world_rank *rank) {
  for (size_t i = 0; i < rank->memory_bytes; i++) rank->memory[i] = (uint8_t)(i * 37 + (i >> 8) * 11 + 201);
}

void world_rank_write(struct world_rank *rank, uint64_t token_first, uint64_t token_end, uint32_t layer_first, uint32_t layer_end) {
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    if (plane->layer < layer_first || plane->layer >= layer_end) continue;
    for (uint32_t head = plane->head_first; head < plane->head_first + plane->head_count; head++)
      for (uint64_t token = token_first; token < token_end; token++)
        write_pattern(find_element(rank, plane, head, token), plane, head, token);
  }
}

/* ---- moving ---- */

/* The packed form of a piece by the words of block.h. */
static uint8_t *pack_naively(const struct layout_link *link, const struct world_rank *rank, enum layout_side side,
                             const struct layout_piece *piece, uint64_t bytes) {
  uint8_t *packed = malloc(bytes + 1), *place = packed;
  for (uint32_t cut = piece->cut_first; cut < piece->cut_first + piece->cut_count; cut++) {
    const struct layout_cut *what = &link->cuts[cut];
    const kvf_plane *plane =
        side == LAYOUT_SOURCE ? &link->source_planes[what->source_plane] : &link->target_planes[what->target_plane];
    const uint64_t tokens = piece->token_count, heads = what->head_count;
    bool head_major = layout_cut_head_major(link, cut);
    for (uint64_t i = 0; i < tokens * heads; i++, place += plane->head_bytes) {
      uint64_t head = head_major ? i / tokens : i % heads, token = head_major ? i % tokens : i / heads;
      memcpy(place, find_element(rank, plane, what->head_first + (uint32_t)head, piece->token_first + token), plane->head_bytes);
    }
  }
  assert_int_equal(place - packed, bytes);
  return packed;
}

/* Walk one side with batches of a random size. Returns the rows. */
static uint64_t copy_blocks(const struct layout_link *link, struct world_rank *rank, enum layout_side side,
                            const struct layout_piece *piece, uint8_t *packed, uint64_t *random) {
  struct layout_walk walk;
  struct layout_block blocks[16];
  uint64_t rows = 0, offset = 0;
  size_t capacity = 1 + world_pick(random, 16), count;
  layout_walk_init(&walk, link, side, &rank->pages, piece);
  while ((count = layout_walk_next(&walk, blocks, capacity)) > 0) {
    assert_true(count <= capacity);
    for (size_t i = 0; i < count; i++) {
      const struct layout_block *block = &blocks[i];
      assert_int_equal(block->packed_offset, offset);
      assert_true(block->row_count > 0 && block->row_bytes > 0);
      assert_int_equal(block->packed_stride, block->row_bytes);
      for (uint64_t row = 0; row < block->row_count; row++) {
        uint8_t *page = (uint8_t *)(uintptr_t)(block->address + row * block->row_stride);
        uint8_t *place = packed + block->packed_offset + row * block->packed_stride;
        memcpy(side == LAYOUT_SOURCE ? place : page, side == LAYOUT_SOURCE ? page : place, block->row_bytes);
      }
      rows += block->row_count;
      offset += block->row_count * block->row_bytes;
    }
  }
  assert_int_equal(layout_walk_next(&walk, blocks, capacity), 0);
  assert_int_equal(layout_piece_slices(link, side, &rank->pages, piece), rows);
  return rows;
}

static void copy_pairs(const struct layout_link *link, const struct world_rank *source, struct world_rank *target,
                       const struct layout_piece *piece, uint64_t piece_bytes, uint64_t *random) {
  struct layout_pair_walk walk;
  struct layout_pair pairs[16];
  uint64_t bytes = 0;
  size_t capacity = 1 + world_pick(random, 16), count;
  layout_pair_walk_init(&walk, link, &source->pages, &target->pages, piece);
  while ((count = layout_pair_walk_next(&walk, pairs, capacity)) > 0) {
    assert_true(count <= capacity);
    for (size_t i = 0; i < count; i++)
      for (uint64_t row = 0; row < pairs[i].row_count; row++, bytes += pairs[i].row_bytes)
        memcpy((void *)(uintptr_t)(pairs[i].target_address + row * pairs[i].target_stride),
               (void *)(uintptr_t)(pairs[i].source_address + row * pairs[i].source_stride), pairs[i].row_bytes);
  }
  assert_int_equal(bytes, piece_bytes);
}

static void move_piece(const struct world_move *move, enum world_method method, const struct layout_link *link,
                       struct world_rank *source, const struct layout_piece *piece, uint64_t bytes, struct world_counts *counts) {
  uint64_t said;
  assert_true(layout_piece_bytes(link, piece, &said));
  assert_int_equal(said, bytes);
  assert_true(bytes > 0 && bytes <= move->limits.piece_bytes);
  counts->pieces++;
  counts->bytes += bytes;
  if (method == WORLD_PAIRS) {
    copy_pairs(link, source, move->target, piece, bytes, move->random);
    return;
  }
  uint8_t *packed = malloc(bytes);
  uint64_t rows = copy_blocks(link, source, LAYOUT_SOURCE, piece, packed, move->random);
  counts->slices += rows;
  uint8_t *naive = pack_naively(link, source, LAYOUT_SOURCE, piece, bytes);
  assert_memory_equal(packed, naive, bytes);
  free(naive);
  uint64_t target_rows = copy_blocks(link, move->target, LAYOUT_TARGET, piece, packed, move->random);
  if (move->limits.piece_rows) assert_true(rows <= move->limits.piece_rows && target_rows <= move->limits.piece_rows);
  naive = pack_naively(link, move->target, LAYOUT_TARGET, piece, bytes);
  assert_memory_equal(packed, naive, bytes);
  free(naive);
  free(packed);
}

static kvf_status move_from(const struct world_move *move, enum world_method method, const struct layout_link *link,
                            struct world_rank *source, struct world_counts *counts, kvf_error **error_out) {
  struct plan_cursor cursor;
  struct plan_totals totals, left;
  struct layout_piece piece;
  struct world_counts before = *counts;
  uint64_t bytes;
  kvf_status status = plan_cursor_init(&cursor, link, &move->range, &move->limits, error_out);
  if (status != KVF_OK) return status;
  plan_totals_get(&cursor, &totals);
  left = totals;
  while (plan_cursor_next(&cursor, &piece, &bytes)) {
    move_piece(move, method, link, source, &piece, bytes, counts);
    left.pieces--;
    left.bytes -= bytes;
    struct plan_totals now;
    plan_totals_get(&cursor, &now);
    assert_int_equal(now.pieces, left.pieces);
    assert_int_equal(now.bytes, left.bytes);
  }
  assert_false(plan_cursor_next(&cursor, &piece, &bytes));
  assert_int_equal(counts->pieces - before.pieces, totals.pieces);
  assert_int_equal(counts->bytes - before.bytes, totals.bytes);
  return KVF_OK;
}

kvf_status world_move_run(const struct world_move *move, enum world_method method, struct world_counts *counts_out,
                          kvf_error **error_out) {
  kvf_rank_planes sources[WORLD_RANKS] = {0}, target = {move->target->planes, move->target->plane_count, move->target->stage};
  struct layout_cuts cuts[WORLD_RANKS];
  struct world_counts counts = {0};
  const uint32_t source_count = move->sources->rank_count;
  for (uint32_t i = 0; i < source_count; i++)
    sources[i] =
        (kvf_rank_planes){move->sources->ranks[i].planes, move->sources->ranks[i].plane_count, move->sources->ranks[i].stage};
  kvf_status status = layout_cuts_build(sources, source_count, &target, move->target_rank, cuts, error_out);
  if (status != KVF_OK) return status;
  for (uint32_t i = 0; i < source_count; i++) {
    struct world_rank *source = &move->sources->ranks[i];
    const struct layout_link link = {source->planes, move->target->planes, cuts[i].cuts, cuts[i].count};
    assert_int_equal(layout_cuts_check(&cuts[i], &sources[i], &target, NULL), KVF_OK);
    uint64_t before = counts.bytes;
    if (status == KVF_OK) status = move_from(move, method, &link, source, &counts, error_out);
    counts.bytes_of[i] = counts.bytes - before;
  }
  for (uint32_t i = 0; i < source_count; i++) layout_cuts_fini(&cuts[i]);
  *counts_out = counts;
  return status;
}

void world_move_verify(const struct world_move *move, struct world_counts *counts_out) {
  struct world_rank *target = move->target;
  const struct plan_range *range = &move->range;
  uint64_t wanted = 0;
  for (uint32_t i = 0; i < target->plane_count; i++)
    if (target->planes[i].layer >= range->layer_first && target->planes[i].layer < range->layer_end)
      wanted += (range->token_end - range->token_first) * target->planes[i].head_count * target->planes[i].head_bytes;
  world_rank_blank(target);
  world_rank_write(target, range->token_first, range->token_end, range->layer_first, range->layer_end);
  uint8_t *expected = malloc(target->memory_bytes + 1);
  memcpy(expected, target->memory, target->memory_bytes);
  assert_int_equal(layout_pages_check(&target->pages, target->planes, target->plane_count, range->token_first, range->token_end,
                                      range->layer_first, range->layer_end, NULL),
                   KVF_OK);
  for (int method = WORLD_STAGED; method <= WORLD_PAIRS; method++) {
    struct world_counts counts;
    kvf_error *error = NULL;
    world_rank_blank(target);
    if (world_move_run(move, method, &counts, &error) != KVF_OK) {
      char text[2048];
      kvf_error_format(error, text, sizeof text);
      fail_msg("%s", text);
    }
    assert_int_equal(counts.bytes, wanted);
    assert_memory_equal(target->memory, expected, target->memory_bytes);
    if (method == WORLD_STAGED && counts_out) *counts_out = counts;
  }
  free(expected);
}
