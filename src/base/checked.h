/* Arithmetic that says when it does not fit. Every size that a caller or a peer had a hand in goes through here. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool base_add_u64(uint64_t a, uint64_t b, uint64_t *sum_out) { return !__builtin_add_overflow(a, b, sum_out); }
static inline bool base_mul_u64(uint64_t a, uint64_t b, uint64_t *product_out) { return !__builtin_mul_overflow(a, b, product_out); }

static inline uint64_t base_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t base_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t base_ceil_div_u64(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* Largest power of two that is not above @p value; 0 for 0. */
static inline uint64_t base_floor_pow2(uint64_t value) { return value ? 1ull << (63 - __builtin_clzll(value)) : 0; }
/* Smallest power of two that is not below @p value; 0 when it does not fit. */
static inline uint64_t base_ceil_pow2(uint64_t value) {
  uint64_t floor = base_floor_pow2(value);
  return floor == value ? (value ? value : 1) : floor << 1;
}

#endif
