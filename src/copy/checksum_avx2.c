/* The checksum by vectors of 32 bytes: xxhash.h has no target attributes of its own, so the whole file is compiled for them. */
#include "copy/checksum.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define XXH_VECTOR XXH_AVX2
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t copy_checksum_avx2(const void *bytes, size_t length_bytes) { return XXH3_64bits(bytes, length_bytes); }

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
