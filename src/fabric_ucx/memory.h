/* Memory that UCX allocates: one piece of address space, in parts when a device registers only so much at once. */
#ifndef FABRIC_UCX_MEMORY_H
#define FABRIC_UCX_MEMORY_H

#include "fabric_ucx/instance.h"

struct fabric_ucx_memory {
  struct base_list link;
  uint8_t *address;
  uint64_t length;
  uint64_t part_bytes; /* the last part may be shorter */
  uint64_t part_count;
  ucp_mem_h handles[]; /* one for each part */
};

kvf_status fabric_ucx_memory_alloc(struct fabric *fabric, uint64_t length, struct fabric_memory *memory_out, kvf_error **error_out);
void fabric_ucx_memory_free(struct fabric *fabric, struct fabric_memory *memory);
void fabric_ucx_memory_free_all(struct fabric_ucx *fabric);

/* The memory that the range lies in, or NULL. */
const struct fabric_ucx_memory *fabric_ucx_memory_find(const struct fabric_ucx *fabric, const void *address, uint64_t length);

/* ucp_mem_map. Errors: NO_MEMORY, FABRIC. */
kvf_status fabric_ucx_memory_map(struct fabric_ucx *fabric, ucp_mem_map_params_t *params, ucp_mem_h *handle_out,
                                 kvf_error **error_out);

#endif
