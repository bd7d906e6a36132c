/* Allocates by ucp_mem_map. Where a limit cuts memory into parts, the address space of all of it is reserved first, and each part
 * is allocated at its place in there: for the caller it is one piece, for UCX each part is memory, and a registration, of its own.
 */
#include "fabric_ucx/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric/piece.h"
#include "fabric_ucx/parts.h"

kvf_status fabric_ucx_memory_map(struct fabric_ucx *fabric, ucp_mem_map_params_t *params, ucp_mem_h *handle_out,
                                 kvf_error **error_out) {
  ucs_status_t status = fabric->library.ucp_mem_map(fabric->context, params, handle_out);
  if (status == UCS_OK) return KVF_OK;
  kvf_status outer = status == UCS_ERR_NO_MEMORY ? KVF_NO_MEMORY : KVF_FABRIC;
  kvf_error *error = fabric_ucx_instance_error(fabric, outer, "memory cannot be registered", "ucp_mem_map", status);
  return base_error_give(base_error_add(error, "length", "%llu", (unsigned long long)params->length), error_out);
}

static kvf_status alloc_whole(struct fabric_ucx *fabric, struct fabric_ucx_memory *memory, kvf_error **error_out) {
  ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                 .length = memory->length,
                                 .flags = UCP_MEM_MAP_ALLOCATE};
  kvf_status status = fabric_ucx_memory_map(fabric, &params, &memory->handles[0], error_out);
  if (status) return status;
  ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
  fabric->library.ucp_mem_query(memory->handles[0], &attributes);
  memory->address = attributes.address;
  return KVF_OK;
}

/* One part at its place, which is all it may take. */
static kvf_status alloc_part(struct fabric_ucx *fabric, void *address, uint64_t length, uint64_t room, ucp_mem_h *handle_out,
                             kvf_error **error_out) {
  ucp_mem_map_params_t params = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
      .address = address,
      .length = length,
      .flags = UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED};
  kvf_status status = fabric_ucx_memory_map(fabric, &params, handle_out, error_out);
  if (status) return status;
  ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
  fabric->library.ucp_mem_query(*handle_out, &attributes);
  if (attributes.address == address && attributes.length <= room) return KVF_OK;
  fabric->library.ucp_mem_unmap(fabric->context, *handle_out);
  return base_error_give(BASE_ERROR(KVF_FABRIC, NULL, "UCX does not allocate memory where it is told to"), error_out);
}

static kvf_status alloc_parts(struct fabric_ucx *fabric, struct fabric_ucx_memory *memory, kvf_error **error_out) {
  uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t reserved_bytes = base_ceil_div_u64(memory->length, page_bytes) * page_bytes, offset = 0;
  uint8_t *address = mmap(NULL, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, BASE_ERROR_ERRNO("mmap", errno), "no address space for memory"), error_out);
  kvf_status status = KVF_OK;
  uint64_t done = 0;
  for (; !status && done < memory->part_count; done += !status, offset += status ? 0 : memory->part_bytes) {
    uint64_t length = base_min_u64(memory->part_bytes, memory->length - offset);
    uint64_t room = base_min_u64(memory->part_bytes, reserved_bytes - offset);
    status = alloc_part(fabric, address + offset, length, room, &memory->handles[done], error_out);
  }
  if (status) {
    while (done) fabric->library.ucp_mem_unmap(fabric->context, memory->handles[--done]);
    /* The parts took their address space with them. */
    munmap(address + offset, reserved_bytes - offset);
    return status;
  }
  memory->address = address;
  return KVF_OK;
}

static kvf_status cut_memory(const struct fabric_ucx *fabric, struct fabric_ucx_memory *memory, kvf_error **error_out) {
  const struct fabric_ucx_settings *settings = &fabric->settings;
  uint64_t page_bytes = settings->page_bytes ? settings->page_bytes : (uint64_t)sysconf(_SC_PAGESIZE);
  memory->part_bytes = memory->length;
  memory->part_count = 1;
  if (memory->length <= settings->region_limit_bytes) return KVF_OK;
  kvf_status status = fabric_region_split(memory->length, settings->region_limit_bytes, page_bytes, &memory->part_bytes,
                                          &memory->part_count, error_out);
  if (status || memory->part_count <= FABRIC_UCX_PART_LIMIT) return status;
  kvf_error *error = BASE_ERROR(KVF_RESOURCE_LIMIT, NULL, "memory would have more parts than a key can name");
  base_error_add(error, "need", "%llu", (unsigned long long)memory->part_count);
  return base_error_give(base_error_add(error, "limit", "%d", FABRIC_UCX_PART_LIMIT), error_out);
}

kvf_status fabric_ucx_memory_alloc(struct fabric *base, uint64_t length, struct fabric_memory *memory_out, kvf_error **error_out) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  if (!length || length > INT64_MAX)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "memory of %llu bytes", (unsigned long long)length), error_out);
  struct fabric_ucx_memory cut = {.length = length};
  kvf_status status = cut_memory(fabric, &cut, error_out);
  if (status) return status;
  struct fabric_ucx_memory *memory = base_calloc(1, sizeof *memory + cut.part_count * sizeof *memory->handles);
  if (!memory) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to remember memory"), error_out);
  *memory = cut;
  status = memory->part_count == 1 ? alloc_whole(fabric, memory, error_out) : alloc_parts(fabric, memory, error_out);
  if (status) {
    base_free(memory);
    return status;
  }
  base_list_push_back(&fabric->memories, &memory->link);
  *memory_out = (struct fabric_memory){.address = memory->address, .length = length, .handle = memory};
  return KVF_OK;
}

static void free_memory(struct fabric_ucx *fabric, struct fabric_ucx_memory *memory) {
  base_list_remove(&memory->link);
  for (uint64_t i = 0; i < memory->part_count; i++) fabric->library.ucp_mem_unmap(fabric->context, memory->handles[i]);
  base_free(memory);
}

void fabric_ucx_memory_free(struct fabric *fabric, struct fabric_memory *memory) {
  if (memory->handle) free_memory(fabric_ucx_of(fabric), memory->handle);
  *memory = (struct fabric_memory){0};
}

void fabric_ucx_memory_free_all(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->memories, node) free_memory(fabric, BASE_CONTAINER(node, struct fabric_ucx_memory, link));
}

const struct fabric_ucx_memory *fabric_ucx_memory_find(const struct fabric_ucx *fabric, const void *address, uint64_t length) {
  BASE_LIST_EACH(&fabric->memories, node) {
    const struct fabric_ucx_memory *memory = BASE_CONTAINER(node, struct fabric_ucx_memory, link);
    uint64_t offset = (uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)memory->address;
    if (offset < memory->length && length <= memory->length - offset) return memory;
  }
  return NULL;
}
