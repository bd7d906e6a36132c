/* How much of each cut a range of tokens is: windows, entries of several tokens, per-request slots, and shares under context
 * parallelism. The only place that turns tokens into bytes. */
#include "base/checked.h"
#include "layout/lane.h"

uint64_t layout_cut_token_bytes(const struct layout_link *link, uint32_t cut) {
  return (uint64_t)link->cuts[cut].head_count * layout_cut_source(link, cut)->head_bytes;
}

uint64_t layout_cut_entries(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end) {
  struct layout_span span = layout_span_of(layout_cut_source(link, cut), token_first, token_end);
  if (span.first >= span.end) return 0;
  if (!layout_cut_is_split(link, cut)) return span.end - span.first;
  struct layout_overlap overlap = layout_cut_overlap(link, cut);
  return layout_overlap_count(&overlap, span.end) - layout_overlap_count(&overlap, span.first);
}

void layout_cut_range(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end, uint64_t *first_out,
                      uint64_t *end_out) {
  const kvf_plane *plane = layout_cut_source(link, cut);
  *first_out = plane->per_request ? 0 : layout_window_first(plane, token_first, token_end);
  *end_out = plane->per_request ? 1 : token_end;
}

/* Where common entry number @p count, from 0, lies from @p first on, which is one; @p end when it is not before that. Whole periods
 * are stepped over at once. */
static uint64_t find_common(const struct layout_overlap *overlap, uint64_t first, uint64_t end, uint64_t count) {
  uint64_t before, low, periods = count / overlap->period_entries;
  if (!base_mul_u64(periods, overlap->period, &low) || low >= end - first) return end;
  low += first;
  before = layout_overlap_count(overlap, low) + count % overlap->period_entries;
  uint64_t high = base_min_u64(overlap->period, end - low) + low;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (layout_overlap_count(overlap, middle + 1) > before)
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

void layout_cut_portion(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end,
                        uint64_t entry_limit, uint64_t *first_out, uint64_t *end_out) {
  const kvf_plane *plane = layout_cut_source(link, cut);
  const uint64_t entry_tokens = layout_entry_tokens(plane);
  uint64_t tokens;
  if (!layout_cut_is_split(link, cut)) {
    uint64_t limit = base_min_u64(entry_limit, UINT32_MAX / entry_tokens);
    tokens = limit * entry_tokens;
    *first_out = token_first;
    *end_out = tokens < token_end - token_first ? token_first + tokens : token_end;
    return;
  }
  struct layout_overlap overlap = layout_cut_overlap(link, cut);
  struct layout_span span = layout_span_of(plane, token_first, token_end);
  uint64_t run_first = span.first, run_end;
  layout_overlap_next(&overlap, span.first, span.end, &run_first, &run_end);
  uint64_t first = base_max_u64(token_first, run_first * entry_tokens);
  uint64_t end = base_min_u64(token_end, base_add_u64(first, UINT32_MAX, &tokens) ? tokens : UINT64_MAX);
  uint64_t entry_end = layout_entry_at(plane, end), last = find_common(&overlap, run_first, entry_end, entry_limit);
  *first_out = first;
  *end_out = last < entry_end ? last * entry_tokens : end;
}

/* The bytes of a token range of one cut are added; false on overflow. */
static bool add_bytes(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end, uint64_t *bytes) {
  uint64_t added;
  return base_mul_u64(layout_cut_token_bytes(link, cut), layout_cut_entries(link, cut, token_first, token_end), &added) &&
         base_add_u64(*bytes, added, bytes);
}

uint64_t layout_room_bytes(const struct layout_link *link, uint64_t token_first, uint64_t token_end) {
  uint64_t bytes = 0;
  for (uint32_t cut = 0; cut < link->cut_count; cut++) {
    uint64_t first, end;
    layout_cut_range(link, cut, token_first, token_end, &first, &end);
    if (!add_bytes(link, cut, first, end, &bytes)) return UINT64_MAX;
  }
  return bytes;
}

bool layout_piece_bytes(const struct layout_link *link, const struct layout_piece *piece, uint64_t *bytes_out) {
  uint64_t bytes = 0, token_end;
  if (piece->cut_first > link->cut_count || piece->cut_count > link->cut_count - piece->cut_first) return false;
  if (!base_add_u64(piece->token_first, piece->token_count, &token_end)) return false;
  for (uint32_t i = 0; i < piece->cut_count; i++)
    if (!add_bytes(link, piece->cut_first + i, piece->token_first, token_end, &bytes)) return false;
  *bytes_out = bytes;
  return true;
}
