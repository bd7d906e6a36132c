/* A control plane under test that writes down what it is told, and a loop that turns until something has happened. */
#ifndef TESTS_CONTROL_NODE_H
#define TESTS_CONTROL_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "control/control.h"

struct node {
  struct control *control;
  uint8_t identity; /* every byte of the incarnation */
  uint32_t ups, downs, failures, messages;
  uint64_t message_bytes;
  bool stopped, closed;
  struct control_session *session; /* the last that came up and is not down */
  struct control_dial *up_dial;
  uint8_t peer_incarnation[WIRE_INCARNATION_BYTES];
  char peer_label[64];
  kvf_error *down_error, *fail_error; /* copies of the last */
  uint64_t down_ns;
  uint32_t log_lines;
  char log_line[1024];
  /* What to do besides; may be NULL. */
  void (*on_up)(struct node *node, struct control_session *session);
  void (*on_down)(struct node *node, struct control_session *session);
  void (*on_fail)(struct node *node, struct control_dial *dial);
  kvf_error *(*on_message)(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                           size_t payload_bytes);
  void *extra;
};

struct node_options {
  const char *listen, *secret, *label;
  uint64_t handshake_ms, heartbeat_ms;
  uint32_t session_limit, unproven_limit;
  const char *fault;
};

/* Opens with defaults: 127.0.0.1:0, 5 s, 200 ms. Fails the test when it does not open. */
void node_open(struct node *node, uv_loop_t *loop, uint8_t identity, struct node_options options);
kvf_status node_try_open(struct node *node, uv_loop_t *loop, uint8_t identity, struct node_options options, kvf_error **error_out);
void node_begin_close(struct node *node);
/* Closes and turns until closed; frees what was written down. */
void node_close(struct node *node, uv_loop_t *loop);
struct control_dial *node_dial(struct node *from, const char *address);

void node_turn(uv_loop_t *loop);
/* Turn until @p condition; fail after @p limit_ms. */
#define NODE_WAIT(loop, limit_ms, condition)                                         \
  do {                                                                               \
    uint64_t wait_end_ns = base_clock_ns() + (uint64_t)(limit_ms)*BASE_NS_PER_MS;    \
    while (!(condition) && base_clock_ns() < wait_end_ns) node_turn(loop);           \
    if (!(condition)) fail_msg("not within %d ms: %s", (int)(limit_ms), #condition); \
  } while (0)
void node_turn_for(uv_loop_t *loop, uint64_t duration_ms);

/* Loop and descriptor bookkeeping around each test: setup makes *state a loop; teardown fails when a descriptor or handle is left.
 */
int node_setup(void **state);
int node_teardown(void **state);
#define NODE_TEST(name) cmocka_unit_test_setup_teardown(name, node_setup, node_teardown)

#endif
