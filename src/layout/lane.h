/* One side of one cut while a walk goes over its tokens: where the next token lies. One division when it is opened, none after. */
#ifndef LAYOUT_LANE_H
#define LAYOUT_LANE_H

#include "base/checked.h"
#include "layout/block.h"

struct layout_lane {
  uint64_t base; /* of the cut's first head in page 0, token 0 */
  uint64_t page_stride, token_stride, head_stride;
  const uint32_t *page; /* of the next token */
  uint64_t slot;        /* of the next token in its page */
  uint64_t page_tokens;
};

static inline struct layout_lane layout_lane_open(const kvf_plane *plane, const struct layout_pages *pages, uint32_t head_first,
                                                  uint64_t token) {
  const kvf_page_list *list = &pages->lists[plane->page_list];
  uint64_t offset = token - list->first_token, index = offset / plane->page_tokens;
  return (struct layout_lane){.base = plane->address + (head_first - plane->head_first) * plane->head_stride_bytes,
                              .page_stride = plane->page_stride_bytes,
                              .token_stride = plane->token_stride_bytes,
                              .head_stride = plane->head_stride_bytes,
                              .page = list->pages + index,
                              .slot = offset - index * plane->page_tokens,
                              .page_tokens = plane->page_tokens};
}

static inline uint64_t layout_lane_address(const struct layout_lane *lane) {
  return lane->base + *lane->page * lane->page_stride + lane->slot * lane->token_stride;
}

/* Never beyond the end of the page. */
static inline void layout_lane_advance(struct layout_lane *lane, uint64_t token_count) {
  lane->slot += token_count;
  if (lane->slot == lane->page_tokens) {
    lane->slot = 0;
    lane->page++;
  }
}

#endif
