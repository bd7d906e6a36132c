/* Values below 16 have a bucket each; from there a bucket is named by the top bit and the four bits below it. */
#include "stats/histogram.h"

#include <assert.h>

#include "base/checked.h"

enum { LINEAR_BITS = STATS_HISTOGRAM_LINEAR_BITS, LINEAR = 1 << LINEAR_BITS };

static uint32_t find_bucket(uint64_t value) {
  if (value < LINEAR) return (uint32_t)value;
  uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - LINEAR_BITS;
  return (shift << LINEAR_BITS) + (uint32_t)(value >> shift);
}

/* The largest value of a bucket. */
static uint64_t bucket_end(uint32_t bucket) {
  if (bucket < LINEAR) return bucket;
  uint32_t shift = (bucket >> LINEAR_BITS) - 1;
  uint64_t first = (uint64_t)(LINEAR + (bucket & (LINEAR - 1))) << shift;
  return first + ((1ull << shift) - 1);
}

static uint64_t load(const _Atomic uint64_t *number) {
  return atomic_load_explicit(number, memory_order_relaxed);
}

/* With one writer a load and a store are enough, and cost what plain ones do. */
static void add(_Atomic uint64_t *number, uint64_t amount) {
  atomic_store_explicit(number, load(number) + amount, memory_order_relaxed);
}

void stats_histogram_record(struct stats_histogram *histogram, uint64_t value_ns) {
  add(&histogram->buckets[find_bucket(value_ns)], 1);
  add(&histogram->count, 1);
  add(&histogram->sum_ns, value_ns);
  if (value_ns > load(&histogram->max_ns)) atomic_store_explicit(&histogram->max_ns, value_ns, memory_order_relaxed);
}

/* What the buckets hold, so that one reading agrees with itself while records arrive. */
static uint64_t sum_buckets(const struct stats_histogram *histogram, uint32_t end) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < end; i++) total += load(&histogram->buckets[i]);
  return total;
}

uint64_t stats_histogram_quantile(const struct stats_histogram *histogram, uint32_t per_mille) {
  assert(per_mille <= 1000);
  uint64_t total = sum_buckets(histogram, STATS_HISTOGRAM_BUCKETS), max_ns = load(&histogram->max_ns), seen = 0;
  if (!total) return 0;
  /* In two parts: total times 1000 may not fit. */
  uint64_t wanted = total / 1000 * per_mille + base_ceil_div_u64(total % 1000 * per_mille, 1000);
  for (uint32_t i = 0; i < STATS_HISTOGRAM_BUCKETS; i++) {
    seen += load(&histogram->buckets[i]);
    if (seen && seen >= wanted) return base_min_u64(bucket_end(i), max_ns);
  }
  return max_ns;
}

uint64_t stats_histogram_below(const struct stats_histogram *histogram, uint32_t power) {
  assert(power >= LINEAR_BITS && power < 64);
  return sum_buckets(histogram, find_bucket(1ull << power));
}

uint64_t stats_histogram_count(const struct stats_histogram *histogram) {
  return load(&histogram->count);
}
uint64_t stats_histogram_sum_ns(const struct stats_histogram *histogram) {
  return load(&histogram->sum_ns);
}
