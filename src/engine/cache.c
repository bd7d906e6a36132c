/* Regions and the cache: what this rank may be read from and written to. Planes are resolved to regions once, here. */
#include <string.h>

#include "base/checked.h"
#include "engine/inside.h"
#include "layout/cut.h"

static void count_regions(kvf_engine *engine) {
  stats_counter_set(&engine->counters.regions, memory_table_count(engine->regions));
  stats_counter_set(&engine->counters.region_bytes, memory_table_bytes(engine->regions));
}

kvf_status engine_region_open(kvf_engine *engine, const kvf_region_options *options, kvf_region **region_out, kvf_error **error_out) {
  kvf_region *region = base_calloc(1, sizeof *region);
  if (!region) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region"), error_out);
  pthread_mutex_lock(&engine->lock);
  kvf_status status = engine->closing ? base_error_give(BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed"), error_out)
                                      : memory_table_add(engine->regions, options, &region->region, error_out);
  if (status == KVF_OK && region->region->kind == KVF_MEMORY_CUDA) {
    status = engine_device_open(engine, region->region->device_number, error_out);
    if (status != KVF_OK) memory_table_remove(engine->regions, region->region);
  }
  if (status == KVF_OK) {
    atomic_fetch_add(&engine->references, 1);
    count_regions(engine);
    base_log_write(&engine->log, KVF_LOG_DEBUG, "region %u registered: %p, %llu bytes, generation %llu %s", region->region->number,
                   (void *)region->region->address, (unsigned long long)region->region->length,
                   (unsigned long long)region->region->generation, region->region->label);
  }
  pthread_mutex_unlock(&engine->lock);
  if (status != KVF_OK) {
    base_free(region);
    return status;
  }
  region->engine = engine;
  *region_out = region;
  return KVF_OK;
}

void engine_region_close(kvf_region *region) {
  kvf_engine *engine = region->engine;
  pthread_mutex_lock(&engine->lock);
  base_log_write(&engine->log, KVF_LOG_DEBUG, "region %u given back", region->region->number);
  memory_table_remove(engine->regions, region->region);
  count_regions(engine);
  pthread_mutex_unlock(&engine->lock);
  base_free(region);
  engine_release(engine);
}

/* ---- the cache ---- */

static void free_cache(struct kvf_cache *cache) {
  base_free((void *)cache->planes.planes);
  base_free(cache->wire_planes);
  base_free(cache->plane_regions);
  base_free(cache->regions);
  base_free(cache);
}

/* Add a region to those that peers may be given, once. */
static void note_region(struct kvf_cache *cache, const struct memory_region *region) {
  for (uint32_t i = 0; i < cache->region_count; i++) {
    if (cache->regions[i].region == region->number) return;
  }
  cache->regions[cache->region_count++] = (struct transfer_memory){.region = region->number,
                                                                   .kind = region->kind,
                                                                   .address = region->address,
                                                                   .length = region->length,
                                                                   .memory_fd = region->memory_fd,
                                                                   .memory_fd_offset = region->memory_fd_offset};
}

/* A piece is copied by one kind of machine, and may hold all planes. */
static kvf_error *check_kind(const kvf_engine *engine, const struct kvf_cache *cache, const struct memory_region *region) {
  const bool on_device = region->kind == KVF_MEMORY_CUDA;
  if (cache->region_count && on_device != (cache->regions[0].kind == KVF_MEMORY_CUDA))
    return BASE_ERROR(KVF_UNSUPPORTED, NULL, "some planes of the cache are in CUDA memory and others are not");
  if (on_device && engine->config.way == KVF_WAY_DIRECT)
    return BASE_ERROR(KVF_UNSUPPORTED, NULL, "direct was demanded: peers cannot write into CUDA memory");
  return NULL;
}

/* Find the region of each plane, and give the plane its offset in it. Lock held. */
static kvf_error *resolve_planes(kvf_engine *engine, struct kvf_cache *cache) {
  for (uint32_t i = 0; i < cache->planes.plane_count; i++) {
    const kvf_plane *plane = &cache->planes.planes[i];
    struct memory_region *region = NULL;
    kvf_error *error = NULL;
    uint64_t extent = 0;
    if (!layout_plane_extent(plane, &extent)) error = BASE_ERROR(KVF_TOO_LARGE, NULL, "the plane's size leaves 64 bits");
    if (!error) memory_table_find(engine->regions, (const void *)(uintptr_t)plane->address, extent, &region, &error);
    if (!error) error = check_kind(engine, cache, region);
    if (error) {
      base_error_add(error, "plane", "%u", i);
      return base_error_add(error, "layer", "%u", plane->layer);
    }
    note_region(cache, region);
    cache->plane_regions[i] = region->number;
    cache->wire_planes[i] = *plane;
    cache->wire_planes[i].address = plane->address - (uintptr_t)region->address;
  }
  return NULL;
}

static struct kvf_cache *copy_cache(kvf_engine *engine, const kvf_cache_options *options) {
  size_t count = options->plane_count ? options->plane_count : 1;
  struct kvf_cache *cache = base_calloc(1, sizeof *cache);
  if (!cache) return NULL;
  kvf_plane *planes = base_alloc(count * sizeof *planes);
  cache->engine = engine;
  cache->planes = (kvf_rank_planes){.planes = planes, .plane_count = options->plane_count, .stage = options->stage};
  cache->wire_planes = base_alloc(count * sizeof *cache->wire_planes);
  cache->plane_regions = base_alloc(count * sizeof *cache->plane_regions);
  cache->regions = base_alloc(count * sizeof *cache->regions);
  cache->rank = options->rank;
  cache->rank_count = options->rank_count;
  cache->components = options->components;
  cache->ignored = options->ignore_components;
  for (uint32_t i = 0; i < options->plane_count; i++) cache->components |= 1u << options->planes[i].component;
  if (planes && cache->wire_planes && cache->plane_regions && cache->regions) {
    if (options->plane_count) memcpy(planes, options->planes, options->plane_count * sizeof *planes);
    return cache;
  }
  free_cache(cache);
  return NULL;
}

struct cache_command {
  struct engine_command base;
  struct kvf_cache *cache;
};

static void run_cache_open(kvf_engine *engine, struct engine_command *base) {
  struct cache_command *command = BASE_CONTAINER(base, struct cache_command, base);
  struct kvf_cache *cache = command->cache;
  kvf_error *error = NULL;
  base_free(command);
  if (transfer_cache_set(engine->transfer, &cache->planes, cache->rank, cache->rank_count, cache->regions, cache->region_count, &error) != KVF_OK) {
    base_log_write(&engine->log, KVF_LOG_ERROR, "the cache could not be taken into use: %s", kvf_error_message(error));
    kvf_error_free(error);
    return;
  }
  engine->ready_cache = cache;
  engine_peers_cache_is_set(engine);
}

kvf_status engine_cache_open(kvf_engine *engine, const kvf_cache_options *options, kvf_cache **cache_out, kvf_error **error_out) {
  kvf_status status = layout_planes_validate(options->planes, options->plane_count, error_out);
  if (status != KVF_OK) return status;
  struct kvf_cache *cache = copy_cache(engine, options);
  struct cache_command *command = base_calloc(1, sizeof *command);
  kvf_error *error = cache && command ? NULL : BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a cache");
  pthread_mutex_lock(&engine->lock);
  if (!error && engine->closing) error = BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed");
  if (!error && engine->cache) error = BASE_ERROR(KVF_INVALID, NULL, "this engine has a cache already");
  if (!error) error = resolve_planes(engine, cache);
  if (!error) {
    engine->cache = cache;
    atomic_fetch_add(&engine->references, 1);
  }
  pthread_mutex_unlock(&engine->lock);
  if (error) {
    if (cache) free_cache(cache);
    base_free(command);
    return base_error_give(error, error_out);
  }
  *command = (struct cache_command){.base.run = run_cache_open, .cache = cache};
  engine_post(engine, &command->base);
  *cache_out = cache;
  return KVF_OK;
}

static void run_cache_close(kvf_engine *engine, struct engine_command *base) {
  base_free(base);
  kvf_error *reason = BASE_ERROR(KVF_CANCELLED, NULL, "the cache was closed");
  if (engine->stage == ENGINE_RUNNING) transfer_cancel_all(engine->transfer, base_error_add(reason, "origin", "%s", engine->config.label));
  kvf_error_free(reason);
}

/* The planes stay with the engine: peers and rooms under way still read them. */
void engine_cache_close(kvf_cache *cache) {
  kvf_engine *engine = cache->engine;
  struct engine_command *command = engine_is_closed(engine) ? NULL : base_calloc(1, sizeof *command);
  if (command) {
    command->run = run_cache_close;
    engine_post(engine, command);
  }
  engine_release(engine);
}

void engine_cache_free(kvf_engine *engine) {
  if (engine->cache) free_cache(engine->cache);
}

const kvf_rank_planes *engine_planes(kvf_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  const struct kvf_cache *cache = engine->cache;
  pthread_mutex_unlock(&engine->lock);
  return cache ? &cache->planes : NULL;
}
