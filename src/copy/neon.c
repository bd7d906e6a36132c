/* Rows by pairs of 16-byte vectors. Stores that go round the cache are STNP, which only hints; there is no compiler intrinsic that
 * every compiler has, hence the assembly. They only ever fill whole lines. */
#include "copy/backends.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#include "copy/row.h"

struct copy_line {
  uint8x16_t a, b, c, d;
};

COPY_INLINE struct copy_line load(const uint8_t *source) {
  return (struct copy_line){vld1q_u8(source), vld1q_u8(source + 16), vld1q_u8(source + 32), vld1q_u8(source + 48)};
}

COPY_INLINE void store(uint8_t *target, struct copy_line line) {
  vst1q_u8(target, line.a);
  vst1q_u8(target + 16, line.b);
  vst1q_u8(target + 32, line.c);
  vst1q_u8(target + 48, line.d);
}

COPY_INLINE void stream(uint8_t *target, struct copy_line line) {
  __asm__ volatile(
      "stnp %q1, %q2, [%0]\n\t"
      "stnp %q3, %q4, [%0, #32]"
      :
      : "r"(target), "w"(line.a), "w"(line.b), "w"(line.c), "w"(line.d)
      : "memory");
}

/* At most 64 bytes. */
COPY_INLINE void copy_part(uint8_t *target, const uint8_t *source, size_t bytes) {
  for (; bytes >= 16; bytes -= 16, source += 16, target += 16) vst1q_u8(target, vld1q_u8(source));
  memcpy(target, source, bytes);
}

COPY_INLINE void copy_row_cached(uint8_t *target, const uint8_t *source, size_t bytes) {
  for (; bytes >= 64; bytes -= 64, source += 64, target += 64) store(target, load(source));
  if (bytes) copy_part(target, source, bytes);
}

COPY_INLINE void copy_row_stream(uint8_t *target, const uint8_t *source, size_t bytes) {
  if (bytes < COPY_STREAM_BYTES) {
    copy_row_cached(target, source, bytes);
    return;
  }
  size_t head = -(uintptr_t)target & (COPY_LINE_BYTES - 1);
  if (head) {
    copy_part(target, source, head);
    target += head, source += head, bytes -= head;
  }
  for (; bytes >= 64; bytes -= 64, source += 64, target += 64) stream(target, load(source));
  if (bytes) copy_part(target, source, bytes);
}

/* Later stores, such as a flag that says the bytes are there, must not be seen before these. */
COPY_INLINE void fence(void) {
  __asm__ volatile("dmb ishst" ::: "memory");
}

static void gather(void *packed, const struct layout_block *blocks, size_t block_count) {
  copy_walk_gather(copy_row_cached, packed, blocks, block_count);
}

static void scatter(const void *packed, const struct layout_block *blocks, size_t block_count) {
  copy_walk_scatter(copy_row_stream, packed, blocks, block_count);
  fence();
}

static void copy_pairs(const struct layout_pair *pairs, size_t pair_count) {
  copy_walk_pairs(copy_row_stream, pairs, pair_count);
  fence();
}

const struct copy_backend copy_backend_neon = {.name = "neon", .gather = gather, .scatter = scatter, .pairs = copy_pairs};

#endif
