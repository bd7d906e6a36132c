/* The walk over both sides of a piece, from pages to pages. A segment is what lies within one page on both sides; it is cut into
 * the largest rows that both have in one piece. */
#include "base/checked.h"
#include "layout/lane.h"

enum rows {
  ROWS_OF_ENTRIES, /* the heads of an entry touch on both sides: a row an entry, or one run */
  ROWS_OF_HEADS,   /* the entries of a head touch on both sides: a row a head */
  ROWS_OF_BOTH     /* neither: a row an entry, head after head */
};

struct course {
  struct layout_lane source, target;
  uint64_t head_bytes, head_count;
  enum rows rows;
};

struct sink {
  struct layout_pair *pairs; /* pairs[count - 1] still grows */
  size_t count, capacity;
};

void layout_pair_walk_init(struct layout_pair_walk *walk, const struct layout_link *link, const struct layout_pages *source_pages,
                           const struct layout_pages *target_pages, const struct layout_piece *piece) {
  *walk = (struct layout_pair_walk){
      .link = link, .source_pages = source_pages, .target_pages = target_pages, .piece = *piece, .cut = piece->cut_first};
}

/* Does @p next continue @p last with the same steps? A single row takes any. */
static inline bool continue_rows(struct layout_pair *last, const struct layout_pair *next) {
  uint64_t source_stride = next->source_stride, target_stride = next->target_stride;
  if (last->row_bytes != next->row_bytes) return false;
  if (last->row_count > 1) {
    if (next->row_count > 1 && (last->source_stride != source_stride || last->target_stride != target_stride)) return false;
    source_stride = last->source_stride;
    target_stride = last->target_stride;
  }
  if (last->source_address + last->row_count * source_stride != next->source_address ||
      last->target_address + last->row_count * target_stride != next->target_address)
    return false;
  last->source_stride = source_stride;
  last->target_stride = target_stride;
  last->row_count += next->row_count;
  return true;
}

/* False when the sink is full. */
static inline bool put_pair(struct sink *sink, const struct layout_pair *pair) {
  if (sink->count > 0) {
    struct layout_pair *last = &sink->pairs[sink->count - 1];
    if (last->row_count == 1 && pair->row_count == 1 && last->source_address + last->row_bytes == pair->source_address &&
        last->target_address + last->row_bytes == pair->target_address) {
      last->row_bytes += pair->row_bytes;
      return true;
    }
    if (continue_rows(last, pair)) return true;
  }
  if (sink->count == sink->capacity) return false;
  sink->pairs[sink->count++] = *pair;
  return true;
}

static struct course open_course(const struct layout_pair_walk *walk) {
  const struct layout_cut *cut = &walk->link->cuts[walk->cut];
  const kvf_plane *source = layout_cut_source(walk->link, walk->cut), *target = layout_cut_target(walk->link, walk->cut);
  struct course course = {.source = layout_lane_open(source, walk->source_pages, cut->head_first, walk->entry),
                          .target = layout_lane_open(target, walk->target_pages, cut->head_first, walk->entry),
                          .head_bytes = source->head_bytes,
                          .head_count = cut->head_count,
                          .rows = ROWS_OF_BOTH};
  if (cut->head_count == 1 || (course.source.head_stride == course.head_bytes && course.target.head_stride == course.head_bytes))
    course.rows = ROWS_OF_ENTRIES;
  else if (course.source.token_stride == course.head_bytes && course.target.token_stride == course.head_bytes)
    course.rows = ROWS_OF_HEADS;
  return course;
}

/* One pair of a segment: all of it, or its head number @p head. */
static inline struct layout_pair make_pair(const struct course *course, uint64_t entry_count, uint64_t head) {
  const struct layout_lane *source = &course->source, *target = &course->target;
  struct layout_pair pair = {.source_address = layout_lane_address(source) + head * source->head_stride,
                             .target_address = layout_lane_address(target) + head * target->head_stride,
                             .row_bytes = course->head_bytes,
                             .source_stride = source->token_stride,
                             .target_stride = target->token_stride,
                             .row_count = entry_count};
  if (course->rows == ROWS_OF_HEADS) {
    pair.row_bytes *= entry_count;
    pair.source_stride = source->head_stride;
    pair.target_stride = target->head_stride;
    pair.row_count = course->head_count;
  } else if (course->rows == ROWS_OF_ENTRIES)
    pair.row_bytes *= course->head_count;
  if (pair.source_stride == pair.row_bytes && pair.target_stride == pair.row_bytes) {
    pair.row_bytes *= pair.row_count;
    pair.row_count = 1;
    pair.source_stride = source->page_stride;
    pair.target_stride = target->page_stride;
  }
  return pair;
}

/* Entries [walk->entry, end), which lie in slots that follow each other on both sides. False when the sink is full before. */
static bool walk_run(struct layout_pair_walk *walk, struct course *course, uint64_t end, struct sink *sink) {
  const uint32_t parts = course->rows == ROWS_OF_BOTH ? (uint32_t)course->head_count : 1;
  while (walk->entry < end) {
    uint64_t count =
        base_min_u64(course->source.page_tokens - course->source.slot, course->target.page_tokens - course->target.slot);
    count = base_min_u64(count, end - walk->entry);
    for (; walk->head < parts; walk->head++) {
      struct layout_pair pair = make_pair(course, count, walk->head);
      if (!put_pair(sink, &pair)) return false;
    }
    walk->head = 0;
    walk->entry += count;
    layout_lane_advance(&course->source, count);
    layout_lane_advance(&course->target, count);
  }
  return true;
}

/* The rest of a cut whose planes hold different shares. */
static bool walk_split_cut(struct layout_pair_walk *walk, uint64_t end, struct sink *sink) {
  const struct layout_overlap overlap = layout_cut_overlap(walk->link, walk->cut);
  uint64_t run_end;
  if (!layout_overlap_next(&overlap, walk->entry, end, &walk->entry, &run_end)) return true;
  const struct layout_rail source = layout_rail_open(layout_cut_source(walk->link, walk->cut), walk->source_pages);
  const struct layout_rail target = layout_rail_open(layout_cut_target(walk->link, walk->cut), walk->target_pages);
  struct course course = open_course(walk);
  do {
    layout_lane_seek(&course.source, source.pages, layout_rail_slot(&source, walk->entry));
    layout_lane_seek(&course.target, target.pages, layout_rail_slot(&target, walk->entry));
    if (!walk_run(walk, &course, run_end, sink)) return false;
  } while (layout_overlap_next(&overlap, walk->entry, end, &walk->entry, &run_end));
  return true;
}

/* The rest of one cut. One without entries is passed over before anyone looks for its page lists. */
static bool walk_cut(struct layout_pair_walk *walk, struct sink *sink) {
  const struct layout_piece *piece = &walk->piece;
  const struct layout_span span =
      layout_span_of(layout_cut_source(walk->link, walk->cut), piece->token_first, piece->token_first + piece->token_count);
  if (!walk->inside) walk->entry = span.first;
  walk->inside = true;
  if (layout_cut_is_split(walk->link, walk->cut)) {
    if (!walk_split_cut(walk, span.end, sink)) return false;
  } else if (walk->entry < span.end) {
    struct course course = open_course(walk);
    if (!walk_run(walk, &course, span.end, sink)) return false;
  }
  walk->inside = false;
  return true;
}

size_t layout_pair_walk_next(struct layout_pair_walk *walk, struct layout_pair *pairs, size_t capacity) {
  struct sink sink = {.pairs = pairs, .capacity = capacity};
  for (; walk->cut < walk->piece.cut_first + walk->piece.cut_count; walk->cut++)
    if (!walk_cut(walk, &sink)) break;
  return sink.count;
}
