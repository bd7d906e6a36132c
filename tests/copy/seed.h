/* The seed of a random test: KVF_SEED, else the clock; printed, so that a failure can be run again. */
#ifndef TESTS_COPY_SEED_H
#define TESTS_COPY_SEED_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"

static inline uint64_t seed_get(void) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : base_clock_ns();
  printf("KVF_SEED=%" PRIu64 "\n", seed);
  fflush(stdout);
  return seed;
}

static inline uint64_t random_below(uint64_t *random, uint64_t limit) {
  return base_random_next(random) % limit;
}

#endif
