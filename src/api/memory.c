/* kvf_region_…, kvf_memory_… and kvf_cache_…: what rooms may read and write. */
#include "api/arguments.h"
#include "engine/engine.h"
#include "memory/device.h"
#include "memory/shared.h"

static kvf_status open_one(kvf_engine *engine, const kvf_region_options *options, kvf_region **region_out, kvf_error **error_out) {
  kvf_region_options checked;
  kvf_status status = api_options_copy(options, sizeof checked, offsetof(kvf_region_options, kind), &checked, error_out);
  if (status != KVF_OK) return status;
  if (!checked.address || !checked.length_bytes)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "a region needs an address and a length"), error_out);
  return engine_region_open(engine, &checked, region_out, error_out);
}

kvf_status kvf_region_open(kvf_engine *engine, const kvf_region_options *options, size_t count, kvf_region **regions_out, kvf_error **error_out) {
  if (!engine || !options || !regions_out) return api_null("engine, options or regions_out", error_out);
  /* The caller's struct may have another size than ours: entries lie that far apart. */
  size_t stride = options[0].struct_bytes;
  if (stride < offsetof(kvf_region_options, kind)) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "struct_bytes is not set"), error_out);
  for (size_t i = 0; i < count; i++) {
    kvf_error *error = NULL;
    kvf_status status = open_one(engine, (const kvf_region_options *)((const char *)options + i * stride), &regions_out[i], &error);
    if (status == KVF_OK) continue;
    base_error_add(error, "index", "%zu", i);
    for (size_t k = 0; k < i; k++) engine_region_close(regions_out[k]);
    return base_error_give(error, error_out);
  }
  return KVF_OK;
}

void kvf_region_close(kvf_region *region) {
  if (region) engine_region_close(region);
}

kvf_status kvf_memory_alloc(uint64_t length_bytes, void **memory_out, kvf_error **error_out) {
  if (!memory_out) return api_null("memory_out", error_out);
  if (!length_bytes) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "length_bytes is 0"), error_out);
  return memory_shared_alloc(length_bytes, memory_out, error_out);
}

void kvf_memory_free(void *memory) {
  if (memory) memory_shared_free(memory);
}

kvf_status kvf_cuda_memory_alloc(int32_t device, uint64_t length_bytes, void **memory_out, kvf_error **error_out) {
  if (!memory_out) return api_null("memory_out", error_out);
  if (!length_bytes) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "length_bytes is 0"), error_out);
  return memory_device_alloc(device, length_bytes, memory_out, error_out);
}

void kvf_cuda_memory_free(void *memory) { memory_device_free(memory); }

kvf_status kvf_cuda_memory_copy(void *target, const void *source, uint64_t length_bytes, kvf_error **error_out) {
  if (!target || !source) return api_null("target or source", error_out);
  return length_bytes ? memory_device_copy(target, source, length_bytes, error_out) : KVF_OK;
}

kvf_status kvf_cache_open(kvf_engine *engine, const kvf_cache_options *options, kvf_cache **cache_out, kvf_error **error_out) {
  kvf_cache_options checked;
  if (!engine || !cache_out) return api_null("engine or cache_out", error_out);
  kvf_status status = api_options_copy(options, sizeof checked, offsetof(kvf_cache_options, stage), &checked, error_out);
  if (status != KVF_OK) return status;
  kvf_error *error = NULL;
  if (checked.plane_count && !checked.planes)
    error = BASE_ERROR(KVF_INVALID, NULL, "planes is NULL");
  else if (checked.plane_bytes && checked.plane_bytes != sizeof(kvf_plane))
    error = BASE_ERROR(KVF_INVALID, NULL, "kvf_plane has %u bytes in the caller and %zu here", checked.plane_bytes, sizeof(kvf_plane));
  else if (checked.rank_count == 0 || checked.rank >= checked.rank_count)
    error = BASE_ERROR(KVF_INVALID, NULL, "rank %u of %u", checked.rank, checked.rank_count);
  return error ? base_error_give(error, error_out) : engine_cache_open(engine, &checked, cache_out, error_out);
}

void kvf_cache_close(kvf_cache *cache) {
  if (cache) engine_cache_close(cache);
}
