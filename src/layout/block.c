/* The walk over one side of a piece, in packed order.
 *
 * A cut is walked in strips: one strip of whole tokens, or one strip a head when it is packed [head][token]. A page's part of a
 * strip is one block when its tokens lie at equal strides; only where the heads of a token lie apart is it one block a token. */
#include "layout/block.h"

#include "base/checked.h"
#include "layout/lane.h"

bool layout_cut_head_major(const struct layout_link *link, uint32_t cut) {
  const kvf_plane *source = &link->source_planes[link->cuts[cut].source_plane];
  const kvf_plane *target = &link->target_planes[link->cuts[cut].target_plane];
  return source->token_stride_bytes == source->head_bytes && target->token_stride_bytes == target->head_bytes &&
         source->page_tokens > 1 && target->page_tokens > 1;
}

uint64_t layout_cut_token_bytes(const struct layout_link *link, uint32_t cut) {
  return (uint64_t)link->cuts[cut].head_count * link->source_planes[link->cuts[cut].source_plane].head_bytes;
}

bool layout_piece_bytes(const struct layout_link *link, const struct layout_piece *piece, uint64_t *bytes_out) {
  uint64_t token_bytes = 0, token_end, bytes;
  if (piece->cut_first > link->cut_count || piece->cut_count > link->cut_count - piece->cut_first) return false;
  if (!base_add_u64(piece->token_first, piece->token_count, &token_end)) return false;
  for (uint32_t i = 0; i < piece->cut_count; i++)
    if (!base_add_u64(token_bytes, layout_cut_token_bytes(link, piece->cut_first + i), &token_bytes)) return false;
  if (!base_mul_u64(token_bytes, piece->token_count, &bytes)) return false;
  *bytes_out = bytes;
  return true;
}

/* ---- collecting blocks ---- */

struct sink {
  struct layout_block *blocks; /* blocks[count - 1] still grows */
  size_t count, capacity;
};

/* Does @p next continue @p last with the same step? A single row takes any step. */
static inline bool continue_rows(struct layout_block *last, const struct layout_block *next) {
  uint64_t stride = next->row_stride;
  if (last->row_bytes != next->row_bytes) return false;
  if (last->row_count > 1) {
    if (next->row_count > 1 && last->row_stride != stride) return false;
    stride = last->row_stride;
  }
  if (last->address + last->row_count * stride != next->address) return false;
  last->row_stride = stride;
  last->row_count += next->row_count;
  return true;
}

/* False when the sink is full. Packed offsets always continue, so only the addresses decide. */
static inline bool put_block(struct sink *sink, const struct layout_block *block) {
  if (sink->count > 0) {
    struct layout_block *last = &sink->blocks[sink->count - 1];
    if (last->row_count == 1 && block->row_count == 1 && last->address + last->row_bytes == block->address) {
      last->row_bytes += block->row_bytes;
      last->packed_stride = last->row_bytes;
      return true;
    }
    if (continue_rows(last, block)) return true;
  }
  if (sink->count == sink->capacity) return false;
  sink->blocks[sink->count++] = *block;
  return true;
}

/* ---- walking ---- */

/* What one token is in a strip: rows of row_bytes at row_stride. */
struct strip {
  struct layout_lane lane;
  uint64_t row_bytes, token_rows, row_stride;
  uint64_t token_bytes;
};

void layout_walk_init(struct layout_walk *walk, const struct layout_link *link, enum layout_side side,
                      const struct layout_pages *pages, const struct layout_piece *piece) {
  *walk = (struct layout_walk){
      .link = link, .pages = pages, .piece = *piece, .side = side, .cut = piece->cut_first, .token = piece->token_first};
}

static inline struct strip open_strip(const struct layout_walk *walk, bool head_major) {
  const struct layout_cut *cut = &walk->link->cuts[walk->cut];
  const kvf_plane *plane =
      walk->side == LAYOUT_SOURCE ? &walk->link->source_planes[cut->source_plane] : &walk->link->target_planes[cut->target_plane];
  struct strip strip = {.lane = layout_lane_open(plane, walk->pages, cut->head_first + walk->head, walk->token),
                        .row_bytes = plane->head_bytes,
                        .token_rows = 1,
                        .row_stride = plane->head_stride_bytes};
  if (!head_major && plane->head_stride_bytes == plane->head_bytes)
    strip.row_bytes *= cut->head_count;
  else if (!head_major)
    strip.token_rows = cut->head_count;
  strip.token_bytes = strip.row_bytes * strip.token_rows;
  return strip;
}

/* Up to @p token_count tokens of one page, one block each. Returns how many the sink took. */
static uint64_t put_tokens(struct sink *sink, const struct strip *strip, uint64_t packed_offset, uint64_t token_count) {
  struct layout_block block = {.address = layout_lane_address(&strip->lane),
                               .packed_offset = packed_offset,
                               .row_bytes = strip->row_bytes,
                               .row_stride = strip->row_stride,
                               .packed_stride = strip->row_bytes,
                               .row_count = strip->token_rows};
  for (uint64_t i = 0; i < token_count; i++) {
    if (!put_block(sink, &block)) return i;
    block.address += strip->lane.token_stride;
    block.packed_offset += strip->token_bytes;
  }
  return token_count;
}

/* The tokens of one page, where each is one row: a run when they touch, else equally spaced rows. */
static inline bool put_page(struct sink *sink, const struct strip *strip, uint64_t packed_offset, uint64_t token_count) {
  bool run = strip->lane.token_stride == strip->row_bytes;
  struct layout_block block = {.address = layout_lane_address(&strip->lane),
                               .packed_offset = packed_offset,
                               .row_bytes = run ? token_count * strip->row_bytes : strip->row_bytes,
                               .row_stride = run ? strip->lane.page_stride : strip->lane.token_stride,
                               .row_count = run ? 1 : token_count};
  block.packed_stride = block.row_bytes;
  return put_block(sink, &block);
}

/* The rest of one strip. False when the sink is full before its end. */
static bool walk_strip(struct layout_walk *walk, struct strip *strip, struct sink *sink) {
  const uint64_t token_end = walk->piece.token_first + walk->piece.token_count;
  while (walk->token < token_end) {
    uint64_t count = base_min_u64(token_end - walk->token, strip->lane.page_tokens - strip->lane.slot), taken = count;
    if (strip->token_rows > 1)
      taken = put_tokens(sink, strip, walk->packed_offset, count);
    else if (!put_page(sink, strip, walk->packed_offset, count))
      taken = 0;
    walk->token += taken;
    walk->packed_offset += taken * strip->token_bytes;
    if (taken < count) return false;
    layout_lane_advance(&strip->lane, count);
  }
  return true;
}

size_t layout_walk_next(struct layout_walk *walk, struct layout_block *blocks, size_t capacity) {
  struct sink sink = {.blocks = blocks, .capacity = capacity};
  if (walk->piece.token_count == 0) return 0;
  while (walk->cut < walk->piece.cut_first + walk->piece.cut_count) {
    bool head_major = layout_cut_head_major(walk->link, walk->cut);
    uint32_t strips = head_major ? walk->link->cuts[walk->cut].head_count : 1;
    for (; walk->head < strips; walk->head++) {
      struct strip strip = open_strip(walk, head_major);
      if (!walk_strip(walk, &strip, &sink)) return sink.count;
      walk->token = walk->piece.token_first;
    }
    walk->head = 0;
    walk->cut++;
  }
  return sink.count;
}

uint64_t layout_piece_slices(const struct layout_link *link, enum layout_side side, const struct layout_pages *pages,
                             const struct layout_piece *piece) {
  struct layout_walk walk;
  struct layout_block blocks[32];
  uint64_t slices = 0;
  layout_walk_init(&walk, link, side, pages, piece);
  for (size_t count; (count = layout_walk_next(&walk, blocks, sizeof blocks / sizeof *blocks)) > 0;)
    for (size_t i = 0; i < count; i++) slices += blocks[i].row_count;
  return slices;
}
