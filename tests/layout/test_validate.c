/* What a plane list must be to be accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "layout/cut.h"

static kvf_plane make_plane(void) {
  return (kvf_plane){.layer = 3,
                     .role = KVF_ROLE_K,
                     .dtype = KVF_DTYPE_BF16,
                     .heads_total = 8,
                     .head_first = 2,
                     .head_count = 4,
                     .head_bytes = 10,
                     .page_tokens = 5,
                     .page_count = 7,
                     .page_stride_bytes = 200,
                     .token_stride_bytes = 40,
                     .head_stride_bytes = 10,
                     .address = 4096};
}

static kvf_status validate(const kvf_plane *plane) {
  return layout_planes_validate(plane, 1, NULL);
}

static void each_number_out_of_range_is_refused(void **state) {
  kvf_plane good = make_plane();
  assert_int_equal(validate(&good), KVF_OK);
#define EXPECT(member, value)                        \
  do {                                               \
    kvf_plane plane = make_plane();                  \
    plane.member = (value);                          \
    assert_int_equal(validate(&plane), KVF_INVALID); \
  } while (0)
  EXPECT(layer, UINT32_MAX);
  EXPECT(role, 0);
  EXPECT(role, 8);
  EXPECT(dtype, 0);
  EXPECT(dtype, 8);
  EXPECT(page_list, KVF_PAGE_LIST_LIMIT);
  EXPECT(head_count, 0);
  EXPECT(head_first, 5);
  EXPECT(head_first, UINT32_MAX);
  EXPECT(heads_total, 5);
  EXPECT(head_bytes, 0);
  EXPECT(page_tokens, 0);
  EXPECT(page_count, 0);
  EXPECT(head_stride_bytes, 9);
  EXPECT(head_stride_bytes, 11); /* reaches into the next token */
  EXPECT(token_stride_bytes, 39);
  EXPECT(token_stride_bytes, 0);
  EXPECT(page_stride_bytes, 199);
  EXPECT(page_stride_bytes, UINT64_MAX / 4);
  EXPECT(address, UINT64_MAX - 1000);
#undef EXPECT
  assert_int_equal(layout_planes_validate(NULL, 1, NULL), KVF_INVALID);
  assert_int_equal(layout_planes_validate(NULL, 0, NULL), KVF_OK);
}

static void any_nesting_of_strides_is_accepted(void **state) {
  kvf_plane plane = make_plane();
  plane.token_stride_bytes = 10; /* head-major, padded heads */
  plane.head_stride_bytes = 53;
  plane.page_stride_bytes = 4 * 53;
  assert_int_equal(validate(&plane), KVF_OK);
  plane.page_stride_bytes = 10; /* pages innermost */
  plane.head_stride_bytes = 70;
  plane.token_stride_bytes = 280;
  assert_int_equal(validate(&plane), KVF_OK);
  plane = make_plane();
  plane.head_count = 1; /* one head: its stride is of no use */
  plane.head_stride_bytes = 0;
  assert_int_equal(validate(&plane), KVF_OK);
}

static void the_error_names_plane_layer_role_and_value(void **state) {
  kvf_plane planes[2] = {make_plane(), make_plane()};
  kvf_error *error = NULL;
  planes[1].role = KVF_ROLE_SCALE_V;
  planes[1].head_first = 6;
  assert_int_equal(layout_planes_validate(planes, 2, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "plane"), "1");
  assert_string_equal(kvf_error_find(error, "layer"), "3");
  assert_string_equal(kvf_error_find(error, "role"), "SCALE_V");
  assert_string_equal(kvf_error_find(error, "head_first"), "6");
  assert_string_equal(kvf_error_find(error, "heads_total"), "8");
  kvf_error_free(error);
}

static void a_head_twice_on_one_rank_is_refused(void **state) {
  kvf_plane planes[3] = {make_plane(), make_plane(), make_plane()};
  kvf_error *error = NULL;
  planes[0].head_first = 4; /* heads 4-7, then another layer, then heads 1-4 */
  planes[1].layer = 4;
  planes[2].head_first = 1;
  assert_int_equal(layout_planes_validate(planes, 3, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "plane"), "0");
  assert_string_equal(kvf_error_find(error, "heads"), "1-4");
  assert_string_equal(kvf_error_find(error, "other_heads"), "4-7");
  kvf_error_free(error);
  planes[2].head_first = 0;
  assert_int_equal(layout_planes_validate(planes, 3, NULL), KVF_OK);
  planes[2].dtype = KVF_DTYPE_F16;
  assert_int_equal(layout_planes_validate(planes, 3, NULL), KVF_INVALID);
}

static void the_extent_ends_with_the_last_byte_and_may_not_wrap(void **state) {
  kvf_plane plane = make_plane();
  uint64_t bytes = 0;
  assert_true(layout_plane_extent(&plane, &bytes));
  assert_int_equal(bytes, 7 * 200);
  plane.page_stride_bytes = 300;
  assert_true(layout_plane_extent(&plane, &bytes));
  assert_int_equal(bytes, 6 * 300 + 200);
  plane.page_stride_bytes = UINT64_MAX / 6;
  assert_false(layout_plane_extent(&plane, &bytes));
  plane.page_stride_bytes = UINT64_MAX / 5;
  assert_false(layout_plane_extent(&plane, &bytes));
}

static void memory_out_is_said(void **state) {
  kvf_plane plane = make_plane();
  base_alloc_fail_after(1);
  kvf_status status = validate(&plane);
  base_alloc_fail_after(0);
  assert_int_equal(status, KVF_NO_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_number_out_of_range_is_refused),
      cmocka_unit_test(any_nesting_of_strides_is_accepted),
      cmocka_unit_test(the_error_names_plane_layer_role_and_value),
      cmocka_unit_test(a_head_twice_on_one_rank_is_refused),
      cmocka_unit_test(the_extent_ends_with_the_last_byte_and_may_not_wrap),
      cmocka_unit_test(memory_out_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
