/* What all providers check alike, and the text of settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/piece.h"
#include "fabric/settings.h"

static const uint64_t mib = 1 << 20;

static void test_regions_are_split_at_the_device_limit(void **state) { /* C01, C12 */
  uint64_t part, count;
  assert_int_equal(fabric_region_split(7 * mib / 2, mib, 4096, &part, &count, NULL), KVF_OK);
  assert_int_equal(part, mib);
  assert_int_equal(count, 4);
  assert_int_equal(fabric_region_split(mib, mib, 4096, &part, &count, NULL), KVF_OK);
  assert_int_equal(count, 1);
  assert_int_equal(fabric_region_split(mib + 1, mib, 4096, &part, &count, NULL), KVF_OK);
  assert_int_equal(count, 2);
  assert_int_equal(fabric_region_split(UINT64_MAX, UINT64_MAX, 4096, &part, &count, NULL), KVF_OK);
  assert_int_equal(count, 1);
}

static void test_limits_are_rounded_down_to_pages(void **state) {
  const uint64_t limits[] = {3 * mib, 2 * mib + 4096};
  uint64_t part, count;
  kvf_error *error = NULL;
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(fabric_region_split(10 * mib, limits[i], 2 * mib, &part, &count, NULL), KVF_OK);
    assert_int_equal(part, 2 * mib);
    assert_int_equal(count, 5);
  }
  assert_int_equal(fabric_region_split(10 * mib, mib, 2 * mib, &part, &count, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "limit"), "1048576");
  assert_string_equal(kvf_error_find(error, "page_bytes"), "2097152");
  kvf_error_free(error);
  assert_int_equal(fabric_region_split(0, mib, 4096, &part, &count, NULL), KVF_INVALID);
  assert_int_equal(fabric_region_split(mib, mib, 0, &part, &count, NULL), KVF_INVALID);
  assert_int_equal(fabric_region_split(mib, mib, 3000, &part, &count, NULL), KVF_INVALID);
}

static void test_targets_never_wrap(void **state) {
  struct fabric_target target = {.offset = 5ull << 30, .length = (4ull << 30) + 4096};
  assert_true(fabric_target_fits(&target, (9ull << 30) + 4096));
  assert_false(fabric_target_fits(&target, (9ull << 30) + 4095));
  target = (struct fabric_target){.offset = UINT64_MAX - 10, .length = 20};
  assert_false(fabric_target_fits(&target, UINT64_MAX));
  target = (struct fabric_target){.offset = 100, .length = 0};
  assert_true(fabric_target_fits(&target, 100));
}

static void test_pieces_of_another_form(void **state) {
  uint8_t header[FABRIC_HEADER_BYTES] = {0};
  struct iovec iov[2] = {{header, 40}, {header, 2}};
  struct fabric_piece piece = {.header = header, .iov = iov, .iov_count = 2, .payload_bytes = 42};
  assert_int_equal(fabric_piece_check(&piece, NULL), KVF_OK);
  piece.payload_bytes = 41;
  assert_int_equal(fabric_piece_check(&piece, NULL), KVF_INVALID);
  piece.in_place = true;
  piece.iov_count = 0;
  assert_int_equal(fabric_piece_check(&piece, NULL), KVF_OK);
  piece.header = NULL;
  assert_int_equal(fabric_piece_check(&piece, NULL), KVF_INVALID);
  iov[0].iov_len = SIZE_MAX;
  iov[1].iov_len = 43;
  assert_true(fabric_iov_bytes(iov, 2) == UINT64_MAX);
}

static void test_settings(void **state) {
  const char *text = "one=1,two=,three=a=b";
  struct fabric_setting setting;
  kvf_error *error = NULL;
  uint64_t number = 0;
  assert_true(fabric_settings_next(&text, &setting, &error));
  assert_string_equal(setting.key, "one");
  assert_int_equal(fabric_setting_number(&setting, 1, &number, NULL), KVF_OK);
  assert_int_equal(number, 1);
  assert_int_equal(fabric_setting_number(&setting, 0, &number, NULL), KVF_INVALID);
  assert_true(fabric_settings_next(&text, &setting, &error));
  assert_string_equal(setting.value, "");
  assert_int_equal(fabric_setting_number(&setting, 1, &number, NULL), KVF_INVALID);
  assert_true(fabric_settings_next(&text, &setting, &error));
  assert_string_equal(setting.value, "a=b");
  assert_false(fabric_settings_next(&text, &setting, &error));
  assert_null(error);
  const char *const wrong[] = {"one", "=1", ",", "a=1,,b=2", "a_key_that_is_much_longer_than_any_key_can_be=1"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    text = wrong[i];
    while (fabric_settings_next(&text, &setting, &error)) continue;
    assert_int_equal(kvf_error_status(error), KVF_INVALID);
    kvf_error_free(error);
    error = NULL;
  }
  text = NULL;
  assert_false(fabric_settings_next(&text, &setting, &error));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_regions_are_split_at_the_device_limit),
      cmocka_unit_test(test_limits_are_rounded_down_to_pages),
      cmocka_unit_test(test_targets_never_wrap),
      cmocka_unit_test(test_pieces_of_another_form),
      cmocka_unit_test(test_settings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
