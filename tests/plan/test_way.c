/* Which way a plan takes, why, and the smallest run it is chosen by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <kvferry/engine.h>

#include "plan/plan.h"

static uint32_t choose(uint32_t demanded, uint32_t can_direct, uint64_t row_bytes, const char *reason_part) {
  const struct plan_way_facts facts = {.demanded = demanded,
                                       .can_direct = can_direct,
                                       .why_not_direct = can_direct ? NULL : "tcp has no such thing",
                                       .row_bytes = row_bytes,
                                       .direct_min_row_bytes = 4096};
  struct plan_way_choice choice;
  assert_int_equal(plan_way_choose(&facts, &choice, NULL), KVF_OK);
  if (!strstr(choice.reason, reason_part)) fail_msg("\"%s\" does not say \"%s\"", choice.reason, reason_part);
  return choice.way;
}

static void auto_takes_direct_when_runs_are_long_enough(void **state) {
  assert_int_equal(choose(KVF_WAY_AUTO, 1, 4096, "4096 B"), KVF_WAY_DIRECT);
  assert_int_equal(choose(KVF_WAY_AUTO, 1, 4095, "4095 B"), KVF_WAY_STAGED);
  assert_int_equal(choose(KVF_WAY_AUTO, 0, 1 << 20, "tcp has no such thing"), KVF_WAY_STAGED);
  assert_int_equal(choose(KVF_WAY_AUTO, 1, UINT64_MAX, "nothing"), KVF_WAY_DIRECT);
}

static void a_demand_is_followed_or_refused_with_the_reason(void **state) {
  assert_int_equal(choose(KVF_WAY_STAGED, 1, 1 << 20, "demanded"), KVF_WAY_STAGED);
  assert_int_equal(choose(KVF_WAY_DIRECT, 1, 16, "demanded"), KVF_WAY_DIRECT);
  const struct plan_way_facts facts = {.demanded = KVF_WAY_DIRECT, .why_not_direct = "the peer is on another host"};
  struct plan_way_choice choice = {.way = 77};
  kvf_error *error = NULL;
  assert_int_equal(plan_way_choose(&facts, &choice, &error), KVF_UNSUPPORTED);
  assert_non_null(strstr(kvf_error_message(error), "the peer is on another host"));
  assert_int_equal(choice.way, 77);
  kvf_error_free(error);
  assert_int_equal(plan_way_choose(&(struct plan_way_facts){.demanded = 9}, &choice, NULL), KVF_UNSUPPORTED);
}

/* One cut of @p cut_heads heads between two 8-head planes of the given layouts and page sizes. */
static uint64_t row_bytes(uint32_t source_layout, uint32_t target_layout, uint32_t source_page, uint32_t target_page,
                          uint32_t cut_heads) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  kvf_plane planes[2][2];
  uint32_t count;
  options.layer_count = 1;
  options.heads_total = 8;
  options.head_bytes = 256;
  options.page_count = 4;
  for (int side = 0; side < 2; side++) {
    options.layout = side ? target_layout : source_layout;
    options.page_tokens = side ? target_page : source_page;
    assert_int_equal(kvf_planes_fill(&options, planes[side], 2, &count, NULL, NULL), KVF_OK);
  }
  struct layout_cut cut = {.head_count = cut_heads};
  return plan_row_bytes(&(struct layout_link){planes[0], planes[1], &cut, 1});
}

static void the_smallest_run_follows_from_strides_and_pages(void **state) {
  const uint32_t N = KVF_LAYOUT_NHD, H = KVF_LAYOUT_HND;
  assert_int_equal(row_bytes(N, N, 64, 64, 8), 64 * 2048);
  assert_int_equal(row_bytes(N, N, 64, 16, 8), 16 * 2048);
  assert_int_equal(row_bytes(N, N, 48, 32, 8), 16 * 2048);
  assert_int_equal(row_bytes(N, N, 64, 64, 2), 512);
  assert_int_equal(row_bytes(H, H, 64, 64, 2), 64 * 256);
  assert_int_equal(row_bytes(H, H, 64, 64, 1), 64 * 256);
  assert_int_equal(row_bytes(N, H, 64, 64, 8), 256);
  assert_int_equal(row_bytes(N, H, 64, 64, 1), 256);
  const struct layout_link nothing = {0};
  assert_true(plan_row_bytes(&nothing) == UINT64_MAX);
}

/* Under context parallelism no run is longer than a block that both keep together. */
static void shares_bound_the_smallest_run(void **state) {
  kvf_plane source = {.heads_total = 8,
                      .head_count = 8,
                      .head_bytes = 256,
                      .page_tokens = 64,
                      .page_count = 4,
                      .page_stride_bytes = 64 * 2048,
                      .token_stride_bytes = 2048,
                      .head_stride_bytes = 256};
  kvf_plane target = source;
  const struct layout_cut cut = {.head_count = 8};
  const struct layout_link link = {&source, &target, &cut, 1};
  assert_int_equal(plan_row_bytes(&link), 64 * 2048);
  source.token_parts = 2;
  source.token_block = 48;
  assert_int_equal(plan_row_bytes(&link), 16 * 2048);
  target.token_parts = 4;
  assert_int_equal(plan_row_bytes(&link), 2048);
  /* Padded tokens: a token is a run. */
  target.token_stride_bytes = 4096;
  assert_int_equal(plan_row_bytes(&link), 2048);
  /* Head-major on one side only, and heads of one side only touching. */
  target.head_stride_bytes = 64 * 256;
  target.token_stride_bytes = 256;
  assert_int_equal(plan_row_bytes(&link), 256);
  source = target = (kvf_plane){.head_count = 1, .head_bytes = UINT32_MAX, .page_tokens = 1};
  source.page_tokens = target.page_tokens = UINT32_MAX;
  source.token_stride_bytes = target.token_stride_bytes = 4ull * UINT32_MAX;
  const struct layout_cut four = {.head_count = 4};
  const struct layout_link large = {&source, &target, &four, 1};
  source.head_stride_bytes = target.head_stride_bytes = UINT32_MAX;
  assert_true(plan_row_bytes(&large) == UINT64_MAX);
}

static void a_reason_is_found_where_none_was_given(void **state) {
  const struct plan_way_facts facts = {.demanded = KVF_WAY_AUTO};
  struct plan_way_choice choice;
  assert_int_equal(plan_way_choose(&facts, &choice, NULL), KVF_OK);
  assert_non_null(strstr(choice.reason, "cannot write into the peer's pages"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(auto_takes_direct_when_runs_are_long_enough),
      cmocka_unit_test(a_demand_is_followed_or_refused_with_the_reason),
      cmocka_unit_test(the_smallest_run_follows_from_strides_and_pages),
      cmocka_unit_test(shares_bound_the_smallest_run),
      cmocka_unit_test(a_reason_is_found_where_none_was_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
