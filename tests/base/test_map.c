/* The map against a plain array, at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/random.h"

static void random_operations_match_an_array(void **state) {
  enum { KEYS = 300 };
  static int values[KEYS];
  void *oracle[KEYS] = {0};
  struct base_map map = {0};
  uint64_t random = 7;
  for (int step = 0; step < 200000; step++) {
    uint64_t key = base_random_next(&random) % KEYS;
    if (base_random_next(&random) % 2) {
      assert_true(base_map_put(&map, key * 0x100000001ull, &values[key]));
      oracle[key] = &values[key];
    } else {
      assert_ptr_equal(base_map_remove(&map, key * 0x100000001ull), oracle[key]);
      oracle[key] = NULL;
    }
    uint64_t other = base_random_next(&random) % KEYS;
    assert_ptr_equal(base_map_get(&map, other * 0x100000001ull), oracle[other]);
  }
  size_t count = 0, cursor = 0;
  for (int i = 0; i < KEYS; i++) count += oracle[i] != NULL;
  assert_int_equal(map.count, count);
  while (base_map_next(&map, &cursor)) count--;
  assert_int_equal(count, 0);
  base_map_fini(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations_match_an_array)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
