/* Our own memory: allocated by UCX or registered with it, and exposed under a number and a generation.
 *
 * Unmapping is no proof that a device has forgotten a key (UCX may keep the registration in a cache), so a revoked generation is
 * also told to the peers, and a piece that lands under one is refused. In message mode nobody writes by key, and keys are empty. */
#include "fabric_ucx/region.h"

#include <string.h>

#include "base/alloc.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/receiver.h"

struct memory {
  struct base_list link;
  ucp_mem_h handle;
  void *address;
  uint64_t length;
};

struct region {
  struct fabric_region base;
  struct fabric_ucx *fabric;
  uint64_t number;
  uint64_t generation;
  uint64_t length;
  ucp_mem_h own_handle; /* NULL: the memory's handle serves */
  size_t key_bytes;
  uint8_t key[FABRIC_KEY_LIMIT_BYTES];
};

static kvf_status map_memory(struct fabric_ucx *fabric, ucp_mem_map_params_t *params, ucp_mem_h *handle_out,
                             kvf_error **error_out) {
  ucs_status_t status = fabric->library.ucp_mem_map(fabric->context, params, handle_out);
  if (status == UCS_OK) return KVF_OK;
  kvf_status outer = status == UCS_ERR_NO_MEMORY ? KVF_NO_MEMORY : KVF_FABRIC;
  kvf_error *error = fabric_ucx_instance_error(fabric, outer, "memory cannot be registered", "ucp_mem_map", status);
  return base_error_give(base_error_add(error, "length", "%llu", (unsigned long long)params->length), error_out);
}

kvf_status fabric_ucx_memory_alloc(struct fabric *base, uint64_t length, struct fabric_memory *memory_out, kvf_error **error_out) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  if (!length) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "memory of no length"), error_out);
  struct memory *memory = base_calloc(1, sizeof *memory);
  if (!memory) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to remember memory"), error_out);
  ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                 .length = length,
                                 .flags = UCP_MEM_MAP_ALLOCATE};
  kvf_status status = map_memory(fabric, &params, &memory->handle, error_out);
  if (status) {
    base_free(memory);
    return status;
  }
  ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
  fabric->library.ucp_mem_query(memory->handle, &attributes);
  memory->address = attributes.address;
  memory->length = length;
  base_list_push_back(&fabric->memories, &memory->link);
  *memory_out = (struct fabric_memory){.address = memory->address, .length = length, .handle = memory};
  return KVF_OK;
}

static void free_memory(struct fabric_ucx *fabric, struct memory *memory) {
  base_list_remove(&memory->link);
  fabric->library.ucp_mem_unmap(fabric->context, memory->handle);
  base_free(memory);
}

void fabric_ucx_memory_free(struct fabric *fabric, struct fabric_memory *memory) {
  if (memory->handle) free_memory(fabric_ucx_of(fabric), memory->handle);
  *memory = (struct fabric_memory){0};
}

static struct memory *find_memory(struct fabric_ucx *fabric, const void *address, uint64_t length) {
  BASE_LIST_EACH(&fabric->memories, node) {
    struct memory *memory = BASE_CONTAINER(node, struct memory, link);
    uint64_t offset = (uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)memory->address;
    if (offset < memory->length && length <= memory->length - offset) return memory;
  }
  return NULL;
}

/* Body of a key: region, generation, base address, length, then UCX's own bytes. */
static kvf_status pack_key(struct region *region, ucp_mem_h handle, const void *address, kvf_error **error_out) {
  struct fabric_ucx *fabric = region->fabric;
  uint64_t facts[4] = {region->number, region->generation, (uint64_t)(uintptr_t)address, region->length};
  void *packed;
  size_t packed_bytes;
  ucs_status_t status = fabric->library.ucp_rkey_pack(fabric->context, handle, &packed, &packed_bytes);
  if (status != UCS_OK) {
    return base_error_give(fabric_ucx_instance_error(fabric, KVF_FABRIC, "a region has no key", "ucp_rkey_pack", status),
                           error_out);
  }
  bool fits = packed_bytes <= FABRIC_KEY_LIMIT_BYTES - FABRIC_UCX_BLOB_HEAD_BYTES - sizeof facts;
  if (fits) {
    uint8_t *body = region->key + FABRIC_UCX_BLOB_HEAD_BYTES;
    memcpy(body, facts, sizeof facts);
    memcpy(body + sizeof facts, packed, packed_bytes);
    region->key_bytes = fabric_ucx_blob_seal(region->key, FABRIC_UCX_BLOB_KEY, fabric->incarnation, sizeof facts + packed_bytes);
  }
  fabric->library.ucp_rkey_buffer_release(packed);
  if (fits) return KVF_OK;
  kvf_error *error = BASE_ERROR(KVF_FABRIC, NULL, "a region's key is too long; name fewer devices in UCX_NET_DEVICES");
  return base_error_give(base_error_add(error, "need", "%zu", packed_bytes), error_out);
}

static kvf_status check_exposure(struct fabric_ucx *fabric, const struct fabric_exposure *exposure, kvf_error **error_out) {
  const char *text = NULL;
  if (!exposure->address || !exposure->length) text = "an empty region cannot be exposed";
  if (base_map_get(&fabric->regions, exposure->region)) text = "this region is exposed already";
  return text ? base_error_give(BASE_ERROR(KVF_INVALID, NULL, "%s", text), error_out) : KVF_OK;
}

/* The handle that covers the exposure: of memory from here, or made for it where any memory will do. */
static kvf_status find_handle(struct region *region, const struct fabric_exposure *exposure, ucp_mem_h *handle_out,
                              kvf_error **error_out) {
  struct fabric_ucx *fabric = region->fabric;
  struct memory *memory = find_memory(fabric, exposure->address, exposure->length);
  if (memory) {
    *handle_out = memory->handle;
    return KVF_OK;
  }
  if (fabric->settings.emulate) {
    return base_error_give(BASE_ERROR(KVF_UNSUPPORTED, NULL, "only memory from this provider can be exposed when it emulates"),
                           error_out);
  }
  ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = exposure->address,
                                 .length = exposure->length};
  kvf_status status = map_memory(fabric, &params, &region->own_handle, error_out);
  *handle_out = region->own_handle;
  return status;
}

static kvf_status make_key(struct region *region, const struct fabric_exposure *exposure, kvf_error **error_out) {
  ucp_mem_h handle = NULL;
  kvf_status status = find_handle(region, exposure, &handle, error_out);
  return status ? status : pack_key(region, handle, exposure->address, error_out);
}

static void free_region(struct region *region) {
  if (region->own_handle) region->fabric->library.ucp_mem_unmap(region->fabric->context, region->own_handle);
  base_free(region);
}

kvf_status fabric_ucx_region_expose(struct fabric *base, const struct fabric_exposure *exposure, struct fabric_region **region_out,
                                    kvf_error **error_out) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  kvf_status status = check_exposure(fabric, exposure, error_out);
  if (status) return status;
  struct region *region = base_calloc(1, sizeof *region);
  if (!region) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region"), error_out);
  *region = (struct region){.base.ops = base->ops,
                            .fabric = fabric,
                            .number = exposure->region,
                            .generation = exposure->generation,
                            .length = exposure->length};
  if (fabric->one_sided) status = make_key(region, exposure, error_out);
  if (!status && !base_map_put(&fabric->regions, region->number, region))
    status = base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region"), error_out);
  if (status) {
    free_region(region);
    return status;
  }
  *region_out = &region->base;
  return KVF_OK;
}

void fabric_ucx_region_revoke(struct fabric_region *base) {
  struct region *region = (struct region *)base;
  base_map_remove(&region->fabric->regions, region->number);
  if (region->fabric->one_sided) fabric_ucx_receiver_tell_revoked(region->fabric, region->number, region->generation);
  free_region(region);
}

size_t fabric_ucx_region_key(const struct fabric_region *base, uint8_t *key) {
  const struct region *region = (const struct region *)base;
  memcpy(key, region->key, region->key_bytes);
  return region->key_bytes;
}

bool fabric_ucx_region_accepts(const struct fabric_ucx *fabric, const struct fabric_target *target) {
  const struct region *region = base_map_get(&fabric->regions, target->region);
  if (!region || region->generation != target->generation) return false;
  return target->offset <= region->length && target->length <= region->length - target->offset;
}

void fabric_ucx_region_fini(struct fabric_ucx *fabric) {
  size_t cursor = 0;
  for (struct region *region = base_map_next(&fabric->regions, &cursor); region; region = base_map_next(&fabric->regions, &cursor))
    free_region(region);
  base_map_fini(&fabric->regions);
  BASE_LIST_EACH(&fabric->memories, node) free_memory(fabric, BASE_CONTAINER(node, struct memory, link));
}
