/* Randomness: identities from the kernel, everything repeatable from splitmix64. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fill @p bytes from the kernel. 0, or the errno. */
int base_random_fill(void *bytes, size_t length_bytes);

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit. */
static inline uint64_t base_mix_u64(uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

/* Next number of a repeatable sequence. */
static inline uint64_t base_random_next(uint64_t *state) {
  uint64_t value = base_mix_u64(*state);
  *state += 0x9e3779b97f4a7c15ull;
  return value;
}

#endif
