/* Our own memory, exposed under a number and a generation: cut into parts where a device has a limit, with one key for each.
 *
 * Unmapping is no proof that a device has forgotten a key (UCX may keep the registration in a cache), so a revoked generation is
 * also told to the peers, and a piece that lands under one is refused. In message mode nobody writes by key, and keys are empty. */
#include "fabric_ucx/region.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric/piece.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/memory.h"
#include "fabric_ucx/page.h"
#include "fabric_ucx/receiver.h"

struct region {
  struct fabric_region base;
  struct fabric_ucx *fabric;
  struct fabric_ucx_parts parts;
  ucp_mem_h *own_handles; /* of the parts; NULL: the handles of the provider's own memory serve */
  uint64_t own_count;
  uint8_t *key;
  size_t key_bytes;
};

/* A key while it is made. */
struct draft {
  uint64_t used_bytes;
  uint8_t bytes[FABRIC_KEY_LIMIT_BYTES];
};

static kvf_status check_exposure(struct fabric_ucx *fabric, const struct fabric_exposure *exposure, kvf_error **error_out) {
  const char *text = NULL;
  if (!exposure->address || !exposure->length) text = "an empty region cannot be exposed";
  if (base_map_get(&fabric->regions, exposure->region)) text = "this region is exposed already";
  return text ? base_error_give(BASE_ERROR(KVF_INVALID, NULL, "%s", text), error_out) : KVF_OK;
}

/* Cuts of any memory lie on its page boundaries, so that no page is registered twice; those of our own where it is cut itself. */
static kvf_status cut_region(struct region *region, const struct fabric_ucx_memory *memory, kvf_error **error_out) {
  const struct fabric_ucx_settings *settings = &region->fabric->settings;
  struct fabric_ucx_parts *parts = &region->parts;
  uint64_t part_bytes = parts->length, lead_bytes = 0, count, span;
  if (memory) {
    part_bytes = memory->part_bytes;
    lead_bytes = (parts->base_address - (uint64_t)(uintptr_t)memory->address) % part_bytes;
  } else if (parts->length > settings->region_limit_bytes) {
    const void *address = (const void *)(uintptr_t)parts->base_address;
    uint64_t page_bytes = settings->page_bytes ? settings->page_bytes : fabric_ucx_page_bytes(address, parts->length);
    lead_bytes = parts->base_address % page_bytes;
    if (!base_add_u64(parts->length, lead_bytes, &span)) span = UINT64_MAX;
    kvf_status status = fabric_region_split(span, settings->region_limit_bytes, page_bytes, &part_bytes, &count, error_out);
    if (status) return status;
  }
  fabric_ucx_parts_cut(parts, part_bytes, lead_bytes);
  if (fabric_ucx_parts_check(parts)) return KVF_OK;
  return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "a region cannot be this large"), error_out);
}

/* The handle that covers a part: of memory from here, or made for it where any memory will do. */
static kvf_status find_handle(struct region *region, const struct fabric_ucx_memory *memory, uint64_t index, ucp_mem_h *handle_out,
                              kvf_error **error_out) {
  uint64_t begin = fabric_ucx_parts_begin(&region->parts, index);
  uint64_t address = region->parts.base_address + begin;
  if (memory) {
    *handle_out = memory->handles[(address - (uint64_t)(uintptr_t)memory->address) / memory->part_bytes];
    return KVF_OK;
  }
  ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = (void *)(uintptr_t)address,
                                 .length = fabric_ucx_parts_end(&region->parts, index) - begin};
  kvf_status status = fabric_ucx_memory_map(region->fabric, &params, handle_out, error_out);
  if (!status) region->own_handles[region->own_count++] = *handle_out;
  return status;
}

/* How long the whole key becomes if the parts from @p index on have packed keys of @p packed_bytes, as they have when the memory is
 * of one kind. */
static uint64_t foresee_bytes(const struct region *region, const struct draft *draft, uint64_t index, size_t packed_bytes) {
  uint64_t bytes;
  if (!base_mul_u64(region->parts.part_count - index, base_max_u64(packed_bytes, 1), &bytes)) return UINT64_MAX;
  return base_add_u64(bytes, draft->used_bytes, &bytes) ? bytes : UINT64_MAX;
}

static kvf_status pack_part(struct region *region, ucp_mem_h handle, uint64_t index, struct draft *draft, kvf_error **error_out) {
  struct fabric_ucx *fabric = region->fabric;
  void *packed;
  size_t packed_bytes;
  ucs_status_t status = fabric->library.ucp_rkey_pack(fabric->context, handle, &packed, &packed_bytes);
  if (status != UCS_OK) {
    return base_error_give(fabric_ucx_instance_error(fabric, KVF_FABRIC, "a region has no key", "ucp_rkey_pack", status),
                           error_out);
  }
  uint64_t need = foresee_bytes(region, draft, index, packed_bytes);
  if (need <= sizeof draft->bytes) {
    uint16_t length = (uint16_t)packed_bytes;
    uint8_t *lengths = draft->bytes + FABRIC_UCX_BLOB_HEAD_BYTES + sizeof region->parts;
    memcpy(lengths + index * sizeof length, &length, sizeof length);
    memcpy(draft->bytes + draft->used_bytes, packed, packed_bytes);
    draft->used_bytes += packed_bytes;
  }
  fabric->library.ucp_rkey_buffer_release(packed);
  if (need <= sizeof draft->bytes) return KVF_OK;
  kvf_error *error = BASE_ERROR(KVF_RESOURCE_LIMIT, NULL,
                                "a region's key would be too long; expose less at once, or name fewer devices in UCX_NET_DEVICES");
  base_error_add(error, "need", "%llu", (unsigned long long)need);
  base_error_add(error, "limit", "%zu", sizeof draft->bytes);
  return base_error_give(base_error_add(error, "parts", "%llu", (unsigned long long)region->parts.part_count), error_out);
}

static kvf_status pack_parts(struct region *region, const struct fabric_ucx_memory *memory, struct draft *draft,
                             kvf_error **error_out) {
  const struct fabric_ucx_parts *parts = &region->parts;
  kvf_status status = KVF_OK;
  draft->used_bytes = FABRIC_UCX_BLOB_HEAD_BYTES + sizeof *parts + parts->part_count * FABRIC_UCX_PACKED_LENGTH_BYTES;
  memcpy(draft->bytes + FABRIC_UCX_BLOB_HEAD_BYTES, parts, sizeof *parts);
  for (uint64_t i = 0; !status && i < parts->part_count; i++) {
    ucp_mem_h handle = NULL;
    status = find_handle(region, memory, i, &handle, error_out);
    if (!status) status = pack_part(region, handle, i, draft, error_out);
  }
  return status;
}

static kvf_status prepare_handles(struct region *region, const struct fabric_ucx_memory *memory, kvf_error **error_out) {
  if (memory) return KVF_OK;
  if (region->fabric->settings.emulate) {
    return base_error_give(BASE_ERROR(KVF_UNSUPPORTED, NULL, "only memory from this provider can be exposed when it emulates"),
                           error_out);
  }
  /* More would not fit a key, which the first part's shows; they need no room. */
  uint64_t count = base_min_u64(region->parts.part_count, FABRIC_UCX_PART_LIMIT);
  region->own_handles = base_calloc(count, sizeof(ucp_mem_h));
  if (region->own_handles) return KVF_OK;
  return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region"), error_out);
}

static kvf_status make_key(struct region *region, kvf_error **error_out) {
  const void *address = (const void *)(uintptr_t)region->parts.base_address;
  const struct fabric_ucx_memory *memory = fabric_ucx_memory_find(region->fabric, address, region->parts.length);
  struct draft draft;
  kvf_status status = cut_region(region, memory, error_out);
  if (!status) status = prepare_handles(region, memory, error_out);
  if (!status) status = pack_parts(region, memory, &draft, error_out);
  if (status) return status;
  region->key_bytes = fabric_ucx_blob_seal(draft.bytes, FABRIC_UCX_BLOB_KEY, region->fabric->incarnation,
                                           draft.used_bytes - FABRIC_UCX_BLOB_HEAD_BYTES);
  region->key = base_alloc(region->key_bytes);
  if (!region->key) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a key"), error_out);
  memcpy(region->key, draft.bytes, region->key_bytes);
  return KVF_OK;
}

static void free_region(struct region *region) {
  while (region->own_count)
    region->fabric->library.ucp_mem_unmap(region->fabric->context, region->own_handles[--region->own_count]);
  base_free(region->own_handles);
  base_free(region->key);
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
                            .parts = {.region = exposure->region,
                                      .generation = exposure->generation,
                                      .base_address = (uint64_t)(uintptr_t)exposure->address,
                                      .length = exposure->length}};
  if (fabric->one_sided) status = make_key(region, error_out);
  if (!status && !base_map_put(&fabric->regions, exposure->region, region))
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
  const struct fabric_ucx_parts *parts = &region->parts;
  base_map_remove(&region->fabric->regions, parts->region);
  if (region->fabric->one_sided) fabric_ucx_receiver_tell_revoked(region->fabric, parts->region, parts->generation);
  free_region(region);
}

size_t fabric_ucx_region_key(const struct fabric_region *base, uint8_t *key) {
  const struct region *region = (const struct region *)base;
  if (region->key_bytes) memcpy(key, region->key, region->key_bytes);
  return region->key_bytes;
}

bool fabric_ucx_region_accepts(const struct fabric_ucx *fabric, const struct fabric_target *target) {
  const struct region *region = base_map_get(&fabric->regions, target->region);
  if (!region || region->parts.generation != target->generation) return false;
  return fabric_target_fits(target, region->parts.length);
}

void fabric_ucx_region_fini(struct fabric_ucx *fabric) {
  size_t cursor = 0;
  for (struct region *region = base_map_next(&fabric->regions, &cursor); region; region = base_map_next(&fabric->regions, &cursor))
    free_region(region);
  base_map_fini(&fabric->regions);
  fabric_ucx_memory_free_all(fabric);
}
