/* Whole pieces: the blocks of a piece, as many at a time as fit on the stack. */
#include "copy/copy.h"

enum { COPY_BATCH = 64 };

void copy_piece_gather(const struct copy_backend *backend, void *packed, const struct layout_link *link,
                       const struct layout_pages *pages, const struct layout_piece *piece) {
  struct layout_walk walk;
  struct layout_block blocks[COPY_BATCH];
  layout_walk_init(&walk, link, LAYOUT_SOURCE, pages, piece);
  for (size_t count; (count = layout_walk_next(&walk, blocks, COPY_BATCH));) backend->gather(packed, blocks, count);
}

void copy_piece_scatter(const struct copy_backend *backend, const void *packed, const struct layout_link *link,
                        const struct layout_pages *pages, const struct layout_piece *piece) {
  struct layout_walk walk;
  struct layout_block blocks[COPY_BATCH];
  layout_walk_init(&walk, link, LAYOUT_TARGET, pages, piece);
  for (size_t count; (count = layout_walk_next(&walk, blocks, COPY_BATCH));) backend->scatter(packed, blocks, count);
}

void copy_piece_pairs(const struct copy_backend *backend, const struct layout_link *link, const struct layout_pages *source_pages,
                      const struct layout_pages *target_pages, const struct layout_piece *piece) {
  struct layout_pair_walk walk;
  struct layout_pair pairs[COPY_BATCH];
  layout_pair_walk_init(&walk, link, source_pages, target_pages, piece);
  for (size_t count; (count = layout_pair_walk_next(&walk, pairs, COPY_BATCH));) backend->pairs(pairs, count);
}
