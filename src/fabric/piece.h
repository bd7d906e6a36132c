/* What every provider checks and says about pieces and targets in the same way. */
#ifndef FABRIC_PIECE_H
#define FABRIC_PIECE_H

#include "fabric/fabric.h"

/* The piece is of the form that the interface asks for. Errors: INVALID. */
kvf_status fabric_piece_check(const struct fabric_piece *piece, kvf_error **error_out);

/* The sum of an iov list, UINT64_MAX when it does not fit. */
uint64_t fabric_iov_bytes(const struct iovec *iov, size_t iov_count);

/* Add the target's fields to @p error, and what the sender knows: the generation it holds and the region's size. */
kvf_error *fabric_target_describe(kvf_error *error, const struct fabric_target *target, uint64_t expected, uint64_t region_bytes);

/* Does the target lie inside a region of @p region_bytes? In 64 bits, without wrapping. */
bool fabric_target_fits(const struct fabric_target *target, uint64_t region_bytes);

/* A device takes at most @p limit_bytes per registration, in whole pages of the memory's backing: how long each part of a region of
 * @p length is, and how many there are; the last may be shorter. Errors: INVALID (0, not a power of two, limit below a page). */
kvf_status fabric_region_split(uint64_t length, uint64_t limit_bytes, uint64_t page_bytes, uint64_t *part_bytes_out,
                               uint64_t *part_count_out, kvf_error **error_out);

#endif
