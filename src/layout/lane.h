/* One side of one cut while a walk goes over its entries: where the next one lies. One division when it is opened or moved, none
 * after. */
#ifndef LAYOUT_LANE_H
#define LAYOUT_LANE_H

#include "layout/block.h"
#include "layout/entry.h"

struct layout_lane {
  uint64_t base; /* of the cut's first head in page 0, slot 0 */
  uint64_t page_stride, token_stride, head_stride;
  const uint32_t *page; /* of the next entry */
  uint64_t slot;        /* of the next entry in its page */
  uint64_t page_tokens;
};

/* Entries [first, end). */
struct layout_span {
  uint64_t first, end;
};

/* What a plane has of tokens [token_first, token_end), whoever holds it. A per-request slot is its range [0, 1) and nothing else.
 */
static inline struct layout_span layout_span_of(const kvf_plane *plane, uint64_t token_first, uint64_t token_end) {
  if (plane->per_request) return (struct layout_span){0, token_first == 0 && token_end == 1};
  return (struct layout_span){layout_entry_at(plane, token_first), layout_entry_at(plane, token_end)};
}

/* Where the tokens that a plane has of a range begin, when the range is all that its room will have. */
static inline uint64_t layout_window_first(const kvf_plane *plane, uint64_t token_first, uint64_t token_end) {
  if (plane->window_tokens == 0 || token_end <= token_first || token_end - token_first <= plane->window_tokens) return token_first;
  uint64_t first = token_end - plane->window_tokens;
  return base_max_u64(token_first, first - first % layout_entry_tokens(plane));
}

/* The place, in slots from the beginning of @p list, of an entry that the plane holds. */
static inline uint64_t layout_list_slot(const kvf_plane *plane, const kvf_page_list *list, uint64_t entry) {
  if (plane->per_request) return 0;
  uint64_t list_first = layout_entry_at(plane, list->first_token);
  if (!layout_plane_is_split(plane)) return entry - list_first;
  struct layout_share share = layout_share_of(plane);
  return layout_share_count(&share, entry) - layout_share_count(&share, list_first);
}

static inline void layout_lane_seek(struct layout_lane *lane, const uint32_t *pages, uint64_t slot) {
  uint64_t index = slot / lane->page_tokens;
  lane->page = pages + index;
  lane->slot = slot - index * lane->page_tokens;
}

static inline struct layout_lane layout_lane_open(const kvf_plane *plane, const struct layout_pages *pages, uint32_t head_first,
                                                  uint64_t entry) {
  const kvf_page_list *list = &pages->lists[plane->page_list];
  struct layout_lane lane = {.base = plane->address + (head_first - plane->head_first) * plane->head_stride_bytes,
                             .page_stride = plane->page_stride_bytes,
                             .token_stride = plane->token_stride_bytes,
                             .head_stride = plane->head_stride_bytes,
                             .page_tokens = plane->page_tokens};
  layout_lane_seek(&lane, list->pages, layout_list_slot(plane, list, entry));
  return lane;
}

static inline uint64_t layout_lane_address(const struct layout_lane *lane) {
  return lane->base + *lane->page * lane->page_stride + lane->slot * lane->token_stride;
}

/* Never beyond the end of the page. */
static inline void layout_lane_advance(struct layout_lane *lane, uint64_t entry_count) {
  lane->slot += entry_count;
  if (lane->slot == lane->page_tokens) {
    lane->slot = 0;
    lane->page++;
  }
}

/* Where the cut's entries lie on one side of its runs, when a share is not everything. */
struct layout_rail {
  const uint32_t *pages;
  struct layout_share share;
  uint64_t before; /* entries of the share before the list's first slot */
};

static inline struct layout_rail layout_rail_open(const kvf_plane *plane, const struct layout_pages *pages) {
  const kvf_page_list *list = &pages->lists[plane->page_list];
  struct layout_rail rail = {.pages = list->pages, .share = layout_share_of(plane)};
  rail.before = layout_share_count(&rail.share, layout_entry_at(plane, list->first_token));
  return rail;
}

static inline uint64_t layout_rail_slot(const struct layout_rail *rail, uint64_t entry) {
  return layout_share_count(&rail->share, entry) - rail->before;
}

/* Both planes of a cut, and do their shares differ from everything? */
static inline const kvf_plane *layout_cut_source(const struct layout_link *link, uint32_t cut) {
  return &link->source_planes[link->cuts[cut].source_plane];
}
static inline const kvf_plane *layout_cut_target(const struct layout_link *link, uint32_t cut) {
  return &link->target_planes[link->cuts[cut].target_plane];
}
static inline bool layout_cut_is_split(const struct layout_link *link, uint32_t cut) {
  return layout_plane_is_split(layout_cut_source(link, cut)) || layout_plane_is_split(layout_cut_target(link, cut));
}
/* What both planes of a cut hold. Its period was checked when the cut was built or came from the peer. */
static inline struct layout_overlap layout_cut_overlap(const struct layout_link *link, uint32_t cut) {
  struct layout_share source = layout_share_of(layout_cut_source(link, cut)),
                      target = layout_share_of(layout_cut_target(link, cut));
  struct layout_overlap overlap = {.wide = source, .narrow = source, .period = 1}; /* nothing, should it be too long after all */
  layout_overlap_open(&source, &target, &overlap);
  return overlap;
}

#endif
