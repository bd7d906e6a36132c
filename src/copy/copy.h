/* Gather and scatter over blocks. One backend a memory kind; the host one is the reference that the others must match bit for bit.
 * Reentrant: any thread, no state but the kernel chosen at start. */
#ifndef COPY_COPY_H
#define COPY_COPY_H

#include <stdbool.h>

#include "layout/block.h"

struct copy_backend {
  const char *name; /* "avx512", "avx2", "neon", "portable" */
  /* Blocks to packed: for bytes that are read again soon (or sent), written with ordinary stores. */
  void (*gather)(void *packed, const struct layout_block *blocks, size_t block_count);
  /* Packed to blocks: into pages that nobody reads soon, with non-temporal stores where rows allow it. */
  void (*scatter)(const void *packed, const struct layout_block *blocks, size_t block_count);
  /* Pages to pages in one pass, non-temporal stores. */
  void (*pairs)(const struct layout_pair *pairs, size_t pair_count);
};

/* The best backend for host memory on this CPU; never NULL. */
const struct copy_backend *copy_host_backend(void);
/* A named one, or NULL when this CPU or build does not have it. */
const struct copy_backend *copy_host_backend_find(const char *name);

/* Gather or scatter a whole piece, a bounded batch of blocks at a time. */
void copy_piece_gather(const struct copy_backend *backend, void *packed, const struct layout_link *link,
                       const struct layout_pages *pages, const struct layout_piece *piece);
void copy_piece_scatter(const struct copy_backend *backend, const void *packed, const struct layout_link *link,
                        const struct layout_pages *pages, const struct layout_piece *piece);
/* Source pages straight into target pages. */
void copy_piece_pairs(const struct copy_backend *backend, const struct layout_link *link, const struct layout_pages *source_pages,
                      const struct layout_pages *target_pages, const struct layout_piece *piece);

#endif
