/* What is wrong between two plane sets, collected while the cuts are built and then told in one error. */
#ifndef LAYOUT_COMPLAINT_H
#define LAYOUT_COMPLAINT_H

#include "layout/field.h"

enum { LAYOUT_NAMED_LIMIT = 16 };

struct layout_interval {
  const kvf_plane *plane; /* one of the array */
  uint32_t head_first, head_end;
  uint32_t stages[2];              /* of a double cover; equal when it is not about stages */
  uint64_t entry_first, entry_end; /* the first run of entries concerned */
  uint64_t period;                 /* of so many; 0: all entries */
};

/* Intervals of one kind, merged while they follow each other. */
struct layout_intervals {
  struct layout_interval named[LAYOUT_NAMED_LIMIT];
  struct layout_interval last;
  uint64_t count;
};

struct layout_mismatch {
  enum layout_field field;
  const kvf_plane *mine;
  const kvf_plane *yours;
  uint32_t source;
};

struct layout_complaints {
  struct layout_intervals gaps;
  struct layout_intervals doubles;
  struct layout_mismatch mismatches[LAYOUT_NAMED_LIMIT];
  uint64_t mismatch_count;
};

void layout_intervals_add(struct layout_intervals *intervals, const struct layout_interval *interval);
void layout_mismatch_add(struct layout_complaints *complaints, enum layout_field field, const kvf_plane *mine,
                         const kvf_plane *yours, uint32_t source);
/* NULL when there is nothing to complain about. Mismatches hide gaps: they often cause them. */
kvf_error *layout_complaints_error(const struct layout_complaints *complaints);

#endif
