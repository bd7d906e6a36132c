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

/* @p count distinct pages below @p pool_pages. */
static void make_list(struct world_rank *rank, uint32_t list, uint32_t count, uint32_t pool_pages, uint64_t first_token,
                      uint64_t *random) {
  uint32_t *all = malloc(pool_pages * sizeof *all);
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

void world_rank_list(struct world_rank *rank, uint32_t list, uint32_t page_tokens, uint32_t pool_pages, uint64_t first_token,
                     uint64_t token_end, uint64_t *random) {
  make_list(rank, list, (uint32_t)((token_end - first_token + page_tokens - 1) / page_tokens), pool_pages, first_token, random);
}

/* ---- plane.h's words about entries, one entry at a time ---- */

static uint64_t entry_tokens(const kvf_plane *plane) {
  return plane->entry_tokens ? plane->entry_tokens : 1;
}
static uint64_t entry_of(const kvf_plane *plane, uint64_t token) {
  return token / entry_tokens(plane);
}
static uint64_t block_of(const kvf_plane *plane) {
  return plane->token_block ? plane->token_block : 1;
}
static bool owns(const kvf_plane *plane, uint64_t entry) {
  return plane->token_parts <= 1 || entry / block_of(plane) % plane->token_parts == plane->token_part;
}

/* Is an entry among those that a room wants? */
static bool room_wants(const kvf_plane *plane, uint64_t room_first, uint64_t room_end, uint64_t entry) {
  bool in_window = plane->window_tokens == 0 || (entry + 1) * entry_tokens(plane) + plane->window_tokens > room_end;
  return in_window && entry >= entry_of(plane, room_first) && entry < entry_of(plane, room_end);
}
static bool range_wants(const kvf_plane *plane, const struct plan_range *range, uint64_t entry) {
  if (plane->per_request) return range->per_request && entry == 0;
  return plane->layer >= range->layer_first && plane->layer < range->layer_end && owns(plane, entry) &&
         room_wants(plane, range->room_first, range->room_end, entry) && entry >= entry_of(plane, range->token_first) &&
         entry < entry_of(plane, range->token_end);
}

static uint32_t count_slots(const kvf_plane *plane, uint64_t first_token, uint64_t token_end) {
  uint32_t slots = 0;
  for (uint64_t entry = entry_of(plane, first_token); entry < entry_of(plane, token_end); entry++) slots += owns(plane, entry);
  return slots;
}

/* The first token that some plane of a list needs. */
static uint64_t first_needed(const struct world_rank *rank, uint32_t list, uint64_t token_first, uint64_t token_end) {
  uint64_t first = token_end;
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    if (plane->page_list != list) continue;
    uint64_t entry = entry_of(plane, token_first);
    while (entry < entry_of(plane, token_end) && !room_wants(plane, token_first, token_end, entry)) entry++;
    uint64_t token = entry * entry_tokens(plane);
    if (token < token_first) token = token_first;
    if (token < first) first = token;
  }
  return first;
}

void world_rank_lists(struct world_rank *rank, uint64_t token_first, uint64_t token_end, uint32_t lead, uint64_t *random) {
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const uint32_t list = rank->planes[i].page_list;
    uint64_t back = world_pick(random, lead + 1), first = first_needed(rank, list, token_first, token_end);
    uint32_t pages = 1, pool = UINT32_MAX;
    if (rank->numbers[list]) continue;
    first -= back < first ? back : first;
    for (uint32_t k = i; k < rank->plane_count; k++) {
      const kvf_plane *plane = &rank->planes[k];
      if (plane->page_list != list) continue;
      uint32_t slots = plane->per_request ? 1 : count_slots(plane, first, token_end);
      uint32_t needed = (slots + plane->page_tokens - 1) / plane->page_tokens;
      if (needed > pages) pages = needed;
      if (plane->page_count < pool) pool = plane->page_count;
    }
    make_list(rank, list, pages, pool, first, random);
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

/* NULL for an entry before the list. */
static uint8_t *find_element(const struct world_rank *rank, const kvf_plane *plane, uint32_t head, uint64_t entry) {
  const kvf_page_list *list = &rank->pages.lists[plane->page_list];
  uint64_t slot = 0;
  if (!plane->per_request) {
    uint64_t first = entry_of(plane, list->first_token), block = block_of(plane);
    while (!owns(plane, first)) first++;
    if (entry < first) return NULL;
    slot = entry - first;
    if (plane->token_parts > 1) {
      uint64_t period = plane->token_parts * block;
      slot = entry / period * block + entry % block - (first / period * block + first % block);
    }
  }
  uint64_t page = list->pages[slot / plane->page_tokens];
  uint64_t address = plane->address + page * plane->page_stride_bytes + slot % plane->page_tokens * plane->token_stride_bytes +
                     (head - plane->head_first) * plane->head_stride_bytes;
  return (uint8_t *)(uintptr_t)address;
}

static void write_pattern(uint8_t *element, const kvf_plane *plane, uint32_t head, uint64_t entry) {
  uint64_t array = (uint64_t)plane->layer << 40 | (uint64_t)plane->role << 32 | plane->part << 16;
  uint64_t name = base_mix_u64((array | head) ^ base_mix_u64(entry));
  for (uint32_t i = 0; element && i < plane->head_bytes; i++) {
    if (i > 0 && i % 8 == 0) name = name * 0x9e3779b97f4a7c15ull + i;
    element[i] = (uint8_t)(name >> (i % 8 * 8));
  }
}

void world_rank_blank(struct world_rank *rank) {
  for (size_t i = 0; i < rank->memory_bytes; i++) rank->memory[i] = (uint8_t)(i * 37 + (i >> 8) * 11 + 201);
}

void world_rank_write(struct world_rank *rank, uint64_t token_first, uint64_t token_end) {
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    uint64_t first = plane->per_request ? 0 : entry_of(plane, token_first);
    uint64_t end = plane->per_request ? 1 : entry_of(plane, token_end);
    for (uint64_t entry = first; entry < end; entry++)
      for (uint32_t head = plane->head_first; owns(plane, entry) && head < plane->head_first + plane->head_count; head++)
        write_pattern(find_element(rank, plane, head, entry), plane, head, entry);
  }
}

/* Write what a range wants of the rank. Returns its bytes. */
static uint64_t write_wanted(struct world_rank *rank, const struct plan_range *range) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    for (uint64_t entry = 0; entry == 0 || entry < entry_of(plane, range->token_end); entry++) {
      if (!range_wants(plane, range, entry)) continue;
      for (uint32_t head = plane->head_first; head < plane->head_first + plane->head_count; head++) {
        write_pattern(find_element(rank, plane, head, entry), plane, head, entry);
        bytes += plane->head_bytes;
      }
    }
  }
  return bytes;
}

/* ---- moving ---- */

/* The packed form of a piece by the words of block.h. */
static uint8_t *pack_naively(const struct layout_link *link, const struct world_rank *rank, enum layout_side side,
                             const struct layout_piece *piece, uint64_t bytes) {
  uint8_t *packed = malloc(bytes + 1), *place = packed;
  for (uint32_t cut = piece->cut_first; cut < piece->cut_first + piece->cut_count; cut++) {
    const struct layout_cut *what = &link->cuts[cut];
    const kvf_plane *source = &link->source_planes[what->source_plane], *target = &link->target_planes[what->target_plane];
    const kvf_plane *plane = side == LAYOUT_SOURCE ? source : target;
    const uint64_t heads = what->head_count;
    uint64_t entries[4096], count = 0, first = entry_of(plane, piece->token_first);
    uint64_t end = entry_of(plane, piece->token_first + piece->token_count);
    assert_true(end - first <= 4096);
    for (uint64_t entry = first; entry < end; entry++)
      if (owns(source, entry) && owns(target, entry)) entries[count++] = entry;
    bool head_major = layout_cut_head_major(link, cut);
    for (uint64_t i = 0; i < count * heads; i++, place += plane->head_bytes) {
      uint64_t head = head_major ? i / count : i % heads, entry = entries[head_major ? i % count : i / heads];
      memcpy(place, find_element(rank, plane, what->head_first + (uint32_t)head, entry), plane->head_bytes);
    }
  }
  assert_int_equal(place - packed, bytes);
  return packed;
}

static void expect_inside(const struct world_rank *rank, uint64_t address, uint64_t bytes) {
  assert_true(address - (uintptr_t)rank->memory <= rank->memory_bytes);
  assert_true(bytes <= rank->memory_bytes - (address - (uintptr_t)rank->memory));
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
        expect_inside(rank, (uintptr_t)page, block->row_bytes);
        uint8_t *place = packed + block->packed_offset + row * block->packed_stride;
        memcpy(side == LAYOUT_SOURCE ? place : page, side == LAYOUT_SOURCE ? page : place, block->row_bytes);
      }
      rows += block->row_count;
      offset += block->row_count * block->row_bytes;
    }
  }
  assert_int_equal(layout_walk_next(&walk, blocks, capacity), 0);
  bool split = false;
  for (uint32_t cut = piece->cut_first; cut < piece->cut_first + piece->cut_count; cut++)
    split = split || link->source_planes[link->cuts[cut].source_plane].token_parts > 1 ||
            link->target_planes[link->cuts[cut].target_plane].token_parts > 1;
  uint64_t slices = layout_piece_slices(link, side, &rank->pages, piece);
  assert_true(split ? slices > 0 && slices <= offset : slices == rows);
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
      for (uint64_t row = 0; row < pairs[i].row_count; row++, bytes += pairs[i].row_bytes) {
        uint64_t to = pairs[i].target_address + row * pairs[i].target_stride;
        uint64_t from = pairs[i].source_address + row * pairs[i].source_stride;
        expect_inside(target, to, pairs[i].row_bytes);
        expect_inside(source, from, pairs[i].row_bytes);
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, pairs[i].row_bytes);
      }
  }
  assert_int_equal(bytes, piece_bytes);
}

/* What a receiver asks of a piece: of every cut only what its room wants; slots by themselves; pages on both sides. */
static void expect_sound(const struct world_move *move, const struct layout_link *link, const struct world_rank *source,
                         const struct layout_piece *piece) {
  const struct plan_range *range = &move->range;
  const bool slot = link->source_planes[link->cuts[piece->cut_first].source_plane].per_request;
  for (uint32_t cut = piece->cut_first; cut < piece->cut_first + piece->cut_count; cut++) {
    uint64_t first, end;
    layout_cut_range(link, cut, range->room_first, range->room_end, &first, &end);
    assert_true(piece->token_first >= first && piece->token_first + piece->token_count <= end);
    assert_int_equal(link->source_planes[link->cuts[cut].source_plane].per_request, slot);
  }
  assert_int_equal(layout_piece_check_pages(link, LAYOUT_SOURCE, &source->pages, piece, NULL), KVF_OK);
  assert_int_equal(layout_piece_check_pages(link, LAYOUT_TARGET, &move->target->pages, piece, NULL), KVF_OK);
}

static void move_piece(const struct world_move *move, enum world_method method, const struct layout_link *link,
                       struct world_rank *source, const struct layout_piece *piece, uint64_t bytes, struct world_counts *counts) {
  uint64_t said;
  assert_true(layout_piece_bytes(link, piece, &said));
  assert_int_equal(said, bytes);
  assert_true(bytes > 0 && bytes <= move->limits.piece_bytes);
  expect_sound(move, link, source, piece);
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

static kvf_status move_range(const struct world_move *move, enum world_method method, const struct layout_link *link,
                             struct world_rank *source, const struct plan_range *range, struct world_counts *counts,
                             kvf_error **error_out) {
  struct plan_cursor cursor;
  struct plan_totals totals, left;
  struct layout_piece piece;
  struct world_counts before = *counts;
  uint64_t bytes;
  kvf_status status = plan_cursor_init(&cursor, link, range, &move->limits, error_out);
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

/* In one go or chunk by chunk, the slots with the last one. */
static kvf_status move_from(const struct world_move *move, enum world_method method, const struct layout_link *link,
                            struct world_rank *source, struct world_counts *counts, kvf_error **error_out) {
  const struct plan_range *range = &move->range;
  kvf_status status = KVF_OK;
  if (move->chunk_count == 0) return move_range(move, method, link, source, range, counts, error_out);
  for (uint32_t i = 0; i < move->chunk_count && status == KVF_OK; i++) {
    struct plan_range chunk = *range;
    if (i > 0) chunk.token_first = move->chunk_ends[i - 1];
    chunk.token_end = move->chunk_ends[i];
    chunk.per_request = range->per_request && i + 1 == move->chunk_count;
    status = move_range(move, method, link, source, &chunk, counts, error_out);
  }
  return status;
}

/* Room bytes over all sources, when the range is all that the room wants. */
static void expect_room_bytes(const struct world_move *move, const struct layout_link *link, uint64_t bytes) {
  const struct plan_range *range = &move->range;
  bool whole = range->token_first == range->room_first && range->token_end == range->room_end && range->per_request &&
               range->layer_first == 0 && range->layer_end == UINT32_MAX;
  if (whole) assert_int_equal(layout_room_bytes(link, range->room_first, range->room_end), bytes);
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
    if (status == KVF_OK) expect_room_bytes(move, &link, counts.bytes_of[i]);
  }
  for (uint32_t i = 0; i < source_count; i++) layout_cuts_fini(&cuts[i]);
  *counts_out = counts;
  return status;
}

void world_move_verify(const struct world_move *given, struct world_counts *counts_out) {
  struct world_move copy = *given;
  const struct world_move *move = &copy;
  struct world_rank *target = move->target;
  struct plan_range *range = &copy.range;
  if (range->room_end == 0) {
    range->room_first = range->token_first;
    range->room_end = range->token_end;
  }
  world_rank_blank(target);
  uint64_t wanted = write_wanted(target, range);
  uint8_t *expected = malloc(target->memory_bytes + 1);
  memcpy(expected, target->memory, target->memory_bytes);
  const struct layout_demand demand = {range->room_first, range->room_end, range->layer_first, range->layer_end, true, true};
  assert_int_equal(layout_pages_check(&target->pages, target->planes, target->plane_count, &demand, NULL), KVF_OK);
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
