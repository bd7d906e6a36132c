/* Rows by the C library's memcpy: for CPUs without a kernel of their own, and as the one that is plainly right. */
#include <string.h>

#include "copy/backends.h"
#include "copy/row.h"

COPY_INLINE void copy_row_plain(uint8_t *target, const uint8_t *source, size_t bytes) {
  memcpy(target, source, bytes);
}

static void gather(void *packed, const struct layout_block *blocks, size_t block_count) {
  copy_walk_gather(copy_row_plain, packed, blocks, block_count);
}

static void scatter(const void *packed, const struct layout_block *blocks, size_t block_count) {
  copy_walk_scatter(copy_row_plain, packed, blocks, block_count);
}

static void copy_pairs(const struct layout_pair *pairs, size_t pair_count) {
  copy_walk_pairs(copy_row_plain, pairs, pair_count);
}

const struct copy_backend copy_backend_portable = {.name = "portable", .gather = gather, .scatter = scatter, .pairs = copy_pairs};
