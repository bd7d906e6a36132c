/* The checksum by vectors of 64 bytes: xxhash.h has no target attributes of its own, so the whole file is compiled for them. */
#include "copy/checksum.h"

#if defined(__x86_64__)

#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC target("avx512f")
#endif

#define XXH_VECTOR XXH_AVX512
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t copy_checksum_avx512(const void *bytes, size_t length_bytes) { return XXH3_64bits(bytes, length_bytes); }

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
