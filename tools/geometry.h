/* Geometry: which planes a rank holds, how many pages of each list an instance needs, and whether the two sides fit at all. */
#ifndef TOOLS_GEOMETRY_H
#define TOOLS_GEOMETRY_H

#include <kvferry/plane.h>

#include "settings.h"
#include "span.h"

struct geometry {
  kvf_plane *planes;
  uint32_t plane_count;
  uint32_t stage;
  uint64_t pool_bytes;
  const kvf_plane *lists[KVF_PAGE_LIST_LIMIT]; /* a plane of each page list that this rank uses, else NULL; into planes */
};

/* Pages of each list. */
struct geometry_pages {
  uint32_t counts[KVF_PAGE_LIST_LIMIT];
};

/** The place of rank number @p rank. */
struct geometry_place {
  uint32_t tp, cp, stage;
};
struct geometry_place geometry_place_of(const struct side *side, uint32_t rank);

/** The planes of rank number @p rank, its pool lying at @p address: layer after layer, array after array. */
bool geometry_init(struct geometry *geometry, const struct settings *settings, enum role role, uint32_t rank,
                   const struct geometry_pages *pages, uint64_t address, struct complaint *complaint);
void geometry_fini(struct geometry *geometry);
/** The pool lies elsewhere after all. */
void geometry_move(struct geometry *geometry, uint64_t from, uint64_t to);

/** All ranks of a side with a few pages each, in address ranges of their own, for looking at; NULL after a complaint. */
struct geometry *geometry_init_side(const struct settings *settings, enum role role, struct complaint *complaint);
void geometry_fini_side(struct geometry *all, uint32_t ranks);
kvf_rank_planes geometry_view(const struct geometry *geometry);

/** Would every decode rank accept the prefill instance? */
bool geometry_check(const struct settings *settings, struct complaint *complaint);

/** What a receive of tokens [token_first, token_end) brings to this rank. */
uint64_t geometry_room_bytes(const struct geometry *geometry, uint64_t token_first, uint64_t token_end);

/** The pages of a plane's list that one side holds for a request: those with the tokens it will compute and post, or will receive
 *  and the one that it will append. */
struct span geometry_request_pages(const struct settings *settings, enum role role, const kvf_plane *plane,
                                   const struct workload_request *request);

/** Pages for the largest request and `concurrency` - 1 typical ones beside it, within the pool limit. */
bool geometry_count_pages(const struct settings *settings, const struct workload *workload, enum role role,
                          struct geometry_pages *pages_out, struct complaint *complaint);

#endif
