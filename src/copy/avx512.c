/* Rows by 64-byte vectors; heads and tails by mask, so no byte outside a row is read or written. Stores that go round the cache
 * only ever fill whole lines: a line written partly in either way would cost a read of it. */
#include "copy/backends.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "copy/row.h"

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,bmi2")))

/* Fewer than 64 bytes. */
TARGET COPY_INLINE void copy_part(uint8_t *target, const uint8_t *source, size_t bytes) {
  __mmask64 mask = _bzhi_u64(~0ull, (unsigned)bytes);
  _mm512_mask_storeu_epi8(target, mask, _mm512_maskz_loadu_epi8(mask, source));
}

TARGET COPY_INLINE void copy_row_cached(uint8_t *target, const uint8_t *source, size_t bytes) {
  for (; bytes >= 256; bytes -= 256, source += 256, target += 256) {
    __m512i a = _mm512_loadu_si512(source), b = _mm512_loadu_si512(source + 64);
    __m512i c = _mm512_loadu_si512(source + 128), d = _mm512_loadu_si512(source + 192);
    _mm512_storeu_si512(target, a);
    _mm512_storeu_si512(target + 64, b);
    _mm512_storeu_si512(target + 128, c);
    _mm512_storeu_si512(target + 192, d);
  }
  for (; bytes >= 64; bytes -= 64, source += 64, target += 64) _mm512_storeu_si512(target, _mm512_loadu_si512(source));
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
  for (; bytes >= 256; bytes -= 256, source += 256, target += 256) {
    __m512i a = _mm512_loadu_si512(source), b = _mm512_loadu_si512(source + 64);
    __m512i c = _mm512_loadu_si512(source + 128), d = _mm512_loadu_si512(source + 192);
    _mm512_stream_si512((void *)target, a);
    _mm512_stream_si512((void *)(target + 64), b);
    _mm512_stream_si512((void *)(target + 128), c);
    _mm512_stream_si512((void *)(target + 192), d);
  }
  for (; bytes >= 64; bytes -= 64, source += 64, target += 64) _mm512_stream_si512((void *)target, _mm512_loadu_si512(source));
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

const struct copy_backend copy_backend_avx512 = {.name = "avx512", .gather = gather, .scatter = scatter, .pairs = copy_pairs};

#endif
