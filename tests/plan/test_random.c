/* Random pairs of instances of random models: every kind of component, uneven and overlapping splits, stages, context parallelism
 * on either side, data parallel replicas, odd strides, unequal pages, prefixes, windows, chunks, layer ranges and limits, moved by
 * the code and compared with the oracle element by element. KVF_PAIRS sets how many, KVF_SEED which; KVF_LONG=1 means five million.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "plan/world.h"

enum { KINDS = 24, LAYERS = 4, TOKENS = 96, LEAD = 9 };

/* Page lists by what they are for. Those from LIST_RATIO on belong to compressed planes, by entry_tokens. */
enum { LIST_FULL, LIST_OTHER, LIST_WINDOW, LIST_SCALE, LIST_STATE, LIST_DRAFT, LIST_RATIO, LISTS = LIST_RATIO + 5 };
static const uint32_t ratios[] = {2, 3, 4, 8, 16};

/* What the model has: one array. */
struct kind {
  kvf_plane plane; /* what both sides agree on, and the list */
  uint32_t layer_index;
};

struct model {
  struct kind kinds[KINDS];
  uint32_t kind_count, layer_count;
};

/* How one side keeps the planes of one list. */
struct keeping {
  uint32_t page_tokens; /* of plain tokens */
  bool split;
  uint32_t token_block;
};

struct shape {
  uint32_t stages, copies, parts, ranks; /* pipeline, data, context and tensor parallel */
  uint32_t held;                         /* token parts that each rank holds, as planes of their own */
  uint32_t stage_of[LAYERS];
  uint32_t bounds[7]; /* of the heads over the tensor ranks, in hundredths */
  bool usual;
  struct keeping keeping[LISTS];
};

static uint64_t pair_seed, pair_index;
static struct world_counts moved; /* over all pairs */

static uint32_t pick(uint64_t *random, uint32_t count) {
  return (uint32_t)world_pick(random, count);
}
static bool chance(uint64_t *random, uint32_t percent) {
  return pick(random, 100) < percent;
}

static kvf_plane *add_kind(struct model *model, uint32_t layer, uint32_t role, uint32_t heads_total, uint32_t head_bytes,
                           uint32_t page_list) {
  struct kind *kind = &model->kinds[model->kind_count++];
  assert_true(model->kind_count <= KINDS);
  *kind = (struct kind){.layer_index = model->layer_count,
                        .plane = {.layer = layer,
                                  .role = role,
                                  .dtype = 1 + role % 7,
                                  .heads_total = heads_total,
                                  .head_bytes = head_bytes,
                                  .page_list = page_list}};
  return &kind->plane;
}

static const uint32_t head_counts[] = {1, 2, 3, 4, 6, 8}, widths[] = {1, 2, 3, 4, 8, 12, 16};

static uint32_t pick_width(uint64_t *random) {
  return widths[pick(random, 7)];
}

/* K and V of unequal width, perhaps with scales in rows of their own. */
static void add_attention(struct model *model, uint32_t layer, uint32_t heads, uint32_t width, uint32_t window, uint32_t list,
                          uint32_t component, uint64_t *random) {
  const uint32_t value_width = chance(random, 70) ? width : pick_width(random);
  kvf_plane *planes[4] = {add_kind(model, layer, KVF_ROLE_K, heads, width, list),
                          add_kind(model, layer, KVF_ROLE_V, heads, value_width, list)};
  if (chance(random, 20)) {
    planes[2] = add_kind(model, layer, KVF_ROLE_SCALE_K, heads, 2, window || component == KVF_COMPONENT_DRAFT ? list : LIST_SCALE);
    planes[3] = add_kind(model, layer, KVF_ROLE_SCALE_V, chance(random, 50) ? heads : 1, 4, planes[2]->page_list);
  }
  for (int i = 0; i < 4 && planes[i]; i++) {
    planes[i]->window_tokens = window;
    planes[i]->component = i > 1 && component == KVF_COMPONENT_MAIN ? KVF_COMPONENT_SCALE : component;
  }
}

/* One latent "head", perhaps an index beside it, perhaps compressed. */
static void add_latent(struct model *model, uint32_t layer, uint64_t *random) {
  const uint32_t ratio = chance(random, 50) ? pick(random, 5) : 5;
  const uint32_t list = ratio < 5 ? LIST_RATIO + ratio : LIST_FULL;
  kvf_plane *latent = add_kind(model, layer, KVF_ROLE_LATENT, 1, pick_width(random), list);
  if (ratio < 5) latent->entry_tokens = ratios[ratio];
  if (ratio < 5 && chance(random, 30)) latent->window_tokens = 1 + pick(random, 60);
  if (!chance(random, 50)) return;
  kvf_plane *index = add_kind(model, layer, KVF_ROLE_INDEX, 1, 4, list);
  index->component = KVF_COMPONENT_INDEX;
  index->entry_tokens = latent->entry_tokens;
}

/* x by its heads, B and C by groups that may be fewer than the ranks; the large one so large that it is cut by heads. */
static void add_state(struct model *model, uint32_t layer, uint64_t *random) {
  static const uint32_t part_heads[] = {8, 2, 2};
  for (uint32_t part = 0; part < 3; part++) {
    uint32_t width = part == 0 && chance(random, 4) ? 5000 : pick_width(random);
    kvf_plane *state = add_kind(model, layer, KVF_ROLE_STATE, part_heads[part], width, LIST_STATE);
    state->part = part;
    state->component = KVF_COMPONENT_STATE;
    state->per_request = 1;
  }
}

static void make_model(struct model *model, uint64_t *random) {
  *model = (struct model){0};
  uint32_t layers = 1 + pick(random, LAYERS), layer = pick(random, 4), heads = head_counts[pick(random, 6)],
           width = pick_width(random);
  const uint32_t window = 1 + pick(random, 60);
  for (; model->layer_count < layers; model->layer_count++, layer += 1 + pick(random, 3)) {
    if (chance(random, 20)) heads = head_counts[pick(random, 6)];
    if (chance(random, 10)) width = pick_width(random);
    const bool last = model->layer_count + 1 == layers;
    const uint32_t kind = pick(random, 100);
    if (last && layers > 1 && chance(random, 20))
      add_attention(model, layer, head_counts[pick(random, 6)], width, 0, LIST_DRAFT, KVF_COMPONENT_DRAFT, random);
    else if (kind < 25)
      add_latent(model, layer, random);
    else if (kind < 45)
      add_attention(model, layer, heads, width, window, LIST_WINDOW, KVF_COMPONENT_WINDOW, random);
    else if (kind < 55)
      add_state(model, layer, random);
    else
      add_attention(model, layer, heads, width, 0, chance(random, 80) ? LIST_FULL : LIST_OTHER, KVF_COMPONENT_MAIN, random);
  }
}

/* Strides from the inside out, with paddings; with @p twin, room for a second plane of the same shape at *twin_offset. */
static uint64_t shape_plane(kvf_plane *plane, bool twin, uint64_t *twin_offset, uint64_t *random) {
  static const uint8_t orders[6][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}};
  uint32_t order = chance(random, 90) ? pick(random, 2) : pick(random, 6), twin_level = pick(random, 3);
  uint64_t *strides[] = {&plane->head_stride_bytes, &plane->token_stride_bytes, &plane->page_stride_bytes};
  const uint32_t counts[] = {plane->head_count, plane->page_tokens, plane->page_count};
  bool padded = chance(random, 25);
  uint64_t span = plane->head_bytes;
  for (uint32_t level = 0; level < 3; level++) {
    uint32_t dimension = orders[order][level];
    if (twin && level == twin_level) {
      *twin_offset = span;
      span *= 2;
    }
    if (padded && chance(random, 50)) span += pick(random, 9);
    *strides[dimension] = span;
    span *= counts[dimension];
  }
  return span;
}

/* A plane of the kind, of which the rank keeps entries by @p keeping as part @p part of @p parts. */
static kvf_plane make_plane(const struct kind *kind, uint32_t head_first, uint32_t head_count, const struct keeping *keeping,
                            uint32_t part, uint32_t parts) {
  kvf_plane plane = kind->plane;
  plane.head_first = head_first;
  plane.head_count = head_count;
  plane.page_tokens = keeping->page_tokens;
  plane.page_count = (TOKENS + LEAD + plane.page_tokens - 1) / plane.page_tokens + 3;
  if (plane.per_request) {
    plane.page_tokens = 1;
    plane.page_count = 4;
  } else if (parts > 1) {
    plane.token_parts = parts;
    plane.token_part = part;
    plane.token_block = keeping->token_block;
  }
  return plane;
}

static void add_plane(struct world_rank *rank, kvf_plane plane, uint64_t *end, uint64_t *random) {
  kvf_plane *last = rank->plane_count > 0 ? &rank->planes[rank->plane_count - 1] : NULL;
  bool twin = last && last->role == KVF_ROLE_K && plane.role == KVF_ROLE_V && last->layer == plane.layer &&
              last->head_first == plane.head_first && last->head_count == plane.head_count &&
              last->head_bytes == plane.head_bytes && last->token_part == plane.token_part && chance(random, 40);
  uint64_t offset = *end + pick(random, 7), twin_offset = 0;
  if (twin) {
    offset = last->address;
    *end = offset + shape_plane(last, true, &twin_offset, random);
    plane.page_stride_bytes = last->page_stride_bytes;
    plane.token_stride_bytes = last->token_stride_bytes;
    plane.head_stride_bytes = last->head_stride_bytes;
  } else {
    *end = offset + shape_plane(&plane, false, &twin_offset, random);
  }
  plane.address = offset + twin_offset;
  assert_true(rank->plane_count < WORLD_PLANES);
  rank->planes[rank->plane_count++] = plane;
}

/* The heads that tensor rank @p rank holds: the usual split, or a random one that overlaps. */
static void split_heads(const struct kind *kind, const struct shape *shape, uint32_t rank, uint32_t *first_out, uint32_t *end_out,
                        uint64_t *random) {
  const uint32_t heads = kind->plane.heads_total;
  uint32_t count;
  if (shape->usual && kvf_heads_split(heads, rank, shape->ranks, first_out, &count, NULL) == KVF_OK) {
    *end_out = *first_out + count;
    return;
  }
  *first_out = heads * shape->bounds[rank] / 100;
  *end_out = heads * shape->bounds[rank + 1] / 100;
  if (chance(random, 30) && *first_out > 0) *first_out -= 1 + pick(random, *first_out);
  if (chance(random, 30) && *end_out < heads) *end_out += 1 + pick(random, heads - *end_out);
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

static void make_shape(struct shape *shape, const struct model *model, uint64_t *random) {
  static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 16}, blocks[] = {1, 2, 3, 5, 16};
  *shape = (struct shape){.stages = 1 + pick(random, 3),
                          .copies = chance(random, 10) ? 2 : 1,
                          .parts = chance(random, 30) ? 2 + pick(random, 3) : 1,
                          .held = chance(random, 15) ? 2 : 1,
                          .usual = chance(random, 50)};
  shape->ranks = 1 + pick(random, shape->parts * shape->copies > 2 ? 2 : 5);
  for (uint32_t i = 0; i < model->layer_count; i++) shape->stage_of[i] = pick(random, shape->stages);
  for (uint32_t i = 0; i <= shape->ranks; i++) shape->bounds[i] = pick(random, 101);
  qsort(shape->bounds, shape->ranks + 1, sizeof *shape->bounds, compare_numbers);
  shape->bounds[0] = 0;
  shape->bounds[shape->ranks] = 100;
  bool one_size = chance(random, 50);
  for (int i = 0; i < LISTS; i++) {
    struct keeping *keeping = &shape->keeping[i];
    keeping->page_tokens = i > 0 && one_size ? shape->keeping[0].page_tokens : sizes[pick(random, 7)];
    keeping->split = chance(random, 70);
    keeping->token_block = chance(random, 40) ? keeping->page_tokens : blocks[pick(random, 5)];
    if (chance(random, 10)) keeping->token_block = 0;
  }
}

/* The entries of rank @p part of the heads [first, end) of one array, now and then as two planes. */
static void add_planes(struct world_rank *rank, const struct kind *kind, const struct shape *shape, uint32_t part, uint32_t first,
                       uint32_t end, uint64_t *bytes, uint64_t *random) {
  const struct keeping *keeping = &shape->keeping[kind->plane.page_list];
  const bool split = keeping->split && shape->parts > 1 && !kind->plane.per_request;
  uint32_t middle = first + 1 < end && chance(random, 20) ? first + 1 + pick(random, end - first - 1) : end;
  const uint32_t held = split ? shape->held : 1, parts = split ? shape->parts * held : 1;
  for (uint32_t i = 0; i < held; i++) {
    const uint32_t number = i * shape->parts + part;
    if (middle > first) add_plane(rank, make_plane(kind, first, middle - first, keeping, number, parts), bytes, random);
    if (end > middle) add_plane(rank, make_plane(kind, middle, end - middle, keeping, number, parts), bytes, random);
  }
}

static void make_rank(struct world_rank *rank, uint32_t number, const struct model *model, const struct shape *shape,
                      uint64_t *random) {
  const uint32_t tensor = number % shape->ranks, part = number / shape->ranks % shape->parts;
  uint64_t bytes = 0;
  rank->plane_count = 0;
  memset(rank->numbers, 0, sizeof rank->numbers);
  rank->pages = (struct layout_pages){0};
  rank->stage = number / shape->ranks / shape->parts / shape->copies;
  for (uint32_t k = 0; k < model->kind_count; k++) {
    const struct kind *kind = &model->kinds[k];
    uint32_t first, end;
    if (shape->stage_of[kind->layer_index] != rank->stage) continue;
    split_heads(kind, shape, tensor, &first, &end, random);
    add_planes(rank, kind, shape, part, first, end, &bytes, random);
  }
  world_rank_bind(rank, bytes + pick(random, 5));
}

static void make_side(struct world_side *side, const struct model *model, uint64_t *random) {
  struct shape shape;
  make_shape(&shape, model, random);
  side->rank_count = shape.stages * shape.copies * shape.parts * shape.ranks;
  assert_true(side->rank_count <= WORLD_RANKS);
  for (uint32_t i = 0; i < side->rank_count; i++) make_rank(&side->ranks[i], i, model, &shape, random);
}

static struct plan_limits make_limits(const struct world_rank *target, uint64_t *random) {
  uint64_t token_bytes = 1, heads = 1;
  for (uint32_t i = 0; i < target->plane_count; i++) {
    const kvf_plane *plane = &target->planes[i];
    if ((uint64_t)plane->head_count * plane->head_bytes > token_bytes)
      token_bytes = (uint64_t)plane->head_count * plane->head_bytes;
    if (plane->head_count > heads) heads = plane->head_count;
  }
  struct plan_limits limits = {.piece_bytes = token_bytes + world_pick(random, token_bytes * (chance(random, 50) ? 8 : 200))};
  if (chance(random, 50)) limits.piece_rows = (uint32_t)heads + pick(random, 40);
  return limits;
}

static struct plan_range make_range(uint64_t first, uint64_t end, uint64_t *random) {
  struct plan_range range = {first, end, 0, UINT32_MAX, first, end, true};
  if (chance(random, 40)) return range;
  if (chance(random, 40)) range.token_first += world_pick(random, end - first + 1);
  if (chance(random, 40)) range.token_end = range.token_first + world_pick(random, end - range.token_first + 1);
  if (chance(random, 30)) range.layer_first = pick(random, 8);
  if (chance(random, 30)) range.layer_end = range.layer_first + pick(random, 8);
  range.per_request = chance(random, 50);
  return range;
}

static void move_one_pair(uint64_t seed) {
  uint64_t random = base_mix_u64(seed);
  struct model model;
  static struct world_side sources, targets;
  make_model(&model, &random);
  make_side(&sources, &model, &random);
  make_side(&targets, &model, &random);
  uint64_t first = chance(&random, 50) ? pick(&random, TOKENS) : 0, end = first + world_pick(&random, TOKENS - first + 1);
  uint32_t target_rank = pick(&random, targets.rank_count);
  struct world_rank *target = &targets.ranks[target_rank];
  for (uint32_t i = 0; i < sources.rank_count; i++) {
    struct world_rank *source = &sources.ranks[i];
    world_rank_lists(source, chance(&random, 50) ? first : 0, end, LEAD, &random);
    world_rank_blank(source);
    world_rank_write(source, 0, end);
  }
  world_rank_lists(target, first, end, LEAD, &random);
  struct world_move move = {.sources = &sources,
                            .target = target,
                            .target_rank = target_rank,
                            .range = make_range(first, end, &random),
                            .limits = make_limits(target, &random),
                            .random = &random};
  if (chance(&random, 40)) move.chunk_count = 1 + pick(&random, WORLD_CHUNKS);
  for (uint32_t i = 0; i < move.chunk_count; i++) {
    uint64_t from = i > 0 ? move.chunk_ends[i - 1] : move.range.token_first;
    move.chunk_ends[i] =
        i + 1 == move.chunk_count ? move.range.token_end : from + world_pick(&random, move.range.token_end - from + 1);
  }
  struct world_counts counts;
  world_move_verify(&move, &counts);
  moved.pieces += counts.pieces;
  moved.bytes += counts.bytes;
  moved.slices += counts.slices;
  world_side_fini(&sources);
  world_side_fini(&targets);
}

static void random_pairs_move_every_element_and_nothing_else(void **state) {
  const char *text = getenv("KVF_PAIRS");
  uint64_t pairs = text ? strtoull(text, NULL, 0) : getenv("KVF_LONG") ? 5000000 : 40000;
  pair_seed = world_seed();
  for (pair_index = 0; pair_index < pairs; pair_index++) move_one_pair(pair_seed + pair_index);
  print_message("%llu pairs: %llu bytes, %llu pieces, %llu rows\n", (unsigned long long)pairs, (unsigned long long)moved.bytes,
                (unsigned long long)moved.pieces, (unsigned long long)moved.slices);
  if (pairs >= 1000) assert_true(moved.bytes > pairs * 100 && moved.pieces > pairs * 2);
}

static int tell_pair(void **state) {
  print_message("ended at pair %llu: KVF_SEED=%llu KVF_PAIRS=1 runs it alone\n", (unsigned long long)pair_index,
                (unsigned long long)(pair_seed + pair_index));
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(random_pairs_move_every_element_and_nothing_else, tell_pair)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
