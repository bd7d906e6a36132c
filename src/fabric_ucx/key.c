/* Keys of peers' regions. UCX sees the bytes of a key only after all that can be checked about them has been: it may crash on
 * wrong ones, and where it emulates it checks neither key nor bounds of a write, so each target is checked here. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/region.h"

static kvf_error *describe(kvf_error *error, const struct fabric_target *target, const struct fabric_ucx_key *key) {
  base_error_add(error, "region", "%llu", (unsigned long long)target->region);
  base_error_add(error, "generation", "%llu", (unsigned long long)target->generation);
  base_error_add(error, "expected", "%llu", key ? (unsigned long long)key->generation : 0ull);
  base_error_add(error, "offset", "%llu", (unsigned long long)target->offset);
  base_error_add(error, "length", "%llu", (unsigned long long)target->length);
  return base_error_add(error, "region_bytes", "%llu", key ? (unsigned long long)key->region_bytes : 0ull);
}

void fabric_ucx_key_release(struct fabric_ucx *fabric, struct fabric_ucx_key *key) {
  if (!key || --key->use_count) return;
  if (key->rkey) fabric->library.ucp_rkey_destroy(key->rkey);
  base_free(key);
}

void fabric_ucx_key_drop(struct fabric_endpoint *base, uint64_t region) {
  struct fabric_ucx_endpoint *endpoint = (struct fabric_ucx_endpoint *)base;
  fabric_ucx_key_release(endpoint->fabric, base_map_remove(&endpoint->keys, region));
}

void fabric_ucx_key_drop_all(struct fabric_ucx_endpoint *endpoint) {
  size_t cursor = 0;
  for (void *key = base_map_next(&endpoint->keys, &cursor); key; key = base_map_next(&endpoint->keys, &cursor))
    fabric_ucx_key_release(endpoint->fabric, key);
  base_map_fini(&endpoint->keys);
}

static const char *decode_key(struct fabric_ucx_key *key, const uint8_t *incarnation, const uint8_t *bytes, size_t length) {
  uint8_t made_by[16];
  uint64_t facts[4], end;
  size_t body_bytes;
  if (length > FABRIC_KEY_LIMIT_BYTES) return "too long";
  const uint8_t *body = fabric_ucx_blob_open(bytes, length, FABRIC_UCX_BLOB_KEY, made_by, &body_bytes);
  if (!body || body_bytes <= sizeof facts) return "malformed";
  memcpy(facts, body, sizeof facts);
  if (memcmp(made_by, incarnation, sizeof made_by)) return "of another process";
  if (facts[0] != key->region || facts[1] != key->generation) return "of another region or generation";
  if (facts[3] != key->region_bytes || !facts[2] || !base_add_u64(facts[2], facts[3], &end)) return "of another length";
  key->base_address = facts[2];
  key->packed_bytes = body_bytes - sizeof facts;
  memcpy(key->packed, body + sizeof facts, key->packed_bytes);
  return NULL;
}

static kvf_status unpack_key(struct fabric_ucx_endpoint *endpoint, struct fabric_ucx_key *key, kvf_error **error_out) {
  if (key->rkey) return KVF_OK;
  ucs_status_t status = endpoint->fabric->library.ucp_ep_rkey_unpack(endpoint->way.ep, key->packed, &key->rkey);
  if (status == UCS_OK) return KVF_OK;
  key->rkey = NULL;
  kvf_error *error = fabric_ucx_instance_error(endpoint->fabric, KVF_FABRIC, "the key of a peer's region cannot be used",
                                               "ucp_ep_rkey_unpack", status);
  return base_error_give(base_error_add(error, "region", "%llu", (unsigned long long)key->region), error_out);
}

kvf_status fabric_ucx_key_import(struct fabric_endpoint *base, uint64_t region, uint64_t generation, uint64_t region_bytes,
                                 const uint8_t *bytes, size_t length, kvf_error **error_out) {
  struct fabric_ucx_endpoint *endpoint = (struct fabric_ucx_endpoint *)base;
  struct fabric_ucx_key *key = base_calloc(1, sizeof *key);
  if (!key) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a key"), error_out);
  *key = (struct fabric_ucx_key){.region = region, .generation = generation, .region_bytes = region_bytes, .use_count = 1};
  const char *fault = decode_key(key, endpoint->incarnation, bytes, length);
  kvf_status status = KVF_OK;
  if (fault) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the key of a peer's region is %s", fault);
    status = base_error_give(base_error_add(error, "region", "%llu", (unsigned long long)region), error_out);
  } else if (endpoint->stage == FABRIC_UCX_READY && endpoint->way.failure == UCS_OK) {
    status = unpack_key(endpoint, key, error_out);
  }
  struct fabric_ucx_key *older = base_map_get(&endpoint->keys, region);
  if (!status && older && older->generation > generation)
    status = base_error_give(BASE_ERROR(KVF_STALE, NULL, "a later key of this region is here already"), error_out);
  if (!status && !base_map_put(&endpoint->keys, region, key))
    status = base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a key"), error_out);
  fabric_ucx_key_release(endpoint->fabric, status ? key : older);
  return status;
}

static kvf_error *check_target(const struct fabric_ucx_key *key, const struct fabric_target *target) {
  if (!key) return BASE_ERROR(KVF_NOT_REGISTERED, NULL, "no key of this region of the peer is here");
  if (key->revoked && key->generation == target->generation)
    return BASE_ERROR(KVF_KEY_REVOKED, NULL, "the peer has revoked this region");
  if (key->generation != target->generation) return BASE_ERROR(KVF_STALE, NULL, "the target is of another generation than the key");
  if (target->offset > key->region_bytes || target->length > key->region_bytes - target->offset)
    return BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "the target leaves the peer's region");
  return NULL;
}

kvf_status fabric_ucx_key_find(struct fabric_ucx_endpoint *endpoint, const struct fabric_target *target,
                               struct fabric_ucx_key **key_out, kvf_error **error_out) {
  struct fabric_ucx_key *key = base_map_get(&endpoint->keys, target->region);
  kvf_error *error = check_target(key, target);
  if (error) return base_error_give(describe(error, target, key), error_out);
  kvf_status status = unpack_key(endpoint, key, error_out);
  if (!status) *key_out = key;
  return status;
}

void fabric_ucx_sender_revoke(struct fabric_ucx *fabric, const struct fabric_ucx_message *message) {
  struct fabric_ucx_endpoint *endpoint = base_map_get(&fabric->endpoints, message->connection);
  if (!endpoint || endpoint->token != message->token) return;
  if (memcmp(endpoint->incarnation, message->incarnation, sizeof endpoint->incarnation)) return;
  struct fabric_ucx_key *key = base_map_get(&endpoint->keys, message->target.region);
  if (key && key->generation == message->target.generation) key->revoked = true;
}
