/* From blocks to tiles: short rows many to a tile, long rows cut. */
#include "copy/order.h"

#include "base/checked.h"

void copy_tiling_begin(struct copy_tiling *tiling, const struct copy_order *order) {
  *tiling = (struct copy_tiling){.order = order};
  if (order->kind == COPY_PAIRS)
    layout_pair_walk_init(&tiling->pair_walk, order->link, order->source_pages, order->target_pages, &order->piece);
  else if (order->kind == COPY_GATHER)
    layout_walk_init(&tiling->walk, order->link, LAYOUT_SOURCE, order->source_pages, &order->piece);
  else
    layout_walk_init(&tiling->walk, order->link, LAYOUT_TARGET, order->target_pages, &order->piece);
}

/* The next block, as rows of both sides; false at the end. */
static bool next_rows(struct copy_tiling *tiling) {
  const struct copy_order *order = tiling->order;
  struct layout_block block;
  if (order->kind == COPY_PAIRS) return layout_pair_walk_next(&tiling->pair_walk, &tiling->rows, 1) == 1;
  if (layout_walk_next(&tiling->walk, &block, 1) == 0) return false;
  const uint64_t packed = order->packed + block.packed_offset;
  const bool out = order->kind == COPY_GATHER;
  tiling->rows = (struct layout_pair){.source_address = out ? block.address : packed,
                                      .target_address = out ? packed : block.address,
                                      .source_stride = out ? block.row_stride : block.packed_stride,
                                      .target_stride = out ? block.packed_stride : block.row_stride,
                                      .row_bytes = block.row_bytes,
                                      .row_count = block.row_count};
  return true;
}

/* The step of a single row says nothing, and must not spoil the alignment of all. */
static void take_tile(struct copy_tiling *tiling, struct copy_tile *tile, uint64_t *alignment_inout) {
  struct layout_pair *rows = &tiling->rows;
  bool is_long = rows->row_bytes > COPY_TILE_BYTES;
  uint64_t bytes = base_min_u64(rows->row_bytes - tiling->column, COPY_TILE_BYTES);
  uint64_t count = is_long ? 1 : base_min_u64(rows->row_count, COPY_TILE_BYTES / rows->row_bytes);
  *tile = (struct copy_tile){.source = rows->source_address + tiling->column,
                             .target = rows->target_address + tiling->column,
                             .source_stride = count > 1 ? rows->source_stride : 0,
                             .target_stride = count > 1 ? rows->target_stride : 0,
                             .row_bytes = (uint32_t)bytes,
                             .row_count = (uint32_t)count};
  *alignment_inout |= tile->source | tile->target | tile->source_stride | tile->target_stride | tile->row_bytes;
  tiling->column += bytes;
  if (tiling->column < rows->row_bytes) return;
  tiling->column = 0;
  rows->row_count -= count;
  rows->source_address += count * rows->source_stride;
  rows->target_address += count * rows->target_stride;
}

uint32_t copy_tiling_next(struct copy_tiling *tiling, struct copy_tile *tiles, uint32_t capacity, uint64_t *alignment_inout) {
  uint32_t count = 0;
  while (count < capacity) {
    if (tiling->rows.row_count == 0 && !next_rows(tiling)) break;
    if (tiling->rows.row_count) take_tile(tiling, &tiles[count++], alignment_inout);
  }
  return count;
}
