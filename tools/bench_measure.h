/* Measures: medians and spreads, and what this host can do at most: copying, a socket pair, waking another process. */
#ifndef TOOLS_BENCH_MEASURE_H
#define TOOLS_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "complaint.h"

struct bench_stat {
  double median, least, most;
};

/** Sorts @p values. All 0 when there are none. */
struct bench_stat bench_stat_of(double *values, size_t count);
/** The value at @p quantile of [0, 1]; sorts @p values. */
double bench_quantile(double *values, size_t count, double quantile);

/* Two buffers to copy between, huge pages where the host has them, not shared with children. */
struct bench_copy {
  char *from, *to;
  size_t buffer_bytes;
  uint64_t wall_ns, cpu_ns; /* of all copies so far */
};

enum { BENCH_COPY_LIMIT_BYTES = 256 << 20 };

/** Buffers for copies of @p bytes, at most BENCH_COPY_LIMIT_BYTES each; larger copies go over them repeatedly. */
bool bench_copy_init(struct bench_copy *copy, uint64_t bytes, struct complaint *complaint);
void bench_copy_fini(struct bench_copy *copy);
/** Bytes per second of one thread's memcpy of @p bytes, counting only the time it had a core: when others use the host too, a
 *  single thread loses more than a transfer of many, and would make it look better than it is. */
double bench_copy_run(struct bench_copy *copy, uint64_t bytes);
/** How much of a core the copies had, from 0 to 1. */
double bench_copy_share(const struct bench_copy *copy);

struct bench_limits {
  struct bench_stat copy_small;  /* 4 KiB that stay in cache, bytes per second */
  struct bench_stat copy_large;  /* 256 MiB */
  struct bench_stat tcp;         /* bytes per second between two processes over 127.0.0.1, 256 KiB a call */
  struct bench_stat tcp_trip_ns; /* one byte there and back */
  struct bench_stat wake_ns;     /* one process wakes another through an eventfd: one way */
};

bool bench_limits_measure(uint32_t rounds, struct bench_limits *limits_out, struct complaint *complaint);

#endif
