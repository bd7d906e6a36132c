/* The peer's regions as an endpoint sees them: keys that came over the control connection, mappings that came over ours. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric/piece.h"
#include "fabric_shm/inside.h"
#include "memory/device.h"
#include "memory/shared.h"

static void unmap(struct shm_mapping *mapping) {
  if (mapping->pinned) memory_device_unpin(mapping->base);
  if (mapping->base) munmap(mapping->base, mapping->base_bytes);
  *mapping = (struct shm_mapping){0};
}

/* Numbers are the peer's, so how many there are is bounded. NULL when there are too many, or no memory. */
static struct shm_remote *get_remote(struct shm_endpoint *endpoint, uint64_t number) {
  struct shm_remote *remote = base_map_get(&endpoint->remotes, number);
  if (remote || endpoint->remotes.count >= SHM_REGION_LIMIT) return remote;
  remote = base_calloc(1, sizeof *remote);
  if (!remote) return NULL;
  remote->number = number;
  if (base_map_put(&endpoint->remotes, number, remote)) return remote;
  base_free(remote);
  return NULL;
}

/* The offered mapping becomes the current one when the key is for it. */
static bool adopt(struct shm_remote *remote) {
  if (!remote->imported || !remote->offered.base || remote->current.base) return false;
  if (remote->offered.generation != remote->generation || remote->offered.nonce != remote->nonce) return false;
  remote->current = remote->offered;
  remote->offered = (struct shm_mapping){0};
  return true;
}

kvf_status shm_remote_import(struct fabric_endpoint *base, uint64_t region, uint64_t generation, uint64_t region_bytes,
                             const uint8_t *bytes, size_t length, kvf_error **error_out) {
  struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
  struct shm_key key;
  if (!shm_region_key_decode(bytes, length, region, generation, &key)) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "these bytes are no key of the region");
    base_error_add(error, "region", "%" PRIu64, region);
    return base_error_give(base_error_add(error, "generation", "%" PRIu64, generation), error_out);
  }
  struct shm_remote *remote = get_remote(endpoint, region);
  if (!remote) {
    kvf_error *error = BASE_ERROR(KVF_FABRIC, NULL, "no room for another region of the peer");
    return base_error_give(base_error_add(error, "limit", "%d", SHM_REGION_LIMIT), error_out);
  }
  if (remote->imported && generation < remote->generation) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the key is older than the one that is there");
    base_error_add(error, "generation", "%" PRIu64, generation);
    return base_error_give(base_error_add(error, "expected", "%" PRIu64, remote->generation), error_out);
  }
  if (remote->current.generation != generation || remote->current.nonce != key.nonce) unmap(&remote->current);
  remote->imported = true;
  remote->generation = generation;
  remote->nonce = key.nonce;
  remote->slot = key.slot;
  remote->region_bytes = region_bytes;
  adopt(remote);
  return KVF_OK;
}

/* An offer that nobody has imported yet is kept: the next import may be for it. */
void shm_remote_drop(struct fabric_endpoint *base, uint64_t region) {
  struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
  struct shm_remote *remote = base_map_get(&endpoint->remotes, region);
  if (!remote) return;
  if (remote->current.base && !remote->offered.base)
    remote->offered = remote->current;
  else
    unmap(&remote->current);
  remote->current = (struct shm_mapping){0};
  remote->imported = false;
}

void shm_remote_free_all(struct shm_endpoint *endpoint) {
  size_t cursor = 0;
  struct shm_remote *remote;
  while ((remote = base_map_next(&endpoint->remotes, &cursor))) {
    unmap(&remote->current);
    unmap(&remote->offered);
    base_free(remote);
  }
  base_map_fini(&endpoint->remotes);
}

/* Lazily: nothing is touched before it is written. */
static kvf_error *map_memory(const struct shm_message *message, int fd, struct shm_mapping *mapping_out) {
  uint64_t end, slack = message->offset % (uint64_t)sysconf(_SC_PAGESIZE);
  if (message->length == 0 || !base_add_u64(message->offset, message->length, &end) || !memory_shared_is_sealed(fd, end))
    return BASE_ERROR(KVF_PROTOCOL, NULL, "the peer exposes memory that is not sealed, or not all there");
  uint64_t base_bytes = message->length + slack;
  void *base = mmap(NULL, base_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(message->offset - slack));
  if (base == MAP_FAILED) return BASE_ERROR(KVF_FABRIC, BASE_ERROR_ERRNO("mmap", errno), "the peer's memory cannot be mapped");
  *mapping_out = (struct shm_mapping){.base = base,
                                      .base_bytes = base_bytes,
                                      .pinned = memory_device_pin(base, base_bytes), /* a GPU's kernels then gather straight into it */
                                      .address = (uint8_t *)base + slack,
                                      .length = message->length,
                                      .generation = message->generation,
                                      .nonce = message->nonce};
  return NULL;
}

kvf_error *shm_remote_offer(struct shm_endpoint *endpoint, const struct shm_message *message, int fd, bool *ready_out) {
  struct shm_mapping mapping;
  kvf_error *error = map_memory(message, fd, &mapping);
  close(fd);
  if (error) return base_error_add(error, "region", "%" PRIu64, message->region);
  struct shm_remote *remote = get_remote(endpoint, message->region);
  if (!remote) {
    unmap(&mapping);
    error = BASE_ERROR(KVF_FABRIC, NULL, "no room for another region of the peer");
    return base_error_add(error, "limit", "%d", SHM_REGION_LIMIT);
  }
  unmap(&remote->offered);
  remote->offered = mapping;
  *ready_out = adopt(remote);
  return NULL;
}

static kvf_error *check_target(const struct shm_endpoint *endpoint, const struct shm_remote *remote,
                               const struct fabric_target *target) {
  if (!remote || !remote->imported) return BASE_ERROR(KVF_NOT_REGISTERED, NULL, "there is no key of the peer's region");
  if (target->generation != remote->generation)
    return BASE_ERROR(KVF_STALE, NULL, "the target is of another generation than the key");
  if (!fabric_target_fits(target, remote->region_bytes))
    return BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "the target leaves the peer's region");
  if (atomic_load_explicit(&endpoint->control->nonces[remote->slot], memory_order_acquire) != remote->nonce)
    return BASE_ERROR(KVF_KEY_REVOKED, NULL, "the peer has revoked the key of its region");
  if (!remote->current.base) return BASE_ERROR(KVF_NOT_READY, NULL, "the peer's region is not mapped yet");
  if (!fabric_target_fits(target, remote->current.length))
    return BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "the target leaves the memory that the peer exposed");
  return NULL;
}

kvf_status shm_remote_map(struct fabric_endpoint *base, const struct fabric_target *target, void **address_out,
                          kvf_error **error_out) {
  struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
  if (endpoint->state >= SHM_FAILED) return base_error_give(BASE_ERROR(KVF_PEER_LOST, NULL, "the endpoint is down"), error_out);
  const struct shm_remote *remote = base_map_get(&endpoint->remotes, target->region);
  kvf_error *error = endpoint->state == SHM_READY
                         ? check_target(endpoint, remote, target)
                         : BASE_ERROR(KVF_NOT_READY, NULL, "the connection to the peer is still being made");
  if (error) {
    bool known = remote && remote->imported;
    error = fabric_target_describe(error, target, known ? remote->generation : 0, known ? remote->region_bytes : 0);
    return base_error_give(error, error_out);
  }
  *address_out = remote->current.address + target->offset;
  return KVF_OK;
}
