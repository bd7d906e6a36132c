/* The usual splits and the planes of a usual pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layout/cut.h"

static void expect_split(uint32_t heads, uint32_t ranks, const uint32_t *firsts, const uint32_t *counts) {
  for (uint32_t rank = 0; rank < ranks; rank++) {
    uint32_t first = 99, count = 99;
    assert_int_equal(kvf_heads_split(heads, rank, ranks, &first, &count, NULL), KVF_OK);
    assert_int_equal(first, firsts[rank]);
    assert_int_equal(count, counts[rank]);
  }
}

static void heads_are_split_evenly_unevenly_and_replicated(void **state) {
  expect_split(8, 4, (uint32_t[]){0, 2, 4, 6}, (uint32_t[]){2, 2, 2, 2});
  expect_split(6, 4, (uint32_t[]){0, 2, 4, 5}, (uint32_t[]){2, 2, 1, 1});
  expect_split(8, 3, (uint32_t[]){0, 3, 6}, (uint32_t[]){3, 3, 2});
  expect_split(2, 4, (uint32_t[]){0, 0, 1, 1}, (uint32_t[]){1, 1, 1, 1});
  expect_split(4, 8, (uint32_t[]){0, 0, 1, 1, 2, 2, 3, 3}, (uint32_t[]){1, 1, 1, 1, 1, 1, 1, 1});
  expect_split(1, 2, (uint32_t[]){0, 0}, (uint32_t[]){1, 1});
}

/* C66: for every power of two, each rank has the heads that the rule of thumb gives it. */
static void the_sweep_of_powers_of_two_follows_the_rule(void **state) {
  for (uint32_t heads = 1; heads <= 16; heads *= 2) {
    for (uint32_t ranks = 1; ranks <= 16; ranks *= 2) {
      for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t first, count;
        assert_int_equal(kvf_heads_split(heads, rank, ranks, &first, &count, NULL), KVF_OK);
        assert_int_equal(count, ranks <= heads ? heads / ranks : 1);
        assert_int_equal(first, ranks <= heads ? rank * (heads / ranks) : rank / (ranks / heads));
      }
    }
  }
}

static void impossible_splits_are_refused_with_their_numbers(void **state) {
  uint32_t first = 7, count = 7;
  kvf_error *error = NULL;
  assert_int_equal(kvf_heads_split(4, 0, 6, &first, &count, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "heads_total"), "4");
  assert_string_equal(kvf_error_find(error, "rank_count"), "6");
  kvf_error_free(error);
  assert_int_equal(kvf_heads_split(0, 0, 1, &first, &count, NULL), KVF_INVALID);
  assert_int_equal(kvf_heads_split(4, 0, 0, &first, &count, NULL), KVF_INVALID);
  assert_int_equal(kvf_heads_split(4, 2, 2, &first, &count, NULL), KVF_INVALID);
  assert_int_equal(kvf_heads_split(4, 0, 2, NULL, &count, NULL), KVF_INVALID);
  assert_true(first == 7 && count == 7);
}

static kvf_planes_options make_options(uint32_t layout) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  options.layer_first = 10;
  options.layer_count = 2;
  options.heads_total = 8;
  options.rank = 1;
  options.rank_count = 4;
  options.head_bytes = 256;
  options.layout = layout;
  options.page_tokens = 64;
  options.page_count = 5;
  options.address = 0x10000;
  return options;
}

static void a_pool_is_layer_after_layer_k_then_v(void **state) {
  for (uint32_t layout = 0; layout <= KVF_LAYOUT_HND; layout++) {
    kvf_planes_options options = make_options(layout);
    kvf_plane planes[4];
    uint32_t count;
    uint64_t pool_bytes;
    assert_int_equal(kvf_planes_fill(&options, planes, 4, &count, &pool_bytes, NULL), KVF_OK);
    assert_int_equal(count, 4);
    assert_int_equal(pool_bytes, 4ull * 5 * 64 * 2 * 256);
    for (uint32_t i = 0; i < 4; i++) {
      assert_int_equal(planes[i].layer, 10 + i / 2);
      assert_int_equal(planes[i].role, i % 2 ? KVF_ROLE_V : KVF_ROLE_K);
      assert_int_equal(planes[i].address, 0x10000 + i * 5ull * 64 * 512);
      assert_int_equal(planes[i].head_first, 2);
      assert_int_equal(planes[i].head_count, 2);
      assert_int_equal(planes[i].page_stride_bytes, 64 * 512);
      assert_int_equal(planes[i].token_stride_bytes, layout == KVF_LAYOUT_HND ? 256 : 512);
      assert_int_equal(planes[i].head_stride_bytes, layout == KVF_LAYOUT_HND ? 64 * 256 : 256);
    }
    assert_int_equal(layout_planes_validate(planes, 4, NULL), KVF_OK);
  }
}

static void mla_has_one_latent_plane_a_layer_on_every_rank(void **state) {
  kvf_planes_options options = make_options(KVF_LAYOUT_NHD);
  kvf_plane planes[4];
  uint32_t count;
  uint64_t pool_bytes;
  options.mla = 1;
  options.head_bytes = 1152;
  options.rank_count = 3;
  options.rank = 2;
  assert_int_equal(kvf_planes_fill(&options, planes, 4, &count, &pool_bytes, NULL), KVF_OK);
  assert_int_equal(count, 2);
  assert_int_equal(pool_bytes, 2ull * 5 * 64 * 1152);
  assert_int_equal(planes[1].layer, 11);
  assert_int_equal(planes[1].role, KVF_ROLE_LATENT);
  assert_true(planes[1].heads_total == 1 && planes[1].head_first == 0 && planes[1].head_count == 1);
}

static void asking_needs_no_array_and_a_short_array_is_refused(void **state) {
  kvf_planes_options options = make_options(KVF_LAYOUT_NHD);
  kvf_plane planes[4];
  uint32_t count = 0;
  uint64_t pool_bytes = 0;
  assert_int_equal(kvf_planes_fill(&options, NULL, 0, &count, &pool_bytes, NULL), KVF_OK);
  assert_true(count == 4 && pool_bytes > 0);
  count = 77;
  assert_int_equal(kvf_planes_fill(&options, planes, 3, &count, &pool_bytes, NULL), KVF_INVALID);
  assert_int_equal(count, 77);
}

static void wrong_options_are_refused(void **state) {
  uint32_t count;
  uint64_t pool_bytes;
#define EXPECT(status, member, value)                                                              \
  do {                                                                                             \
    kvf_planes_options options = make_options(KVF_LAYOUT_NHD);                                     \
    options.member = (value);                                                                      \
    assert_int_equal(kvf_planes_fill(&options, NULL, 0, &count, &pool_bytes, NULL), KVF_##status); \
  } while (0)
  EXPECT(OK, address, 0);
  EXPECT(INVALID, layer_count, 0);
  EXPECT(INVALID, layer_first, UINT32_MAX - 1);
  EXPECT(INVALID, heads_total, 0);
  EXPECT(INVALID, rank, 4);
  EXPECT(INVALID, head_bytes, 0);
  EXPECT(INVALID, dtype, 99);
  EXPECT(INVALID, layout, 3);
  EXPECT(INVALID, page_tokens, 0);
  EXPECT(INVALID, page_count, 0);
  EXPECT(INVALID, page_list, KVF_PAGE_LIST_LIMIT);
  EXPECT(INVALID, mla, 2);
  EXPECT(INVALID, struct_bytes, 3);
  EXPECT(TOO_LARGE, address, UINT64_MAX - 4096);
#undef EXPECT
  kvf_planes_options options = make_options(KVF_LAYOUT_NHD);
  assert_int_equal(kvf_planes_fill(NULL, NULL, 0, &count, &pool_bytes, NULL), KVF_INVALID);
  assert_int_equal(kvf_planes_fill(&options, NULL, 0, NULL, &pool_bytes, NULL), KVF_INVALID);
}

/* C14: above 4 GiB all bits count; above 64 bits it is said. */
static void large_pools_keep_their_bits_and_impossible_ones_are_refused(void **state) {
  kvf_planes_options options = make_options(KVF_LAYOUT_NHD);
  kvf_plane planes[4];
  uint32_t count;
  uint64_t pool_bytes;
  options.page_count = 1u << 31;
  assert_int_equal(kvf_planes_fill(&options, planes, 4, &count, &pool_bytes, NULL), KVF_OK);
  assert_true(pool_bytes == (4ull << 31) * 64 * 512);
  assert_true(planes[3].address == 0x10000 + (3ull << 31) * 64 * 512);
  options.page_tokens = 1u << 31;
  assert_int_equal(kvf_planes_fill(&options, planes, 4, &count, &pool_bytes, NULL), KVF_TOO_LARGE);
  options.page_count = 5;
  options.head_bytes = UINT32_MAX;
  options.page_tokens = UINT32_MAX;
  assert_int_equal(kvf_planes_fill(&options, planes, 4, &count, &pool_bytes, NULL), KVF_TOO_LARGE);
}

static void a_newer_callers_tail_must_be_zero(void **state) {
  struct {
    kvf_planes_options options;
    uint64_t tail;
  } longer = {make_options(KVF_LAYOUT_NHD), 0};
  uint32_t count;
  longer.options.struct_bytes = sizeof longer;
  assert_int_equal(kvf_planes_fill(&longer.options, NULL, 0, &count, NULL, NULL), KVF_OK);
  longer.tail = 1ull << 63;
  assert_int_equal(kvf_planes_fill(&longer.options, NULL, 0, &count, NULL, NULL), KVF_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_are_split_evenly_unevenly_and_replicated),
      cmocka_unit_test(the_sweep_of_powers_of_two_follows_the_rule),
      cmocka_unit_test(impossible_splits_are_refused_with_their_numbers),
      cmocka_unit_test(a_pool_is_layer_after_layer_k_then_v),
      cmocka_unit_test(mla_has_one_latent_plane_a_layer_on_every_rank),
      cmocka_unit_test(asking_needs_no_array_and_a_short_array_is_refused),
      cmocka_unit_test(wrong_options_are_refused),
      cmocka_unit_test(large_pools_keep_their_bits_and_impossible_ones_are_refused),
      cmocka_unit_test(a_newer_callers_tail_must_be_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
