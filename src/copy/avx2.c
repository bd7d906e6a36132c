/* Rows by 32-byte vectors. Without masks a short end is copied by two vectors that overlap, inside the row. Stores that go round
 * the cache only ever fill whole lines: a line written partly in either way would cost a read of it. */
#include "copy/backends.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "copy/row.h"

#define TARGET __attribute__((target("avx2")))

TARGET COPY_INLINE __m256i load(const uint8_t *source) {
  return _mm256_loadu_si256((const __m256i *)source);
}
TARGET COPY_INLINE void store(uint8_t *target, __m256i value) {
  _mm256_storeu_si256((__m256i *)target, value);
}
TARGET COPY_INLINE void stream(uint8_t *target, __m256i value) {
  _mm256_stream_si256((__m256i *)target, value);
}

/* At most 64 bytes. */
TARGET COPY_INLINE void copy_part(uint8_t *target, const uint8_t *source, size_t bytes) {
  if (bytes >= 32) {
    __m256i first = load(source), last = load(source + bytes - 32);
    store(target, first);
    store(target + bytes - 32, last);
  } else if (bytes >= 16) {
    __m128i first = _mm_loadu_si128((const __m128i *)source), last = _mm_loadu_si128((const __m128i *)(source + bytes - 16));
    _mm_storeu_si128((__m128i *)target, first);
    _mm_storeu_si128((__m128i *)(target + bytes - 16), last);
  } else {
    memcpy(target, source, bytes);
  }
}

TARGET COPY_INLINE void copy_row_cached(uint8_t *target, const uint8_t *source, size_t bytes) {
  for (; bytes >= 128; bytes -= 128, source += 128, target += 128) {
    __m256i a = load(source), b = load(source + 32), c = load(source + 64), d = load(source + 96);
    store(target, a);
    store(target + 32, b);
    store(target + 64, c);
    store(target + 96, d);
  }
  if (bytes >= 64) {
    __m256i a = load(source), b = load(source + 32);
    store(target, a);
    store(target + 32, b);
    bytes -= 64, source += 64, target += 64;
  }
  if (bytes) copy_part(target, source, bytes);
}

TARGET COPY_INLINE void copy_row_stream(uint8_t *target, const uint8_t *source, size_t bytes) {
  if (bytes < COPY_STREAM_BYTES) {
    copy_row_cached(target, source, bytes);
    return;
  }
  size_t head = -(uintptr_t)target & (COPY_LINE_BYTES - 1);
  if (head) {
    copy_part(target, source, head);
    target += head, source += head, bytes -= head;
  }
  for (; bytes >= 128; bytes -= 128, source += 128, target += 128) {
    __m256i a = load(source), b = load(source + 32), c = load(source + 64), d = load(source + 96);
    stream(target, a);
    stream(target + 32, b);
    stream(target + 64, c);
    stream(target + 96, d);
  }
  if (bytes >= 64) {
    __m256i a = load(source), b = load(source + 32);
    stream(target, a);
    stream(target + 32, b);
    bytes -= 64, source += 64, target += 64;
  }
  if (bytes) copy_part(target, source, bytes);
}

TARGET static void gather(void *packed, const struct layout_block *blocks, size_t block_count) {
  copy_walk_gather(copy_row_cached, packed, blocks, block_count);
}

TARGET static void scatter(const void *packed, const struct layout_block *blocks, size_t block_count) {
  copy_walk_scatter(copy_row_stream, packed, blocks, block_count);
  _mm_sfence();
}

TARGET static void copy_pairs(const struct layout_pair *pairs, size_t pair_count) {
  copy_walk_pairs(copy_row_stream, pairs, pair_count);
  _mm_sfence();
}

const struct copy_backend copy_backend_avx2 = {.name = "avx2", .gather = gather, .scatter = scatter, .pairs = copy_pairs};

#endif
