/* Walking blocks row by row, written once for all instruction sets. A kernel is two functions for one row; the entry points of each
 * backend hand them to the walks below, which are inlined there so that the rows are called directly.
 *
 * Rows lie in random pages, so each one begins with a miss that no hardware prefetcher foresees: while a row is copied, a row that
 * comes COPY_AHEAD_BYTES later is asked for, across the border to the next block. */
#ifndef COPY_ROW_H
#define COPY_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "base/checked.h"
#include "copy/copy.h"

#define COPY_INLINE static inline __attribute__((always_inline))

enum {
  COPY_LINE_BYTES = 64,
  /* Measured on random pages with slices of 128 to 8192 bytes (bench/copy_bench.c). Nearer, small slices come late; further, they
   * are pushed out of the first cache before their turn. */
  COPY_AHEAD_BYTES = 4096,
  COPY_AHEAD_ROW_BYTES = 512, /* of one row; the hardware follows the rest better than we do */
  COPY_STREAM_BYTES = 128     /* shorter rows hold too few whole lines to go round the cache */
};

typedef void (*copy_row)(uint8_t *target, const uint8_t *source, size_t bytes);

/* Rows of one side of one block. */
struct copy_lane {
  uint64_t address, stride, row_bytes, row_count;
};
typedef struct copy_lane (*copy_lane_get)(const void *array, size_t index);

/* Where prefetching is, some rows ahead of the copying. */
struct copy_ahead {
  const void *array;
  size_t count, index;
  uint64_t row;
  struct copy_lane lane;
  copy_lane_get get;
};

/* On to the next block that has a row left. */
COPY_INLINE void copy_ahead_settle(struct copy_ahead *ahead) {
  while (ahead->row == ahead->lane.row_count && ++ahead->index < ahead->count) {
    ahead->lane = ahead->get(ahead->array, ahead->index);
    ahead->row = 0;
  }
}

/* Ask for the next row. Returns the bytes of cache lines it takes, at least. */
COPY_INLINE uint64_t copy_ahead_row(struct copy_ahead *ahead) {
  if (ahead->index >= ahead->count) return 0;
  const uint8_t *row = (const uint8_t *)(uintptr_t)(ahead->lane.address + ahead->row * ahead->lane.stride);
  uint64_t row_bytes = ahead->lane.row_bytes, bytes = base_min_u64(row_bytes, COPY_AHEAD_ROW_BYTES);
  for (uint64_t offset = 0; offset < bytes; offset += COPY_LINE_BYTES) __builtin_prefetch(row + offset, 0, 3);
  ahead->row++;
  copy_ahead_settle(ahead);
  return base_max_u64(row_bytes, COPY_LINE_BYTES);
}

COPY_INLINE struct copy_ahead copy_ahead_start(const void *array, size_t count, copy_lane_get get) {
  struct copy_ahead ahead = {.array = array, .count = count, .get = get};
  if (count) ahead.lane = get(array, 0);
  copy_ahead_settle(&ahead);
  for (uint64_t bytes = 0; bytes < COPY_AHEAD_BYTES && ahead.index < count;) bytes += copy_ahead_row(&ahead);
  return ahead;
}

COPY_INLINE struct copy_lane copy_lane_block(const void *array, size_t index) {
  const struct layout_block *block = (const struct layout_block *)array + index;
  return (struct copy_lane){block->address, block->row_stride, block->row_bytes, block->row_count};
}

COPY_INLINE struct copy_lane copy_lane_source(const void *array, size_t index) {
  const struct layout_pair *pair = (const struct layout_pair *)array + index;
  return (struct copy_lane){pair->source_address, pair->source_stride, pair->row_bytes, pair->row_count};
}

COPY_INLINE void copy_walk_gather(copy_row row, void *packed, const struct layout_block *blocks, size_t block_count) {
  struct copy_ahead ahead = copy_ahead_start(blocks, block_count, copy_lane_block);
  for (size_t i = 0; i < block_count; i++) {
    const struct layout_block *block = &blocks[i];
    const uint8_t *source = (const uint8_t *)(uintptr_t)block->address;
    uint8_t *target = (uint8_t *)packed + block->packed_offset;
    for (uint64_t n = block->row_count; n; n--, source += block->row_stride, target += block->packed_stride) {
      copy_ahead_row(&ahead);
      row(target, source, block->row_bytes);
    }
  }
}

/* The packed side is read in order and the pages are written in whole lines: nothing to ask for ahead. */
COPY_INLINE void copy_walk_scatter(copy_row row, const void *packed, const struct layout_block *blocks, size_t block_count) {
  for (size_t i = 0; i < block_count; i++) {
    const struct layout_block *block = &blocks[i];
    uint8_t *target = (uint8_t *)(uintptr_t)block->address;
    const uint8_t *source = (const uint8_t *)packed + block->packed_offset;
    for (uint64_t n = block->row_count; n; n--, source += block->packed_stride, target += block->row_stride) {
      row(target, source, block->row_bytes);
    }
  }
}

COPY_INLINE void copy_walk_pairs(copy_row row, const struct layout_pair *pairs, size_t pair_count) {
  struct copy_ahead ahead = copy_ahead_start(pairs, pair_count, copy_lane_source);
  for (size_t i = 0; i < pair_count; i++) {
    const struct layout_pair *pair = &pairs[i];
    const uint8_t *source = (const uint8_t *)(uintptr_t)pair->source_address;
    uint8_t *target = (uint8_t *)(uintptr_t)pair->target_address;
    for (uint64_t n = pair->row_count; n; n--, source += pair->source_stride, target += pair->target_stride) {
      copy_ahead_row(&ahead);
      row(target, source, pair->row_bytes);
    }
  }
}

#endif
