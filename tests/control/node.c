/* See node.h. */
#include "node.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t descriptors_before;

static uint32_t count_descriptors(void) {
  uint32_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

int node_setup(void **state) {
  static bool warmed;
  uv_loop_t *loop = calloc(1, sizeof *loop);
  descriptors_before = count_descriptors();
  if (uv_loop_init(loop) != 0) return -1;
  if (!warmed) {
    /* The first loop of a process opens descriptors of libuv's own that stay. */
    uv_loop_close(loop);
    descriptors_before = count_descriptors();
    uv_loop_init(loop);
    warmed = true;
  }
  *state = loop;
  return 0;
}

static void name_handle(uv_handle_t *handle, void *context) {
  print_error("handle left: %s\n", uv_handle_type_name(uv_handle_get_type(handle)));
}

int node_teardown(void **state) {
  uv_loop_t *loop = *state;
  uv_walk(loop, name_handle, NULL);
  if (uv_loop_close(loop) != 0) {
    print_error("the loop is not empty\n");
    return -1;
  }
  free(loop);
  uint32_t now = count_descriptors();
  if (now != descriptors_before) print_error("descriptors: %u before, %u after\n", descriptors_before, now);
  return now == descriptors_before ? 0 : -1;
}

static void take_up(void *context, struct control_session *session, struct control_dial *dial, const struct wire_hello *hello) {
  struct node *node = context;
  node->ups++;
  node->session = session;
  node->up_dial = dial;
  memcpy(node->peer_incarnation, hello->incarnation, sizeof node->peer_incarnation);
  snprintf(node->peer_label, sizeof node->peer_label, "%.*s", (int)hello->label.length, hello->label.text);
  if (node->on_up) node->on_up(node, session);
}

static kvf_error *take_message(void *context, struct control_session *session, uint8_t type, const uint8_t *payload,
                               size_t payload_bytes) {
  struct node *node = context;
  node->messages++;
  node->message_bytes += payload_bytes;
  return node->on_message ? node->on_message(node, session, type, payload, payload_bytes) : NULL;
}

static void keep(kvf_error **place, const kvf_error *error) {
  assert_non_null(error);
  kvf_error_free(*place);
  *place = base_error_copy(error);
}

static void take_down(void *context, struct control_session *session, const kvf_error *error) {
  struct node *node = context;
  node->downs++;
  node->down_ns = base_clock_ns();
  if (node->session == session) node->session = NULL;
  keep(&node->down_error, error);
  if (node->on_down) node->on_down(node, session);
}

static void take_failure(void *context, struct control_dial *dial, const kvf_error *error, bool stopped) {
  struct node *node = context;
  node->failures++;
  node->stopped = stopped;
  keep(&node->fail_error, error);
  if (node->on_fail) node->on_fail(node, dial);
}

static void take_line(void *context, int32_t level, const char *line) {
  struct node *node = context;
  node->log_lines++;
  snprintf(node->log_line, sizeof node->log_line, "%s", line);
}

kvf_status node_try_open(struct node *node, uv_loop_t *loop, uint8_t identity, struct node_options options, kvf_error **error_out) {
  *node = (struct node){.identity = identity};
  struct control_options control_options = {
      .listen = options.listen ? options.listen : "127.0.0.1:0",
      .label = options.label ? options.label : "node",
      .secret = options.secret,
      .handshake_ns = options.handshake_ms * BASE_NS_PER_MS,
      .heartbeat_ns = options.heartbeat_ms * BASE_NS_PER_MS,
      .session_limit = options.session_limit,
      .unproven_limit = options.unproven_limit,
      .fault = options.fault,
      .log = {take_line, node, KVF_LOG_DEBUG},
      .callbacks = {node, take_up, take_message, take_down, take_failure},
  };
  memset(control_options.incarnation, identity, sizeof control_options.incarnation);
  return control_open(loop, &control_options, &node->control, error_out);
}

void node_open(struct node *node, uv_loop_t *loop, uint8_t identity, struct node_options options) {
  kvf_error *error = NULL;
  if (node_try_open(node, loop, identity, options, &error) == KVF_OK) return;
  char text[500];
  kvf_error_format(error, text, sizeof text);
  fail_msg("%s", text);
}

static void note_closed(void *context) {
  struct node *node = context;
  node->closed = true;
  node->control = NULL;
}

void node_begin_close(struct node *node) {
  control_close(node->control, note_closed, node);
}

void node_close(struct node *node, uv_loop_t *loop) {
  node_begin_close(node);
  NODE_WAIT(loop, 2000, node->closed);
  kvf_error_free(node->down_error);
  kvf_error_free(node->fail_error);
  node->down_error = node->fail_error = NULL;
}

struct control_dial *node_dial(struct node *from, const char *address) {
  struct control_dial *dial = NULL;
  assert_int_equal(control_dial_open(from->control, address, from, &dial, NULL), KVF_OK);
  assert_ptr_equal(control_dial_tag(dial), from);
  return dial;
}

static void do_nothing(uv_timer_t *timer) {}

void node_turn(uv_loop_t *loop) {
  uv_timer_t timer;
  uv_timer_init(loop, &timer);
  uv_update_time(loop);
  uv_timer_start(&timer, do_nothing, 5, 0);
  uv_run(loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&timer, NULL);
  uv_run(loop, UV_RUN_NOWAIT);
}

void node_turn_for(uv_loop_t *loop, uint64_t duration_ms) {
  uint64_t end_ns = base_clock_ns() + duration_ms * BASE_NS_PER_MS;
  while (base_clock_ns() < end_ns) node_turn(loop);
}
