/* Monotonic time, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define BASE_NS_PER_MS 1000000ull
#define BASE_NS_PER_S 1000000000ull

static inline uint64_t base_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * BASE_NS_PER_S + (uint64_t)now.tv_nsec;
}

#endif
