/* Keys of peers' regions. UCX sees the bytes of a key only after all that can be checked about them has been: it may crash on
 * wrong ones, and where it emulates it checks neither key nor bounds of a write, so each target is checked here. */
#include <string.h>

#include "base/alloc.h"
#include "fabric/piece.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/region.h"

void fabric_ucx_key_release(struct fabric_ucx *fabric, struct fabric_ucx_key *key) {
  if (!key || --key->use_count) return;
  while (key->unpacked_count) fabric->library.ucp_rkey_destroy(key->rkeys[--key->unpacked_count]);
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

/* What a key is expected to say, and then what it says. */
struct reading {
  struct fabric_ucx_parts parts;
  const uint8_t *packed; /* lengths, then packed keys */
  size_t packed_bytes;
};

static const char *read_key(struct reading *reading, const uint8_t *incarnation, const uint8_t *bytes, size_t length) {
  uint8_t made_by[16];
  struct fabric_ucx_parts parts;
  size_t body_bytes;
  if (length > FABRIC_KEY_LIMIT_BYTES) return "too long";
  const uint8_t *body = fabric_ucx_blob_open(bytes, length, FABRIC_UCX_BLOB_KEY, made_by, &body_bytes);
  const uint8_t *packed = body ? fabric_ucx_parts_decode(body, body_bytes, &parts) : NULL;
  if (!packed) return "malformed";
  if (memcmp(made_by, incarnation, sizeof made_by)) return "of another process";
  if (parts.region != reading->parts.region || parts.generation != reading->parts.generation)
    return "of another region or generation";
  if (parts.length != reading->parts.length) return "of another length";
  *reading = (struct reading){parts, packed, body_bytes - (size_t)(packed - body)};
  return NULL;
}

static struct fabric_ucx_key *create_key(const struct reading *reading) {
  uint64_t rkey_bytes = reading->parts.part_count * sizeof(ucp_rkey_h);
  struct fabric_ucx_key *key = base_calloc(1, sizeof *key + rkey_bytes + reading->packed_bytes);
  if (!key) return NULL;
  key->parts = reading->parts;
  key->use_count = 1;
  key->packed = (uint8_t *)key->rkeys + rkey_bytes;
  memcpy(key->packed, reading->packed, reading->packed_bytes);
  return key;
}

/* UCX gets each packed key aligned, whatever the lengths of those before it. */
static ucs_status_t unpack_part(struct fabric_ucx_endpoint *endpoint, struct fabric_ucx_key *key, const uint8_t *packed,
                                size_t packed_bytes) {
  _Alignas(16) uint8_t bytes[FABRIC_KEY_LIMIT_BYTES];
  memcpy(bytes, packed, packed_bytes);
  return endpoint->fabric->library.ucp_ep_rkey_unpack(endpoint->way.ep, bytes, &key->rkeys[key->unpacked_count]);
}

static kvf_status unpack_key(struct fabric_ucx_endpoint *endpoint, struct fabric_ucx_key *key, kvf_error **error_out) {
  if (key->unpacked_count == key->parts.part_count) return KVF_OK;
  const uint8_t *packed = key->packed + key->parts.part_count * FABRIC_UCX_PACKED_LENGTH_BYTES;
  for (uint64_t i = 0; i < key->parts.part_count; i++) {
    size_t packed_bytes = fabric_ucx_packed_bytes(key->packed, i);
    if (i == key->unpacked_count) {
      ucs_status_t status = unpack_part(endpoint, key, packed, packed_bytes);
      if (status != UCS_OK) {
        kvf_error *error = fabric_ucx_instance_error(endpoint->fabric, KVF_FABRIC, "the key of a peer's region cannot be used",
                                                     "ucp_ep_rkey_unpack", status);
        base_error_add(error, "part", "%llu", (unsigned long long)i);
        return base_error_give(base_error_add(error, "region", "%llu", (unsigned long long)key->parts.region), error_out);
      }
      key->unpacked_count++;
    }
    packed += packed_bytes;
  }
  return KVF_OK;
}

/* Take the bytes for what they should be, or say what is wrong with them. */
static kvf_status decode_key(const struct fabric_ucx_endpoint *endpoint, struct reading *reading, const uint8_t *bytes,
                             size_t length, struct fabric_ucx_key **key_out, kvf_error **error_out) {
  const char *fault = read_key(reading, endpoint->incarnation, bytes, length);
  if (fault) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the key of a peer's region is %s", fault);
    return base_error_give(base_error_add(error, "region", "%llu", (unsigned long long)reading->parts.region), error_out);
  }
  *key_out = create_key(reading);
  return *key_out ? KVF_OK : base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a key"), error_out);
}

kvf_status fabric_ucx_key_import(struct fabric_endpoint *base, uint64_t region, uint64_t generation, uint64_t region_bytes,
                                 const uint8_t *bytes, size_t length, kvf_error **error_out) {
  struct fabric_ucx_endpoint *endpoint = (struct fabric_ucx_endpoint *)base;
  struct reading reading = {.parts = {.region = region, .generation = generation, .length = region_bytes}};
  struct fabric_ucx_key *key = NULL, *older = base_map_get(&endpoint->keys, region);
  kvf_status status = decode_key(endpoint, &reading, bytes, length, &key, error_out);
  if (!status && endpoint->stage == FABRIC_UCX_READY && endpoint->way.failure == UCS_OK)
    status = unpack_key(endpoint, key, error_out);
  if (!status && older && older->parts.generation > generation)
    status = base_error_give(BASE_ERROR(KVF_STALE, NULL, "a later key of this region is here already"), error_out);
  if (!status && !base_map_put(&endpoint->keys, region, key))
    status = base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a key"), error_out);
  fabric_ucx_key_release(endpoint->fabric, status ? key : older);
  return status;
}

static kvf_error *check_target(const struct fabric_ucx_key *key, const struct fabric_target *target) {
  if (!key) return BASE_ERROR(KVF_NOT_REGISTERED, NULL, "no key of this region of the peer is here");
  if (key->revoked && key->parts.generation == target->generation)
    return BASE_ERROR(KVF_KEY_REVOKED, NULL, "the peer has revoked this region");
  if (key->parts.generation != target->generation)
    return BASE_ERROR(KVF_STALE, NULL, "the target is of another generation than the key");
  if (!fabric_target_fits(target, key->parts.length))
    return BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "the target leaves the peer's region");
  return NULL;
}

kvf_status fabric_ucx_key_find(struct fabric_ucx_endpoint *endpoint, const struct fabric_target *target,
                               struct fabric_ucx_key **key_out, kvf_error **error_out) {
  struct fabric_ucx_key *key = base_map_get(&endpoint->keys, target->region);
  kvf_error *error = check_target(key, target);
  if (error) {
    fabric_target_describe(error, target, key ? key->parts.generation : 0, key ? key->parts.length : 0);
    return base_error_give(error, error_out);
  }
  kvf_status status = unpack_key(endpoint, key, error_out);
  if (!status) *key_out = key;
  return status;
}

void fabric_ucx_sender_revoke(struct fabric_ucx *fabric, const struct fabric_ucx_message *message) {
  struct fabric_ucx_endpoint *endpoint = base_map_get(&fabric->endpoints, message->connection);
  if (!endpoint || endpoint->token != message->token) return;
  if (memcmp(endpoint->incarnation, message->incarnation, sizeof endpoint->incarnation)) return;
  struct fabric_ucx_key *key = base_map_get(&endpoint->keys, message->target.region);
  if (key && key->parts.generation == message->target.generation) key->revoked = true;
}
