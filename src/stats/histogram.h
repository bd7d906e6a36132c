/* How long things took: a log-linear histogram of nanoseconds, 16 buckets to each power of two, so a value is known to 1/16.
 * One thread records, without a locked instruction; any thread may read, and sees each record or not yet. */
#ifndef STATS_HISTOGRAM_H
#define STATS_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum {
  STATS_HISTOGRAM_LINEAR_BITS = 4,
  STATS_HISTOGRAM_BUCKETS = (64 - STATS_HISTOGRAM_LINEAR_BITS + 1) << STATS_HISTOGRAM_LINEAR_BITS
};

/* Zero-initialised is empty. */
struct stats_histogram {
  _Atomic uint64_t count, sum_ns, max_ns;
  _Atomic uint64_t buckets[STATS_HISTOGRAM_BUCKETS];
};

void stats_histogram_record(struct stats_histogram *histogram, uint64_t value_ns);

/* The value that @p per_mille of the records do not exceed, rounded up to the end of its bucket but never above the largest record;
 * 500 is the median, 1000 the largest. 0 when empty. */
uint64_t stats_histogram_quantile(const struct stats_histogram *histogram, uint32_t per_mille);

/* Records below 2^@p power nanoseconds, exactly; from power 4 on. */
uint64_t stats_histogram_below(const struct stats_histogram *histogram, uint32_t power);

uint64_t stats_histogram_count(const struct stats_histogram *histogram);
uint64_t stats_histogram_sum_ns(const struct stats_histogram *histogram);

#endif
