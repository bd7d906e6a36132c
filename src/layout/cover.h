/* Which of the ranks that hold some heads give which of their entries. Ranks with the same share are replicas, and one of them
 * writes; unequal shares must fit together, so that over their common period each entry that is wanted is held once. */
#ifndef LAYOUT_COVER_H
#define LAYOUT_COVER_H

#include "layout/complaint.h"

/* One plane of one source. */
struct layout_holding {
  const kvf_plane *plane;
  uint32_t source, stage;
};

struct layout_cover {
  const struct layout_holding **writers; /* of the last layout_cover_settle: one for each share that gives anything */
  uint64_t writer_count;
  struct layout_share *shares; /* that are to fit together, the wanted one first */
  struct layout_share *kept;   /* the last that did */
  uint64_t kept_count;
};

/* Room for that many holdings. */
bool layout_cover_init(struct layout_cover *cover, uint64_t holding_count);
void layout_cover_fini(struct layout_cover *cover);

/* Who writes what @p mine wants, of @p holdings in rank order; what is missing or held twice is complained about, as @p interval
 * with its entries filled in. Errors: TOO_LARGE (the period). */
kvf_error *layout_cover_settle(struct layout_cover *cover, const kvf_plane *mine, const struct layout_holding *const *holdings,
                               uint64_t holding_count, uint32_t target_rank, const struct layout_interval *interval,
                               struct layout_complaints *complaints);

#endif
