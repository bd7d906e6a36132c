/* Cuts: the intersection of two plane sets over (layer, role, part, head). A cut is one head interval of one such array that one
 * source plane gives to one target plane: of its entries those that both planes hold. Tokens come in later, piece by piece. Pure.
 */
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
  struct layout_cut *cuts; /* in the canonical order of both sides: by (per_request, window_tokens, layer, role, part, head_first,
                              target_plane, source_plane), so that cuts that move the same tokens stand together */
  uint32_t count;
};

/* Is one rank's list sound: ranges, strides that do not overlap, no two planes with a common (layer, role, part, head, entry),
 * no address arithmetic that leaves 64 bits? Errors: INVALID with the fields plane, layer, role and the offending values. */
kvf_status layout_planes_validate(const kvf_plane *planes, uint32_t plane_count, kvf_error **error_out);

/* Bytes from plane->address to the end of its last page's last byte. False on overflow. */
bool layout_plane_extent(const kvf_plane *plane, uint64_t *bytes_out);

/* No cut of per-request slots is larger than this, unless one head is: the least piece size that an engine may have. */
enum { LAYOUT_SLOT_CUT_BYTES = 16 << 10 };

/* Who sends what to @p target: cuts_out[source_count], each to be freed with layout_cuts_fini. Every (layer, role, part, head,
 * entry) of the target gets exactly one source. Replica rule: of the n sources that hold the same entries of it, in rank order,
 * number target_rank % n. Every source must agree with the target in the fields of layout/field.h of each common array.
 * An array held by sources of two stages, or entries held by sources with unequal shares, are a double cover.
 * Errors: INCOMPATIBLE (one cause a field: "layer 3 K dtype" mine=… yours=…), NOT_COVERED (a field for each gap: merged
 * intervals such as gap="layer 7 K heads 2-3", at most 16 named and then a count), TOO_LARGE (shares whose common period is above
 * LAYOUT_PERIOD_LIMIT), NO_MEMORY. Nothing is written on error. */
kvf_status layout_cuts_build(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                             uint32_t target_rank, struct layout_cuts *cuts_out, kvf_error **error_out);

/* Does a list that came from a peer lie inside both plane sets, in canonical order, with equal geometry? Errors: INVALID. */
kvf_status layout_cuts_check(const struct layout_cuts *cuts, const kvf_rank_planes *source, const kvf_rank_planes *target,
                             kvf_error **error_out);

void layout_cuts_fini(struct layout_cuts *cuts);

/* Sets of components, bit c for KVF_COMPONENT c. What one side lacks is refused by name unless a side ignores it; what both have
 * is moved. Errors: INCOMPATIBLE (a cause each: component, mine, yours: "present" or "absent"). */
kvf_status layout_components_compare(uint32_t mine, uint32_t theirs, uint32_t ignored_by_me, uint32_t ignored_by_them,
                                     uint32_t *moved_out, kvf_error **error_out);

#endif
