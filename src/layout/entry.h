/* Entries: what a plane holds one of for each entry_tokens tokens, and which of them. A rank under context parallelism holds a
 * share: blocks of entries, dealt out in turn. Two planes have in common what both shares hold; it repeats with the common period.
 */
#ifndef LAYOUT_ENTRY_H
#define LAYOUT_ENTRY_H

#include <stdbool.h>

#include <kvferry/plane.h>

#include "base/checked.h"

enum {
  LAYOUT_ENTRY_TOKENS_LIMIT = 1 << 20, /* tokens of one entry */
  LAYOUT_PERIOD_LIMIT = 1 << 20        /* entries of a common period */
};

static inline uint64_t layout_entry_tokens(const kvf_plane *plane) {
  return plane->entry_tokens ? plane->entry_tokens : 1;
}

/* The entry that holds @p token; for a plane of plain tokens without a division. */
static inline uint64_t layout_entry_at(const kvf_plane *plane, uint64_t token) {
  return plane->entry_tokens > 1 ? token / plane->entry_tokens : token;
}

/* ---- one share ---- */

struct layout_share {
  uint64_t start, block; /* of every period entries those in [start, start+block) */
  uint64_t period;       /* 1: the share is everything */
};

static inline bool layout_plane_is_split(const kvf_plane *plane) {
  return plane->token_parts > 1;
}

static inline struct layout_share layout_share_of(const kvf_plane *plane) {
  uint64_t block = plane->token_block ? plane->token_block : 1;
  if (!layout_plane_is_split(plane)) return (struct layout_share){.block = 1, .period = 1};
  return (struct layout_share){.start = plane->token_part * block, .block = block, .period = plane->token_parts * block};
}

static inline bool layout_share_equal(const struct layout_share *a, const struct layout_share *b) {
  return a->start == b->start && a->block == b->block && a->period == b->period;
}

/* How many entries below @p entry the share holds: for one that it holds, its place among them. */
static inline uint64_t layout_share_count(const struct layout_share *share, uint64_t entry) {
  if (share->period == 1) return entry;
  uint64_t rest = entry % share->period;
  uint64_t begun = rest > share->start ? base_min_u64(rest - share->start, share->block) : 0;
  return entry / share->period * share->block + begun;
}

/* How far it is from @p entry to the next one that the share holds; 0 when it holds it. */
static inline uint64_t layout_share_ahead(const struct layout_share *share, uint64_t entry) {
  if (share->period == 1) return 0;
  uint64_t rest = entry % share->period;
  if (rest < share->start) return share->start - rest;
  return rest < share->start + share->block ? 0 : share->period - rest + share->start;
}

/* How many entries from @p entry on, which the share holds, it holds in a row. */
static inline uint64_t layout_share_row(const struct layout_share *share, uint64_t entry) {
  return share->period == 1 ? UINT64_MAX : share->start + share->block - entry % share->period;
}

/* ---- what two shares have in common ---- */

struct layout_overlap {
  struct layout_share wide, narrow; /* by period */
  uint64_t period, period_entries;  /* of each period so many entries are common */
};

/* The least common multiple; false when it is above LAYOUT_PERIOD_LIMIT. */
bool layout_period_join(uint64_t a, uint64_t b, uint64_t *period_out);

/* False when the common period is above LAYOUT_PERIOD_LIMIT. */
bool layout_overlap_open(const struct layout_share *a, const struct layout_share *b, struct layout_overlap *overlap_out);

/* Common entries below @p entry. */
uint64_t layout_overlap_count(const struct layout_overlap *overlap, uint64_t entry);

/* The first run of common entries in [first, end); false when there is none. */
bool layout_overlap_next(const struct layout_overlap *overlap, uint64_t first, uint64_t end, uint64_t *run_first_out,
                         uint64_t *run_end_out);

#endif
