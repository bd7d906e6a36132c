/* Geometry: which planes a rank holds, how many pages an instance needs, and whether the two sides fit at all. */
#ifndef TOOLS_GEOMETRY_H
#define TOOLS_GEOMETRY_H

#include <kvferry/plane.h>

#include "settings.h"

struct geometry {
  kvf_plane *planes;
  uint32_t plane_count;
  uint32_t stage;
  uint64_t pool_bytes;
  uint64_t token_bytes; /* that this rank holds of one token */
};

/** The planes of rank number @p rank (stage * tp + tensor-parallel rank), its pool lying at @p address. */
bool geometry_init(struct geometry *geometry, const struct settings *settings, enum role role, uint32_t rank, uint32_t page_count,
                   uint64_t address, struct complaint *complaint);
void geometry_fini(struct geometry *geometry);

/** Would every decode rank accept the prefill instance? */
bool geometry_check(const struct settings *settings, struct complaint *complaint);

/** Pages for the largest request and `concurrency` - 1 typical ones beside it, within the pool limit. */
bool geometry_count_pages(const struct settings *settings, const struct workload *workload, enum role role,
                          uint32_t *page_count_out, struct complaint *complaint);

#endif
