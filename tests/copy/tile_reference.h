/* The copy kernel on the CPU: the same cursors from copy/tile.h, lane after lane. @p reach says where an address is to be found, for a
 * driver that keeps its memory out of reach of the host; NULL: where it says. */
#ifndef TESTS_COPY_TILE_REFERENCE_H
#define TESTS_COPY_TILE_REFERENCE_H

#include <string.h>

#include "copy/tile.h"

typedef void *(*tile_reach)(uint64_t address, uint64_t bytes);

static inline void tile_reference_run(const struct copy_tile *tiles, uint32_t tile_count, uint32_t shift, tile_reach reach) {
  const uint64_t bytes = 1ull << shift;
  for (uint32_t i = 0; i < tile_count; i++) {
    for (uint32_t lane = 0; lane < COPY_TILE_LANES; lane++) {
      struct copy_tile_cursor cursor = copy_tile_begin(&tiles[i], lane, shift);
      for (; cursor.left; copy_tile_next(&cursor)) {
        void *target = reach ? reach(cursor.target, bytes) : (void *)(uintptr_t)cursor.target;
        const void *source = reach ? reach(cursor.source, bytes) : (const void *)(uintptr_t)cursor.source;
        memcpy(target, source, bytes);
      }
    }
  }
}

#endif
