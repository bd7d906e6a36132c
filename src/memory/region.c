/* The table is an array of pointers in the order of addresses: a lookup is a binary search, and what an insertion moves is small
 * beside the registration itself (20,000 regions in any order take some 10 ms in all). */
#include "memory/region.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "memory/pin.h"
#include "memory/shared.h"

struct memory_table {
  struct memory_region **regions;
  uint32_t count, capacity;
  uint32_t last_number;
  uint64_t last_generation;
  uint64_t bytes;
};

static uint64_t base_of(const struct memory_region *region) {
  return (uint64_t)(uintptr_t)region->address;
}
static uint64_t end_of(const struct memory_region *region) {
  return base_of(region) + region->length;
}

kvf_status memory_table_create(struct memory_table **table_out, kvf_error **error_out) {
  struct memory_table *table = base_calloc(1, sizeof *table);
  if (!table) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the registration table"), error_out);
  *table_out = table;
  return KVF_OK;
}

void memory_table_destroy(struct memory_table *table) {
  if (!table) return;
  while (table->count) {
    table->regions[table->count - 1]->references = 1;
    memory_table_remove(table, table->regions[table->count - 1]);
  }
  base_free(table->regions);
  base_free(table);
}

/* Index of the first region that begins above @p address. */
static uint32_t find_above(const struct memory_table *table, uint64_t address) {
  uint32_t low = 0, high = table->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (base_of(table->regions[middle]) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static kvf_error *add_range(kvf_error *error, const void *address, uint64_t length) {
  base_error_add(error, "address", "%p", address);
  return base_error_add(error, "length", "%" PRIu64, length);
}

static kvf_error *add_region(kvf_error *error, const struct memory_region *region) {
  base_error_add(error, "region_base", "%p", (void *)region->address);
  base_error_add(error, "region_bytes", "%" PRIu64, region->length);
  if (region->label[0]) base_error_add(error, "region", "%s", region->label);
  return error;
}

/* The driver's word on a range that is, or may be, CUDA memory. */
static kvf_error *query_range(const kvf_region_options *options, struct memory_pointer *pointer_out) {
  kvf_error *error = NULL;
  if (memory_device_query(options->address, pointer_out, &error) != KVF_OK) return error;
  const uint64_t first = (uint64_t)(uintptr_t)options->address, end = first + options->length_bytes;
  if (pointer_out->kind != MEMORY_POINTER_DEVICE || pointer_out->is_movable) return NULL;
  if (end <= pointer_out->base + pointer_out->bytes) return NULL;
  error = BASE_ERROR(KVF_INVALID, NULL, "the range leaves the device memory that it begins in");
  base_error_add(error, "allocation_base", "0x%" PRIx64, pointer_out->base);
  return base_error_add(error, "allocation_bytes", "%" PRIu64, pointer_out->bytes);
}

static kvf_error *contradict(const char *claim, uint32_t kind) {
  kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the range is called %s, but to the GPU's driver it is %s", claim, memory_pointer_name(kind));
  return base_error_add(error, "probe", "%s", memory_pointer_name(kind));
}

static kvf_error *settle_cuda(const struct memory_pointer *pointer, struct memory_region *region) {
  kvf_error *error = NULL;
  region->kind = KVF_MEMORY_CUDA;
  region->device_number = pointer->device;
  region->is_movable = pointer->is_movable;
  region->has_ipc = pointer->has_ipc;
  memory_device_take(pointer->device, &region->device, &error);
  return error;
}

/* Where nothing has loaded a driver there is no device memory to be mistaken for the host's, and none is loaded to find that out. */
static kvf_error *settle_host(const kvf_region_options *options, struct memory_region *region) {
  struct memory_pointer pointer;
  kvf_error *error = NULL;
  if (!memory_device_is_driver_loaded()) return NULL;
  error = query_range(options, &pointer);
  if (error && options->kind == KVF_MEMORY_HOST) {
    kvf_error_free(error);
    return NULL;
  }
  if (error || pointer.kind == MEMORY_POINTER_UNKNOWN || pointer.kind == MEMORY_POINTER_HOST) return error;
  if (options->kind == KVF_MEMORY_HOST) return contradict("HOST", pointer.kind);
  if (pointer.kind == MEMORY_POINTER_DEVICE) return settle_cuda(&pointer, region);
  return base_error_add(BASE_ERROR(KVF_INVALID, NULL, "the kind of the range is not given, and to the GPU's driver it is %s: give it",
                                   memory_pointer_name(pointer.kind)),
                        "probe", "%s", memory_pointer_name(pointer.kind));
}

/* The caller's word counts unless the driver contradicts it; only what it leaves open is looked up, and nothing is guessed. */
static kvf_error *settle_kind(const kvf_region_options *options, struct memory_region *region) {
  struct memory_pointer pointer;
  region->memory_fd = -1;
  region->kind = options->kind;
  if (options->kind > KVF_MEMORY_CUDA) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "unknown kind of memory %" PRIu32, options->kind);
    return base_error_add(error, "kind", "%" PRIu32, options->kind);
  }
  if (options->kind == KVF_MEMORY_CUDA) {
    kvf_error *error = query_range(options, &pointer);
    if (error) return error;
    return pointer.kind == MEMORY_POINTER_DEVICE ? settle_cuda(&pointer, region) : contradict("CUDA", pointer.kind);
  }
  if (options->kind != KVF_MEMORY_HOST)
    if (memory_shared_find(options->address, options->length_bytes, &region->memory_fd, &region->memory_fd_offset)) {
      region->kind = KVF_MEMORY_SHARED;
      return NULL;
    }
  if (options->kind == KVF_MEMORY_SHARED)
    return BASE_ERROR(KVF_INVALID, NULL, "the range is called SHARED, but does not lie in one allocation of kvf_memory_alloc");
  region->kind = KVF_MEMORY_HOST;
  return settle_host(options, region);
}

static kvf_error *check_range(const kvf_region_options *options) {
  uint64_t end;
  if (!options->address || options->length_bytes == 0)
    return BASE_ERROR(KVF_INVALID, NULL, "a region needs an address and a length");
  if (!base_add_u64((uint64_t)(uintptr_t)options->address, options->length_bytes, &end) || end > UINTPTR_MAX)
    return BASE_ERROR(KVF_INVALID, NULL, "the region runs over the end of the address space");
  if (options->pin > 1) return BASE_ERROR(KVF_INVALID, NULL, "pin is 0 or 1");
  return NULL;
}

/* Device memory stays where it is. */
static kvf_status pin_region(struct memory_region *region, kvf_error **error_out) {
  if (region->kind == KVF_MEMORY_CUDA) return KVF_OK;
  kvf_status status = memory_pin(region->address, region->length, error_out);
  region->pinned = status == KVF_OK;
  return status;
}

/* Another registration of the very same range. */
static kvf_status add_again(struct memory_region *region, const kvf_region_options *options, kvf_error **error_out) {
  if (options->kind && options->kind != region->kind) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the range is registered as another kind of memory");
    base_error_add(error, "kind", "%" PRIu32, options->kind);
    base_error_add(error, "registered", "%" PRIu32, region->kind);
    return base_error_give(add_range(error, options->address, options->length_bytes), error_out);
  }
  if (options->pin && !region->pinned) {
    kvf_status status = pin_region(region, error_out);
    if (status != KVF_OK) return status;
  }
  region->references++;
  return KVF_OK;
}

static struct memory_region *find_overlap(const struct memory_table *table, uint32_t above, uint64_t base, uint64_t end) {
  if (above > 0 && end_of(table->regions[above - 1]) > base) return table->regions[above - 1];
  if (above < table->count && base_of(table->regions[above]) < end) return table->regions[above];
  return NULL;
}

static bool reserve_slot(struct memory_table *table) {
  if (table->count < table->capacity) return true;
  uint32_t capacity = table->capacity ? table->capacity * 2 : 64;
  if (capacity < table->capacity) return false;
  struct memory_region **grown = base_realloc(table->regions, capacity * sizeof *grown);
  if (!grown) return false;
  table->regions = grown;
  table->capacity = capacity;
  return true;
}

static void insert(struct memory_table *table, uint32_t index, struct memory_region *region) {
  memmove(table->regions + index + 1, table->regions + index, (table->count - index) * sizeof *table->regions);
  table->regions[index] = region;
  table->count++;
  table->bytes += region->length;
  region->number = ++table->last_number;
  region->generation = ++table->last_generation;
}

static kvf_status add_new(struct memory_table *table, uint32_t index, const kvf_region_options *options,
                          struct memory_region **region_out, kvf_error **error_out) {
  struct memory_region *region = base_calloc(1, sizeof *region);
  if (!region || !reserve_slot(table)) {
    base_free(region);
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region"), error_out);
  }
  region->address = options->address;
  region->length = options->length_bytes;
  region->references = 1;
  if (options->label) snprintf(region->label, sizeof region->label, "%s", options->label);
  kvf_status status = KVF_OK;
  kvf_error *error = settle_kind(options, region);
  if (error)
    status = base_error_give(add_range(error, options->address, options->length_bytes), error_out);
  else if (options->pin)
    status = pin_region(region, error_out);
  if (status != KVF_OK) {
    memory_device_give(region->device);
    base_free(region);
    return status;
  }
  insert(table, index, region);
  *region_out = region;
  return KVF_OK;
}

kvf_status memory_table_add(struct memory_table *table, const kvf_region_options *options, struct memory_region **region_out,
                            kvf_error **error_out) {
  kvf_error *error = check_range(options);
  if (error) return base_error_give(add_range(error, options->address, options->length_bytes), error_out);
  uint64_t base = (uint64_t)(uintptr_t)options->address;
  uint32_t above = find_above(table, base);
  struct memory_region *other = find_overlap(table, above, base, base + options->length_bytes);
  if (!other) return add_new(table, above, options, region_out, error_out);
  if (base_of(other) == base && other->length == options->length_bytes) {
    kvf_status status = add_again(other, options, error_out);
    if (status == KVF_OK) *region_out = other;
    return status;
  }
  error = BASE_ERROR(KVF_OVERLAP, NULL, "the range overlaps a registered region without being the same");
  return base_error_give(add_region(add_range(error, options->address, options->length_bytes), other), error_out);
}

/* Locks do not nest and count in pages, so a page that a pinned neighbour reaches into stays locked. */
static void unpin_region(const struct memory_table *table, uint32_t index) {
  const struct memory_region *region = table->regions[index];
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t first = base_of(region) / page * page;
  uint64_t end = (end_of(region) + page - 1) / page * page;
  for (uint32_t i = index; i > 0 && end_of(table->regions[i - 1]) > first; i--) {
    if (!table->regions[i - 1]->pinned) continue;
    first += page;
    break;
  }
  for (uint32_t i = index + 1; i < table->count && base_of(table->regions[i]) < end; i++) {
    if (!table->regions[i]->pinned) continue;
    end -= page;
    break;
  }
  memory_unpin(first, end);
}

bool memory_table_remove(struct memory_table *table, struct memory_region *region) {
  if (--region->references > 0) return false;
  uint32_t index = find_above(table, base_of(region)) - 1;
  if (region->pinned) unpin_region(table, index);
  table->count--;
  table->bytes -= region->length;
  memmove(table->regions + index, table->regions + index + 1, (table->count - index) * sizeof *table->regions);
  memory_device_give(region->device);
  base_free(region);
  return true;
}

kvf_status memory_table_find(const struct memory_table *table, const void *address, uint64_t length,
                             struct memory_region **region_out, kvf_error **error_out) {
  uint64_t base = (uint64_t)(uintptr_t)address;
  uint32_t above = find_above(table, base);
  struct memory_region *region = above ? table->regions[above - 1] : NULL;
  uint64_t offset = region ? base - base_of(region) : 0;
  bool starts_inside = region && (offset < region->length || (offset == region->length && length == 0));
  if (starts_inside && length <= region->length - offset) {
    *region_out = region;
    return KVF_OK;
  }
  kvf_error *error;
  if (starts_inside)
    error = BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "the range leaves its region %" PRIu64 " bytes before its own end",
                       length - (region->length - offset));
  else
    error = BASE_ERROR(KVF_NOT_REGISTERED, NULL, "the address lies in none of the %" PRIu32 " registered regions", table->count);
  add_range(error, address, length);
  if (!region && table->count) region = table->regions[0];
  return base_error_give(region ? add_region(error, region) : error, error_out);
}

uint32_t memory_table_count(const struct memory_table *table) {
  return table->count;
}
struct memory_region *memory_table_get(const struct memory_table *table, uint32_t index) {
  return table->regions[index];
}
uint64_t memory_table_bytes(const struct memory_table *table) {
  return table->bytes;
}
