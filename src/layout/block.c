/* The walk over one side of a piece, in packed order.
 *
 * A cut is walked in strips: one strip of whole entries, or one strip a head when it is packed [head][entry]. A page's part of a
 * strip is one block when its entries lie at equal strides; only where the heads of an entry lie apart is it one block an entry.
 * Where the planes hold different shares of the entries, a strip is walked run by run of what they have in common. */
#include "layout/block.h"

#include "layout/lane.h"

bool layout_cut_head_major(const struct layout_link *link, uint32_t cut) {
  const kvf_plane *source = layout_cut_source(link, cut), *target = layout_cut_target(link, cut);
  return source->token_stride_bytes == source->head_bytes && target->token_stride_bytes == target->head_bytes &&
         source->page_tokens > 1 && target->page_tokens > 1;
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

/* What one entry is in a strip: rows of row_bytes at row_stride. */
struct strip {
  struct layout_lane lane;
  uint64_t row_bytes, entry_rows, row_stride;
  uint64_t entry_bytes;
  uint64_t lone_stride; /* of a single row: the step that would bring it to the next */
};

void layout_walk_init(struct layout_walk *walk, const struct layout_link *link, enum layout_side side,
                      const struct layout_pages *pages, const struct layout_piece *piece) {
  *walk = (struct layout_walk){.link = link, .pages = pages, .piece = *piece, .side = side, .cut = piece->cut_first};
}

static inline const kvf_plane *side_plane(const struct layout_walk *walk) {
  return walk->side == LAYOUT_SOURCE ? layout_cut_source(walk->link, walk->cut) : layout_cut_target(walk->link, walk->cut);
}

static inline struct strip open_strip(const struct layout_walk *walk, bool head_major) {
  const struct layout_cut *cut = &walk->link->cuts[walk->cut];
  const kvf_plane *plane = side_plane(walk);
  struct strip strip = {.lane = layout_lane_open(plane, walk->pages, cut->head_first + walk->head, walk->entry),
                        .row_bytes = plane->head_bytes,
                        .entry_rows = 1,
                        .row_stride = plane->head_stride_bytes,
                        .lone_stride = plane->page_stride_bytes};
  if (!head_major && plane->head_stride_bytes == plane->head_bytes)
    strip.row_bytes *= cut->head_count;
  else if (!head_major)
    strip.entry_rows = cut->head_count;
  strip.entry_bytes = strip.row_bytes * strip.entry_rows;
  return strip;
}

/* Up to @p entry_count entries of one page, one block each. Returns how many the sink took. */
static uint64_t put_entries(struct sink *sink, const struct strip *strip, uint64_t packed_offset, uint64_t entry_count) {
  struct layout_block block = {.address = layout_lane_address(&strip->lane),
                               .packed_offset = packed_offset,
                               .row_bytes = strip->row_bytes,
                               .row_stride = strip->row_stride,
                               .packed_stride = strip->row_bytes,
                               .row_count = strip->entry_rows};
  for (uint64_t i = 0; i < entry_count; i++) {
    if (!put_block(sink, &block)) return i;
    block.address += strip->lane.token_stride;
    block.packed_offset += strip->entry_bytes;
  }
  return entry_count;
}

/* The entries of one page, where each is one row: a run when they touch, else equally spaced rows. */
static inline bool put_page(struct sink *sink, const struct strip *strip, uint64_t packed_offset, uint64_t entry_count) {
  bool run = strip->lane.token_stride == strip->row_bytes;
  struct layout_block block = {.address = layout_lane_address(&strip->lane),
                               .packed_offset = packed_offset,
                               .row_bytes = run ? entry_count * strip->row_bytes : strip->row_bytes,
                               .row_stride = run ? strip->lone_stride : strip->lane.token_stride,
                               .row_count = run ? 1 : entry_count};
  block.packed_stride = block.row_bytes;
  return put_block(sink, &block);
}

/* Entries [walk->entry, end) of a strip, which lie in slots that follow each other. False when the sink is full before. */
static inline bool walk_run(struct layout_walk *walk, struct strip *strip, uint64_t end, struct sink *sink) {
  while (walk->entry < end) {
    uint64_t count = base_min_u64(end - walk->entry, strip->lane.page_tokens - strip->lane.slot), taken = count;
    if (strip->entry_rows > 1)
      taken = put_entries(sink, strip, walk->packed_offset, count);
    else if (!put_page(sink, strip, walk->packed_offset, count))
      taken = 0;
    walk->entry += taken;
    walk->packed_offset += taken * strip->entry_bytes;
    if (taken < count) return false;
    layout_lane_advance(&strip->lane, count);
  }
  return true;
}

/* A run that is one row takes the step to the next run, so that equal steps become one block. */
static inline bool walk_lone_row(struct layout_walk *walk, struct strip *strip, uint64_t entry_count, struct sink *sink) {
  struct layout_block block = {.address = layout_lane_address(&strip->lane),
                               .packed_offset = walk->packed_offset,
                               .row_bytes = entry_count * strip->row_bytes,
                               .row_stride = strip->lone_stride,
                               .packed_stride = entry_count * strip->row_bytes,
                               .row_count = 1};
  if (!put_block(sink, &block)) return false;
  walk->entry += entry_count;
  walk->packed_offset += block.row_bytes;
  return true;
}

/* The rest of a strip whose planes hold different shares. False when the sink is full before its end. */
static bool walk_split_strip(struct layout_walk *walk, bool head_major, uint64_t strip_end, struct sink *sink) {
  const struct layout_overlap overlap = layout_cut_overlap(walk->link, walk->cut);
  uint64_t first, end, next_first = 0, next_end = 0;
  bool more = layout_overlap_next(&overlap, walk->entry, strip_end, &first, &end);
  if (!more) return true;
  const struct layout_rail rail = layout_rail_open(side_plane(walk), walk->pages);
  walk->entry = first;
  struct strip strip = open_strip(walk, head_major);
  while (more) {
    uint64_t slot = layout_rail_slot(&rail, first);
    more = layout_overlap_next(&overlap, end, strip_end, &next_first, &next_end);
    if (more) strip.lone_stride = (layout_rail_slot(&rail, next_first) - slot) * strip.lane.token_stride;
    layout_lane_seek(&strip.lane, rail.pages, slot);
    walk->entry = first;
    bool lone = strip.entry_rows == 1 && (end - first == 1 || strip.lane.token_stride == strip.row_bytes) &&
                end - first <= strip.lane.page_tokens - strip.lane.slot;
    if (lone ? !walk_lone_row(walk, &strip, end - first, sink) : !walk_run(walk, &strip, end, sink)) return false;
    first = next_first;
    end = next_end;
  }
  return true;
}

/* A strip without entries is passed over before anyone looks for its page list. False when the sink is full before the end. */
static inline bool walk_strip(struct layout_walk *walk, bool head_major, struct sink *sink) {
  const struct layout_piece *piece = &walk->piece;
  const struct layout_span span = layout_span_of(side_plane(walk), piece->token_first, piece->token_first + piece->token_count);
  if (!walk->inside) walk->entry = span.first;
  walk->inside = true;
  if (layout_cut_is_split(walk->link, walk->cut)) {
    if (!walk_split_strip(walk, head_major, span.end, sink)) return false;
  } else if (walk->entry < span.end) {
    struct strip strip = open_strip(walk, head_major);
    if (!walk_run(walk, &strip, span.end, sink)) return false;
  }
  walk->inside = false;
  return true;
}

size_t layout_walk_next(struct layout_walk *walk, struct layout_block *blocks, size_t capacity) {
  struct sink sink = {.blocks = blocks, .capacity = capacity};
  while (walk->cut < walk->piece.cut_first + walk->piece.cut_count) {
    bool head_major = layout_cut_head_major(walk->link, walk->cut);
    uint32_t strips = head_major ? walk->link->cuts[walk->cut].head_count : 1;
    for (; walk->head < strips; walk->head++)
      if (!walk_strip(walk, head_major, &sink)) return sink.count;
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
