/* Field cases moved with real bytes: what went wrong for others, as data that must arrive. Numbers in comments are the cases'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/world.h"

static struct world_side sources, targets;
static uint64_t random_state = 94;

static kvf_planes_options options_of(uint32_t layers, uint32_t heads, uint32_t head_bytes, uint32_t page_tokens, uint32_t pages) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  options.layer_count = layers;
  options.heads_total = heads;
  options.head_bytes = head_bytes;
  options.page_tokens = page_tokens;
  options.page_count = pages;
  return options;
}

static void make_sides(kvf_planes_options options, uint32_t source_ranks, uint32_t target_ranks) {
  options.rank_count = source_ranks;
  world_side_fill(&sources, options, 1);
  options.rank_count = target_ranks;
  world_side_fill(&targets, options, 1);
}

/* Random pages on every rank, sources filled. */
static void fill_sides(uint64_t token_first, uint64_t token_end, uint32_t lead) {
  for (uint32_t i = 0; i < sources.rank_count; i++) {
    world_rank_lists(&sources.ranks[i], token_first, token_end, lead, &random_state);
    world_rank_blank(&sources.ranks[i]);
    world_rank_write(&sources.ranks[i], token_first, token_end);
  }
  for (uint32_t i = 0; i < targets.rank_count; i++)
    world_rank_lists(&targets.ranks[i], token_first, token_end, lead, &random_state);
}

static void verify_target(uint32_t rank, uint64_t token_first, uint64_t token_end, struct world_counts *counts_out) {
  const struct world_move move = {.sources = &sources,
                                  .target = &targets.ranks[rank],
                                  .target_rank = rank,
                                  .range = {token_first, token_end, 0, UINT32_MAX, token_first, token_end, true},
                                  .limits = {.piece_bytes = 1 << 16},
                                  .random = &random_state};
  world_move_verify(&move, counts_out);
}

static void verify_targets(uint64_t token_first, uint64_t token_end) {
  for (uint32_t i = 0; i < targets.rank_count; i++) verify_target(i, token_first, token_end, NULL);
}

static void end_sides(void) {
  world_side_fini(&sources);
  world_side_fini(&targets);
}

static void set_pages(struct world_rank *rank, const uint32_t *numbers, uint32_t count, uint64_t first_token) {
  free(rank->numbers[0]);
  rank->numbers[0] = malloc(count * sizeof *numbers);
  memcpy(rank->numbers[0], numbers, count * sizeof *numbers);
  rank->pages.lists[0] = (kvf_page_list){0, count, rank->numbers[0], first_token};
}

/* C65: two heads, four ranks to one: one writer a head, and two ranks with nothing to do. */
static void replicated_heads_have_one_writer_each(void **state) {
  const uint32_t source_pages[] = {5, 1, 9}, target_pages[] = {2, 7, 0};
  struct world_counts counts;
  make_sides(options_of(3, 2, 512, 16, 10), 4, 1);
  for (int i = 0; i < 4; i++) set_pages(&sources.ranks[i], source_pages, 3, 0);
  set_pages(&targets.ranks[0], target_pages, 3, 0);
  fill_sides(0, 48, 0);
  verify_target(0, 0, 48, &counts);
  const uint64_t head_bytes = 2ull * 3 * 48 * 512;
  assert_int_equal(counts.bytes_of[0] + counts.bytes_of[1], head_bytes);
  assert_int_equal(counts.bytes_of[2] + counts.bytes_of[3], head_bytes);
  assert_true(counts.bytes_of[0] == 0 || counts.bytes_of[1] == 0);
  assert_true(counts.bytes_of[2] == 0 || counts.bytes_of[3] == 0);
  end_sides();
}

/* C69: four heads of 250 B in pages padded to 1024 B: the stride is 250, and the padding is neither sent nor touched. */
static void padding_of_a_page_does_not_enter_the_head_stride(void **state) {
  kvf_planes_options options = options_of(1, 4, 125, 2, 6);
  options.layout = KVF_LAYOUT_HND;
  make_sides(options, 1, 4);
  for (uint32_t plane = 0; plane < 2; plane++) sources.ranks[0].planes[plane].page_stride_bytes = 1024;
  sources.ranks[0].memory = realloc(sources.ranks[0].memory, 2 * 6 * 1024);
  sources.ranks[0].memory_bytes = 2 * 6 * 1024;
  for (uint32_t plane = 0; plane < 2; plane++)
    sources.ranks[0].planes[plane].address = (uintptr_t)sources.ranks[0].memory + plane * 6ull * 1024;
  assert_int_equal(sources.ranks[0].planes[0].head_stride_bytes, 250);
  fill_sides(0, 9, 0);
  verify_targets(0, 9);
  end_sides();
}

/* C70: head-major senders and token-major receivers, also at equal tensor parallelism. */
static void unequal_layouts_are_converted(void **state) {
  static const uint32_t shapes[][2] = {{1, 2}, {2, 1}, {2, 2}};
  for (int i = 0; i < 3; i++) {
    for (uint32_t layout = KVF_LAYOUT_NHD; layout <= KVF_LAYOUT_HND; layout++) {
      kvf_planes_options options = options_of(2, 4, 16, 4, 8);
      options.layout = layout;
      options.rank_count = shapes[i][0];
      world_side_fill(&sources, options, 1);
      options.layout = KVF_LAYOUT_NHD + KVF_LAYOUT_HND - layout;
      options.rank_count = shapes[i][1];
      world_side_fill(&targets, options, 1);
      fill_sides(0, 30, 0);
      verify_targets(0, 30);
      end_sides();
    }
  }
}

/* C73: pages of 16 tokens to pages of 64, and back. */
static void unequal_page_sizes_are_paged_again_by_token(void **state) {
  for (int back = 0; back < 2; back++) {
    kvf_planes_options options = options_of(2, 4, 32, back ? 64 : 16, 12);
    options.rank_count = 2;
    world_side_fill(&sources, options, 1);
    options.page_tokens = back ? 16 : 64;
    world_side_fill(&targets, options, 1);
    fill_sides(0, 100, 0);
    verify_targets(0, 100);
    end_sides();
  }
}

/* C80: layers 3, 7, 11, 15 in two stages of four ranks, to one stage of eight; and a stage without any planes. */
static void stages_meet_by_global_layer_id(void **state) {
  kvf_planes_options options = options_of(2, 8, 16, 16, 8);
  options.rank_count = 4;
  sources = (struct world_side){.rank_count = 9};
  for (uint32_t i = 0; i < 9; i++) {
    struct world_rank *rank = &sources.ranks[i];
    uint64_t pool_bytes = 0;
    rank->stage = i / 4;
    options.rank = i % 4;
    if (i < 8)
      assert_int_equal(kvf_planes_fill(&options, rank->planes, WORLD_PLANES, &rank->plane_count, &pool_bytes, NULL), KVF_OK);
    for (uint32_t plane = 0; plane < rank->plane_count; plane++) rank->planes[plane].layer = 8 * rank->stage + 3 + 4 * (plane / 2);
    world_rank_bind(rank, pool_bytes);
  }
  options.layer_count = 4;
  options.rank_count = 8;
  world_side_fill(&targets, options, 1);
  for (uint32_t i = 0; i < 8; i++)
    for (uint32_t plane = 0; plane < 8; plane++) targets.ranks[i].planes[plane].layer = 3 + 4 * (plane / 2);
  fill_sides(0, 70, 0);
  for (uint32_t i = 0; i < 8; i++) {
    struct world_counts counts;
    verify_target(i, 0, 70, &counts);
    assert_int_equal(counts.bytes_of[i / 2], 2ull * 2 * 70 * 16);
    assert_int_equal(counts.bytes_of[4 + i / 2], 2ull * 2 * 70 * 16);
  }
  end_sides();
}

/* C87: chunks of 100 tokens that end inside pages of 16. The pieces of all chunks cover each token once; since verify starts from
 * canaries each time, every chunk is also shown to touch nothing but its own tokens. */
static void chunks_may_end_inside_a_page(void **state) {
  static const uint64_t prompts[] = {250, 256, 16, 15, 1};
  for (int i = 0; i < 5; i++) {
    make_sides(options_of(2, 4, 16, 16, 20), 2, 1);
    fill_sides(0, prompts[i], 0);
    uint64_t bytes = 0;
    for (uint64_t first = 0; first < prompts[i]; first += 100) {
      struct world_counts counts;
      verify_target(0, first, first + 100 < prompts[i] ? first + 100 : prompts[i], &counts);
      bytes += counts.bytes;
    }
    assert_int_equal(bytes, 2ull * 2 * 4 * 16 * prompts[i]);
    end_sides();
  }
}

/* C88: a prompt of 2048 tokens of which the receiver's cache has 31 of 32 pages: its one page gets the sender's page 31. */
static void prefixes_are_matched_by_position(void **state) {
  static const uint64_t cached_pages[] = {0, 31, 32};
  for (int i = 0; i < 3; i++) {
    make_sides(options_of(1, 2, 8, 64, 40), 2, 2);
    uint64_t cached = cached_pages[i] * 64;
    for (uint32_t rank = 0; rank < 2; rank++) {
      world_rank_list(&sources.ranks[rank], 0, 64, 40, 0, 2048, &random_state);
      /* One page more than is wanted, for the token that will be computed next. */
      world_rank_list(&targets.ranks[rank], 0, 64, 40, cached, 2049, &random_state);
      world_rank_blank(&sources.ranks[rank]);
      world_rank_write(&sources.ranks[rank], 0, 2048);
    }
    verify_targets(cached, 2048);
    end_sides();
  }
}

/* C94 and C66: every pair of sizes and head counts, against the oracle. */
static void every_pair_of_sizes_and_head_counts_is_exact(void **state) {
  static const uint32_t sizes[] = {1, 2, 4, 8, 16};
  for (int source = 0; source < 5; source++) {
    for (int target = 0; target < 5; target++) {
      for (int heads = 0; heads < 5; heads++) {
        make_sides(options_of(1, sizes[heads], 4, 4, 6), sizes[source], sizes[target]);
        fill_sides(0, 11, 3);
        verify_targets(0, 11);
        end_sides();
      }
    }
  }
}

/* C94: Qwen3-8B's heads in scattered pages, for every pair of sizes. */
static void real_head_sizes_in_scattered_pages_are_exact(void **state) {
  for (uint32_t source = 1; source <= 8; source *= 2) {
    for (uint32_t target = 1; target <= 8; target *= 2) {
      make_sides(options_of(4, 8, 256, 32, 9), source, target);
      fill_sides(0, 77, 0);
      verify_targets(0, 77);
      end_sides();
    }
  }
}

/* C22: pages are pages. Token slots given as pages are beyond the pool, in both directions alike. */
static void token_slots_given_as_pages_are_refused(void **state) {
  uint32_t slots[32];
  const struct layout_demand demand = {0, 32, 0, 2, true, true};
  const uint32_t pages[] = {3, 4}, repeated[] = {3, 3};
  for (uint32_t i = 0; i < 32; i++) slots[i] = 48 + i;
  make_sides(options_of(2, 4, 16, 16, 6), 1, 1);
  for (int back = 0; back < 2; back++) {
    struct world_rank *rank = back ? &targets.ranks[0] : &sources.ranks[0];
    kvf_error *error = NULL;
    set_pages(rank, slots, 32, 0);
    assert_int_equal(layout_pages_check(&rank->pages, rank->planes, rank->plane_count, &demand, &error), KVF_OUT_OF_RANGE);
    assert_string_equal(kvf_error_find(error, "page"), "48");
    kvf_error_free(error);
    error = NULL;
    set_pages(rank, repeated, 2, 0);
    assert_int_equal(layout_pages_check(&rank->pages, rank->planes, rank->plane_count, &demand, &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "page"), "3");
    kvf_error_free(error);
    set_pages(rank, pages, 2, 0);
    assert_int_equal(layout_pages_check(&rank->pages, rank->planes, rank->plane_count, &demand, NULL), KVF_OK);
  }
  fill_sides(0, 32, 0);
  verify_targets(0, 32);
  end_sides();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replicated_heads_have_one_writer_each),
      cmocka_unit_test(padding_of_a_page_does_not_enter_the_head_stride),
      cmocka_unit_test(unequal_layouts_are_converted),
      cmocka_unit_test(unequal_page_sizes_are_paged_again_by_token),
      cmocka_unit_test(stages_meet_by_global_layer_id),
      cmocka_unit_test(chunks_may_end_inside_a_page),
      cmocka_unit_test(prefixes_are_matched_by_position),
      cmocka_unit_test(every_pair_of_sizes_and_head_counts_is_exact),
      cmocka_unit_test(real_head_sizes_in_scattered_pages_are_exact),
      cmocka_unit_test(token_slots_given_as_pages_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
