/* Mixing: 64 bits in, 64 well-stirred bits out, a bijection; and a generator made of it.
 * Everything that must come out the same in every process is drawn from here. */
#ifndef TOOLS_MIX_H
#define TOOLS_MIX_H

#include <stdint.h>

static inline uint64_t mix_word(uint64_t word) {
  word ^= word >> 32;
  word *= 0xd6e8feb86659fd93ull;
  word ^= word >> 32;
  word *= 0xd6e8feb86659fd93ull;
  word ^= word >> 32;
  return word;
}

static inline uint64_t mix_next(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15ull;
  return mix_word(*state);
}

/** Uniform in [0, 1). */
static inline double mix_next_unit(uint64_t *state) {
  return (double)(mix_next(state) >> 11) * 0x1p-53;
}

#endif
