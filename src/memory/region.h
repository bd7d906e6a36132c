/* The registration table: which memory kvferry may use, found by address. Regions never overlap. Not thread-safe: the caller locks.
 * Contract with the caller: a mapping must not change between add and remove. */
#ifndef MEMORY_REGION_H
#define MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/region.h>

#include "base/error.h"
#include "memory/device.h"

/* Read-only outside the table. */
struct memory_region {
  char *address;
  uint64_t length;
  uint32_t kind;       /* KVF_MEMORY_… */
  uint32_t number;     /* from 1; never used twice in one table */
  uint64_t generation; /* of the registration; rises over the whole table */
  uint32_t references; /* identical registrations that have not been removed */
  bool pinned;
  int memory_fd; /* the memfd behind SHARED memory, borrowed; else -1 */
  uint64_t memory_fd_offset;
  struct memory_device *device; /* of CUDA memory; a reference */
  int32_t device_number;
  bool is_movable;              /* CUDA: what is behind the address can change, so no key may be made of it */
  bool has_ipc;                 /* CUDA: other processes of this host can map it */
  char label[64]; /* "" when the caller gave none */
};

struct memory_table;

kvf_status memory_table_create(struct memory_table **table_out, kvf_error **error_out);
/* Drops the regions that are still there. NULL is fine. */
void memory_table_destroy(struct memory_table *table);

/* Register one range; struct_bytes is the caller's to check. An identical range counts a reference of the region that is there.
 * Errors: INVALID (range, kind), OVERLAP, UNAVAILABLE and UNSUPPORTED (CUDA), RESOURCE_LIMIT (pinning), SYSTEM, NO_MEMORY. Nothing changes then. */
kvf_status memory_table_add(struct memory_table *table, const kvf_region_options *options, struct memory_region **region_out,
                            kvf_error **error_out);
/* Give one reference back; true when it was the last and @p region is gone. */
bool memory_table_remove(struct memory_table *table, struct memory_region *region);

/* The region that holds all of [address, address + length). Errors: NOT_REGISTERED (starts in none), OUT_OF_RANGE (leaves the
 * region it starts in), with the fields address, length, region_base, region_bytes. A length of 0 is a position: its end counts
 * too. */
kvf_status memory_table_find(const struct memory_table *table, const void *address, uint64_t length,
                             struct memory_region **region_out, kvf_error **error_out);

/* By address, ascending. */
uint32_t memory_table_count(const struct memory_table *table);
struct memory_region *memory_table_get(const struct memory_table *table, uint32_t index);
uint64_t memory_table_bytes(const struct memory_table *table);

#endif
