/* Page lists against the tokens that will be moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "layout/block.h"

static kvf_plane make_plane(uint32_t layer, uint32_t page_list, uint32_t page_tokens, uint32_t page_count) {
  return (kvf_plane){.layer = layer,
                     .role = KVF_ROLE_K,
                     .dtype = KVF_DTYPE_BF16,
                     .page_list = page_list,
                     .heads_total = 1,
                     .head_count = 1,
                     .head_bytes = 1,
                     .page_tokens = page_tokens,
                     .page_count = page_count,
                     .page_stride_bytes = page_tokens,
                     .token_stride_bytes = 1,
                     .head_stride_bytes = 1};
}

/* All that a room of these tokens needs in these layers. */
static kvf_status check(const struct layout_pages *pages, const kvf_plane *planes, uint32_t plane_count, uint64_t token_first,
                        uint64_t token_end, uint32_t layer_first, uint32_t layer_end, kvf_error **error_out) {
  const struct layout_demand demand = {token_first, token_end, layer_first, layer_end, true, true};
  return layout_pages_check(pages, planes, plane_count, &demand, error_out);
}

static struct layout_pages make_pages(uint32_t list, const uint32_t *numbers, uint32_t count, uint64_t first_token) {
  struct layout_pages pages = {0};
  pages.lists[list] = (kvf_page_list){list, count, numbers, first_token};
  return pages;
}

static void tokens_outside_of_the_list_are_refused(void **state) {
  const kvf_plane plane = make_plane(5, 2, 16, 100);
  const uint32_t numbers[] = {7, 3, 99};
  struct layout_pages pages = make_pages(2, numbers, 3, 24);
  kvf_error *error = NULL;
  assert_int_equal(check(&pages, &plane, 1, 24, 72, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 23, 72, 0, 9, NULL), KVF_INVALID);
  assert_int_equal(check(&pages, &plane, 1, 24, 73, 0, 9, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "layer"), "5");
  assert_string_equal(kvf_error_find(error, "page_list"), "2");
  assert_string_equal(kvf_error_find(error, "pages"), "3");
  kvf_error_free(error);
  assert_int_equal(check(&pages, &plane, 1, 30, 29, 0, 9, NULL), KVF_INVALID);
  assert_int_equal(check(&pages, &plane, 1, 0, UINT64_MAX, 0, 9, NULL), KVF_INVALID);
  /* Nothing to move, or nothing in these layers: no list is needed. */
  assert_int_equal(check(&pages, &plane, 1, 500, 500, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 0, 500, 6, 9, NULL), KVF_OK);
  pages.lists[2].pages = NULL;
  assert_int_equal(check(&pages, &plane, 1, 24, 72, 0, 9, NULL), KVF_INVALID);
}

/* C22: the last page of the pool is one below its count. */
static void a_page_equal_to_the_count_is_out_of_range(void **state) {
  const kvf_plane plane = make_plane(5, 0, 16, 99);
  const uint32_t numbers[] = {98, 99};
  const struct layout_pages pages = make_pages(0, numbers, 2, 0);
  kvf_error *error = NULL;
  assert_int_equal(check(&pages, &plane, 1, 0, 17, 0, 9, &error), KVF_OUT_OF_RANGE);
  assert_string_equal(kvf_error_find(error, "page"), "99");
  assert_string_equal(kvf_error_find(error, "index"), "1");
  assert_string_equal(kvf_error_find(error, "layer"), "5");
  kvf_error_free(error);
  /* Outside of the range nobody looks at it. */
  assert_int_equal(check(&pages, &plane, 1, 0, 16, 0, 9, NULL), KVF_OK);
}

/* C22: two tokens ranges may not share a page. Short and long lists take different sets. */
static void a_repeated_page_is_refused_wherever_it_is(void **state) {
  enum { MOST = 2000 };
  static uint32_t numbers[MOST];
  const kvf_plane plane = make_plane(0, 0, 4, 4096);
  for (uint32_t count = 2; count <= MOST; count += count < 20 ? 1 : 333) {
    const struct layout_pages pages = make_pages(0, numbers, count, 0);
    for (uint32_t i = 0; i < count; i++) numbers[i] = (i * 1001 + 5) % 4096;
    assert_int_equal(check(&pages, &plane, 1, 0, 4 * count, 0, 1, NULL), KVF_OK);
    numbers[count - 1] = numbers[0];
    kvf_error *error = NULL;
    assert_int_equal(check(&pages, &plane, 1, 0, 4 * count, 0, 1, &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "page"), "5");
    kvf_error_free(error);
    assert_int_equal(check(&pages, &plane, 1, 4, 4 * count, 0, 1, NULL), KVF_OK);
  }
}

/* Each plane is held to its own page size and pool, also where several share a list. */
static void planes_of_one_list_may_differ_in_page_size_and_pool(void **state) {
  kvf_plane planes[] = {make_plane(0, 0, 16, 10), make_plane(1, 0, 64, 3), make_plane(2, 0, 16, 8)};
  const uint32_t numbers[] = {2, 1, 7, 6};
  const struct layout_pages pages = make_pages(0, numbers, 4, 0);
  assert_int_equal(check(&pages, planes, 3, 0, 64, 0, 9, NULL), KVF_OK);
  planes[2].page_count = 7;
  assert_int_equal(check(&pages, planes, 3, 0, 64, 0, 9, NULL), KVF_OUT_OF_RANGE);
  assert_int_equal(check(&pages, planes, 3, 0, 64, 0, 2, NULL), KVF_OK);
  planes[2].page_count = 8;
  planes[1].page_count = 2;
  assert_int_equal(check(&pages, planes, 3, 0, 64, 0, 9, NULL), KVF_OUT_OF_RANGE);
}

/* A window needs pages only for its own tokens, from the beginning of the entry that it begins in; but who does not know where the
 * room ends cannot ask for them. */
static void a_window_needs_its_own_pages_only(void **state) {
  kvf_plane plane = make_plane(5, 1, 4, 100);
  const uint32_t numbers[] = {7, 3, 99};
  struct layout_pages pages = make_pages(1, numbers, 3, 88);
  plane.window_tokens = 10;
  assert_int_equal(check(&pages, &plane, 1, 0, 100, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 95, 100, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 0, 101, 0, 9, NULL), KVF_INVALID);
  assert_int_equal(check(&pages, &plane, 1, 0, 97, 0, 9, NULL), KVF_INVALID);
  const struct layout_demand chunk = {0, 50, 0, 9, false, false};
  assert_int_equal(layout_pages_check(&pages, &plane, 1, &chunk, NULL), KVF_OK);
  plane.window_tokens = 0;
  assert_int_equal(layout_pages_check(&pages, &plane, 1, &chunk, NULL), KVF_INVALID);
  /* 91 to 100 begins within entry 11 of eight tokens each, which is the first of the list. */
  plane.window_tokens = 9;
  plane.entry_tokens = 8;
  assert_int_equal(check(&pages, &plane, 1, 0, 100, 0, 9, NULL), KVF_OK);
  plane.window_tokens = 13;
  assert_int_equal(check(&pages, &plane, 1, 0, 100, 0, 9, NULL), KVF_INVALID);
}

static void a_per_request_slot_is_exactly_one_page_of_the_pool(void **state) {
  kvf_plane plane = make_plane(5, 3, 1, 100);
  const uint32_t numbers[] = {99, 100};
  struct layout_pages pages = make_pages(3, numbers, 1, 77);
  kvf_error *error = NULL;
  plane.per_request = 1;
  assert_int_equal(check(&pages, &plane, 1, 500, 500, 8, 9, NULL), KVF_OK);
  pages.lists[3].page_count = 2;
  assert_int_equal(check(&pages, &plane, 1, 0, 500, 0, 9, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "page_list"), "3");
  kvf_error_free(error);
  pages = make_pages(3, numbers + 1, 1, 0);
  assert_int_equal(check(&pages, &plane, 1, 0, 500, 0, 9, NULL), KVF_OUT_OF_RANGE);
  pages.lists[3].pages = NULL;
  assert_int_equal(check(&pages, &plane, 1, 0, 500, 0, 9, NULL), KVF_INVALID);
  const struct layout_demand chunk = {0, 500, 0, 9, false, false};
  assert_int_equal(layout_pages_check(&pages, &plane, 1, &chunk, NULL), KVF_OK);
}

/* Rank 1 of 4 holds by 2: of 16 entries 2, 3, 10 and 11. */
static void a_share_needs_pages_for_its_entries_only(void **state) {
  kvf_plane plane = make_plane(5, 0, 2, 100);
  const uint32_t numbers[] = {7, 3};
  struct layout_pages pages = make_pages(0, numbers, 2, 0);
  plane.token_parts = 4;
  plane.token_part = 1;
  plane.token_block = 2;
  assert_int_equal(check(&pages, &plane, 1, 0, 16, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 0, 18, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 0, 19, 0, 9, NULL), KVF_INVALID);
  pages.lists[0].first_token = 4; /* from entry 10 on */
  assert_int_equal(check(&pages, &plane, 1, 4, 20, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, &plane, 1, 3, 20, 0, 9, NULL), KVF_INVALID);
  pages.lists[0].first_token = 9; /* nothing of ours lies between */
  assert_int_equal(check(&pages, &plane, 1, 4, 20, 0, 9, NULL), KVF_OK);
  pages.lists[0].pages = NULL;
  assert_int_equal(check(&pages, &plane, 1, 4, 10, 0, 9, NULL), KVF_OK);
}

/* Planes of one list are told apart by all that decides which of its slots they need. */
static void planes_of_one_list_are_checked_each_by_its_own_slots(void **state) {
  kvf_plane planes[] = {make_plane(0, 0, 4, 100), make_plane(1, 0, 4, 100)};
  const uint32_t numbers[] = {7, 3};
  const struct layout_pages pages = make_pages(0, numbers, 2, 32);
  planes[0].entry_tokens = 4;
  assert_int_equal(check(&pages, planes, 1, 32, 64, 0, 9, NULL), KVF_OK);
  assert_int_equal(check(&pages, planes, 2, 32, 64, 0, 9, NULL), KVF_INVALID);
  planes[1].window_tokens = 8;
  assert_int_equal(check(&pages, planes, 2, 32, 64, 0, 9, NULL), KVF_INVALID);
  planes[1].token_parts = 4;
  assert_int_equal(check(&pages, planes, 2, 32, 64, 0, 9, NULL), KVF_OK);
}

/* What only the cutting of a piece can find out: the window's end was not known before. */
static void a_piece_without_pages_names_layer_and_tokens(void **state) {
  kvf_plane source = make_plane(5, 1, 4, 50), target = make_plane(5, 0, 4, 100);
  const uint32_t numbers[] = {7, 50, 8};
  const struct layout_cut cut = {0, 0, 0, 1};
  const struct layout_link link = {&source, &target, &cut, 1};
  const struct layout_pages pages = make_pages(1, numbers, 3, 88);
  const struct layout_piece good = {0, 1, 96, 4}, early = {0, 1, 84, 8}, late = {0, 1, 98, 4}, bad = {0, 1, 88, 5};
  kvf_error *error = NULL;
  source.window_tokens = target.window_tokens = 40;
  assert_int_equal(layout_piece_check_pages(&link, LAYOUT_SOURCE, &pages, &good, NULL), KVF_OK);
  assert_int_equal(layout_piece_check_pages(&link, LAYOUT_SOURCE, &pages, &early, &error), KVF_OUT_OF_RANGE);
  assert_string_equal(kvf_error_find(error, "layer"), "5");
  assert_string_equal(kvf_error_find(error, "token_first"), "84");
  assert_string_equal(kvf_error_find(error, "token_end"), "92");
  kvf_error_free(error);
  assert_int_equal(layout_piece_check_pages(&link, LAYOUT_SOURCE, &pages, &late, NULL), KVF_OUT_OF_RANGE);
  assert_int_equal(layout_piece_check_pages(&link, LAYOUT_SOURCE, &pages, &bad, NULL), KVF_OUT_OF_RANGE);
  assert_int_equal(layout_piece_check_pages(&link, LAYOUT_TARGET, &pages, &good, NULL), KVF_OUT_OF_RANGE);
  source.window_tokens = 0; /* then the numbers have been looked at before */
  assert_int_equal(layout_piece_check_pages(&link, LAYOUT_SOURCE, &pages, &bad, NULL), KVF_OK);
}

static void memory_out_is_said(void **state) {
  static uint32_t numbers[1000];
  const kvf_plane plane = make_plane(0, 0, 1, 1000);
  const struct layout_pages pages = make_pages(0, numbers, 1000, 0);
  for (uint32_t i = 0; i < 1000; i++) numbers[i] = 999 - i;
  base_alloc_fail_after(1);
  kvf_status status = check(&pages, &plane, 1, 0, 1000, 0, 1, NULL);
  base_alloc_fail_after(0);
  assert_int_equal(status, KVF_NO_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_outside_of_the_list_are_refused),
      cmocka_unit_test(a_page_equal_to_the_count_is_out_of_range),
      cmocka_unit_test(a_repeated_page_is_refused_wherever_it_is),
      cmocka_unit_test(planes_of_one_list_may_differ_in_page_size_and_pool),
      cmocka_unit_test(a_window_needs_its_own_pages_only),
      cmocka_unit_test(a_per_request_slot_is_exactly_one_page_of_the_pool),
      cmocka_unit_test(a_share_needs_pages_for_its_entries_only),
      cmocka_unit_test(planes_of_one_list_are_checked_each_by_its_own_slots),
      cmocka_unit_test(a_piece_without_pages_names_layer_and_tokens),
      cmocka_unit_test(memory_out_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
