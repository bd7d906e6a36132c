/* What a plane list must be to be accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
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
  EXPECT(component, KVF_COMPONENT_LIMIT);
  EXPECT(entry_tokens, (1u << 20) + 1);
  EXPECT(per_request, 2);
  EXPECT(token_part, 1);
#undef EXPECT
  assert_int_equal(layout_planes_validate(NULL, 1, NULL), KVF_INVALID);
  assert_int_equal(layout_planes_validate(NULL, 0, NULL), KVF_OK);
}

static void what_a_plain_cache_leaves_0_may_be_said(void **state) {
  kvf_plane plane = make_plane();
  plane.part = UINT32_MAX;
  plane.component = KVF_COMPONENT_LIMIT - 1;
  plane.entry_tokens = 1 << 20;
  plane.window_tokens = UINT32_MAX;
  plane.token_parts = 3;
  plane.token_part = 2;
  plane.token_block = UINT32_MAX;
  assert_int_equal(validate(&plane), KVF_OK);
  plane.token_part = 3;
  assert_int_equal(validate(&plane), KVF_INVALID);
}

/* A slot is one entry, and not a token's. */
static void a_slot_has_one_entry_and_no_tokens(void **state) {
  kvf_plane good = make_plane();
  good.per_request = 1;
  good.page_tokens = 1;
  assert_int_equal(validate(&good), KVF_OK);
  for (int i = 0; i < 4; i++) {
    kvf_plane plane = good;
    uint32_t *const members[] = {&plane.page_tokens, &plane.entry_tokens, &plane.window_tokens, &plane.token_parts};
    *members[i] = 2;
    assert_int_equal(validate(&plane), KVF_INVALID);
  }
}

/* The same heads twice on one rank are in order only as different entries of them. */
static void a_head_twice_needs_unequal_shares(void **state) {
  static const struct {
    uint32_t a[3], b[3]; /* token_parts, token_part, token_block */
    kvf_status status;
  } rows[] = {
      {{2, 0, 1}, {2, 1, 1}, KVF_OK},      {{2, 0, 1}, {2, 0, 1}, KVF_INVALID},
      {{2, 0, 1}, {0, 0, 0}, KVF_INVALID}, {{4, 0, 2}, {4, 3, 2}, KVF_OK},
      {{2, 0, 1}, {4, 1, 1}, KVF_OK},      {{2, 0, 1}, {3, 1, 1}, KVF_INVALID},
      {{2, 0, 1}, {2, 1, 2}, KVF_INVALID}, {{1 << 20, 0, 1}, {3, 1, 1}, KVF_INVALID},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kvf_plane planes[2] = {make_plane(), make_plane()};
    for (int k = 0; k < 2; k++) {
      const uint32_t *share = k ? rows[i].b : rows[i].a;
      planes[k].token_parts = share[0];
      planes[k].token_part = share[1];
      planes[k].token_block = share[2];
    }
    assert_int_equal(layout_planes_validate(planes, 2, NULL), rows[i].status);
    planes[1].part = 1; /* another array */
    assert_int_equal(layout_planes_validate(planes, 2, NULL), KVF_OK);
  }
}

/* Planes in order of their first heads: one that reaches far is compared with all that begin within it. */
static void a_long_plane_is_compared_with_all_within_it(void **state) {
  kvf_plane planes[3] = {make_plane(), make_plane(), make_plane()};
  for (uint32_t i = 0; i < 3; i++) {
    planes[i].head_first = 2 * i;
    planes[i].head_count = i == 0 ? 6 : 2;
    planes[i].token_parts = 2;
    planes[i].token_part = i > 0;
    planes[i].token_stride_bytes = 60;
    planes[i].page_stride_bytes = 300;
  }
  assert_int_equal(layout_planes_validate(planes, 3, NULL), KVF_OK);
  planes[2].token_part = 0;
  assert_int_equal(layout_planes_validate(planes, 3, NULL), KVF_INVALID);
}

/* A peer's list must not make us compare everything with everything. */
static void planes_of_one_head_are_bounded(void **state) {
  enum { MOST = 66 };
  kvf_plane planes[MOST];
  kvf_error *error = NULL;
  for (uint32_t i = 0; i < MOST; i++) {
    planes[i] = make_plane();
    planes[i].token_parts = 128;
    planes[i].token_part = i;
  }
  assert_int_equal(layout_planes_validate(planes, MOST - 1, NULL), KVF_OK);
  assert_int_equal(layout_planes_validate(planes, MOST, &error), KVF_INVALID);
  assert_string_equal(kvf_error_message(error), "too many planes hold one head");
  kvf_error_free(error);
}

static void planes_of_one_array_are_of_one_make(void **state) {
  static const size_t offsets[] = {offsetof(kvf_plane, dtype),        offsetof(kvf_plane, head_bytes),
                                   offsetof(kvf_plane, entry_tokens), offsetof(kvf_plane, window_tokens),
                                   offsetof(kvf_plane, component),    offsetof(kvf_plane, heads_total)};
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    kvf_plane planes[2] = {make_plane(), make_plane()};
    const uint32_t value = 9;
    planes[0].head_first = 0;
    planes[0].head_count = 2;
    planes[1].part = 3;
    memcpy((char *)&planes[1] + offsets[i], &value, sizeof value);
    if (offsets[i] == offsetof(kvf_plane, dtype)) planes[1].dtype = KVF_DTYPE_INT8;
    assert_int_equal(layout_planes_validate(planes, 2, NULL), KVF_OK);
    planes[1].part = 0;
    assert_int_equal(layout_planes_validate(planes, 2, NULL), KVF_INVALID);
  }
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
  planes[1].part = 7;
  planes[1].head_first = 6;
  assert_int_equal(layout_planes_validate(planes, 2, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "plane"), "1");
  assert_string_equal(kvf_error_find(error, "layer"), "3");
  assert_string_equal(kvf_error_find(error, "role"), "SCALE_V");
  assert_string_equal(kvf_error_find(error, "part"), "7");
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
  plane = make_plane();
  plane.token_stride_bytes = UINT64_MAX / 3;
  assert_false(layout_plane_extent(&plane, &bytes));
  plane.token_stride_bytes = UINT64_MAX / 4;
  assert_false(layout_plane_extent(&plane, &bytes));
  plane = make_plane();
  plane.head_stride_bytes = UINT64_MAX / 2;
  assert_false(layout_plane_extent(&plane, &bytes));
  plane.head_stride_bytes = UINT64_MAX / 3;
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
      cmocka_unit_test(what_a_plain_cache_leaves_0_may_be_said),
      cmocka_unit_test(a_slot_has_one_entry_and_no_tokens),
      cmocka_unit_test(a_head_twice_needs_unequal_shares),
      cmocka_unit_test(a_long_plane_is_compared_with_all_within_it),
      cmocka_unit_test(planes_of_one_head_are_bounded),
      cmocka_unit_test(planes_of_one_array_are_of_one_make),
      cmocka_unit_test(any_nesting_of_strides_is_accepted),
      cmocka_unit_test(the_error_names_plane_layer_role_and_value),
      cmocka_unit_test(a_head_twice_on_one_rank_is_refused),
      cmocka_unit_test(the_extent_ends_with_the_last_byte_and_may_not_wrap),
      cmocka_unit_test(memory_out_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
