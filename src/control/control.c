/* The control plane's frame: opening, closing, the one timer and the one piece of deferred work. Sessions are in session.c, dials
 * in dial.c, accepting in listener.c. */
#include "control/control.h"

#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"
#include "control/state.h"

enum { SESSION_LIMIT_DEFAULT = 4096, UNPROVEN_LIMIT_DEFAULT = 512, TICKS_PER_HEARTBEAT = 8 };
#define HANDSHAKE_DEFAULT_NS (5 * BASE_NS_PER_S)
#define HEARTBEAT_DEFAULT_NS (200 * BASE_NS_PER_MS)
#define TICK_LEAST_NS BASE_NS_PER_MS
#define TICK_MOST_NS (25 * BASE_NS_PER_MS)
#define LOG_INTERVAL_NS BASE_NS_PER_S

static void run_tick(uv_timer_t *timer);
static void run_work(uv_idle_t *work);

void control_arm(struct control *control, uint64_t due_ns) {
  if (due_ns == 0 || control->core_closing || (control->timer_due_ns && control->timer_due_ns <= due_ns)) return;
  uint64_t now_ns = base_clock_ns();
  /* The loop's clock is in milliseconds and may be one behind: wake up late rather than twice. */
  uint64_t wait_ms = due_ns > now_ns ? base_ceil_div_u64(due_ns - now_ns, BASE_NS_PER_MS) + 1 : 0;
  control->timer_due_ns = due_ns;
  uv_update_time(control->loop);
  uv_timer_start(&control->timer, run_tick, wait_ms, 0);
}

static uint64_t round_to_tick(const struct control *control, uint64_t due_ns) {
  return base_ceil_div_u64(due_ns, control->tick_ns) * control->tick_ns;
}

void control_arm_coarse(struct control *control, uint64_t due_ns) {
  control_arm(control, round_to_tick(control, due_ns));
}

static uint64_t earlier(uint64_t due_ns, uint64_t other_ns) {
  if (due_ns == 0 || other_ns == 0) return due_ns + other_ns;
  return base_min_u64(due_ns, other_ns);
}

static void run_tick(uv_timer_t *timer) {
  struct control *control = timer->data;
  uint64_t now_ns = base_clock_ns(), due_ns = 0, coarse_ns = 0;
  control->timer_due_ns = 0;
  control_listener_resume(control, now_ns);
  BASE_LIST_EACH(&control->dials, node) control_dial_tick(BASE_CONTAINER(node, struct control_dial, node), now_ns);
  BASE_LIST_EACH(&control->sessions, node) control_session_tick(BASE_CONTAINER(node, struct control_session, node), now_ns);
  /* A second pass: the first one's callbacks may have changed anything. */
  BASE_LIST_EACH(&control->dials, node)
  due_ns = earlier(due_ns, control_dial_due(BASE_CONTAINER(node, struct control_dial, node)));
  BASE_LIST_EACH(&control->sessions, node)
  coarse_ns = earlier(coarse_ns, control_session_due(BASE_CONTAINER(node, struct control_session, node)));
  due_ns = earlier(due_ns, round_to_tick(control, coarse_ns));
  control_arm(control, earlier(due_ns, control->accept_again_ns));
}

void control_wake(struct control *control) {
  if (!control->core_closing) uv_idle_start(&control->work, run_work);
}

void control_sweep(struct control *control) {
  BASE_LIST_EACH(&control->dials, node) {
    struct control_dial *dial = BASE_CONTAINER(node, struct control_dial, node);
    if (dial->closed) control_dial_free(dial);
  }
}

/* An idle handle rather than a prepare handle: while it is active the loop does not sleep, from wherever it was started. */
static void run_work(uv_idle_t *work) {
  struct control *control = work->data;
  struct base_list dirty, *node;
  uv_idle_stop(work);
  control_sweep(control);
  base_list_init(&dirty);
  base_list_splice(&dirty, &control->dirty);
  while ((node = base_list_pop_front(&dirty))) control_session_work(BASE_CONTAINER(node, struct control_session, dirty_node));
}

void control_log(struct control *control, const char *what, const char *remote, const kvf_error *error) {
  uint64_t now_ns = base_clock_ns();
  if (now_ns < control->log_again_ns) {
    control->log_suppressed++;
    return;
  }
  char text[768];
  kvf_error_format(error, text, sizeof text);
  base_log_write(&control->options.log, KVF_LOG_WARNING, "%s: %s (%u more like this suppressed): %s", remote, what,
                 control->log_suppressed, text);
  control->log_again_ns = now_ns + LOG_INTERVAL_NS;
  control->log_suppressed = 0;
}

static void free_memory(struct control *control) {
  char *secret = (char *)control->options.secret;
  if (secret) OPENSSL_cleanse(secret, strlen(secret));
  base_free(secret);
  base_free((char *)control->options.listen);
  base_free((char *)control->options.label);
  wire_buffer_fini(&control->encoder);
  wire_scratch_reset(&control->scratch);
  base_free(control->read_bytes);
  base_free(control);
}

/* False when memory is out. */
static bool copy_options(struct control *control, const struct control_options *options) {
  struct control_options *copy = &control->options;
  *copy = *options;
  copy->listen = base_strdup(options->listen);
  copy->label = base_strdup(options->label ? options->label : "");
  copy->secret = options->secret ? base_strdup(options->secret) : NULL;
  if (!copy->session_limit) copy->session_limit = SESSION_LIMIT_DEFAULT;
  if (!copy->unproven_limit) copy->unproven_limit = UNPROVEN_LIMIT_DEFAULT;
  if (!copy->handshake_ns) copy->handshake_ns = HANDSHAKE_DEFAULT_NS;
  if (!copy->heartbeat_ns) copy->heartbeat_ns = HEARTBEAT_DEFAULT_NS;
  control->tick_ns = base_min_u64(base_max_u64(copy->heartbeat_ns / TICKS_PER_HEARTBEAT, TICK_LEAST_NS), TICK_MOST_NS);
  return copy->listen && copy->label && (copy->secret || !options->secret);
}

static kvf_status fill(struct control *control, uv_loop_t *loop, const struct control_options *options, kvf_error **error_out) {
  control->loop = loop;
  base_list_init(&control->sessions);
  base_list_init(&control->dials);
  base_list_init(&control->dirty);
  control->read_bytes = base_alloc(CONTROL_READ_BYTES);
  kvf_status status = control_fault_parse(&control->fault, options->fault, error_out);
  if (status != KVF_OK) return status;
  bool copied = copy_options(control, options);
  if (!copied || !control->read_bytes) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for control"), error_out);
  int number = base_random_fill(&control->random_state, sizeof control->random_state);
  if (number) return base_error_give(BASE_ERROR_ERRNO("getrandom", number), error_out);
  return control_listener_open(control, error_out);
}

kvf_status control_open(uv_loop_t *loop, const struct control_options *options, struct control **control_out,
                        kvf_error **error_out) {
  if (options->secret && !*options->secret)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the secret is empty; leave it out for none"), error_out);
  if (!options->listen) return base_error_give(BASE_ERROR(KVF_BAD_ADDRESS, NULL, "no address to listen on"), error_out);
  struct control *control = base_calloc(1, sizeof *control);
  if (!control) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for control"), error_out);
  kvf_status status = fill(control, loop, options, error_out);
  if (status != KVF_OK) {
    free_memory(control);
    return status;
  }
  uv_timer_init(loop, &control->timer);
  uv_idle_init(loop, &control->work);
  control->timer.data = control->work.data = control;
  control->core_handles = 3;
  *control_out = control;
  return KVF_OK;
}

static void core_handle_closed(uv_handle_t *handle) {
  struct control *control = handle->data;
  if (--control->core_handles) return;
  void (*closed)(void *context) = control->closed;
  void *context = control->closed_context;
  free_memory(control);
  if (closed) closed(context);
}

void control_finish_close(struct control *control) {
  if (!control->closing || control->core_closing || control->session_count || control->lookup_count) return;
  control->core_closing = true;
  control_sweep(control);
  uv_close((uv_handle_t *)&control->timer, core_handle_closed);
  uv_close((uv_handle_t *)&control->work, core_handle_closed);
  uv_close((uv_handle_t *)&control->listener, core_handle_closed);
}

void control_close(struct control *control, void (*closed)(void *context), void *context) {
  if (!control || control->closing) return;
  control->closing = true;
  control->closed = closed;
  control->closed_context = context;
  BASE_LIST_EACH(&control->dials, node) control_dial_close(BASE_CONTAINER(node, struct control_dial, node));
  BASE_LIST_EACH(&control->sessions, node) control_session_release(BASE_CONTAINER(node, struct control_session, node));
  uv_poll_stop(&control->listener);
  close(control->listener_fd);
  control->accept_again_ns = 0;
  control_finish_close(control);
}

const char *control_address(const struct control *control) {
  return control->address;
}
void control_totals_get(const struct control *control, struct control_totals *totals_out) {
  *totals_out = control->totals;
}
