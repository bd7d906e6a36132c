/* Tiles: a piece cut into bits of at most COPY_TILE_BYTES, each of equal rows, for machines that copy many of them at once. One tile
 * is the work of one group of COPY_TILE_LANES lanes, a warp on a GPU; gather, scatter and pages to pages are the same copy with other
 * addresses. The arithmetic stands here once: gpu/kernels.cu and the reference in the tests compile the same lines.
 *
 * A tile is seen as vectors, row after row; lane i copies the vectors i, i + COPY_TILE_LANES, … The cursor of a lane divides once a
 * tile and only adds and compares from there. No includes but stdint, since nvcc reads it too. */
#ifndef COPY_TILE_H
#define COPY_TILE_H

#include <stdint.h>

#ifdef __CUDACC__
#define COPY_TILE_INLINE __host__ __device__ static __forceinline__
#else
#define COPY_TILE_INLINE static inline
#endif

enum { COPY_TILE_LANES = 32, COPY_TILE_BYTES = 8192, COPY_TILE_SHIFT_LIMIT = 4 /* vectors of 2^4 bytes are the widest */ };

struct copy_tile {
  uint64_t source, target; /* of the first row */
  uint64_t source_stride, target_stride;
  uint32_t row_bytes, row_count;
};

/* Where one lane is. */
struct copy_tile_cursor {
  uint64_t source, target;
  uint64_t source_step, target_step; /* on to the lane's next vector, within a row or over whole rows */
  uint64_t source_wrap, target_wrap; /* on to the next row, when that step left the row */
  uint32_t column, column_step, columns; /* in vectors */
  uint32_t left;                         /* vectors that this lane has yet to copy */
};

/* Vectors of 1 << shift bytes, which must divide everything in the tile. */
COPY_TILE_INLINE struct copy_tile_cursor copy_tile_begin(const struct copy_tile *tile, uint32_t lane, uint32_t shift) {
  struct copy_tile_cursor cursor;
  uint32_t columns = tile->row_bytes >> shift, total = columns * tile->row_count;
  uint32_t row = lane / columns, step_rows = COPY_TILE_LANES / columns;
  cursor.columns = columns;
  cursor.column = lane - row * columns;
  cursor.column_step = COPY_TILE_LANES - step_rows * columns;
  cursor.source = tile->source + row * tile->source_stride + ((uint64_t)cursor.column << shift);
  cursor.target = tile->target + row * tile->target_stride + ((uint64_t)cursor.column << shift);
  cursor.source_step = step_rows * tile->source_stride + ((uint64_t)cursor.column_step << shift);
  cursor.target_step = step_rows * tile->target_stride + ((uint64_t)cursor.column_step << shift);
  cursor.source_wrap = tile->source_stride - tile->row_bytes;
  cursor.target_wrap = tile->target_stride - tile->row_bytes;
  cursor.left = lane < total ? (total - lane - 1) / COPY_TILE_LANES + 1 : 0;
  return cursor;
}

COPY_TILE_INLINE void copy_tile_next(struct copy_tile_cursor *cursor) {
  cursor->left--;
  cursor->source += cursor->source_step;
  cursor->target += cursor->target_step;
  cursor->column += cursor->column_step;
  if (cursor->column >= cursor->columns) {
    cursor->column -= cursor->columns;
    cursor->source += cursor->source_wrap;
    cursor->target += cursor->target_wrap;
  }
}

/* The widest vectors that all of @p alignment allows: the bits of every address, stride and row of the tiles, or-ed. */
COPY_TILE_INLINE uint32_t copy_tile_shift(uint64_t alignment) {
  uint32_t shift = 0;
  while (shift < COPY_TILE_SHIFT_LIMIT && !(alignment >> shift & 1)) shift++;
  return shift;
}

#endif
