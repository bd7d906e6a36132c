/* The engine itself: options to configuration, the order of opening and closing, counters. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/random.h"
#include "engine/inside.h"
#include "memory/shared.h"
#include "stats/render.h"

static uint64_t or_default(uint64_t value, uint64_t fallback) { return value ? value : fallback; }

static kvf_error *too_small(const char *name, uint64_t value, uint64_t least) {
  kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "%s is below its least value", name);
  base_error_add(error, "value", "%llu", (unsigned long long)value);
  return base_error_add(error, "least", "%llu", (unsigned long long)least);
}

/* Sizes rounded down to powers of two; a piece takes at most half of the arena, so that two can be under way. */
static kvf_error *set_sizes(struct engine_config *config, const kvf_engine_options *options) {
  uint64_t arena = or_default(options->arena_bytes, 64ull << 20), gather = or_default(options->gather_bytes, 16ull << 20);
  uint64_t piece = or_default(options->piece_bytes, 256ull << 10);
  if (arena < ENGINE_ARENA_LEAST_BYTES) return too_small("arena_bytes", arena, ENGINE_ARENA_LEAST_BYTES);
  if (gather < ENGINE_ARENA_LEAST_BYTES) return too_small("gather_bytes", gather, ENGINE_ARENA_LEAST_BYTES);
  if (piece < ENGINE_PIECE_LEAST_BYTES) return too_small("piece_bytes", piece, ENGINE_PIECE_LEAST_BYTES);
  config->arena_bytes = base_floor_pow2(arena);
  config->piece_bytes = base_min_u64(base_floor_pow2(piece), base_min_u64(config->arena_bytes, base_floor_pow2(gather)) / 2);
  config->gather_bytes = gather / config->piece_bytes * config->piece_bytes;
  return NULL;
}

static kvf_error *set_texts(struct engine_config *config, const kvf_engine_options *options) {
  char label[32];
  snprintf(label, sizeof label, "rank-%d", (int)getpid());
  config->listen = base_strdup(options->listen ? options->listen : "127.0.0.1:0");
  config->label = base_strdup(options->label ? options->label : label);
  config->fabrics = base_strdup(options->fabrics ? options->fabrics : "auto");
  config->secret = options->secret ? base_strdup(options->secret) : NULL;
  config->control_fault = options->control_fault ? base_strdup(options->control_fault) : NULL;
  bool whole = config->listen && config->label && config->fabrics && (config->secret || !options->secret) &&
               (config->control_fault || !options->control_fault);
  return whole ? NULL : BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the options");
}

static kvf_error *configure(struct engine_config *config, const kvf_engine_options *options) {
  if (options->way > KVF_WAY_DIRECT) return BASE_ERROR(KVF_INVALID, NULL, "there is no way number %u", options->way);
  if (options->label && strlen(options->label) > WIRE_LABEL_LIMIT_BYTES) return BASE_ERROR(KVF_INVALID, NULL, "the label is longer than %d bytes", WIRE_LABEL_LIMIT_BYTES);
  if (options->checksum > 1) return BASE_ERROR(KVF_INVALID, NULL, "checksum is 0 or 1, not %u", options->checksum);
  if (options->checksum && options->way == KVF_WAY_DIRECT)
    return BASE_ERROR(KVF_INVALID, NULL, "checksum with way direct: nobody could check bytes that go straight into pages");
  config->way = options->way;
  config->checksum = options->checksum;
  config->copy_threads = (uint32_t)or_default(options->copy_threads, 1);
  config->window = (uint32_t)or_default(options->window, 8);
  config->standing_credit = (uint32_t)or_default(options->standing_credit, 2);
  config->retry_count = options->retry_count == UINT32_MAX ? 0 : (uint32_t)or_default(options->retry_count, 2);
  config->event_capacity = (uint32_t)or_default(options->event_capacity, 4096);
  config->retry_backoff_ns = or_default(options->retry_backoff_ns, 10 * BASE_NS_PER_MS);
  config->handshake_ns = or_default(options->handshake_ns, 5 * BASE_NS_PER_S);
  config->heartbeat_ns = or_default(options->heartbeat_ns, 200 * BASE_NS_PER_MS);
  config->progress_ns = or_default(options->progress_ns, 30 * BASE_NS_PER_S);
  config->room_ns = or_default(options->room_ns, 600 * BASE_NS_PER_S);
  kvf_error *error = set_sizes(config, options);
  return error ? error : set_texts(config, options);
}

static void free_config(struct engine_config *config) {
  base_free(config->listen);
  base_free(config->label);
  base_free(config->fabrics);
  base_free(config->secret);
  base_free(config->control_fault);
}

/* ---- opening ---- */

static void jobs_are_done(void *context) { uv_async_send(&((kvf_engine *)context)->jobs_async); }

static void submit_job(void *context, struct transfer_job *job) {
  kvf_engine *engine = context;
  if (job->on_device)
    engine_device_submit(engine->device, job);
  else
    engine_workers_submit(engine->workers, job);
}

static void finish_device_job(void *context, struct transfer_job *job) { engine_workers_finish(((kvf_engine *)context)->workers, job); }

/* Without its reach kernels go through buffers of their own: slower, not wrong. */
static void pin_staging(kvf_engine *engine) {
  bool arena = memory_device_pin(engine->arena.address, engine->arena.length);
  bool gather = memory_device_pin(engine->gather_memory, engine->config.gather_bytes);
  if (!arena || !gather)
    base_log_write(&engine->log, KVF_LOG_WARNING, "the GPU's driver does not pin the staging: its copies go through another buffer");
  engine->arena_pinned = arena;
  engine->gather_pinned = gather;
}

kvf_status engine_device_open(kvf_engine *engine, int32_t number, kvf_error **error_out) {
  struct memory_device *memory;
  if (engine->device) return KVF_OK;
  kvf_status status = memory_device_open(number, &memory, error_out);
  if (status == KVF_OK)
    status = engine_device_create(memory, engine->config.piece_bytes, finish_device_job, engine, &engine->device, error_out);
  if (status == KVF_OK) pin_staging(engine);
  return status;
}

static void close_device(kvf_engine *engine) {
  if (engine->arena_pinned) memory_device_unpin(engine->arena.address);
  if (engine->gather_pinned) memory_device_unpin(engine->gather_memory);
  engine_device_destroy(engine->device);
  engine->device = NULL;
}

static kvf_status open_control(kvf_engine *engine, kvf_error **error_out) {
  struct control_options options = {.listen = engine->config.listen,
                                    .label = engine->config.label,
                                    .secret = engine->config.secret,
                                    .capabilities = WIRE_CAN_CHECKSUM | (engine->config.checksum ? WIRE_WANTS_CHECKSUM : 0),
                                    .handshake_ns = engine->config.handshake_ns,
                                    .heartbeat_ns = engine->config.heartbeat_ns,
                                    .fault = engine->config.control_fault,
                                    .log = engine->log,
                                    .callbacks = engine_peer_callbacks(engine)};
  memcpy(options.incarnation, engine->incarnation, sizeof options.incarnation);
  kvf_status status = control_open(&engine->loop, &options, &engine->control, error_out);
  if (status == KVF_OK) snprintf(engine->address, sizeof engine->address, "%s", control_address(engine->control));
  return status;
}

static kvf_status open_transfer(kvf_engine *engine, kvf_error **error_out) {
  const struct engine_config *config = &engine->config;
  engine->gather_memory = mmap(NULL, config->gather_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (engine->gather_memory == MAP_FAILED) {
    engine->gather_memory = NULL;
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to gather into"), error_out);
  }
  const struct transfer_options options = {
      .host = {.context = engine, .post = engine_post_frames, .submit = submit_job, .event = engine_room_event},
      .log = engine->log,
      .counters = &engine->counters,
      .way = config->way,
      .arena_bytes = config->arena_bytes,
      .piece_bytes = config->piece_bytes,
      .gather_memory = engine->gather_memory,
      .gather_bytes = config->gather_bytes,
      .window = config->window,
      .standing_credit = config->standing_credit,
      .retry_count = config->retry_count,
      .retry_backoff_ns = config->retry_backoff_ns,
      .progress_ns = config->progress_ns,
      .room_ns = config->room_ns};
  return transfer_create(&options, &engine->transfer, error_out);
}

/* The arena: from a provider that can expose only memory of its own, else shareable memory. */
static kvf_status open_arena(kvf_engine *engine, kvf_error **error_out) {
  uint64_t bytes = engine->config.arena_bytes;
  engine->arena = (struct transfer_memory){.region = ENGINE_ARENA_REGION, .length = bytes, .memory_fd = -1};
  for (uint32_t i = 0; i < engine->fabric_count; i++) {
    struct fabric *fabric = engine->fabrics[i].fabric;
    if (!fabric->ops->memory_alloc || fabric->ops->memory_alloc(fabric, bytes, &engine->arena_made, NULL) != KVF_OK) continue;
    engine->arena_maker = fabric;
    engine->arena.address = engine->arena_made.address;
    return KVF_OK;
  }
  kvf_status status = memory_shared_alloc(bytes, &engine->arena.address, error_out);
  if (status == KVF_OK) memory_shared_find(engine->arena.address, bytes, &engine->arena.memory_fd, &engine->arena.memory_fd_offset);
  return status;
}

static kvf_status open_parts(kvf_engine *engine, kvf_error **error_out) {
  kvf_status status = engine_loop_open(engine, error_out);
  if (status != KVF_OK) return status;
  engine->loop_open = true;
  status = open_control(engine, error_out);
  if (status == KVF_OK) status = open_transfer(engine, error_out);
  if (status == KVF_OK) status = engine_fabrics_open(engine, error_out);
  if (status == KVF_OK) status = open_arena(engine, error_out);
  if (status == KVF_OK) status = engine_workers_create(engine->config.copy_threads, jobs_are_done, engine, &engine->workers, error_out);
  if (status != KVF_OK) return status;
  struct fabric *fabrics[ENGINE_FABRIC_LIMIT];
  for (uint32_t i = 0; i < engine->fabric_count; i++) fabrics[i] = engine->fabrics[i].fabric;
  transfer_fabrics_set(engine->transfer, fabrics, engine->fabric_count, &engine->arena);
  engine_fabrics_watch(engine);
  return KVF_OK;
}

static void *run_io_thread(void *argument) {
  engine_loop_run(argument);
  return NULL;
}

static kvf_engine *create_engine(const kvf_engine_options *options, kvf_error **error_out) {
  kvf_engine *engine = base_calloc(1, sizeof *engine);
  if (!engine) {
    base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for an engine"), error_out);
    return NULL;
  }
  atomic_init(&engine->references, 1);
  pthread_mutex_init(&engine->lock, NULL);
  base_list_init(&engine->events);
  base_list_init(&engine->commands);
  base_list_init(&engine->peers);
  base_list_init(&engine->waiting);
  engine->log = (struct base_log){.sink = options->log_sink, .context = options->log_context, .level = options->log_level ? options->log_level : KVF_LOG_WARNING};
  engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  kvf_error *error = engine->event_fd < 0 ? BASE_ERROR_ERRNO("eventfd", errno) : configure(&engine->config, options);
  int failure = error ? 0 : base_random_fill(engine->incarnation, sizeof engine->incarnation);
  if (failure) error = BASE_ERROR_ERRNO("getrandom", failure);
  if (!error) memory_table_create(&engine->regions, &error);
  if (!error) return engine;
  engine_release(engine);
  base_error_give(error, error_out);
  return NULL;
}

/* What exists of an engine whose threads are gone, or never began. */
static void close_parts(kvf_engine *engine) {
  close_device(engine);
  engine_workers_destroy(engine->workers);
  engine->workers = NULL;
  if (engine->transfer) transfer_destroy(engine->transfer);
  engine->transfer = NULL;
  if (engine->arena_maker)
    engine->arena_maker->ops->memory_free(engine->arena_maker, &engine->arena_made);
  else if (engine->arena.address)
    memory_shared_free(engine->arena.address);
  engine_fabrics_close(engine);
  if (engine->gather_memory) munmap(engine->gather_memory, engine->config.gather_bytes);
  engine->gather_memory = NULL;
}

/* Let the loop run out, so that every handle that was opened is closed in it. */
static void run_loop_out(kvf_engine *engine) {
  if (!engine->loop_open) return;
  engine_loop_begin_end(engine);
  uv_run(&engine->loop, UV_RUN_DEFAULT);
  uv_loop_close(&engine->loop);
  engine->loop_open = false;
}

kvf_status engine_open(const kvf_engine_options *options, kvf_engine **engine_out, kvf_error **error_out) {
  kvf_error *error = NULL;
  kvf_engine *engine = create_engine(options, &error);
  if (!engine) return base_error_give(error, error_out);
  kvf_status status = open_parts(engine, error_out);
  if (status == KVF_OK) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&engine->thread, NULL, run_io_thread, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) status = base_error_give(BASE_ERROR_ERRNO("pthread_create", failure), error_out);
  }
  if (status != KVF_OK) {
    run_loop_out(engine);
    close_parts(engine);
    engine->closed = true;
    engine_release(engine);
    return status;
  }
  *engine_out = engine;
  return KVF_OK;
}

/* ---- closing ---- */

static void run_quit(kvf_engine *engine, struct engine_command *base) {
  base_free(base);
  engine_loop_end(engine);
}

void engine_close(kvf_engine *engine) {
  struct engine_command *quit = NULL;
  /* The one command that must not fail. */
  while (!(quit = base_calloc(1, sizeof *quit))) usleep(1000);
  quit->run = run_quit;
  pthread_mutex_lock(&engine->lock);
  engine->closing = true;
  pthread_mutex_unlock(&engine->lock);
  engine_post(engine, quit);
  pthread_join(engine->thread, NULL);
  engine_run_commands(engine);
  uv_loop_close(&engine->loop);
  close_parts(engine);
  engine_peers_free_unheld(engine);
  pthread_mutex_lock(&engine->lock);
  engine->closed = true;
  pthread_mutex_unlock(&engine->lock);
  engine_release(engine);
}

bool engine_is_closed(kvf_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  bool closed = engine->closing || engine->closed;
  pthread_mutex_unlock(&engine->lock);
  return closed;
}

/* The last reference frees the shell. */
void engine_release(kvf_engine *engine) {
  if (atomic_fetch_sub(&engine->references, 1) != 1) return;
  engine_events_free(engine);
  if (engine->event_fd >= 0) close(engine->event_fd);
  base_map_fini(&engine->sends);
  base_map_fini(&engine->recvs);
  engine_cache_free(engine);
  if (engine->regions) memory_table_destroy(engine->regions);
  pthread_mutex_destroy(&engine->lock);
  free_config(&engine->config);
  base_free(engine);
}

/* ---- the rest ---- */

const char *engine_address(const kvf_engine *engine) { return engine->address; }

void engine_incarnation(const kvf_engine *engine, uint8_t incarnation_out[16]) {
  memcpy(incarnation_out, engine->incarnation, sizeof engine->incarnation);
}

static void run_drain(kvf_engine *engine, struct engine_command *base) {
  base_free(base);
  if (engine->stage == ENGINE_RUNNING) transfer_drain(engine->transfer);
}

void engine_drain(kvf_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  engine->draining = true;
  pthread_mutex_unlock(&engine->lock);
  struct engine_command *command = base_calloc(1, sizeof *command);
  if (!command) return;
  command->run = run_drain;
  engine_post(engine, command);
}

static void read_gauges(struct transfer *transfer, void *argument) {
  kvf_engine *engine = argument;
  struct arena_usage usage;
  struct control_totals totals;
  transfer_usage_get(transfer, &usage);
  control_totals_get(engine->control, &totals);
  uint64_t suspect_count, silence_ns;
  engine_peers_suspect_count(engine, &suspect_count, &silence_ns);
  stats_counter_set(&engine->counters.peers_suspect, suspect_count);
  stats_counter_set(&engine->counters.peer_silence_ns, silence_ns);
  stats_counter_set(&engine->counters.arena_capacity_bytes, usage.capacity_bytes);
  stats_counter_set(&engine->counters.arena_used_bytes, usage.granted_bytes + usage.claimed_bytes + usage.quarantined_bytes);
  stats_counter_set(&engine->counters.arena_peak_bytes, usage.peak_bytes);
  stats_counter_set(&engine->counters.control_bytes_sent, totals.bytes_sent);
  stats_counter_set(&engine->counters.control_bytes_received, totals.bytes_received);
}

void engine_stats(kvf_engine *engine, kvf_engine_stats *stats_out) {
  if (!engine_is_closed(engine)) engine_call(engine, read_gauges, engine);
  stats_counters_read(&engine->counters, stats_out);
}

size_t engine_metrics(kvf_engine *engine, char *text, size_t capacity_bytes) {
  if (!engine_is_closed(engine)) engine_call(engine, read_gauges, engine);
  return stats_render(&engine->counters, NULL, text, capacity_bytes);
}
