/* The checksum is the same by every kernel, sees a single changed bit anywhere, and is never 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "copy/checksum.h"

enum { BYTES = 5000 };

static uint8_t bytes[BYTES + 64];

static void every_kernel_agrees(void **state) {
  for (size_t length = 0; length < BYTES; length += length < 300 ? 1 : 127) {
    for (size_t offset = 0; offset < 3; offset++) {
      uint64_t plain = copy_checksum_plain(bytes + offset, length);
      assert_int_equal(copy_checksum(bytes + offset, length), plain);
#if defined(__x86_64__)
      if (__builtin_cpu_supports("avx2")) assert_int_equal(copy_checksum_avx2(bytes + offset, length), plain);
      if (__builtin_cpu_supports("avx512f")) assert_int_equal(copy_checksum_avx512(bytes + offset, length), plain);
#endif
    }
  }
}

static void one_changed_bit_is_seen(void **state) {
  uint64_t right = copy_checksum(bytes, BYTES);
  for (size_t bit = 0; bit < BYTES * 8; bit += 11) {
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_not_equal(copy_checksum(bytes, BYTES), right);
    bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  assert_int_equal(copy_checksum(bytes, BYTES), right);
}

/* It travels between hosts: another value than this would be another checksum. */
static void the_value_of_nothing_is_known(void **state) { assert_int_equal(copy_checksum("", 0), 0x2d06800538d394c2ull); }

int main(void) {
  uint64_t random = 1;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)base_random_next(&random);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_agrees),
      cmocka_unit_test(one_changed_bit_is_seen),
      cmocka_unit_test(the_value_of_nothing_is_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
