/* Sessions that come up: with and without a secret, messages of all sizes both ways, closing from inside callbacks. */
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"

enum { MESSAGE_TYPE = 200, LARGEST_BYTES = 8 << 20 };

struct pair {
  struct node a, b; /* b dials a */
  struct control_dial *dial;
};

static void pair_up(struct pair *pair, uv_loop_t *loop, struct node_options options) {
  node_open(&pair->a, loop, 1, options);
  node_open(&pair->b, loop, 2, options);
  pair->dial = node_dial(&pair->b, control_address(pair->a.control));
  NODE_WAIT(loop, 3000, pair->a.ups && pair->b.ups);
}

static void pair_close(struct pair *pair, uv_loop_t *loop) {
  node_close(&pair->b, loop);
  node_close(&pair->a, loop);
}

static void send_message(struct control_session *session, uint8_t type, const void *payload, size_t payload_bytes) {
  uint8_t *frame = malloc(WIRE_FRAME_BYTES + payload_bytes);
  wire_frame_encode(&(struct wire_frame){.type = type, .payload_bytes = (uint32_t)payload_bytes}, frame);
  if (payload_bytes) memcpy(frame + WIRE_FRAME_BYTES, payload, payload_bytes);
  control_session_send(session, frame, WIRE_FRAME_BYTES + payload_bytes);
  free(frame);
}

static void check_both_up(uv_loop_t *loop, const char *secret) {
  struct pair pair = {0};
  pair_up(&pair, loop, (struct node_options){.secret = secret, .label = "rank-7"});
  assert_ptr_equal(pair.b.up_dial, pair.dial);
  assert_null(pair.a.up_dial);
  assert_int_equal(pair.a.peer_incarnation[0], 2);
  assert_int_equal(pair.b.peer_incarnation[0], 1);
  assert_string_equal(pair.b.peer_label, "rank-7");
  assert_string_equal(control_session_address(pair.b.session), control_address(pair.a.control));
  assert_string_equal(control_session_local_address(pair.a.session), control_address(pair.a.control));
  assert_string_equal(control_session_address(pair.a.session), control_session_local_address(pair.b.session));
  struct control_totals totals;
  control_totals_get(pair.a.control, &totals);
  assert_int_equal(totals.sessions_accepted, 1);
  assert_int_equal(totals.sessions_refused, 0);
  assert_true(totals.bytes_sent > 0 && totals.bytes_received > 0);
  pair_close(&pair, loop);
}

static void both_come_up_without_a_secret(void **state) {
  check_both_up(*state, NULL);
}
static void both_come_up_with_a_secret(void **state) {
  check_both_up(*state, "the same on both sides");
}

static void both_come_up_over_ipv6(void **state) {
  struct node a, b;
  kvf_error *error = NULL;
  if (node_try_open(&a, *state, 1, (struct node_options){.listen = "[::1]:0"}, &error) != KVF_OK) {
    const char *number = kvf_error_find(error, "errno");
    bool absent = number && (atoi(number) == EADDRNOTAVAIL || atoi(number) == EAFNOSUPPORT);
    kvf_error_free(error);
    if (!absent) fail_msg("listening on [::1] fails for another reason than a missing IPv6");
    print_message("no IPv6 here: only that was checked\n");
    return;
  }
  node_open(&b, *state, 2, (struct node_options){0});
  assert_int_equal(strncmp(control_address(a.control), "[::1]:", 6), 0);
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, a.ups && b.ups);
  assert_string_equal(control_session_address(b.session), control_address(a.control));
  node_close(&a, *state);
  node_close(&b, *state);
}

/* Field cases C33, C112: what people call a rank, and how its address is spelt, identify nothing. */
static void the_incarnation_is_the_identity(void **state) {
  struct node a, b, c;
  node_open(&a, *state, 1, (struct node_options){.label = "None"});
  node_open(&b, *state, 2, (struct node_options){.label = "None"});
  node_open(&c, *state, 3, (struct node_options){.label = ""});
  char spelling[64];
  snprintf(spelling, sizeof spelling, "localhost%s", strrchr(control_address(a.control), ':'));
  node_dial(&b, spelling);
  NODE_WAIT(*state, 3000, b.ups == 1);
  assert_int_equal(b.peer_incarnation[0], 1);
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, b.ups == 2);
  assert_int_equal(b.peer_incarnation[0], 1);
  node_dial(&c, control_address(b.control));
  NODE_WAIT(*state, 3000, c.ups == 1);
  assert_int_equal(c.peer_incarnation[0], 2);
  node_close(&a, *state);
  node_close(&b, *state);
  node_close(&c, *state);
}

/* Messages in order: payload i is filled from i, sizes grow from nothing to 8 MiB. */

static const size_t sizes[] = {0, 1, 2, 11, 12, 13, 1000, 4096, 16372, 16384, 65536, 262143, 262144, 300000, 1 << 20, LARGEST_BYTES,
                               1, 0, 5};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };

static kvf_error *check_message(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                                size_t payload_bytes) {
  uint32_t index = node->messages - 1;
  assert_int_equal(type, MESSAGE_TYPE + index % 3);
  assert_int_equal(payload_bytes, sizes[index % SIZE_COUNT]);
  for (size_t i = 0; i < payload_bytes; i++) {
    if (payload[i] != (uint8_t)(index + i * 11)) fail_msg("message %u differs at %zu", index, i);
  }
  return NULL;
}

static void send_all_sizes(struct control_session *session) {
  uint8_t *payload = malloc(LARGEST_BYTES);
  for (uint32_t index = 0; index < SIZE_COUNT; index++) {
    for (size_t i = 0; i < sizes[index]; i++) payload[i] = (uint8_t)(index + i * 11);
    send_message(session, (uint8_t)(MESSAGE_TYPE + index % 3), payload, sizes[index]);
  }
  free(payload);
}

static void messages_arrive_whole_and_in_order_both_ways(void **state) {
  struct pair pair = {0};
  pair_up(&pair, *state, (struct node_options){.secret = "s"});
  pair.a.on_message = pair.b.on_message = check_message;
  send_all_sizes(pair.a.session);
  send_all_sizes(pair.b.session);
  NODE_WAIT(*state, 10000, pair.a.messages == SIZE_COUNT && pair.b.messages == SIZE_COUNT);
  assert_int_equal(pair.a.downs + pair.b.downs, 0);
  pair_close(&pair, *state);
}

static void many_small_frames_in_one_write_are_all_delivered(void **state) {
  struct node node;
  struct raw raw;
  node_open(&node, *state, 1, (struct node_options){0});
  raw_connect(&raw, control_address(node.control));
  enum { COUNT = 2000, BYTES = WIRE_FRAME_BYTES + 3 };
  static uint8_t frames[COUNT * BYTES];
  for (size_t i = 0; i < COUNT; i++) wire_frame_encode(&(struct wire_frame){.type = 77, .payload_bytes = 3}, frames + i * BYTES);
  struct wire_hello hello = raw_hello(9);
  raw_send_hello(&raw, &hello); /* all of it may come in one read */
  raw_send(&raw, frames, sizeof frames);
  NODE_WAIT(*state, 3000, node.messages == COUNT);
  assert_int_equal(node.message_bytes, COUNT * 3);
  raw_close(&raw, false);
  NODE_WAIT(*state, 3000, node.downs == 1);
  assert_int_equal(kvf_error_status(node.down_error), KVF_PEER_LOST);
  assert_string_equal(kvf_error_find(node.down_error, "peer"), "raw");
  node_close(&node, *state);
}

static void a_byte_at_a_time_is_as_good(void **state) {
  struct node node;
  struct raw raw;
  node_open(&node, *state, 1, (struct node_options){0});
  raw_connect(&raw, control_address(node.control));
  struct wire_hello hello = raw_hello(9);
  struct wire_buffer buffer = {0};
  wire_hello_encode(&buffer, &hello);
  wire_ping_encode(&buffer, &(struct wire_ping){.sequence = 1234567});
  for (size_t i = 0; i < buffer.length; i++) {
    raw_send(&raw, buffer.bytes + i, 1);
    uv_run(*state, UV_RUN_NOWAIT);
  }
  wire_buffer_fini(&buffer);
  size_t length;
  const uint8_t *pong = raw_wait_frame(&raw, *state, WIRE_PONG, &length);
  struct wire_ping ping;
  struct wire_scratch scratch = {0};
  assert_int_equal(wire_ping_decode(pong, length, &scratch, &ping, NULL), KVF_OK);
  assert_int_equal(ping.sequence, 1234567);
  assert_int_equal(node.messages, 0); /* PING is no business of those above */
  raw_close(&raw, false);
  node_close(&node, *state);
}

/* Field: a slow reader costs itself, and the error says what it is. */
static void a_queue_over_its_limit_is_backpressure(void **state) {
  struct node node;
  struct raw raw;
  node_open(&node, *state, 1, (struct node_options){.heartbeat_ms = 10000});
  raw_connect(&raw, control_address(node.control));
  struct wire_hello hello = raw_hello(9);
  raw_send_hello(&raw, &hello);
  NODE_WAIT(*state, 3000, node.ups == 1);
  uint8_t *payload = calloc(1, LARGEST_BYTES);
  for (int i = 0; i < 16; i++) {
    if (node.session) send_message(node.session, MESSAGE_TYPE, payload, LARGEST_BYTES);
    assert_true(node.downs == 0 || i > 7); /* never from inside the call, and not before the limit */
  }
  free(payload);
  assert_int_equal(node.downs, 0);
  NODE_WAIT(*state, 3000, node.downs == 1);
  assert_int_equal(kvf_error_status(node.down_error), KVF_BACKPRESSURE);
  assert_string_equal(kvf_error_find(node.down_error, "limit"), "67108864");
  raw_close(&raw, false);
  node_close(&node, *state);
}

/* A peer that resets while we write must not kill the process by SIGPIPE, and its last words are still read. */
static void writing_to_a_reset_connection_ends_the_session(void **state) {
  struct node node;
  struct raw raw;
  node_open(&node, *state, 1, (struct node_options){0});
  raw_connect(&raw, control_address(node.control));
  struct wire_hello hello = raw_hello(9);
  raw_send_hello(&raw, &hello);
  NODE_WAIT(*state, 3000, node.ups == 1);
  uint8_t last_words[WIRE_FRAME_BYTES];
  wire_frame_encode(&(struct wire_frame){.type = WIRE_BYE}, last_words);
  raw_send(&raw, last_words, sizeof last_words);
  raw_close(&raw, true);
  send_message(node.session, MESSAGE_TYPE, "x", 1);
  NODE_WAIT(*state, 3000, node.downs == 1);
  assert_int_equal(node.messages, 1);
  assert_int_equal(kvf_error_status(node.down_error), KVF_PEER_LOST);
  assert_non_null(kvf_error_find(node.down_error, "errno"));
  node_close(&node, *state);
}

static void what_was_queued_before_close_still_arrives(void **state) {
  struct pair pair = {0};
  pair_up(&pair, *state, (struct node_options){0});
  static uint8_t payload[1 << 20];
  control_dial_stop(pair.dial);
  send_message(pair.b.session, MESSAGE_TYPE, payload, sizeof payload);
  control_session_close(pair.b.session);
  NODE_WAIT(*state, 3000, pair.a.downs == 1);
  assert_int_equal(pair.a.message_bytes, sizeof payload);
  assert_int_equal(pair.b.downs, 0);
  pair_close(&pair, *state);
}

static void closing_control_lets_the_last_words_out(void **state) {
  struct pair pair = {0};
  pair_up(&pair, *state, (struct node_options){0});
  static uint8_t payload[1 << 20];
  send_message(pair.b.session, MESSAGE_TYPE, payload, sizeof payload);
  node_close(&pair.b, *state);
  NODE_WAIT(*state, 3000, pair.a.downs == 1);
  assert_int_equal(pair.a.message_bytes, sizeof payload);
  node_close(&pair.a, *state);
}

/* Closing from inside callbacks. Five messages are on their way in one read; the first callback closes something. */

static kvf_error *close_this(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                             size_t payload_bytes) {
  control_session_close(session);
  node->session = NULL;
  return NULL;
}
static kvf_error *fail_this(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                            size_t payload_bytes) {
  return BASE_ERROR(KVF_PROTOCOL, NULL, "the test does not like it");
}
static kvf_error *close_and_fail_this(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                                      size_t bytes) {
  close_this(node, session, type, payload, bytes);
  return fail_this(node, session, type, payload, bytes);
}
static kvf_error *close_the_dial(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                                 size_t payload_bytes) {
  control_dial_close(node->up_dial);
  return NULL;
}
static kvf_error *close_control(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload,
                                size_t payload_bytes) {
  node_begin_close(node);
  return NULL;
}

static void check_close_in_message(uv_loop_t *loop, bool dialer_closes,
                                   kvf_error *(*action)(struct node *, struct control_session *, uint8_t, const uint8_t *, size_t),
                                   uint32_t downs_expected) {
  struct pair pair = {0};
  pair_up(&pair, loop, (struct node_options){0});
  struct node *closer = dialer_closes ? &pair.b : &pair.a, *other = dialer_closes ? &pair.a : &pair.b;
  closer->on_message = action;
  for (int i = 0; i < 5; i++) send_message(other->session, MESSAGE_TYPE, "abc", 3);
  control_dial_stop(pair.dial);
  NODE_WAIT(loop, 3000, other->downs == 1);
  assert_int_equal(closer->messages, 1);
  assert_int_equal(closer->downs, downs_expected);
  pair_close(&pair, loop);
}

static void closing_the_session_being_delivered(void **state) {
  check_close_in_message(*state, false, close_this, 0);
  check_close_in_message(*state, true, close_this, 0);
}
static void failing_the_session_being_delivered(void **state) {
  check_close_in_message(*state, false, fail_this, 1);
  check_close_in_message(*state, true, fail_this, 1);
  check_close_in_message(*state, true, close_and_fail_this, 0);
}
static void closing_the_dial_of_the_session_being_delivered(void **state) {
  check_close_in_message(*state, true, close_the_dial, 0);
}
static void closing_control_while_it_delivers(void **state) {
  check_close_in_message(*state, false, close_control, 0);
  check_close_in_message(*state, true, close_control, 0);
}

static void close_when_up(struct node *node, struct control_session *session) {
  control_session_close(session);
  node->session = NULL;
}
static void close_dial_when_up(struct node *node, struct control_session *session) {
  control_dial_close(node->up_dial);
}
static void close_control_when_up(struct node *node, struct control_session *session) {
  node_begin_close(node);
}

static void closing_as_soon_as_it_is_up(void **state) {
  void (*const actions[])(struct node *, struct control_session *) = {close_when_up, close_dial_when_up, close_control_when_up};
  for (int i = 0; i < 6; i++) {
    struct node a, b;
    node_open(&a, *state, 1, (struct node_options){.secret = i % 2 ? "s" : NULL});
    node_open(&b, *state, 2, (struct node_options){.secret = i % 2 ? "s" : NULL});
    b.on_up = actions[i / 2];
    node_dial(&b, control_address(a.control));
    NODE_WAIT(*state, 3000, b.ups >= 1 && a.downs >= 1);
    node_close(&a, *state);
    node_close(&b, *state);
  }
}

static void close_dial_when_down(struct node *node, struct control_session *session) {
  control_dial_close(node->up_dial);
}
static void close_control_when_down(struct node *node, struct control_session *session) {
  node_begin_close(node);
}
static void talk_when_down(struct node *node, struct control_session *session) {
  send_message(session, MESSAGE_TYPE, "too late", 8);
  control_session_close(session);
  control_session_settled(session);
}

static void closing_when_it_goes_down(void **state) {
  void (*const actions[])(struct node *, struct control_session *) = {close_dial_when_down, close_control_when_down,
                                                                      talk_when_down};
  for (int i = 0; i < 3; i++) {
    struct pair pair = {0};
    pair_up(&pair, *state, (struct node_options){0});
    pair.b.on_down = actions[i];
    control_session_close(pair.a.session);
    NODE_WAIT(*state, 3000, pair.b.downs == 1);
    node_turn_for(*state, 20);
    pair_close(&pair, *state);
  }
}

/* Every allocation of a handshake and a message fails once: an error or a retry follows, and the pair comes up in the end. */
static void each_allocation_may_fail(void **state) {
  for (uint64_t n = 1; n < 60; n++) {
    struct pair pair = {0};
    node_open(&pair.a, *state, 1, (struct node_options){.secret = "s"});
    node_open(&pair.b, *state, 2, (struct node_options){.secret = "s"});
    pair.dial = node_dial(&pair.b, control_address(pair.a.control));
    base_alloc_fail_after(n);
    uint64_t end_ns = base_clock_ns() + 3 * BASE_NS_PER_S;
    while (!(pair.b.session && pair.a.session) && base_clock_ns() < end_ns) {
      node_turn(*state);
      assert_false(pair.b.stopped);
    }
    base_alloc_fail_after(0);
    assert_true(pair.b.session && pair.a.session);
    pair_close(&pair, *state);
  }
}

static void opening_may_run_out_of_memory(void **state) {
  for (uint64_t n = 1;; n++) {
    struct node node;
    base_alloc_fail_after(n);
    kvf_error *error = NULL;
    kvf_status status = node_try_open(&node, *state, 1, (struct node_options){.secret = "s"}, &error);
    base_alloc_fail_after(0);
    if (status == KVF_OK) {
      node_close(&node, *state);
      assert_true(n > 4);
      break;
    }
    assert_int_equal(status, KVF_NO_MEMORY);
    kvf_error_free(error);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NODE_TEST(both_come_up_without_a_secret),
      NODE_TEST(both_come_up_with_a_secret),
      NODE_TEST(both_come_up_over_ipv6),
      NODE_TEST(the_incarnation_is_the_identity),
      NODE_TEST(messages_arrive_whole_and_in_order_both_ways),
      NODE_TEST(many_small_frames_in_one_write_are_all_delivered),
      NODE_TEST(a_byte_at_a_time_is_as_good),
      NODE_TEST(a_queue_over_its_limit_is_backpressure),
      NODE_TEST(writing_to_a_reset_connection_ends_the_session),
      NODE_TEST(what_was_queued_before_close_still_arrives),
      NODE_TEST(closing_control_lets_the_last_words_out),
      NODE_TEST(closing_the_session_being_delivered),
      NODE_TEST(failing_the_session_being_delivered),
      NODE_TEST(closing_the_dial_of_the_session_being_delivered),
      NODE_TEST(closing_control_while_it_delivers),
      NODE_TEST(closing_as_soon_as_it_is_up),
      NODE_TEST(closing_when_it_goes_down),
      NODE_TEST(each_allocation_may_fail),
      NODE_TEST(opening_may_run_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
