/* The buddy tree against an array of units, at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arena/buddy.h"
#include "base/alloc.h"
#include "seed.h"

enum { ORDER = 7, UNITS = 1 << ORDER, FREE = 0xff };

struct oracle {
  uint8_t head_order[UNITS]; /* order of the block that begins here, or FREE */
  bool used[UNITS];
};

static bool is_free(const struct oracle *oracle, uint32_t unit, uint8_t order) {
  for (uint32_t i = 0; i < 1u << order; i++) {
    if (oracle->used[unit + i]) return false;
  }
  return true;
}

/* The lowest or highest aligned free block; UNITS when there is none. */
static uint32_t find_free(const struct oracle *oracle, uint8_t order, enum buddy_side side) {
  uint32_t found = UNITS;
  for (uint32_t unit = 0; unit < UNITS; unit += 1u << order) {
    if (!is_free(oracle, unit, order)) continue;
    found = unit;
    if (side == BUDDY_LOW) return found;
  }
  return found;
}

static void mark(struct oracle *oracle, uint32_t unit, uint8_t order, bool used) {
  oracle->head_order[unit] = used ? order : FREE;
  memset(oracle->used + unit, used, 1u << order);
}

static void check_largest(const struct arena_buddy *buddy, const struct oracle *oracle) {
  for (uint8_t order = 0; order <= ORDER; order++) {
    assert_int_equal(arena_buddy_fits(buddy, order), find_free(oracle, order, BUDDY_LOW) != UNITS);
  }
}

static void take_somewhere(struct arena_buddy *buddy, struct oracle *oracle, uint64_t *random) {
  uint8_t order = (uint8_t)random_below(random, ORDER + 1);
  enum buddy_side side = random_below(random, 2) ? BUDDY_HIGH : BUDDY_LOW;
  uint32_t expected = find_free(oracle, order, side);
  if (expected == UNITS) return;
  if (random_below(random, 2)) {
    assert_int_equal(arena_buddy_take(buddy, order, side), expected);
  } else {
    arena_buddy_take_at(buddy, expected, order);
  }
  mark(oracle, expected, order, true);
}

static void any_order_of_takes_and_puts_matches_an_array(void **state) {
  uint64_t random = seed_get();
  struct arena_buddy buddy;
  struct oracle oracle;
  memset(oracle.head_order, FREE, sizeof oracle.head_order);
  memset(oracle.used, 0, sizeof oracle.used);
  assert_true(arena_buddy_init(&buddy, ORDER));
  for (int step = 0; step < 100000; step++) {
    uint32_t unit = random_below(&random, UNITS);
    if (oracle.head_order[unit] != FREE) {
      uint8_t order = oracle.head_order[unit];
      arena_buddy_put(&buddy, unit, order);
      mark(&oracle, unit, order, false);
    } else {
      take_somewhere(&buddy, &oracle, &random);
    }
    check_largest(&buddy, &oracle);
  }
  arena_buddy_fini(&buddy);
}

static void one_unit_is_a_whole_arena(void **state) {
  struct arena_buddy buddy;
  assert_true(arena_buddy_init(&buddy, 0));
  assert_true(arena_buddy_fits(&buddy, 0));
  assert_int_equal(arena_buddy_take(&buddy, 0, BUDDY_HIGH), 0);
  assert_false(arena_buddy_fits(&buddy, 0));
  arena_buddy_put(&buddy, 0, 0);
  assert_true(arena_buddy_fits(&buddy, 0));
  arena_buddy_fini(&buddy);
}

static void no_memory_is_told(void **state) {
  struct arena_buddy buddy;
  base_alloc_fail_after(1);
  assert_false(arena_buddy_init(&buddy, 3));
  base_alloc_fail_after(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_order_of_takes_and_puts_matches_an_array),
      cmocka_unit_test(one_unit_is_a_whole_arena),
      cmocka_unit_test(no_memory_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
