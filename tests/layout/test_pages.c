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
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 24, 72, 0, 9, NULL), KVF_OK);
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 23, 72, 0, 9, NULL), KVF_INVALID);
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 24, 73, 0, 9, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "layer"), "5");
  assert_string_equal(kvf_error_find(error, "page_list"), "2");
  assert_string_equal(kvf_error_find(error, "pages"), "3");
  kvf_error_free(error);
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 30, 29, 0, 9, NULL), KVF_INVALID);
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 0, UINT64_MAX, 0, 9, NULL), KVF_INVALID);
  /* Nothing to move, or nothing in these layers: no list is needed. */
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 500, 500, 0, 9, NULL), KVF_OK);
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 0, 500, 6, 9, NULL), KVF_OK);
  pages.lists[2].pages = NULL;
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 24, 72, 0, 9, NULL), KVF_INVALID);
}

/* C22: the last page of the pool is one below its count. */
static void a_page_equal_to_the_count_is_out_of_range(void **state) {
  const kvf_plane plane = make_plane(5, 0, 16, 99);
  const uint32_t numbers[] = {98, 99};
  const struct layout_pages pages = make_pages(0, numbers, 2, 0);
  kvf_error *error = NULL;
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 0, 17, 0, 9, &error), KVF_OUT_OF_RANGE);
  assert_string_equal(kvf_error_find(error, "page"), "99");
  assert_string_equal(kvf_error_find(error, "index"), "1");
  assert_string_equal(kvf_error_find(error, "layer"), "5");
  kvf_error_free(error);
  /* Outside of the range nobody looks at it. */
  assert_int_equal(layout_pages_check(&pages, &plane, 1, 0, 16, 0, 9, NULL), KVF_OK);
}

/* C22: two tokens ranges may not share a page. Short and long lists take different sets. */
static void a_repeated_page_is_refused_wherever_it_is(void **state) {
  enum { MOST = 2000 };
  static uint32_t numbers[MOST];
  const kvf_plane plane = make_plane(0, 0, 4, 4096);
  for (uint32_t count = 2; count <= MOST; count += count < 20 ? 1 : 333) {
    const struct layout_pages pages = make_pages(0, numbers, count, 0);
    for (uint32_t i = 0; i < count; i++) numbers[i] = (i * 1001 + 5) % 4096;
    assert_int_equal(layout_pages_check(&pages, &plane, 1, 0, 4 * count, 0, 1, NULL), KVF_OK);
    numbers[count - 1] = numbers[0];
    kvf_error *error = NULL;
    assert_int_equal(layout_pages_check(&pages, &plane, 1, 0, 4 * count, 0, 1, &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "page"), "5");
    kvf_error_free(error);
    assert_int_equal(layout_pages_check(&pages, &plane, 1, 4, 4 * count, 0, 1, NULL), KVF_OK);
  }
}

/* Each plane is held to its own page size and pool, also where several share a list. */
static void planes_of_one_list_may_differ_in_page_size_and_pool(void **state) {
  kvf_plane planes[] = {make_plane(0, 0, 16, 10), make_plane(1, 0, 64, 3), make_plane(2, 0, 16, 8)};
  const uint32_t numbers[] = {2, 1, 7, 6};
  const struct layout_pages pages = make_pages(0, numbers, 4, 0);
  assert_int_equal(layout_pages_check(&pages, planes, 3, 0, 64, 0, 9, NULL), KVF_OK);
  planes[2].page_count = 7;
  assert_int_equal(layout_pages_check(&pages, planes, 3, 0, 64, 0, 9, NULL), KVF_OUT_OF_RANGE);
  assert_int_equal(layout_pages_check(&pages, planes, 3, 0, 64, 0, 2, NULL), KVF_OK);
  planes[2].page_count = 8;
  planes[1].page_count = 2;
  assert_int_equal(layout_pages_check(&pages, planes, 3, 0, 64, 0, 9, NULL), KVF_OUT_OF_RANGE);
}

static void memory_out_is_said(void **state) {
  static uint32_t numbers[1000];
  const kvf_plane plane = make_plane(0, 0, 1, 1000);
  const struct layout_pages pages = make_pages(0, numbers, 1000, 0);
  for (uint32_t i = 0; i < 1000; i++) numbers[i] = 999 - i;
  base_alloc_fail_after(1);
  kvf_status status = layout_pages_check(&pages, &plane, 1, 0, 1000, 0, 1, NULL);
  base_alloc_fail_after(0);
  assert_int_equal(status, KVF_NO_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_outside_of_the_list_are_refused),
      cmocka_unit_test(a_page_equal_to_the_count_is_out_of_range),
      cmocka_unit_test(a_repeated_page_is_refused_wherever_it_is),
      cmocka_unit_test(planes_of_one_list_may_differ_in_page_size_and_pool),
      cmocka_unit_test(memory_out_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
