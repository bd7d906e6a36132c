/* Published models and field cases beyond plain attention: windows, latents, index keys, scales, states, draft and compressed
 * layers, with their real heads, widths and windows but few layers, moved with real bytes between many shapes of instances. Numbers
 * in comments are the cases'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/world.h"

enum { KINDS = 16 };

/* Page lists: full attention, windows, scales, states, and compressed layers by ratio. */
enum { FULL, WINDOW, SCALE, STATE, RATIO_4, RATIO_128 };

struct kind {
  uint32_t layer, role, heads, head_bytes, list;
  uint32_t part, component, entry_tokens, window_tokens, per_request;
};

struct model {
  const char *name;
  struct kind kinds[KINDS]; /* ends with heads 0 */
};

/* How an instance is cut up. */
struct shape {
  uint32_t tensor, context, copies;
  uint32_t stage_ends[3]; /* the first layer after each stage; ends with 0, which is one stage of all */
  uint32_t page_tokens, token_block, layout;
};

static struct world_side sources, targets;
static uint64_t random_state = 7;

static uint32_t stage_of(const struct shape *shape, uint32_t layer) {
  uint32_t stage = 0;
  while (stage < 3 && shape->stage_ends[stage] && layer >= shape->stage_ends[stage]) stage++;
  return stage;
}

static uint32_t count_stages(const struct shape *shape) {
  uint32_t stages = 1;
  while (stages < 4 && shape->stage_ends[stages - 1]) stages++;
  return stages;
}

static kvf_plane make_plane(const struct kind *kind, const struct shape *shape, uint32_t tensor, uint32_t context, uint64_t *end) {
  const uint32_t ratio = kind->entry_tokens ? kind->entry_tokens : 1;
  kvf_plane plane = {.layer = kind->layer,
                     .role = kind->role,
                     .dtype = KVF_DTYPE_BF16,
                     .page_list = kind->list,
                     .heads_total = kind->heads,
                     .head_bytes = kind->head_bytes,
                     .page_tokens = kind->per_request            ? 1
                                    : shape->page_tokens / ratio ? shape->page_tokens / ratio
                                                                 : 1,
                     .part = kind->part,
                     .component = kind->component,
                     .entry_tokens = kind->entry_tokens,
                     .window_tokens = kind->window_tokens,
                     .per_request = kind->per_request};
  if (kind->heads % shape->tensor == 0 || shape->tensor % kind->heads == 0)
    assert_int_equal(kvf_heads_split(kind->heads, tensor, shape->tensor, &plane.head_first, &plane.head_count, NULL), KVF_OK);
  else
    plane.head_count = kind->heads; /* replicated */
  if (shape->context > 1 && !kind->per_request && !kind->window_tokens) {
    plane.token_parts = shape->context;
    plane.token_part = context;
    plane.token_block = shape->token_block;
  }
  const uint64_t row = (uint64_t)plane.head_count * plane.head_bytes;
  plane.page_count = kind->per_request ? 5 : 420 / plane.page_tokens / ratio + 6;
  plane.page_stride_bytes = row * plane.page_tokens;
  plane.token_stride_bytes = shape->layout == KVF_LAYOUT_HND ? plane.head_bytes : row;
  plane.head_stride_bytes = shape->layout == KVF_LAYOUT_HND ? (uint64_t)plane.head_bytes * plane.page_tokens : plane.head_bytes;
  plane.address = *end;
  *end += plane.page_stride_bytes * plane.page_count + 64; /* a gap, so that nothing writes beyond unnoticed */
  return plane;
}

static void make_side(struct world_side *side, const struct model *model, const struct shape *shape) {
  const uint32_t group = shape->tensor * shape->context * shape->copies;
  memset(side, 0, sizeof *side);
  side->rank_count = group * count_stages(shape);
  assert_true(side->rank_count <= WORLD_RANKS);
  for (uint32_t i = 0; i < side->rank_count; i++) {
    struct world_rank *rank = &side->ranks[i];
    uint64_t end = 0;
    rank->stage = i / group;
    for (const struct kind *kind = model->kinds; kind->heads; kind++)
      if (stage_of(shape, kind->layer) == rank->stage)
        rank->planes[rank->plane_count++] = make_plane(kind, shape, i % shape->tensor, i / shape->tensor % shape->context, &end);
    world_rank_bind(rank, end);
  }
}

static void end_sides(void) {
  world_side_fini(&sources);
  world_side_fini(&targets);
}

static void fill_sources(uint64_t first, uint64_t end) {
  for (uint32_t i = 0; i < sources.rank_count; i++) {
    world_rank_lists(&sources.ranks[i], first, end, 5, &random_state);
    world_rank_blank(&sources.ranks[i]);
    world_rank_write(&sources.ranks[i], 0, end);
  }
}

/* Moves [first, end) to one rank in chunks that end at @p chunk_end and at the end. */
static struct world_counts move_to(uint32_t rank, uint64_t first, uint64_t chunk_end, uint64_t end) {
  struct world_counts counts;
  struct world_move move = {.sources = &sources,
                            .target = &targets.ranks[rank],
                            .target_rank = rank,
                            .range = {first, end, 0, UINT32_MAX, first, end, true},
                            .chunk_ends = {chunk_end, end},
                            .chunk_count = 2,
                            .limits = {.piece_bytes = 64 << 10},
                            .random = &random_state};
  world_rank_lists(&targets.ranks[rank], first, end, 5, &random_state);
  world_move_verify(&move, &counts);
  return counts;
}

#define STATE_PART(layer, part, heads, bytes) \
  { layer, KVF_ROLE_STATE, heads, bytes, STATE, part, KVF_COMPONENT_STATE, 0, 0, 1 }
#define WINDOWED(layer, role, heads, bytes, window) \
  { layer, role, heads, bytes, WINDOW, 0, KVF_COMPONENT_WINDOW, 0, window, 0 }

static const struct model models[] = {
    {"gpt-oss-120b: alternating windows of 128, two lists",
     {WINDOWED(0, KVF_ROLE_K, 8, 128, 128),
      WINDOWED(0, KVF_ROLE_V, 8, 128, 128),
      {1, KVF_ROLE_K, 8, 128, FULL},
      {1, KVF_ROLE_V, 8, 128, FULL},
      WINDOWED(2, KVF_ROLE_K, 8, 128, 128),
      WINDOWED(2, KVF_ROLE_V, 8, 128, 128)}},
    {"gemma-4-26B: heads and width differ by layer, a window longer than the prompt",
     {WINDOWED(0, KVF_ROLE_K, 8, 512, 1024),
      WINDOWED(0, KVF_ROLE_V, 8, 512, 1024),
      {5, KVF_ROLE_K, 2, 1024, FULL},
      {5, KVF_ROLE_V, 2, 1024, FULL}}},
    {"MiMo-V2-Flash: K of 192 and V of 128, heads differ with the window",
     {{0, KVF_ROLE_K, 4, 384, FULL},
      {0, KVF_ROLE_V, 4, 256, FULL},
      WINDOWED(1, KVF_ROLE_K, 8, 384, 128),
      WINDOWED(1, KVF_ROLE_V, 8, 256, 128)}},
    {"Nemotron-Super-49B: holes in the layer ids",
     {{2, KVF_ROLE_K, 8, 256, FULL},
      {2, KVF_ROLE_V, 8, 256, FULL},
      {41, KVF_ROLE_K, 8, 256, FULL},
      {41, KVF_ROLE_V, 8, 256, FULL}}},
    {"DeepSeek-V3.2: latents, index keys and a draft layer",
     {{0, KVF_ROLE_LATENT, 1, 1152, FULL},
      {0, KVF_ROLE_INDEX, 1, 132, FULL, 0, KVF_COMPONENT_INDEX},
      {1, KVF_ROLE_LATENT, 1, 1152, FULL},
      {1, KVF_ROLE_INDEX, 1, 132, FULL, 0, KVF_COMPONENT_INDEX},
      {61, KVF_ROLE_LATENT, 1, 1152, FULL, 0, KVF_COMPONENT_DRAFT}}},
    {"DeepSeek-V4-Flash: ratios of 4 and 128 side by side, and a window",
     {WINDOWED(0, KVF_ROLE_LATENT, 1, 1024, 128),
      {1, KVF_ROLE_LATENT, 1, 1024, RATIO_4, 0, 0, 4},
      {1, KVF_ROLE_INDEX, 1, 256, RATIO_4, 0, KVF_COMPONENT_INDEX, 4},
      {2, KVF_ROLE_LATENT, 1, 1024, RATIO_128, 0, 0, 128},
      {3, KVF_ROLE_LATENT, 1, 1024, RATIO_4, 0, 0, 4}}},
    {"Qwen3.5: two KV heads in every fourth layer, states in the others",
     {STATE_PART(0, 0, 16, 2048),
      STATE_PART(0, 1, 16, 512),
      STATE_PART(0, 2, 32, 16384),
      {3, KVF_ROLE_K, 2, 512, FULL},
      {3, KVF_ROLE_V, 2, 512, FULL},
      STATE_PART(4, 0, 16, 2048)}},
    {"Nemotron-3-Nano: Mamba states whose B and C groups are fewer than the heads",
     {STATE_PART(0, 0, 64, 384),
      STATE_PART(0, 1, 8, 768),
      STATE_PART(0, 2, 8, 768),
      {5, KVF_ROLE_K, 2, 256, FULL},
      {5, KVF_ROLE_V, 2, 256, FULL}}},
    {"fp8 with scales in rows and lists of their own, a draft of other heads",
     {{0, KVF_ROLE_K, 8, 128, FULL},
      {0, KVF_ROLE_V, 8, 128, FULL},
      {0, KVF_ROLE_SCALE_K, 8, 4, SCALE, 0, KVF_COMPONENT_SCALE},
      {0, KVF_ROLE_SCALE_V, 8, 4, SCALE, 0, KVF_COMPONENT_SCALE},
      WINDOWED(1, KVF_ROLE_K, 8, 128, 100),
      WINDOWED(1, KVF_ROLE_SCALE_K, 8, 4, 100),
      {9, KVF_ROLE_K, 4, 128, FULL, 0, KVF_COMPONENT_DRAFT},
      {9, KVF_ROLE_V, 4, 128, FULL, 0, KVF_COMPONENT_DRAFT}}},
};

static const struct shape shapes[][2] = {
    {{1, 1, 1, {0}, 16, 1, KVF_LAYOUT_NHD}, {1, 1, 1, {0}, 16, 1, KVF_LAYOUT_NHD}},
    {{4, 1, 1, {0}, 64, 1, KVF_LAYOUT_NHD}, {2, 1, 1, {0}, 16, 1, KVF_LAYOUT_HND}},
    {{2, 1, 2, {1}, 16, 1, KVF_LAYOUT_HND}, {8, 1, 1, {0}, 24, 1, KVF_LAYOUT_NHD}},
    {{1, 4, 1, {0}, 16, 1, KVF_LAYOUT_NHD}, {2, 1, 1, {3}, 16, 1, KVF_LAYOUT_NHD}},
    {{2, 1, 1, {1, 4}, 32, 1, KVF_LAYOUT_HND}, {1, 3, 1, {0}, 16, 16, KVF_LAYOUT_HND}},
    {{1, 2, 1, {0}, 16, 16, KVF_LAYOUT_NHD}, {1, 3, 1, {0}, 32, 1, KVF_LAYOUT_NHD}},
    {{2, 2, 2, {2}, 20, 5, KVF_LAYOUT_NHD}, {2, 2, 1, {1}, 12, 4, KVF_LAYOUT_HND}},
};

static void published_models_arrive_in_every_shape(void **state) {
  static const uint64_t rooms[][3] = {{0, 150, 333}, {77, 300, 391}};
  for (size_t model = 0; model < sizeof models / sizeof *models; model++) {
    for (size_t pair = 0; pair < sizeof shapes / sizeof *shapes; pair++) {
      for (int room = 0; room < 2; room++) {
        uint32_t rank;
        make_side(&sources, &models[model], &shapes[pair][0]);
        make_side(&targets, &models[model], &shapes[pair][1]);
        fill_sources(rooms[room][0], rooms[room][2]);
        rank = (uint32_t)world_pick(&random_state, targets.rank_count);
        move_to(rank, rooms[room][0], rooms[room][1], rooms[room][2]);
        end_sides();
      }
    }
  }
}

static const struct shape one = {1, 1, 1, {0}, 16, 1, KVF_LAYOUT_NHD};

/* C13, C83, C84: keys, a window, a convolution state and a draft of other heads from another pool: each arrives. */
static void all_declared_components_arrive(void **state) {
  static const struct model model = {"",
                                     {{0, KVF_ROLE_K, 4, 8, FULL},
                                      WINDOWED(1, KVF_ROLE_K, 4, 8, 20),
                                      STATE_PART(2, 0, 4, 100),
                                      {9, KVF_ROLE_K, 2, 16, SCALE, 0, KVF_COMPONENT_DRAFT}}};
  make_side(&sources, &model, &one);
  make_side(&targets, &model, &one);
  fill_sources(0, 100);
  struct world_counts counts = move_to(0, 0, 90, 100);
  assert_int_equal(counts.bytes, 100 * 32 + 20 * 32 + 400 + 100 * 32);
  end_sides();
}

/* A room that wants no token still gets its state. */
static void a_room_of_no_tokens_moves_its_state(void **state) {
  static const struct model model = {"", {{0, KVF_ROLE_K, 4, 8, FULL}, STATE_PART(2, 0, 4, 100)}};
  make_side(&sources, &model, &one);
  make_side(&targets, &model, &one);
  fill_sources(64, 64);
  assert_int_equal(move_to(0, 64, 64, 64).bytes, 400);
  end_sides();
}

/* C55: two stages of two ranks, three chunks: four writers, each with its quarter of every chunk. */
static void each_rank_of_each_stage_writes_its_part_once(void **state) {
  struct model model = {.name = ""};
  const struct shape split = {2, 1, 1, {3}, 16, 1, KVF_LAYOUT_NHD};
  for (uint32_t i = 0; i < 12; i++) model.kinds[i] = (struct kind){i / 2, i % 2 ? KVF_ROLE_V : KVF_ROLE_K, 4, 16, FULL};
  make_side(&sources, &model, &split);
  make_side(&targets, &model, &one);
  fill_sources(0, 90);
  const uint64_t ends[] = {0, 33, 60, 90};
  world_rank_lists(&targets.ranks[0], 0, 90, 0, &random_state);
  for (int chunk = 0; chunk < 3; chunk++) {
    const struct world_move move = {.sources = &sources,
                                    .target = &targets.ranks[0],
                                    .range = {ends[chunk], ends[chunk + 1], 0, UINT32_MAX, 0, 90, chunk == 2},
                                    .limits = {.piece_bytes = 1 << 10},
                                    .random = &random_state};
    struct world_counts counts;
    world_move_verify(&move, &counts);
    for (int rank = 0; rank < 4; rank++) assert_int_equal(counts.bytes_of[rank], (ends[chunk + 1] - ends[chunk]) * 6 * 2 * 16);
  }
  end_sides();
}

/* C72: two groups, full and window, in either order of their lists and layers, both converted from head-major; one of them may be
 * empty. */
static void both_groups_are_converted_in_either_order(void **state) {
  const struct shape head_major = {1, 1, 1, {0}, 16, 1, KVF_LAYOUT_HND};
  for (int order = 0; order < 4; order++) {
    struct model model = {.name = ""};
    const struct kind full = {order & 1 ? 1 : 0, KVF_ROLE_K, 4, 16, FULL},
                      window = WINDOWED(order & 1 ? 0 : 1, KVF_ROLE_K, 4, 16, 48);
    model.kinds[0] = order & 1 ? window : full;
    if (order < 2) model.kinds[1] = order & 1 ? full : window;
    make_side(&sources, &model, &head_major);
    make_side(&targets, &model, &one);
    fill_sources(0, 160);
    const uint64_t tokens = order == 2 ? 160 : order == 3 ? 48 : 160 + 48;
    assert_int_equal(move_to(0, 0, 160, 160).bytes, tokens * 64);
    end_sides();
  }
}

/* C77: with scales the other arrays' pieces stay what they were; a receiver's scales that nobody has are a gap. */
static void scales_change_nothing_for_the_rest(void **state) {
  const struct model bare = {"", {{0, KVF_ROLE_K, 4, 16, FULL}, {0, KVF_ROLE_V, 4, 16, FULL}, {1, KVF_ROLE_K, 4, 16, FULL}}};
  struct model scaled = bare;
  scaled.kinds[3] = (struct kind){0, KVF_ROLE_SCALE_K, 4, 2, SCALE, 0, KVF_COMPONENT_SCALE};
  scaled.kinds[4] = (struct kind){1, KVF_ROLE_SCALE_K, 4, 2, WINDOW, 0, KVF_COMPONENT_SCALE, 0, 30, 0};
  const struct model *pairs[][2] = {{&bare, &bare}, {&scaled, &scaled}, {&scaled, &bare}};
  const uint64_t bytes[] = {100 * 192, 100 * 192 + 100 * 8 + 30 * 8, 100 * 192};
  for (int i = 0; i < 3; i++) {
    make_side(&sources, pairs[i][0], &one);
    make_side(&targets, pairs[i][1], &one);
    fill_sources(0, 100);
    assert_int_equal(move_to(0, 0, 50, 100).bytes, bytes[i]);
    end_sides();
  }
  make_side(&sources, &bare, &one);
  make_side(&targets, &scaled, &one);
  const kvf_rank_planes source = {sources.ranks[0].planes, sources.ranks[0].plane_count, 0},
                        target = {targets.ranks[0].planes, targets.ranks[0].plane_count, 0};
  kvf_error *error = NULL;
  assert_int_equal(kvf_layout_compare(&source, 1, &target, 0, &error), KVF_NOT_COVERED);
  assert_string_equal(kvf_error_find(error, "gap_count"), "2");
  kvf_error_free(error);
  end_sides();
}

/* C78: a latent on four ranks, for two: each gets it once, from the rank that the rule names. */
static void a_latent_comes_once_to_each_rank(void **state) {
  struct model model = {.name = ""};
  const struct shape four = {4, 1, 1, {0}, 16, 1, KVF_LAYOUT_NHD}, two = {2, 1, 1, {0}, 16, 1, KVF_LAYOUT_NHD};
  for (uint32_t i = 0; i < 3; i++) model.kinds[i] = (struct kind){i, KVF_ROLE_LATENT, 1, 1152, FULL};
  make_side(&sources, &model, &four);
  make_side(&targets, &model, &two);
  fill_sources(0, 50);
  for (uint32_t rank = 0; rank < 2; rank++) {
    struct world_counts counts = move_to(rank, 0, 20, 50);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(counts.bytes_of[i], i == rank ? 3 * 50 * 1152 : 0);
  }
  end_sides();
}

/* C79: eight context-parallel ranks to eight tensor-parallel ones, latents and index keys: exactly one copy for each. */
static void context_parallel_ranks_send_each_entry_once(void **state) {
  static const struct model model = {"",
                                     {{0, KVF_ROLE_LATENT, 1, 656, FULL},
                                      {0, KVF_ROLE_INDEX, 1, 132, FULL},
                                      {1, KVF_ROLE_LATENT, 1, 656, FULL},
                                      {1, KVF_ROLE_INDEX, 1, 132, FULL}}};
  for (uint32_t block = 1; block <= 16; block += 15) {
    const struct shape context = {1, 8, 1, {0}, 16, block, KVF_LAYOUT_NHD}, tensor = {8, 1, 1, {0}, 16, 1, KVF_LAYOUT_NHD};
    uint64_t bytes = 0;
    make_side(&sources, &model, &context);
    make_side(&targets, &model, &tensor);
    fill_sources(0, 100);
    for (uint32_t rank = 0; rank < 8; rank++) bytes += move_to(rank, 0, 64, 100).bytes;
    assert_int_equal(bytes, 8 * (656 + 132) * 100 * 2);
    end_sides();
  }
}

/* C81: 15 layers in stages of 7 and 8: no draft layer is guessed from what does not divide. */
static void uneven_stages_are_no_draft_layers(void **state) {
  struct model model = {.name = ""};
  const struct shape uneven = {1, 1, 1, {7}, 16, 1, KVF_LAYOUT_NHD};
  for (uint32_t i = 0; i < 15; i++) model.kinds[i] = (struct kind){i, KVF_ROLE_LATENT, 1, 32, FULL};
  make_side(&sources, &model, &uneven);
  make_side(&targets, &model, &one);
  fill_sources(0, 40);
  struct world_counts counts = move_to(0, 0, 30, 40);
  assert_int_equal(counts.bytes_of[0], 7 * 40 * 32);
  assert_int_equal(counts.bytes_of[1], 8 * 40 * 32);
  end_sides();
}

/* C92: a state that every tensor-parallel rank has comes from one of them; C80's stage that has states and no KV does its part. */
static void a_replicated_state_has_one_writer(void **state) {
  static const struct model model = {"", {{0, KVF_ROLE_K, 4, 8, FULL}, STATE_PART(1, 0, 1, 64), STATE_PART(2, 1, 4, 16)}};
  const struct shape four = {4, 1, 1, {1}, 16, 1, KVF_LAYOUT_NHD};
  make_side(&sources, &model, &four);
  make_side(&targets, &model, &one);
  fill_sources(0, 30);
  struct world_counts counts = move_to(0, 0, 10, 30);
  const uint64_t expected[] = {240, 240, 240, 240, 64 + 16, 16, 16, 16};
  for (int i = 0; i < 8; i++) assert_int_equal(counts.bytes_of[i], expected[i]);
  end_sides();
}

/* C120: another component is refused when instances meet, so the length of a prompt cannot matter. */
static void an_extra_component_is_refused_before_any_prompt(void **state) {
  const struct model plain = {"", {{0, KVF_ROLE_K, 4, 16, FULL}}};
  struct model extra = plain;
  extra.kinds[1] = (struct kind){9, KVF_ROLE_K, 4, 16, FULL, 0, KVF_COMPONENT_DRAFT};
  make_side(&sources, &plain, &one);
  make_side(&targets, &extra, &one);
  const kvf_rank_planes source = {sources.ranks[0].planes, 1, 0}, target = {targets.ranks[0].planes, 2, 0};
  kvf_error *error = NULL;
  assert_int_equal(kvf_layout_compare(&source, 1, &target, 0, &error), KVF_NOT_COVERED);
  assert_string_equal(kvf_error_find(error, "gap"), "layer 9 K heads 0-3");
  kvf_error_free(error);
  end_sides();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_models_arrive_in_every_shape),
      cmocka_unit_test(all_declared_components_arrive),
      cmocka_unit_test(a_room_of_no_tokens_moves_its_state),
      cmocka_unit_test(each_rank_of_each_stage_writes_its_part_once),
      cmocka_unit_test(both_groups_are_converted_in_either_order),
      cmocka_unit_test(scales_change_nothing_for_the_rest),
      cmocka_unit_test(a_latent_comes_once_to_each_rank),
      cmocka_unit_test(context_parallel_ranks_send_each_entry_once),
      cmocka_unit_test(uneven_stages_are_no_draft_layers),
      cmocka_unit_test(a_replicated_state_has_one_writer),
      cmocka_unit_test(an_extra_component_is_refused_before_any_prompt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
