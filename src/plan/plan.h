/* The plan of one chunk to one receiver: the ordered pieces, and the way they take. Pure; no allocation. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "layout/block.h"

struct plan_limits {
  uint64_t piece_bytes; /* no piece is larger */
  uint32_t piece_rows;  /* no piece has more contiguous rows than this on either side, for vectored I/O; 0 = no limit.
                           Counted from the planes' strides and page sizes, without page lists: an upper bound. */
};

/* What to cut into pieces: a token range of some layers, as a part of what a room wants. Its first four members are enough where
 * the range is the whole room and no plane is per request. */
struct plan_range {
  uint64_t token_first, token_end;
  uint32_t layer_first, layer_end; /* global layer ids, end exclusive */
  uint64_t room_first, room_end;   /* what the room wants in all: windows end with it. Both 0: the range itself */
  bool per_request;                /* the room ends with this range: its per-request slots of all layers come too */
};

struct plan_cursor {
  const struct layout_link *link;
  struct plan_limits limits;
  struct plan_range range;
  uint32_t cut;              /* next cut */
  bool inside;               /* it is split, and a part of it is done: */
  uint64_t token, token_end; /* what is left of its tokens */
  uint64_t entries_at_most;  /* of one piece of it */
};

/* Errors: TOO_LARGE (one entry of one cut exceeds the limits; fields need, limit, layer; or the whole range 64 bits), INVALID. */
kvf_status plan_cursor_init(struct plan_cursor *cursor, const struct layout_link *link, const struct plan_range *range,
                            const struct plan_limits *limits, kvf_error **error_out);

/* The next piece, or false at the end. Several whole cuts that move the same tokens share a piece while all of it fits; a cut that
 * does not fit alone is split by tokens. No piece is empty; per-request slots are in pieces of their own, of tokens [0, 1). */
bool plan_cursor_next(struct plan_cursor *cursor, struct layout_piece *piece_out, uint64_t *bytes_out);

struct plan_totals {
  uint64_t pieces;
  uint64_t bytes;
};
/* What the cursor would yield from where it stands; the cursor itself does not move. O(cuts), and
 * O(pieces) for cuts between planes that hold unequal shares of the entries. */
void plan_totals_get(const struct plan_cursor *cursor, struct plan_totals *totals_out);

/* The facts a way is chosen from. */
struct plan_way_facts {
  uint32_t demanded;             /* KVF_WAY_… */
  uint32_t can_direct;           /* the provider can write into the peer's pages */
  const char *why_not_direct;    /* when it cannot; NULL otherwise */
  uint64_t row_bytes;            /* smallest run that is contiguous on both sides, from the planes */
  uint64_t direct_min_row_bytes; /* runs below this are cheaper staged on this provider */
};

struct plan_way_choice {
  uint32_t way;
  char reason[192];
};

/* Errors: UNSUPPORTED (a demanded way that cannot be had). */
kvf_status plan_way_choose(const struct plan_way_facts *facts, struct plan_way_choice *choice_out, kvf_error **error_out);

/* The smallest contiguous run over all cuts of a link, in bytes, when pages are scattered; UINT64_MAX without cuts. */
uint64_t plan_row_bytes(const struct layout_link *link);

#endif
