/* Cuts: the intersection of two plane sets over (layer, role, head). A cut is one head interval of one layer and role that
 * one source plane gives to one target plane; tokens come in later, piece by piece. Pure. */
#ifndef LAYOUT_CUT_H
#define LAYOUT_CUT_H

#include <stdbool.h>

#include <kvferry/plane.h>

struct layout_cut {
  uint32_t source_plane; /* index into the sending rank's planes */
  uint32_t target_plane; /* index into the receiving rank's planes */
  uint32_t head_first;   /* model heads [head_first, head_first+head_count) */
  uint32_t head_count;
};

struct layout_cuts {
  struct layout_cut *cuts; /* ordered by (layer, role, head_first): the canonical order of both sides */
  uint32_t count;
};

/* Is one rank's list sound: ranges, strides that do not overlap, no two planes with a common (layer, role, head),
 * no address arithmetic that leaves 64 bits? Errors: INVALID with the fields plane, layer, role and the offending values. */
kvf_status layout_planes_validate(const kvf_plane *planes, uint32_t plane_count, kvf_error **error_out);

/* Bytes from plane->address to the end of its last page's last byte. False on overflow. */
bool layout_plane_extent(const kvf_plane *plane, uint64_t *bytes_out);

/* Who sends what to @p target: cuts_out[source_count], each to be freed with layout_cuts_fini. Every (layer, role, head) of the
 * target gets exactly one source. Replica rule: of the n sources that hold it, in rank order, number target_rank % n.
 * Every source must agree with the target in dtype, head_bytes and heads_total of each common (layer, role).
 * A (layer, role, head) held by sources of two stages is a double cover.
 * Errors: INCOMPATIBLE (one cause a field: "layer 3 K dtype" mine=… yours=…), NOT_COVERED (a field for each gap: merged
 * intervals such as gap="layer 7 K heads 2-3", at most 16 named and then a count), NO_MEMORY. Nothing is written on error. */
kvf_status layout_cuts_build(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                             uint32_t target_rank, struct layout_cuts *cuts_out, kvf_error **error_out);

/* Does a list that came from a peer lie inside both plane sets, in canonical order, with equal geometry? Errors: INVALID. */
kvf_status layout_cuts_check(const struct layout_cuts *cuts, const kvf_rank_planes *source, const kvf_rank_planes *target,
                             kvf_error **error_out);

void layout_cuts_fini(struct layout_cuts *cuts);

#endif
