/* Cutting a token range of some layers into pieces. The cursor and the totals take the same steps, so they cannot disagree. */
#include "base/checked.h"
#include "base/error.h"
#include "plan/plan.h"

enum { SIDES = 2 };

/* How the contiguous rows of one cut grow with its entries on one side: so many an entry, or so many a page. */
struct growth {
  uint64_t rows;
  uint64_t page_entries; /* 0: per entry */
};

/* What the range wants of one cut. */
struct want {
  uint64_t first, end; /* tokens */
  uint64_t entries;    /* that are moved for them */
};

/* One step of the cursor: the next piece. */
struct step {
  uint32_t cut, cut_count;
  struct want want; /* of its first cut, all that is left */
  uint64_t token_first, token_end;
  uint64_t entries_at_most; /* when the cut is split */
  uint64_t bytes;
};

static const kvf_plane *side_plane(const struct layout_link *link, uint32_t cut, int side) {
  return side == LAYOUT_SOURCE ? &link->source_planes[link->cuts[cut].source_plane]
                               : &link->target_planes[link->cuts[cut].target_plane];
}

static bool is_split(const struct layout_link *link, uint32_t cut) {
  return side_plane(link, cut, LAYOUT_SOURCE)->token_parts > 1 || side_plane(link, cut, LAYOUT_TARGET)->token_parts > 1;
}

static struct growth measure_growth(const struct layout_link *link, uint32_t cut, int side) {
  const kvf_plane *plane = side_plane(link, cut, side);
  uint64_t heads = link->cuts[cut].head_count;
  /* Between unequal shares nothing need touch. */
  uint64_t page_entries = is_split(link, cut) ? 0 : plane->page_tokens;
  if (layout_cut_head_major(link, cut)) return (struct growth){.rows = heads, .page_entries = page_entries};
  if (heads > 1 && plane->head_stride_bytes != plane->head_bytes) return (struct growth){.rows = heads};
  bool touch = plane->token_stride_bytes == heads * plane->head_bytes;
  return (struct growth){.rows = 1, .page_entries = touch ? page_entries : 0};
}

/* An upper bound: nobody knows here where in a page the entries begin. Saturates. */
static uint64_t bound_rows(struct growth growth, uint64_t entries) {
  uint64_t units = entries, rows;
  if (growth.page_entries && entries > 0) units = base_ceil_div_u64(entries - 1, growth.page_entries) + 1;
  return base_mul_u64(growth.rows, units, &rows) ? rows : UINT64_MAX;
}

/* The most entries whose bound is within @p limit. */
static uint64_t fit_entries(struct growth growth, uint64_t limit) {
  uint64_t units = limit / growth.rows, entries;
  if (!growth.page_entries || units == 0) return units;
  if (!base_mul_u64(units - 1, growth.page_entries, &entries)) return UINT64_MAX;
  return entries == UINT64_MAX ? entries : entries + 1;
}

/* The entries of each piece of a cut that is split: whole pages when it can be, so that no piece but the first begins inside one.
 */
static uint64_t split_entries(const struct plan_cursor *cursor, uint32_t cut) {
  const kvf_plane *source = side_plane(cursor->link, cut, LAYOUT_SOURCE), *target = side_plane(cursor->link, cut, LAYOUT_TARGET);
  uint64_t entries = cursor->limits.piece_bytes / layout_cut_token_bytes(cursor->link, cut);
  for (int side = 0; side < SIDES && cursor->limits.piece_rows; side++)
    entries = base_min_u64(entries, fit_entries(measure_growth(cursor->link, cut, side), cursor->limits.piece_rows));
  entries = base_min_u64(entries, UINT32_MAX / (source->entry_tokens ? source->entry_tokens : 1));
  uint64_t page = base_max_u64(source->page_tokens, target->page_tokens);
  return entries < page || is_split(cursor->link, cut) ? entries : entries - entries % page;
}

/* False when the range has no tokens for the cut. */
static bool want_cut(const struct plan_cursor *cursor, uint32_t cut, struct want *want_out) {
  const struct plan_range *range = &cursor->range;
  const kvf_plane *plane = side_plane(cursor->link, cut, LAYOUT_TARGET);
  struct want want;
  if (plane->per_request ? !range->per_request : plane->layer < range->layer_first || plane->layer >= range->layer_end)
    return false;
  layout_cut_range(cursor->link, cut, range->room_first, range->room_end, &want.first, &want.end);
  if (!plane->per_request) {
    want.first = base_max_u64(want.first, range->token_first);
    want.end = base_min_u64(want.end, range->token_end);
  }
  if (want.first >= want.end) return false;
  want.entries = layout_cut_entries(cursor->link, cut, want.first, want.end);
  *want_out = want;
  return true;
}

/* Do two cuts move the same tokens, so that one piece can hold both? One that has no entry among them may go along. */
static bool move_alike(const struct plan_cursor *cursor, const struct step *step, uint32_t cut, struct want *want_out) {
  return want_cut(cursor, cut, want_out) && want_out->first == step->want.first && want_out->end == step->want.end &&
         side_plane(cursor->link, step->cut, LAYOUT_TARGET)->per_request ==
             side_plane(cursor->link, cut, LAYOUT_TARGET)->per_request;
}

/* What the whole cuts of a piece need so far. */
struct load {
  uint64_t bytes, rows[SIDES];
};

/* Adds a cut; false when the limits forbid it. */
static bool load_cut(const struct plan_cursor *cursor, uint32_t cut, uint64_t entries, struct load *load) {
  struct load more = *load;
  uint64_t bytes = layout_cut_token_bytes(cursor->link, cut) * entries; /* check_range has seen that this fits */
  if (bytes > cursor->limits.piece_bytes - load->bytes) return false;
  more.bytes += bytes;
  for (int side = 0; side < SIDES && cursor->limits.piece_rows; side++) {
    uint64_t rows = bound_rows(measure_growth(cursor->link, cut, side), entries);
    if (rows > cursor->limits.piece_rows - load->rows[side]) return false;
    more.rows[side] += rows;
  }
  *load = more;
  return true;
}

/* How many cuts from the step's on go whole into one piece; 0 when already the first must be split. */
static uint32_t share_piece(const struct plan_cursor *cursor, struct step *step) {
  struct load load = {0};
  struct want want = step->want;
  uint32_t cut = step->cut, end = cut;
  if (want.end - want.first > UINT32_MAX) return 0;
  while (load_cut(cursor, cut, want.entries, &load)) {
    cut++;
    if (want.entries > 0) end = cut;
    if (cut == cursor->link->cut_count || !move_alike(cursor, step, cut, &want)) break;
  }
  step->bytes = load.bytes;
  return end - step->cut;
}

/* The first cut from the step's on that moves anything. False when there is none. */
static bool find_cut(const struct plan_cursor *cursor, struct step *step) {
  for (; step->cut < cursor->link->cut_count; step->cut++)
    if (want_cut(cursor, step->cut, &step->want) && step->want.entries > 0) return true;
  return false;
}

/* The next piece of a cut that is split. */
static void split_cut(const struct plan_cursor *cursor, struct step *step) {
  step->cut_count = 1;
  layout_cut_portion(cursor->link, step->cut, step->want.first, step->want.end, step->entries_at_most, &step->token_first,
                     &step->token_end);
  step->bytes = layout_cut_token_bytes(cursor->link, step->cut) *
                layout_cut_entries(cursor->link, step->cut, step->token_first, step->token_end);
}

/* The next piece, without moving. False at the end. */
static bool next_step(const struct plan_cursor *cursor, struct step *step) {
  *step = (struct step){.cut = cursor->cut};
  if (cursor->inside) {
    step->want = (struct want){.first = cursor->token, .end = cursor->token_end};
    step->want.entries = layout_cut_entries(cursor->link, step->cut, cursor->token, cursor->token_end);
    step->entries_at_most = cursor->entries_at_most;
    if (step->want.entries > 0) {
      split_cut(cursor, step);
      return true;
    }
    step->cut++;
  }
  if (!find_cut(cursor, step)) return false;
  step->token_first = step->want.first;
  step->token_end = step->want.end;
  step->cut_count = share_piece(cursor, step);
  if (step->cut_count == 0) {
    step->entries_at_most = split_entries(cursor, step->cut);
    split_cut(cursor, step);
  }
  return true;
}

/* Does one entry of a wanted cut fit the limits? */
static kvf_error *check_entry(const struct plan_cursor *cursor, uint32_t cut) {
  uint64_t need = layout_cut_token_bytes(cursor->link, cut), limit = cursor->limits.piece_bytes;
  const char *what = "bytes";
  for (int side = 0; side < SIDES && need <= limit && cursor->limits.piece_rows; side++) {
    uint64_t rows = bound_rows(measure_growth(cursor->link, cut, side), 1);
    if (rows <= cursor->limits.piece_rows) continue;
    what = "contiguous rows";
    need = rows;
    limit = cursor->limits.piece_rows;
  }
  if (need <= limit) return NULL;
  kvf_error *error = BASE_ERROR(KVF_TOO_LARGE, NULL, "one token of one layer has more %s than a piece may", what);
  base_error_add(error, "need", "%llu", (unsigned long long)need);
  base_error_add(error, "limit", "%llu", (unsigned long long)limit);
  return base_error_add(error, "layer", "%u", side_plane(cursor->link, cut, LAYOUT_TARGET)->layer);
}

static kvf_error *check_range(const struct plan_cursor *cursor) {
  uint64_t total = 0, bytes;
  struct want want;
  if (cursor->range.token_end < cursor->range.token_first)
    return BASE_ERROR(KVF_INVALID, NULL, "a token range ends before it begins");
  for (uint32_t cut = cursor->cut; cut < cursor->link->cut_count; cut++) {
    if (!want_cut(cursor, cut, &want) || want.entries == 0) continue;
    if (!base_mul_u64(layout_cut_token_bytes(cursor->link, cut), want.entries, &bytes) || !base_add_u64(total, bytes, &total)) {
      kvf_error *error = BASE_ERROR(KVF_TOO_LARGE, NULL, "the bytes of a chunk do not fit 64 bits");
      return base_error_add(error, "layer", "%u", side_plane(cursor->link, cut, LAYOUT_TARGET)->layer);
    }
    kvf_error *error = check_entry(cursor, cut);
    if (error) return error;
  }
  return NULL;
}

kvf_status plan_cursor_init(struct plan_cursor *cursor, const struct layout_link *link, const struct plan_range *range,
                            const struct plan_limits *limits, kvf_error **error_out) {
  struct plan_cursor ready = {.link = link, .limits = *limits, .range = *range};
  if (range->room_first == 0 && range->room_end == 0) {
    ready.range.room_first = range->token_first;
    ready.range.room_end = range->token_end;
  }
  kvf_error *error = check_range(&ready);
  if (error) return base_error_give(error, error_out);
  *cursor = ready;
  return KVF_OK;
}

static void advance(struct plan_cursor *cursor, const struct step *step, uint64_t token_end) {
  cursor->inside = token_end < step->want.end;
  cursor->token = token_end;
  cursor->token_end = step->want.end;
  cursor->entries_at_most = step->entries_at_most;
  cursor->cut = cursor->inside ? step->cut : step->cut + step->cut_count;
}

bool plan_cursor_next(struct plan_cursor *cursor, struct layout_piece *piece_out, uint64_t *bytes_out) {
  struct step step;
  if (!next_step(cursor, &step)) return false;
  *piece_out = (struct layout_piece){.cut_first = step.cut,
                                     .cut_count = step.cut_count,
                                     .token_first = step.token_first,
                                     .token_count = (uint32_t)(step.token_end - step.token_first)};
  *bytes_out = step.bytes;
  advance(cursor, &step, step.token_end);
  return true;
}

void plan_totals_get(const struct plan_cursor *cursor, struct plan_totals *totals_out) {
  struct plan_cursor ahead = *cursor;
  struct plan_totals totals = {0};
  for (struct step step; next_step(&ahead, &step);) {
    uint64_t token_end = step.token_end, token_bytes = layout_cut_token_bytes(ahead.link, step.cut);
    if (token_end < step.want.end && !is_split(ahead.link, step.cut)) { /* all the pieces of a split cut at once */
      totals.pieces += base_ceil_div_u64(step.want.entries, step.bytes / token_bytes);
      totals.bytes += token_bytes * step.want.entries;
      token_end = step.want.end;
    } else {
      totals.pieces++;
      totals.bytes += step.bytes;
    }
    advance(&ahead, &step, token_end);
  }
  *totals_out = totals;
}
