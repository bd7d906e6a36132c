/* Orders: one copy of one piece, in the words that every backend takes, and its tiles for the backends that copy by tiles. */
#ifndef COPY_ORDER_H
#define COPY_ORDER_H

#include <stdbool.h>

#include "copy/tile.h"
#include "layout/block.h"

enum copy_kind { COPY_GATHER, COPY_SCATTER, COPY_PAIRS };

/* Everything is borrowed until the copy is done. */
struct copy_order {
  enum copy_kind kind;
  const struct layout_link *link;
  const struct layout_pages *source_pages; /* not for a scatter */
  const struct layout_pages *target_pages; /* not for a gather */
  struct layout_piece piece;
  uint64_t packed; /* address; not for pairs */
};

/* Walks an order tile by tile, as many at a time as there is room for. */
struct copy_tiling {
  const struct copy_order *order;
  union {
    struct layout_walk walk;
    struct layout_pair_walk pair_walk;
  };
  struct layout_pair rows; /* what is left of the present block, as rows on both sides */
  uint64_t column;         /* bytes of its first row that are out already, when rows are longer than a tile */
};

void copy_tiling_begin(struct copy_tiling *tiling, const struct copy_order *order);
/* Up to @p capacity tiles; 0 at the end. What decides on the width of the vectors is or-ed into *alignment_inout. */
uint32_t copy_tiling_next(struct copy_tiling *tiling, struct copy_tile *tiles, uint32_t capacity, uint64_t *alignment_inout);

#endif
