/* Shares against each other. Counting steps over the blocks of the wider share, of which a common period holds at most as many as
 * the narrower period has entries: a thousand at worst, since their product is bounded. */
#include "layout/entry.h"

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

bool layout_period_join(uint64_t a, uint64_t b, uint64_t *period_out) {
  uint64_t period;
  if (!base_mul_u64(a / common_divisor(a, b), b, &period) || period > LAYOUT_PERIOD_LIMIT) return false;
  *period_out = period;
  return true;
}

/* Common entries below @p entry, which is at most one common period. */
static uint64_t count_within_period(const struct layout_overlap *overlap, uint64_t entry) {
  const struct layout_share *wide = &overlap->wide, *narrow = &overlap->narrow;
  uint64_t count = 0;
  for (uint64_t first = wide->start; first < entry; first += wide->period) {
    uint64_t end = base_min_u64(first + wide->block, entry);
    count += layout_share_count(narrow, end) - layout_share_count(narrow, first);
  }
  return count;
}

bool layout_overlap_open(const struct layout_share *a, const struct layout_share *b, struct layout_overlap *overlap_out) {
  bool swap = a->period < b->period;
  struct layout_overlap overlap = {.wide = swap ? *b : *a, .narrow = swap ? *a : *b};
  if (!layout_period_join(a->period, b->period, &overlap.period)) return false;
  overlap.period_entries = count_within_period(&overlap, overlap.period);
  *overlap_out = overlap;
  return true;
}

uint64_t layout_overlap_count(const struct layout_overlap *overlap, uint64_t entry) {
  return entry / overlap->period * overlap->period_entries + count_within_period(overlap, entry % overlap->period);
}

bool layout_overlap_next(const struct layout_overlap *overlap, uint64_t first, uint64_t end, uint64_t *run_first_out,
                         uint64_t *run_end_out) {
  if (overlap->period_entries == 0) return false;
  while (first < end) {
    uint64_t ahead = layout_share_ahead(&overlap->wide, first);
    if (ahead == 0) ahead = layout_share_ahead(&overlap->narrow, first);
    if (ahead == 0) {
      uint64_t row = base_min_u64(layout_share_row(&overlap->wide, first), layout_share_row(&overlap->narrow, first));
      *run_first_out = first;
      *run_end_out = first + base_min_u64(row, end - first);
      return true;
    }
    if (ahead >= end - first) return false;
    first += ahead;
  }
  return false;
}
