/* Blocks: where the bytes of a piece lie in one rank's pages, as strided rows over the packed buffer.
 *
 * A piece is the tokens [token_first, token_first+token_count) of the cuts [cut_first, cut_first+cut_count): of each cut the
 * entries of these tokens that both of its planes hold. Per-request slots have the token range [0, 1). Packed order, the same on
 * both sides: cut after cut; within a cut [entry][head], or [head][entry] when layout_cut_head_major says so. The walks trust what
 * they are given: planes that layout_planes_validate accepted, pages that layout_pages_check accepted for the piece's tokens, a
 * piece that layout_piece_bytes accepted. Pure; only layout_pages_check may allocate. */
#ifndef LAYOUT_BLOCK_H
#define LAYOUT_BLOCK_H

#include "layout/cut.h"

struct layout_piece {
  uint32_t cut_first, cut_count;
  uint64_t token_first;
  uint32_t token_count;
};

/* row_count rows of row_bytes; row i at address + i*row_stride and at packed_offset + i*packed_stride in the packed buffer.
 * A walk gives its rows in packed order and without holes, so packed_stride == row_bytes, and a list of the rows alone (an iov)
 * means the same bytes on both sides. */
struct layout_block {
  uint64_t address;
  uint64_t packed_offset;
  uint64_t row_bytes;
  uint64_t row_stride;
  uint64_t packed_stride;
  uint64_t row_count;
};

/* The same rows on both sides, for one pass from pages to pages. */
struct layout_pair {
  uint64_t source_address, target_address;
  uint64_t row_bytes;
  uint64_t source_stride, target_stride;
  uint64_t row_count;
};

enum layout_side { LAYOUT_SOURCE, LAYOUT_TARGET };

/* What a piece is cut from: both plane lists and the cuts between them. Borrowed. */
struct layout_link {
  const kvf_plane *source_planes;
  const kvf_plane *target_planes;
  const struct layout_cut *cuts;
  uint32_t cut_count;
};

/* Page lists of one side by list number; an unused number has pages == NULL. Borrowed. */
struct layout_pages {
  kvf_page_list lists[KVF_PAGE_LIST_LIMIT];
};

/* What page lists are checked against. */
struct layout_demand {
  uint64_t token_first, token_end;
  uint32_t layer_first, layer_end; /* end exclusive */
  bool whole; /* the room wants these tokens and no more: its windows end where they end. Without it planes with
                 a window are passed over, and layout_piece_check_pages catches what they lack */
  bool slots; /* per-request slots are wanted too, those of all layers */
};

/* Do the lists cover what is demanded for every plane in @p planes, with page numbers below page_count and none repeated within
 * the demand? Errors: INVALID, OUT_OF_RANGE with the fields layer, page, page_list, pages; NO_MEMORY. Works in O(pages), not
 * pages x planes. */
kvf_status layout_pages_check(const struct layout_pages *pages, const kvf_plane *planes, uint32_t plane_count,
                              const struct layout_demand *demand, kvf_error **error_out);

/* Does one side have the pages of a piece? Page numbers are looked at only where layout_pages_check could not: in windows.
 * Errors: OUT_OF_RANGE with the fields layer, page_list, token_first, token_end. Allocates nothing when all is well. */
kvf_status layout_piece_check_pages(const struct layout_link *link, enum layout_side side, const struct layout_pages *pages,
                                    const struct layout_piece *piece, kvf_error **error_out);

/* Is this cut packed [head][entry]? When in both planes the entries of one head lie one after the other
 * (token_stride == head_bytes, in pages of more than one). */
bool layout_cut_head_major(const struct layout_link *link, uint32_t cut);

/* Bytes of one entry of one cut. */
uint64_t layout_cut_token_bytes(const struct layout_link *link, uint32_t cut);
/* How many entries a cut moves for tokens [token_first, token_end). Of chunks that follow each other each entry is counted once. */
uint64_t layout_cut_entries(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end);
/* The tokens that a cut moves for a room that wants [token_first, token_end): those in its window, from the beginning of an entry
 * when the room has that; [0, 1) for a per-request slot; otherwise all. */
void layout_cut_range(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end, uint64_t *first_out,
                      uint64_t *end_out);
/* The first @p entry_limit entries (at least 1) of those tokens, as a token range of at most 32 bits that begins with an entry that
 * is moved. There must be one. */
void layout_cut_portion(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end,
                        uint64_t entry_limit, uint64_t *first_out, uint64_t *end_out);

/* Bytes that all cuts move for a room that wants these tokens; UINT64_MAX when it is more. */
uint64_t layout_room_bytes(const struct layout_link *link, uint64_t token_first, uint64_t token_end);
/* Bytes of a whole piece. False on overflow or when it leaves the cuts. */
bool layout_piece_bytes(const struct layout_link *link, const struct layout_piece *piece, uint64_t *bytes_out);

/* Walk the blocks of one side. Neighbouring rows that continue each other in memory and in the packed buffer are merged, across
 * tokens, pages and cuts. */
struct layout_walk {
  const struct layout_link *link;
  const struct layout_pages *pages;
  struct layout_piece piece;
  enum layout_side side;
  uint32_t cut;           /* next cut */
  uint32_t head;          /* next head within it, for [head][entry] order */
  bool inside;            /* a strip has begun: */
  uint64_t entry;         /* its next entry */
  uint64_t packed_offset; /* of the next row */
};

void layout_walk_init(struct layout_walk *walk, const struct layout_link *link, enum layout_side side,
                      const struct layout_pages *pages, const struct layout_piece *piece);
/* Up to @p capacity blocks; 0 at the end. */
size_t layout_walk_next(struct layout_walk *walk, struct layout_block *blocks, size_t capacity);

/* Walk both sides at once. In no particular order: the longest rows and the fewest pairs. */
struct layout_pair_walk {
  const struct layout_link *link;
  const struct layout_pages *source_pages;
  const struct layout_pages *target_pages;
  struct layout_piece piece;
  uint32_t cut;
  uint32_t head;
  bool inside;
  uint64_t entry;
};

void layout_pair_walk_init(struct layout_pair_walk *walk, const struct layout_link *link, const struct layout_pages *source_pages,
                           const struct layout_pages *target_pages, const struct layout_piece *piece);
size_t layout_pair_walk_next(struct layout_pair_walk *walk, struct layout_pair *pairs, size_t capacity);

/* Contiguous runs of one side in a piece: what a per-slice method would have written one by one. For the source this counts
 * rows after merging, without looking across to the target. Between unequal shares another batch size may merge others. */
uint64_t layout_piece_slices(const struct layout_link *link, enum layout_side side, const struct layout_pages *pages,
                             const struct layout_piece *piece);

#endif
