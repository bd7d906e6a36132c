/* Cutting a token range of some layers into pieces. The cursor and the totals take the same steps, so they cannot disagree. */
#include "base/checked.h"
#include "base/error.h"
#include "plan/plan.h"

enum { SIDES = 2 };

/* How the contiguous rows of one cut grow with its tokens on one side: so many a token, or so many a page. */
struct growth {
  uint64_t rows;
  uint64_t page_tokens; /* 0: per token */
};

/* One step of the cursor: the next piece. */
struct step {
  uint32_t cut_count;
  uint64_t tokens;
  uint64_t bytes;
};

static const kvf_plane *side_plane(const struct layout_link *link, uint32_t cut, int side) {
  return side == LAYOUT_SOURCE ? &link->source_planes[link->cuts[cut].source_plane]
                               : &link->target_planes[link->cuts[cut].target_plane];
}

static struct growth measure_growth(const struct layout_link *link, uint32_t cut, int side) {
  const kvf_plane *plane = side_plane(link, cut, side);
  uint64_t heads = link->cuts[cut].head_count;
  if (layout_cut_head_major(link, cut)) return (struct growth){.rows = heads, .page_tokens = plane->page_tokens};
  if (heads > 1 && plane->head_stride_bytes != plane->head_bytes) return (struct growth){.rows = heads};
  bool touch = plane->token_stride_bytes == heads * plane->head_bytes;
  return (struct growth){.rows = 1, .page_tokens = touch ? plane->page_tokens : 0};
}

/* An upper bound: nobody knows here where in a page the tokens begin. Saturates. */
static uint64_t bound_rows(struct growth growth, uint64_t tokens) {
  uint64_t units = tokens, rows;
  if (growth.page_tokens && tokens > 0) units = base_ceil_div_u64(tokens - 1, growth.page_tokens) + 1;
  return base_mul_u64(growth.rows, units, &rows) ? rows : UINT64_MAX;
}

/* The most tokens whose bound is within @p limit. */
static uint64_t fit_tokens(struct growth growth, uint64_t limit) {
  uint64_t units = limit / growth.rows, tokens;
  if (!growth.page_tokens || units == 0) return units;
  if (!base_mul_u64(units - 1, growth.page_tokens, &tokens)) return UINT64_MAX;
  return tokens == UINT64_MAX ? tokens : tokens + 1;
}

/* The most tokens of one cut that a piece may have; 0 when not even one fits. */
static uint64_t limit_tokens(const struct plan_cursor *cursor, uint32_t cut) {
  uint64_t tokens = cursor->limits.piece_bytes / layout_cut_token_bytes(cursor->link, cut);
  for (int side = 0; side < SIDES && cursor->limits.piece_rows; side++)
    tokens = base_min_u64(tokens, fit_tokens(measure_growth(cursor->link, cut, side), cursor->limits.piece_rows));
  return base_min_u64(tokens, UINT32_MAX);
}

/* The tokens of each piece of a cut that is split: whole pages when it can be, so that no piece but the first begins inside one. */
static uint64_t split_tokens(const struct plan_cursor *cursor, uint32_t cut, uint64_t limit) {
  uint64_t page = base_max_u64(side_plane(cursor->link, cut, LAYOUT_SOURCE)->page_tokens,
                               side_plane(cursor->link, cut, LAYOUT_TARGET)->page_tokens);
  return limit < page ? limit : limit - limit % page;
}

static bool past_end(const struct plan_cursor *cursor, uint32_t cut) {
  return cut >= cursor->link->cut_count || side_plane(cursor->link, cut, LAYOUT_TARGET)->layer >= cursor->range.layer_end;
}

/* How many cuts from cursor->cut go whole into one piece; 0 when already the first must be split. */
static uint32_t share_piece(const struct plan_cursor *cursor, uint64_t tokens, uint64_t *bytes_out) {
  uint64_t bytes = 0, rows[SIDES] = {0}, row_limit = cursor->limits.piece_rows ? cursor->limits.piece_rows : UINT64_MAX;
  uint32_t count = 0;
  if (tokens > UINT32_MAX) return 0;
  for (; !past_end(cursor, cursor->cut + count); count++) {
    uint32_t cut = cursor->cut + count;
    uint64_t added = layout_cut_token_bytes(cursor->link, cut) * tokens;
    if (added > cursor->limits.piece_bytes - bytes) break;
    bool fits = true;
    uint64_t added_rows[SIDES] = {0};
    for (int side = 0; side < SIDES && cursor->limits.piece_rows; side++) {
      added_rows[side] = bound_rows(measure_growth(cursor->link, cut, side), tokens);
      fits = fits && added_rows[side] <= row_limit - rows[side];
    }
    if (!fits) break;
    for (int side = 0; side < SIDES; side++) rows[side] += added_rows[side];
    bytes += added;
  }
  *bytes_out = bytes;
  return count;
}

/* The next piece, without moving. False at the end. */
static bool next_step(const struct plan_cursor *cursor, struct step *step_out) {
  uint64_t left = cursor->range.token_end - cursor->token, bytes = 0;
  if (left == 0 || past_end(cursor, cursor->cut)) return false;
  uint32_t shared = cursor->token == cursor->range.token_first ? share_piece(cursor, left, &bytes) : 0;
  if (shared > 0)
    *step_out = (struct step){.cut_count = shared, .tokens = left, .bytes = bytes};
  else {
    uint64_t tokens = base_min_u64(left, split_tokens(cursor, cursor->cut, limit_tokens(cursor, cursor->cut)));
    *step_out =
        (struct step){.cut_count = 1, .tokens = tokens, .bytes = layout_cut_token_bytes(cursor->link, cursor->cut) * tokens};
  }
  return true;
}

static kvf_error *check_range(const struct plan_cursor *cursor) {
  const struct plan_range *range = &cursor->range;
  uint64_t total = 0;
  if (range->token_end == range->token_first) return NULL;
  if (range->token_end < range->token_first) return BASE_ERROR(KVF_INVALID, NULL, "a token range ends before it begins");
  for (uint32_t cut = cursor->cut; !past_end(cursor, cut); cut++) {
    uint32_t layer = side_plane(cursor->link, cut, LAYOUT_TARGET)->layer;
    uint64_t need = layout_cut_token_bytes(cursor->link, cut), limit = cursor->limits.piece_bytes, bytes;
    const char *what = "bytes";
    if (!base_mul_u64(need, range->token_end - range->token_first, &bytes) || !base_add_u64(total, bytes, &total))
      return base_error_add(BASE_ERROR(KVF_TOO_LARGE, NULL, "the bytes of a chunk do not fit 64 bits"), "layer", "%u", layer);
    for (int side = 0; side < SIDES && need <= limit && cursor->limits.piece_rows; side++) {
      uint64_t rows = bound_rows(measure_growth(cursor->link, cut, side), 1);
      if (rows <= cursor->limits.piece_rows) continue;
      what = "contiguous rows";
      need = rows;
      limit = cursor->limits.piece_rows;
    }
    if (need <= limit) continue;
    kvf_error *error = BASE_ERROR(KVF_TOO_LARGE, NULL, "one token of one layer has more %s than a piece may", what);
    base_error_add(error, "need", "%llu", (unsigned long long)need);
    base_error_add(error, "limit", "%llu", (unsigned long long)limit);
    return base_error_add(error, "layer", "%u", layer);
  }
  return NULL;
}

kvf_status plan_cursor_init(struct plan_cursor *cursor, const struct layout_link *link, const struct plan_range *range,
                            const struct plan_limits *limits, kvf_error **error_out) {
  struct plan_cursor ready = {.link = link, .limits = *limits, .range = *range, .token = range->token_first};
  while (ready.cut < link->cut_count && side_plane(link, ready.cut, LAYOUT_TARGET)->layer < range->layer_first) ready.cut++;
  kvf_error *error = check_range(&ready);
  if (error) return base_error_give(error, error_out);
  *cursor = ready;
  return KVF_OK;
}

/* On by @p tokens of @p cut_count cuts. */
static void advance(struct plan_cursor *cursor, uint32_t cut_count, uint64_t tokens) {
  cursor->token += tokens;
  if (cursor->token < cursor->range.token_end) return;
  cursor->token = cursor->range.token_first;
  cursor->cut += cut_count;
}

bool plan_cursor_next(struct plan_cursor *cursor, struct layout_piece *piece_out, uint64_t *bytes_out) {
  struct step step;
  if (!next_step(cursor, &step)) return false;
  *piece_out = (struct layout_piece){
      .cut_first = cursor->cut, .cut_count = step.cut_count, .token_first = cursor->token, .token_count = (uint32_t)step.tokens};
  *bytes_out = step.bytes;
  advance(cursor, step.cut_count, step.tokens);
  return true;
}

void plan_totals_get(const struct plan_cursor *cursor, struct plan_totals *totals_out) {
  struct plan_cursor ahead = *cursor;
  struct plan_totals totals = {0};
  for (struct step step; next_step(&ahead, &step);) {
    uint64_t left = ahead.range.token_end - ahead.token;
    if (step.tokens < left) { /* a split cut: all of its pieces at once */
      totals.pieces += base_ceil_div_u64(left, step.tokens);
      totals.bytes += layout_cut_token_bytes(ahead.link, ahead.cut) * left;
    } else {
      totals.pieces++;
      totals.bytes += step.bytes;
    }
    advance(&ahead, step.cut_count, left);
  }
  *totals_out = totals;
}
