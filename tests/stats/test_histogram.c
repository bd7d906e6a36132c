/* Quantiles against a sorted list, counts under powers of two exactly. The seed is printed; KVF_SEED repeats it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/random.h"
#include "stats/histogram.h"

enum { VALUES = 5000 };

static struct stats_histogram histogram;
static uint64_t values[VALUES];

static int compare(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

static void clear(void) {
  memset(&histogram, 0, sizeof histogram);
}

/* Of every magnitude, so that every bucket width occurs. */
static void record_random(uint64_t seed) {
  clear();
  for (size_t i = 0; i < VALUES; i++) {
    values[i] = base_random_next(&seed) >> (base_random_next(&seed) % 64);
    stats_histogram_record(&histogram, values[i]);
  }
  qsort(values, VALUES, sizeof values[0], compare);
}

static void quantiles_are_within_a_sixteenth(void **state) {
  const char *given = getenv("KVF_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
  printf("KVF_SEED=%llu\n", (unsigned long long)seed);
  record_random(seed);
  for (uint32_t per_mille = 1; per_mille <= 1000; per_mille++) {
    size_t rank = (VALUES * (size_t)per_mille + 999) / 1000;
    uint64_t exact = values[rank - 1], got = stats_histogram_quantile(&histogram, per_mille);
    assert_true(got >= exact);
    assert_true(got - exact <= exact / 16);
  }
  assert_int_equal(stats_histogram_quantile(&histogram, 1000), values[VALUES - 1]);
  assert_int_equal(stats_histogram_count(&histogram), VALUES);
}

static void counts_below_powers_are_exact(void **state) {
  record_random(99);
  for (uint32_t power = 4; power < 64; power++) {
    uint64_t below = 0;
    while (below < VALUES && values[below] < 1ull << power) below++;
    assert_int_equal(stats_histogram_below(&histogram, power), below);
  }
}

static void the_edges_are_recorded(void **state) {
  clear();
  assert_int_equal(stats_histogram_quantile(&histogram, 500), 0);
  const uint64_t edges[] = {0, 1, 15, 16, 17, 31, 32, 1ull << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
    clear();
    stats_histogram_record(&histogram, edges[i]);
    assert_int_equal(stats_histogram_quantile(&histogram, 1), edges[i]);
    assert_int_equal(stats_histogram_quantile(&histogram, 1000), edges[i]);
    assert_int_equal(stats_histogram_sum_ns(&histogram), edges[i]);
  }
  clear();
  for (uint64_t i = 0; i < 16; i++) stats_histogram_record(&histogram, i);
  assert_int_equal(stats_histogram_quantile(&histogram, 500), 7);
  assert_int_equal(stats_histogram_sum_ns(&histogram), 120);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantiles_are_within_a_sixteenth),
      cmocka_unit_test(counts_below_powers_are_exact),
      cmocka_unit_test(the_edges_are_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
