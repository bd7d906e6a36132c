/* The walk over both sides of a piece, from pages to pages. A segment is what lies within one page on both sides; it is cut into
 * the largest rows that both have in one piece. */
#include "base/checked.h"
#include "layout/block.h"
#include "layout/lane.h"

enum rows {
  ROWS_OF_TOKENS, /* the heads of a token touch on both sides: a row a token, or one run */
  ROWS_OF_HEADS,  /* the tokens of a head touch on both sides: a row a head */
  ROWS_OF_BOTH    /* neither: a row a token, head after head */
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
  *walk = (struct layout_pair_walk){.link = link,
                                    .source_pages = source_pages,
                                    .target_pages = target_pages,
                                    .piece = *piece,
                                    .cut = piece->cut_first,
                                    .token = piece->token_first};
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
  const kvf_plane *source = &walk->link->source_planes[cut->source_plane], *target = &walk->link->target_planes[cut->target_plane];
  struct course course = {.source = layout_lane_open(source, walk->source_pages, cut->head_first, walk->token),
                          .target = layout_lane_open(target, walk->target_pages, cut->head_first, walk->token),
                          .head_bytes = source->head_bytes,
                          .head_count = cut->head_count,
                          .rows = ROWS_OF_BOTH};
  if (cut->head_count == 1 || (course.source.head_stride == course.head_bytes && course.target.head_stride == course.head_bytes))
    course.rows = ROWS_OF_TOKENS;
  else if (course.source.token_stride == course.head_bytes && course.target.token_stride == course.head_bytes)
    course.rows = ROWS_OF_HEADS;
  return course;
}

/* One pair of a segment: all of it, or its head number @p head. */
static inline struct layout_pair make_pair(const struct course *course, uint64_t token_count, uint64_t head) {
  const struct layout_lane *source = &course->source, *target = &course->target;
  struct layout_pair pair = {.source_address = layout_lane_address(source) + head * source->head_stride,
                             .target_address = layout_lane_address(target) + head * target->head_stride,
                             .row_bytes = course->head_bytes,
                             .source_stride = source->token_stride,
                             .target_stride = target->token_stride,
                             .row_count = token_count};
  if (course->rows == ROWS_OF_HEADS) {
    pair.row_bytes *= token_count;
    pair.source_stride = source->head_stride;
    pair.target_stride = target->head_stride;
    pair.row_count = course->head_count;
  } else if (course->rows == ROWS_OF_TOKENS)
    pair.row_bytes *= course->head_count;
  if (pair.source_stride == pair.row_bytes && pair.target_stride == pair.row_bytes) {
    pair.row_bytes *= pair.row_count;
    pair.row_count = 1;
    pair.source_stride = source->page_stride;
    pair.target_stride = target->page_stride;
  }
  return pair;
}

/* The rest of one cut. False when the sink is full before its end. */
static bool walk_course(struct layout_pair_walk *walk, struct course *course, struct sink *sink) {
  const uint64_t token_end = walk->piece.token_first + walk->piece.token_count;
  const uint32_t parts = course->rows == ROWS_OF_BOTH ? (uint32_t)course->head_count : 1;
  while (walk->token < token_end) {
    uint64_t count =
        base_min_u64(course->source.page_tokens - course->source.slot, course->target.page_tokens - course->target.slot);
    count = base_min_u64(count, token_end - walk->token);
    for (; walk->head < parts; walk->head++) {
      struct layout_pair pair = make_pair(course, count, walk->head);
      if (!put_pair(sink, &pair)) return false;
    }
    walk->head = 0;
    walk->token += count;
    layout_lane_advance(&course->source, count);
    layout_lane_advance(&course->target, count);
  }
  return true;
}

size_t layout_pair_walk_next(struct layout_pair_walk *walk, struct layout_pair *pairs, size_t capacity) {
  struct sink sink = {.pairs = pairs, .capacity = capacity};
  if (walk->piece.token_count == 0) return 0;
  for (; walk->cut < walk->piece.cut_first + walk->piece.cut_count; walk->cut++) {
    struct course course = open_course(walk);
    if (!walk_course(walk, &course, &sink)) return sink.count;
    walk->token = walk->piece.token_first;
  }
  return sink.count;
}
