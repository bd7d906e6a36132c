/* Memory that peers may write: ours, exposed; and theirs, by the keys that they gave us. */
#ifndef FABRIC_UCX_REGION_H
#define FABRIC_UCX_REGION_H

#include "fabric_ucx/instance.h"
#include "fabric_ucx/parts.h"
#include "fabric_ucx/sender.h"

/* A peer's region. Pieces under way hold it. */
struct fabric_ucx_key {
  struct fabric_ucx_parts parts;
  uint32_t use_count; /* pieces under way, and one while it is in the endpoint's map */
  bool revoked;       /* the peer said so */
  uint64_t unpacked_count;
  uint8_t *packed;    /* lengths and packed keys as they came; in this allocation, behind rkeys */
  ucp_rkey_h rkeys[]; /* one for each part, none before the endpoint is ready; unpacked_count of them are there */
};

kvf_status fabric_ucx_region_expose(struct fabric *fabric, const struct fabric_exposure *exposure,
                                    struct fabric_region **region_out, kvf_error **error_out);
void fabric_ucx_region_revoke(struct fabric_region *region);
size_t fabric_ucx_region_key(const struct fabric_region *region, uint8_t *key);
/* Whether a piece that landed at @p target belongs to a live exposure. */
bool fabric_ucx_region_accepts(const struct fabric_ucx *fabric, const struct fabric_target *target);
/* Revoke all, free all memory: a live memory handle would make UCX abort at cleanup. */
void fabric_ucx_region_fini(struct fabric_ucx *fabric);

kvf_status fabric_ucx_key_import(struct fabric_endpoint *endpoint, uint64_t region, uint64_t generation, uint64_t region_bytes,
                                 const uint8_t *key, size_t key_bytes, kvf_error **error_out);
void fabric_ucx_key_drop(struct fabric_endpoint *endpoint, uint64_t region);
void fabric_ucx_key_drop_all(struct fabric_ucx_endpoint *endpoint);
void fabric_ucx_key_release(struct fabric_ucx *fabric, struct fabric_ucx_key *key);
/* The unpacked key for a target, checked. Errors: NOT_REGISTERED, KEY_REVOKED, STALE, OUT_OF_RANGE, FABRIC. */
kvf_status fabric_ucx_key_find(struct fabric_ucx_endpoint *endpoint, const struct fabric_target *target,
                               struct fabric_ucx_key **key_out, kvf_error **error_out);

#endif
