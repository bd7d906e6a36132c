/* How a region lies in parts, each registered on its own and with a key of its own, and how the body of a key says so. No UCX here.
 *
 *   struct fabric_ucx_parts as it lies in memory | 2 bytes for each part: how long its packed key is | the packed keys
 *
 *   region   |--part 0--|-----part 1-----|-----part 2-----|-part 3-|        all but the first and the last have part_bytes */
#ifndef FABRIC_UCX_PARTS_H
#define FABRIC_UCX_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric_ucx/blob.h"

struct fabric_ucx_parts {
  uint64_t region;
  uint64_t generation;
  uint64_t base_address; /* in the process that exposes it */
  uint64_t length;
  uint64_t part_bytes;
  uint64_t lead_bytes; /* the first part is shorter by this: cuts lie on page boundaries wherever the region begins */
  uint64_t part_count;
};

enum {
  FABRIC_UCX_PACKED_LENGTH_BYTES = 2,
  /* With the shortest keys there could be. */
  FABRIC_UCX_PART_LIMIT =
      (FABRIC_KEY_LIMIT_BYTES - FABRIC_UCX_BLOB_HEAD_BYTES - sizeof(struct fabric_ucx_parts)) / (FABRIC_UCX_PACKED_LENGTH_BYTES + 1)
};

/* Cut it: @p lead_bytes of the first part lie before the region. A region that one part covers is one part of its own length. */
void fabric_ucx_parts_cut(struct fabric_ucx_parts *parts, uint64_t part_bytes, uint64_t lead_bytes);
/* Everything about it fits together, and nothing computed from it wraps. */
bool fabric_ucx_parts_check(const struct fabric_ucx_parts *parts);

/* The part that holds an offset; where a part begins and ends, in bytes from the region's base. */
uint64_t fabric_ucx_parts_find(const struct fabric_ucx_parts *parts, uint64_t offset);
uint64_t fabric_ucx_parts_begin(const struct fabric_ucx_parts *parts, uint64_t index);
uint64_t fabric_ucx_parts_end(const struct fabric_ucx_parts *parts, uint64_t index);

/* The body of a key, all of it looked at: NULL when anything is wrong, else where the lengths of the packed keys begin. */
const uint8_t *fabric_ucx_parts_decode(const uint8_t *body, size_t body_bytes, struct fabric_ucx_parts *parts_out);
size_t fabric_ucx_packed_bytes(const uint8_t *lengths, uint64_t index);

#endif
