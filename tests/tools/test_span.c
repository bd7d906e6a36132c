/* Spans against plain counting: which entries a rank owns, what a token range means, and which pages hold it. Geometry: the planes
 * of every rank of a side own each entry and head as often as they should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "geometry.h"
#include "mix.h"
#include "span.h"

static uint64_t read_seed(void) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : 20261201;
  printf("KVF_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

static kvf_plane make_plane(uint64_t *random) {
  kvf_plane plane = {.page_tokens = 1 + (uint32_t)(mix_next(random) % 9), .entry_tokens = (uint32_t)(mix_next(random) % 5)};
  plane.token_parts = (uint32_t)(mix_next(random) % 5);
  plane.token_part = plane.token_parts ? (uint32_t)(mix_next(random) % plane.token_parts) : 0;
  plane.token_block = (uint32_t)(mix_next(random) % 4);
  plane.window_tokens = mix_next(random) % 2 ? (uint32_t)(mix_next(random) % 60) : 0;
  return plane;
}

static bool owns(const kvf_plane *plane, uint64_t entry) {
  uint32_t parts = plane->token_parts ? plane->token_parts : 1, block = plane->token_block ? plane->token_block : 1;
  return entry / block % parts == plane->token_part;
}

static void spans_match_a_plain_count(void **state) {
  uint64_t random = read_seed();
  for (int round = 0; round < 3000; round++) {
    const kvf_plane plane = make_plane(&random);
    uint64_t entry_tokens = plane.entry_tokens ? plane.entry_tokens : 1;
    uint64_t tokens = mix_next(&random) % 200, end = mix_next(&random) % (tokens + 1), first = mix_next(&random) % (end + 1);
    struct span span = span_of(&plane, first, end, tokens), pages = span_pages(&plane, span);
    uint64_t from = plane.window_tokens && tokens > plane.window_tokens && first < tokens - plane.window_tokens
                        ? tokens - plane.window_tokens
                        : first;
    uint64_t local = 0, count = 0;
    for (uint64_t entry = 0; entry < tokens + 20; entry++) {
      assert_int_equal(span_owned_below(&plane, entry), local);
      if (!owns(&plane, entry)) continue;
      assert_int_equal(span_entry(&plane, local), entry);
      bool wanted = entry >= from / entry_tokens && entry < end / entry_tokens;
      assert_int_equal(local >= span.first && local < span.end, wanted);
      if (wanted) assert_true(local / plane.page_tokens >= pages.first && local / plane.page_tokens < pages.end);
      count += wanted;
      local++;
    }
    assert_int_equal(span.end - span.first, count);
    assert_true(count > 0 ? pages.end - pages.first <= count / plane.page_tokens + 2 : pages.end == pages.first);
    uint64_t token = span_page_token(&plane, pages.first); /* the first owned entry at or after it is slot 0 */
    assert_int_equal(span_owned_below(&plane, token / entry_tokens), pages.first * plane.page_tokens);
  }
}

static void a_request_holds_the_pages_that_each_side_needs(void **state) {
  static const struct {
    struct workload_request request;
    uint64_t chunk_tokens;
    uint32_t page_tokens, window_tokens;
    struct span prefill, decode; /* pages */
  } rows[] = {
      {{.tokens = 250}, 100, 16, 0, {0, 16}, {0, 16}}, /* the last page has room for one more token */
      {{.tokens = 256}, 100, 16, 0, {0, 16}, {0, 17}},
      {{.tokens = 2048, .prefix_tokens = 1984}, 512, 64, 0, {24, 32}, {31, 33}},
      {{.tokens = 2048, .prefix_tokens = 2048}, 512, 64, 0, {32, 32}, {32, 33}},
      {{.tokens = 100, .prefix_tokens = 50}, 30, 16, 0, {1, 7}, {3, 7}}, /* chunk 30 to 60 starts inside a page */
      {{.tokens = 250}, 100, 16, 40, {13, 16}, {13, 16}},
      {{.tokens = 250, .prefix_tokens = 240}, 100, 16, 40, {13, 16}, {15, 16}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct settings settings = {.chunk_tokens = rows[i].chunk_tokens};
    const kvf_plane plane = {.page_tokens = rows[i].page_tokens, .window_tokens = rows[i].window_tokens};
    struct span prefill = geometry_request_pages(&settings, ROLE_PREFILL, &plane, &rows[i].request);
    struct span decode = geometry_request_pages(&settings, ROLE_DECODE, &plane, &rows[i].request);
    assert_int_equal(prefill.first, rows[i].prefill.first);
    assert_int_equal(prefill.end, rows[i].prefill.end);
    assert_int_equal(decode.first, rows[i].decode.first);
    assert_int_equal(decode.end, rows[i].decode.end);
  }
}

static void load(struct settings *settings, const char *model, const char *side, uint64_t layers) {
  struct complaint complaint;
  settings_init(settings);
  settings->model_text = model;
  settings->layers = layers;
  if (!settings_parse_side(side, &settings->sides[ROLE_PREFILL], &complaint)) fail_msg("%s", complaint.text);
  if (!settings_resolve(settings, &complaint)) fail_msg("%s: %s", model, complaint.text);
}

/* How many planes of a side hold this head of this array, for entry 0. */
static uint32_t count_holders(const struct geometry *all, uint32_t ranks, uint32_t layer, const struct model_array *array,
                              uint32_t head) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < ranks; rank++)
    for (uint32_t i = 0; i < all[rank].plane_count; i++) {
      const kvf_plane *plane = &all[rank].planes[i];
      if (plane->layer != layer || plane->role != array->role || plane->part != array->part) continue;
      assert_int_equal(plane->heads_total, array->heads);
      assert_int_equal(plane->component, array->component);
      count += head >= plane->head_first && head < plane->head_first + plane->head_count && (plane->per_request || owns(plane, 0));
    }
  return count;
}

static void every_head_is_held_as_often_as_it_should(void **state) {
  static const char *const sides[] = {"tp=1", "tp=2,pp=2", "tp=8", "tp=4,layout=hnd", "tp=1,cp=4,cpblock=16", "tp=2,cp=2,pp=2"};
  for (size_t m = 0; m < model_preset_count(); m++)
    for (size_t s = 0; s < sizeof sides / sizeof *sides; s++) {
      struct settings settings;
      struct complaint complaint;
      load(&settings, model_preset_name(m), sides[s], 0);
      const struct side *side = &settings.sides[ROLE_PREFILL];
      uint32_t ranks = settings_rank_count(&settings, ROLE_PREFILL);
      struct geometry *all = geometry_init_side(&settings, ROLE_PREFILL, &complaint);
      if (!all) fail_msg("%s %s: %s", settings.model.name, sides[s], complaint.text);
      for (uint32_t i = 0; i < settings.model.layers + settings.model.draft_layers; i++) {
        const struct model_kind *kind = model_layer_kind(&settings.model, i);
        for (uint32_t a = 0; a < kind->array_count; a++) {
          const struct model_array *array = &kind->arrays[a];
          uint32_t copies = array->replicated ? side->tp : side->tp > array->heads ? side->tp / array->heads : 1;
          if (array->per_request) copies *= settings_cp(side);
          assert_int_equal(count_holders(all, ranks, settings.model.list[i].id, array, array->heads - 1), copies);
          assert_int_equal(count_holders(all, ranks, settings.model.list[i].id, array, 0), copies);
        }
      }
      geometry_fini_side(all, ranks);
    }
}

static void planes_of_a_rank_do_not_overlap(void **state) {
  struct settings settings;
  struct complaint complaint;
  load(&settings, "DeepSeek-V4-Flash", "tp=2,page=64", 3);
  struct geometry *all = geometry_init_side(&settings, ROLE_PREFILL, &complaint);
  assert_non_null(all);
  const struct geometry *rank = &all[0];
  for (uint32_t i = 0; i + 1 < rank->plane_count; i++)
    assert_true(rank->planes[i].address + rank->planes[i].page_count * rank->planes[i].page_stride_bytes <=
                rank->planes[i + 1].address);
  const kvf_plane *compressed = rank->lists[MODEL_LIST_COMPRESSED];
  assert_non_null(compressed);
  assert_int_equal(compressed->page_tokens * compressed->entry_tokens, 64); /* a page of each list stands for the same tokens */
  assert_int_equal(rank->lists[MODEL_LIST_STATE]->page_tokens, 1);
  geometry_fini_side(all, 2);
}

static void stages_can_be_given(void **state) {
  struct settings settings;
  struct complaint complaint;
  load(&settings, "DeepSeek-V3", "tp=1,layers=20+30+11", 0);
  struct geometry *all = geometry_init_side(&settings, ROLE_PREFILL, &complaint);
  assert_non_null(all);
  assert_int_equal(settings_rank_count(&settings, ROLE_PREFILL), 3);
  assert_int_equal(all[0].plane_count, 20);
  assert_int_equal(all[1].planes[0].layer, 20);
  assert_int_equal(all[1].plane_count, 30);
  assert_int_equal(all[2].plane_count, 12); /* and the draft layer */
  assert_int_equal(all[2].planes[11].component, KVF_COMPONENT_DRAFT);
  geometry_fini_side(all, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_match_a_plain_count),
      cmocka_unit_test(a_request_holds_the_pages_that_each_side_needs),
      cmocka_unit_test(every_head_is_held_as_often_as_it_should),
      cmocka_unit_test(planes_of_a_rank_do_not_overlap),
      cmocka_unit_test(stages_can_be_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
