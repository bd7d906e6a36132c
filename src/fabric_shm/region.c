/* Exposures: a nonce in the control page makes a key valid, and its removal revokes the key for every writer at once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "fabric_shm/inside.h"
#include "memory/shared.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

kvf_status shm_region_control_open(struct shm_fabric *fabric, kvf_error **error_out) {
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  fabric->control_fd = memfd_create("kvferry-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fabric->control_fd >= 0 && ftruncate(fabric->control_fd, sizeof *fabric->control) == 0) {
    void *mapped = mmap(NULL, sizeof *fabric->control, PROT_READ | PROT_WRITE, MAP_SHARED, fabric->control_fd, 0);
    if (mapped != MAP_FAILED) fabric->control = mapped;
  }
  /* From here on only our mapping is writable. A kernel without that seal still keeps the size. */
  if (fabric->control &&
      (fcntl(fabric->control_fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0 ||
       fcntl(fabric->control_fd, F_ADD_SEALS, seals) == 0) &&
      fcntl(fabric->control_fd, F_ADD_SEALS, F_SEAL_SEAL) == 0)
    return KVF_OK;
  return base_error_give(BASE_ERROR(KVF_SYSTEM, BASE_ERROR_ERRNO("memfd", errno), "no control page for shm"), error_out);
}

static uint64_t check_of(const struct shm_key *key, uint64_t region, uint64_t generation) {
  uint64_t check = base_mix_u64(((uint64_t)key->magic << 32 | key->slot) ^ base_mix_u64(key->nonce));
  return base_mix_u64(check ^ base_mix_u64(region ^ base_mix_u64(generation)));
}

size_t shm_region_key(const struct fabric_region *base, uint8_t *bytes) {
  const struct shm_region *region = (const struct shm_region *)base;
  struct shm_key key = {.magic = SHM_MAGIC, .slot = region->slot, .nonce = region->nonce};
  key.check = check_of(&key, region->number, region->generation);
  memcpy(bytes, &key, sizeof key);
  return sizeof key;
}

bool shm_region_key_decode(const uint8_t *bytes, size_t length, uint64_t region, uint64_t generation, struct shm_key *key_out) {
  if (length != sizeof *key_out) return false;
  memcpy(key_out, bytes, sizeof *key_out);
  return key_out->magic == SHM_MAGIC && key_out->slot < SHM_REGION_LIMIT && key_out->nonce != 0 &&
         key_out->check == check_of(key_out, region, generation);
}

static bool find_slot(struct shm_fabric *fabric, uint32_t *slot_out) {
  for (uint32_t i = 0; i < SHM_REGION_LIMIT; i++) {
    uint32_t slot = (fabric->slot_hint + i) % SHM_REGION_LIMIT;
    if (atomic_load_explicit(&fabric->control->nonces[slot], memory_order_relaxed) != 0) continue;
    fabric->slot_hint = slot + 1;
    *slot_out = slot;
    return true;
  }
  return false;
}

static kvf_error *check_exposure(struct shm_fabric *fabric, const struct fabric_exposure *exposure) {
  uint64_t end;
  if (exposure->memory_fd < 0)
    return BASE_ERROR(KVF_UNSUPPORTED, NULL, "only memory from kvf_memory_alloc can be exposed over shm");
  if (exposure->length == 0 || __builtin_add_overflow(exposure->memory_fd_offset, exposure->length, &end) || end > INT64_MAX)
    return BASE_ERROR(KVF_INVALID, NULL, "an exposure of %" PRIu64 " bytes", exposure->length);
  if (!memory_shared_is_sealed(exposure->memory_fd, end))
    return BASE_ERROR(KVF_UNSUPPORTED, NULL, "memory can be exposed over shm only when its memfd is sealed and holds all of it");
  if (base_map_get(&fabric->regions_by_number, exposure->region))
    return BASE_ERROR(KVF_INVALID, NULL, "region %" PRIu64 " is exposed already", exposure->region);
  return NULL;
}

static kvf_error *make_region(struct shm_fabric *fabric, const struct fabric_exposure *exposure, struct shm_region *region) {
  if (base_random_fill(&region->nonce, sizeof region->nonce) != 0) return BASE_ERROR_ERRNO("getrandom", errno);
  region->nonce |= 1; /* never 0 */
  if (!find_slot(fabric, &region->slot)) {
    kvf_error *error = BASE_ERROR(KVF_RESOURCE_LIMIT, NULL, "too many regions are exposed over shm");
    return base_error_add(error, "limit", "%d", SHM_REGION_LIMIT);
  }
  if (!base_map_put(&fabric->regions_by_number, exposure->region, region))
    return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region");
  return NULL;
}

kvf_status shm_region_expose(struct fabric *base, const struct fabric_exposure *exposure, struct fabric_region **region_out,
                             kvf_error **error_out) {
  struct shm_fabric *fabric = (struct shm_fabric *)base;
  kvf_error *error = check_exposure(fabric, exposure);
  if (error) return base_error_give(error, error_out);
  struct shm_region *region = base_calloc(1, sizeof *region);
  error = region ? make_region(fabric, exposure, region) : BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region");
  if (error) {
    base_free(region);
    return base_error_give(error, error_out);
  }
  region->base.ops = &fabric_shm_ops;
  region->fabric = fabric;
  region->sequence = ++fabric->exposure_count;
  region->number = exposure->region;
  region->generation = exposure->generation;
  region->offset = exposure->memory_fd_offset;
  region->length = exposure->length;
  region->fd = exposure->memory_fd;
  base_list_push_back(&fabric->regions, &region->node);
  atomic_store_explicit(&fabric->control->nonces[region->slot], region->nonce, memory_order_release);
  BASE_LIST_EACH(&fabric->receivers, node) shm_receiver_announce(BASE_CONTAINER(node, struct shm_receiver, node));
  *region_out = &region->base;
  return KVF_OK;
}

void shm_region_revoke(struct fabric_region *base) {
  struct shm_region *region = (struct shm_region *)base;
  struct shm_fabric *fabric = region->fabric;
  atomic_store_explicit(&fabric->control->nonces[region->slot], 0, memory_order_seq_cst);
  base_map_remove(&fabric->regions_by_number, region->number);
  base_list_remove(&region->node);
  base_free(region);
}
