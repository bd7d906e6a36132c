/* Random pairs of instances: uneven and overlapping splits, stages, odd strides, unequal pages, prefixes, layer ranges and limits,
 * moved by the code and compared with the oracle element by element. KVF_PAIRS sets how many, KVF_SEED which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "plan/world.h"

enum { KINDS = 16, TOKENS = 96, LEAD = 9 };

/* What the model has: one (layer, role). */
struct kind {
  uint32_t layer, role, dtype, heads_total, head_bytes, page_list;
  uint32_t layer_index;
};

struct model {
  struct kind kinds[KINDS];
  uint32_t kind_count, layer_count;
};

static uint64_t pair_seed, pair_index;
static struct world_counts moved; /* over all pairs */

static uint32_t pick(uint64_t *random, uint32_t count) {
  return (uint32_t)world_pick(random, count);
}
static bool chance(uint64_t *random, uint32_t percent) {
  return pick(random, 100) < percent;
}

static void add_kind(struct model *model, uint32_t layer, uint32_t role, uint32_t heads_total, uint32_t head_bytes,
                     uint32_t page_list) {
  model->kinds[model->kind_count++] = (struct kind){.layer = layer,
                                                    .role = role,
                                                    .dtype = 1 + role % 7,
                                                    .heads_total = heads_total,
                                                    .head_bytes = head_bytes,
                                                    .page_list = page_list,
                                                    .layer_index = model->layer_count};
}

static void make_model(struct model *model, uint64_t *random) {
  static const uint32_t head_counts[] = {1, 2, 3, 4, 6, 8}, widths[] = {1, 2, 3, 4, 8, 12, 16};
  *model = (struct model){0};
  uint32_t layers = 1 + pick(random, 3), layer = pick(random, 4), heads = head_counts[pick(random, 6)],
           width = widths[pick(random, 7)];
  for (; model->layer_count < layers; model->layer_count++, layer += 1 + pick(random, 3)) {
    uint32_t list = chance(random, 30) ? pick(random, WORLD_LISTS) : 0;
    if (chance(random, 25)) {
      add_kind(model, layer, KVF_ROLE_LATENT, 1, widths[pick(random, 7)], list);
      if (chance(random, 50)) add_kind(model, layer, KVF_ROLE_INDEX, 1, 4, list);
      continue;
    }
    if (chance(random, 20)) heads = head_counts[pick(random, 6)];
    add_kind(model, layer, KVF_ROLE_K, heads, width, list);
    add_kind(model, layer, KVF_ROLE_V, heads, chance(random, 80) ? width : widths[pick(random, 7)], list);
    if (chance(random, 20)) add_kind(model, layer, KVF_ROLE_SCALE_K, heads, 2, list);
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

static void add_plane(struct world_rank *rank, const struct kind *kind, uint32_t head_first, uint32_t head_count,
                      const uint32_t *page_tokens, uint64_t *end, uint64_t *random) {
  uint32_t tokens = page_tokens[kind->page_list], least = (TOKENS + LEAD + tokens - 1) / tokens;
  kvf_plane plane = {.layer = kind->layer,
                     .role = kind->role,
                     .dtype = kind->dtype,
                     .page_list = kind->page_list,
                     .heads_total = kind->heads_total,
                     .head_first = head_first,
                     .head_count = head_count,
                     .head_bytes = kind->head_bytes,
                     .page_tokens = tokens,
                     .page_count = least + 3};
  kvf_plane *last = rank->plane_count > 0 ? &rank->planes[rank->plane_count - 1] : NULL;
  bool twin = last && last->role == KVF_ROLE_K && plane.role == KVF_ROLE_V && last->layer == plane.layer &&
              last->head_first == head_first && last->head_count == head_count && last->head_bytes == plane.head_bytes &&
              chance(random, 40);
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
static void split_heads(const struct kind *kind, uint32_t ranks, const uint32_t *bounds, bool usual, uint32_t rank,
                        uint32_t *first_out, uint32_t *end_out, uint64_t *random) {
  uint32_t count;
  if (usual && kvf_heads_split(kind->heads_total, rank, ranks, first_out, &count, NULL) == KVF_OK) {
    *end_out = *first_out + count;
    return;
  }
  *first_out = kind->heads_total * bounds[rank] / 100;
  *end_out = kind->heads_total * bounds[rank + 1] / 100;
  if (chance(random, 30) && *first_out > 0) *first_out -= 1 + pick(random, *first_out);
  if (chance(random, 30) && *end_out < kind->heads_total) *end_out += 1 + pick(random, kind->heads_total - *end_out);
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

static void make_side(struct world_side *side, const struct model *model, uint64_t *random) {
  static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 16};
  uint32_t stages = 1 + pick(random, model->layer_count), ranks = 1 + pick(random, 5), stage_of[4], bounds[WORLD_RANKS + 1];
  uint32_t page_tokens[WORLD_LISTS];
  bool usual = chance(random, 50), one_size = chance(random, 50);
  for (int i = 0; i < WORLD_LISTS; i++) page_tokens[i] = i > 0 && one_size ? page_tokens[0] : sizes[pick(random, 7)];
  for (uint32_t i = 0; i < model->layer_count; i++) stage_of[i] = pick(random, stages);
  for (uint32_t i = 0; i <= ranks; i++) bounds[i] = pick(random, 101);
  qsort(bounds, ranks + 1, sizeof *bounds, compare_numbers);
  bounds[0] = 0;
  bounds[ranks] = 100;
  *side = (struct world_side){.rank_count = ranks * stages};
  for (uint32_t i = 0; i < side->rank_count; i++) {
    struct world_rank *rank = &side->ranks[i];
    uint64_t end = 0;
    rank->stage = i / ranks;
    for (uint32_t k = 0; k < model->kind_count; k++) {
      const struct kind *kind = &model->kinds[k];
      uint32_t first, last;
      if (stage_of[kind->layer_index] != rank->stage) continue;
      split_heads(kind, ranks, bounds, usual, i % ranks, &first, &last, random);
      uint32_t middle = first + 1 < last && chance(random, 20) ? first + 1 + pick(random, last - first - 1) : last;
      if (middle > first) add_plane(rank, kind, first, middle - first, page_tokens, &end, random);
      if (last > middle) add_plane(rank, kind, middle, last - middle, page_tokens, &end, random);
    }
    world_rank_bind(rank, end + pick(random, 5));
  }
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

static void move_one_pair(uint64_t seed) {
  uint64_t random = base_mix_u64(seed);
  struct model model;
  static struct world_side sources, targets;
  make_model(&model, &random);
  make_side(&sources, &model, &random);
  make_side(&targets, &model, &random);
  uint64_t first = chance(&random, 50) ? pick(&random, TOKENS) : 0, end = first + 1 + world_pick(&random, TOKENS - first);
  uint32_t target_rank = pick(&random, targets.rank_count);
  struct world_rank *target = &targets.ranks[target_rank];
  for (uint32_t i = 0; i < sources.rank_count; i++) {
    struct world_rank *source = &sources.ranks[i];
    world_rank_lists(source, chance(&random, 50) ? first : 0, end, LEAD, &random);
    world_rank_blank(source);
    world_rank_write(source, first, end, 0, UINT32_MAX);
  }
  world_rank_lists(target, first, end, LEAD, &random);
  /* A chunk or the whole, some layers or all. */
  struct plan_range range = {.token_first = first, .token_end = end, .layer_end = UINT32_MAX};
  if (chance(&random, 40)) range.token_first += world_pick(&random, end - first);
  if (chance(&random, 40)) range.token_end = range.token_first + 1 + world_pick(&random, end - range.token_first);
  if (chance(&random, 30)) range.layer_first = pick(&random, 8);
  if (chance(&random, 30)) range.layer_end = range.layer_first + pick(&random, 8);
  const struct world_move move = {.sources = &sources,
                                  .target = target,
                                  .target_rank = target_rank,
                                  .range = range,
                                  .limits = make_limits(target, &random),
                                  .random = &random};
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
  uint64_t pairs = text ? strtoull(text, NULL, 0) : 40000;
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
