/* The I/O thread: a libuv loop whose prepare step does all that is ready before it sleeps, and the order in which everything ends.
 *
 *   RUNNING → ENDING_ROOMS (every room cancelled) → ENDING_LINKS (peers dropped) → ENDING_LOOP (handles closed) → thread ends */
#include <string.h>

#include "base/checked.h"
#include "engine/inside.h"

enum { LOOP_ROUNDS = 64 };

#define LOOP_ROOMS_PATIENCE_NS (3 * BASE_NS_PER_S)
#define LOOP_LINKS_PATIENCE_NS (2 * BASE_NS_PER_S)

static void tick(uv_timer_t *timer);

static void do_nothing(uv_idle_t *idle) {}

static void start_timer(kvf_engine *engine, uint64_t after_ns) {
  uint64_t after_ms = (after_ns + BASE_NS_PER_MS - 1) / BASE_NS_PER_MS;
  if (uv_is_active((uv_handle_t *)&engine->tick_timer) && uv_timer_get_due_in(&engine->tick_timer) <= after_ms) return;
  uv_timer_start(&engine->tick_timer, tick, after_ms, 0);
}

static void close_handles(kvf_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  engine->loop_ended = true;
  pthread_mutex_unlock(&engine->lock);
  engine_fabrics_unwatch(engine);
  uv_handle_t *handles[] = {(uv_handle_t *)&engine->command_async, (uv_handle_t *)&engine->jobs_async, (uv_handle_t *)&engine->prepare,
                            (uv_handle_t *)&engine->check, (uv_handle_t *)&engine->idle, (uv_handle_t *)&engine->tick_timer};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) uv_close(handles[i], NULL);
}

static void control_is_closed(void *context) {
  kvf_engine *engine = context;
  engine->control = NULL;
  close_handles(engine);
}

void engine_loop_begin_end(kvf_engine *engine) {
  engine->stage = ENGINE_ENDING_LOOP;
  if (engine->control)
    control_close(engine->control, control_is_closed, engine);
  else
    close_handles(engine);
}

static void enter_stage(kvf_engine *engine, int stage, uint64_t patience_ns) {
  engine->stage = stage;
  engine->stage_deadline_ns = base_clock_ns() + patience_ns;
  start_timer(engine, 10 * BASE_NS_PER_MS);
}

static void advance_shutdown(kvf_engine *engine) {
  bool late = base_clock_ns() > engine->stage_deadline_ns;
  if (engine->stage == ENGINE_ENDING_ROOMS && (late || transfer_rooms_over(engine->transfer))) {
    engine_peers_drop_all(engine);
    enter_stage(engine, ENGINE_ENDING_LINKS, LOOP_LINKS_PATIENCE_NS);
  }
  if (engine->stage == ENGINE_ENDING_LINKS) {
    /* Peers that might still write do so into memory that only they have mapped from now on. */
    if (late) transfer_fences_abandon(engine->transfer);
    if (!transfer_quiet(engine->transfer)) return;
    engine_loop_begin_end(engine);
  }
}

static void tick(uv_timer_t *timer) {
  kvf_engine *engine = timer->data;
  uint64_t next_ns = transfer_tick(engine->transfer, base_clock_ns());
  if (engine->stage == ENGINE_ENDING_ROOMS || engine->stage == ENGINE_ENDING_LINKS) {
    advance_shutdown(engine);
    if (engine->stage != ENGINE_ENDING_LOOP) next_ns = base_min_u64(next_ns, 10 * BASE_NS_PER_MS);
  }
  if (next_ns != UINT64_MAX && engine->stage != ENGINE_ENDING_LOOP) start_timer(engine, next_ns);
}

/* Everything that is ready, until nothing is; then the loop may sleep. */
static void do_ready_work(kvf_engine *engine) {
  if (engine->stage == ENGINE_ENDING_LOOP) return;
  bool more = true;
  for (int round = 0; more && round < LOOP_ROUNDS; round++) {
    more = transfer_turn(engine->transfer);
    more = engine_fabrics_progress(engine) || more;
  }
  if (engine->stage == ENGINE_ENDING_ROOMS || engine->stage == ENGINE_ENDING_LINKS) advance_shutdown(engine);
  if (engine->stage == ENGINE_ENDING_LOOP) return;
  if (transfer_tick_is_due(engine->transfer)) start_timer(engine, 5 * BASE_NS_PER_MS);
  if (more || !engine_fabrics_arm(engine))
    uv_idle_start(&engine->idle, do_nothing);
  else
    uv_idle_stop(&engine->idle);
}

static void before_sleep(uv_prepare_t *prepare) { do_ready_work(prepare->data); }
static void after_sleep(uv_check_t *check) { do_ready_work(check->data); }
static void commands_came(uv_async_t *async) { engine_run_commands(async->data); }

static void jobs_came(uv_async_t *async) {
  kvf_engine *engine = async->data;
  struct base_list jobs;
  base_list_init(&jobs);
  engine_workers_take(engine->workers, &jobs);
  struct base_list *node;
  while ((node = base_list_pop_front(&jobs))) {
    struct transfer_job *job = BASE_CONTAINER(node, struct transfer_job, node);
    job->done(job);
  }
}

kvf_status engine_loop_open(kvf_engine *engine, kvf_error **error_out) {
  int failure = uv_loop_init(&engine->loop);
  if (failure) return base_error_give(BASE_ERROR(KVF_SYSTEM, NULL, "uv_loop_init: %s", uv_strerror(failure)), error_out);
  failure = uv_async_init(&engine->loop, &engine->command_async, commands_came);
  if (!failure) failure = uv_async_init(&engine->loop, &engine->jobs_async, jobs_came);
  if (failure) return base_error_give(BASE_ERROR(KVF_SYSTEM, NULL, "uv_async_init: %s", uv_strerror(failure)), error_out);
  uv_prepare_init(&engine->loop, &engine->prepare);
  uv_check_init(&engine->loop, &engine->check);
  uv_idle_init(&engine->loop, &engine->idle);
  uv_timer_init(&engine->loop, &engine->tick_timer);
  engine->command_async.data = engine->jobs_async.data = engine;
  engine->prepare.data = engine->check.data = engine->idle.data = engine->tick_timer.data = engine;
  uv_prepare_start(&engine->prepare, before_sleep);
  uv_check_start(&engine->check, after_sleep);
  return KVF_OK;
}

void engine_loop_run(kvf_engine *engine) {
  uv_run(&engine->loop, UV_RUN_DEFAULT);
}

/* On the I/O thread: begin to end. */
void engine_loop_end(kvf_engine *engine) {
  if (engine->stage != ENGINE_RUNNING) return;
  kvf_error *reason = BASE_ERROR(KVF_CANCELLED, NULL, "the engine was closed");
  transfer_cancel_all(engine->transfer, base_error_add(reason, "origin", "%s", engine->config.label));
  kvf_error_free(reason);
  enter_stage(engine, ENGINE_ENDING_ROOMS, LOOP_ROOMS_PATIENCE_NS);
}
