/* Moments: nanoseconds on CLOCK_MONOTONIC, which all processes of a host share. */
#ifndef TOOLS_MOMENT_H
#define TOOLS_MOMENT_H

#include <stdint.h>
#include <time.h>

enum { MOMENT_MS = 1000000 };
#define MOMENT_SECOND 1000000000ull

static inline uint64_t moment_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * MOMENT_SECOND + (uint64_t)now.tv_nsec;
}

#endif
