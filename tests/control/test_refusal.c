/* Sessions that must not come up: secrets, versions, identities, damaged bytes, peers that leave or fall silent at any step. */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/handshake.h"

static void check_secrets(uv_loop_t *loop, const char *acceptor_secret, const char *dialer_secret) {
  struct node a, b;
  node_open(&a, loop, 1, (struct node_options){.secret = acceptor_secret});
  node_open(&b, loop, 2, (struct node_options){.secret = dialer_secret});
  struct control_dial *dial = node_dial(&b, control_address(a.control));
  struct control_totals totals = {0};
  NODE_WAIT(loop, 3000, b.failures && (control_totals_get(a.control, &totals), totals.sessions_refused));
  assert_int_equal(kvf_error_status(b.fail_error), KVF_AUTH_FAILED);
  assert_non_null(strstr(a.log_line, "AUTH_FAILED"));
  assert_true(b.stopped);
  assert_string_equal(kvf_error_find(b.fail_error, "remote"), control_address(a.control));
  assert_non_null(kvf_error_find(b.fail_error, "local"));
  node_turn_for(loop, 300);
  assert_int_equal(b.failures, 1); /* no further attempt */
  assert_int_equal(a.ups + b.ups + a.downs + b.downs, 0);
  control_dial_close(dial);
  node_close(&a, loop);
  node_close(&b, loop);
}

static void another_secret(void **state) {
  check_secrets(*state, "right", "wrong");
}
static void a_secret_on_the_acceptor_only(void **state) {
  check_secrets(*state, "right", NULL);
}
static void a_secret_on_the_dialer_only(void **state) {
  check_secrets(*state, NULL, "right");
}

static void an_empty_secret_is_no_secret_by_mistake(void **state) {
  struct node node;
  kvf_error *error = NULL;
  assert_int_equal(node_try_open(&node, *state, 1, (struct node_options){.secret = ""}, &error), KVF_INVALID);
  kvf_error_free(error);
}

/* The REFUSE that the node sent, decoded. */
static kvf_error *wait_refuse(struct raw *raw, uv_loop_t *loop) {
  size_t length;
  const uint8_t *payload = raw_wait_frame(raw, loop, WIRE_REFUSE, &length);
  struct wire_refuse refuse = {0};
  struct wire_scratch scratch = {0};
  assert_int_equal(wire_refuse_decode(payload, length, &scratch, &refuse, NULL), KVF_OK);
  wire_scratch_reset(&scratch);
  return refuse.error;
}

/* A hand-made dialer sends @p hello; what the node answers. */
static void check_hello_refused(uv_loop_t *loop, const struct wire_hello *hello, kvf_status status, const char *part) {
  struct node node;
  struct raw raw;
  node_open(&node, loop, 1, (struct node_options){0});
  raw_connect(&raw, control_address(node.control));
  raw_send_hello(&raw, hello);
  kvf_error *error = wait_refuse(&raw, loop);
  assert_int_equal(kvf_error_status(error), status);
  char text[1000];
  kvf_error_format(error, text, sizeof text);
  assert_non_null(strstr(text, part));
  kvf_error_free(error);
  raw_wait_end(&raw, loop, 3000);
  assert_int_equal(node.ups, 0);
  raw_close(&raw, false);
  node_close(&node, loop);
}

static void a_dialer_of_another_version(void **state) {
  struct wire_hello hello = raw_hello(9);
  hello.version_min = 7, hello.version_max = 9;
  check_hello_refused(*state, &hello, KVF_INCOMPATIBLE, "version_mine=1-1 version_yours=7-9");
}

static void a_dialer_that_expects_another_process(void **state) {
  struct wire_hello hello = raw_hello(9);
  memset(hello.expected, 5, sizeof hello.expected);
  check_hello_refused(*state, &hello, KVF_WRONG_PEER, "another process");
  memset(hello.expected, 1, sizeof hello.expected); /* the right one gets in */
  struct node node;
  struct raw raw;
  node_open(&node, *state, 1, (struct node_options){0});
  raw_connect(&raw, control_address(node.control));
  raw_send_hello(&raw, &hello);
  NODE_WAIT(*state, 3000, node.ups == 1);
  raw_close(&raw, false);
  node_close(&node, *state);
}

static void an_acceptor_of_another_version_stops_the_dial(void **state) {
  struct node node;
  struct raw raw;
  char address[64];
  raw_listen(&raw, address);
  node_open(&node, *state, 1, (struct node_options){0});
  node_dial(&node, address);
  raw_accept(&raw, *state);
  struct wire_hello hello = raw_hello(9);
  hello.version_min = 2, hello.version_max = 3;
  uint64_t start_ns = base_clock_ns();
  raw_send_hello(&raw, &hello);
  NODE_WAIT(*state, 3000, node.failures == 1);
  assert_true(base_clock_ns() - start_ns < 500 * BASE_NS_PER_MS); /* no deadline had to pass */
  assert_int_equal(kvf_error_status(node.fail_error), KVF_INCOMPATIBLE);
  assert_string_equal(kvf_error_find(node.fail_error, "version_mine"), "1-1");
  assert_string_equal(kvf_error_find(node.fail_error, "version_yours"), "2-3");
  assert_true(node.stopped);
  kvf_error_free(wait_refuse(&raw, *state)); /* and the other side is told */
  raw_close(&raw, false);
  close(raw.listener);
  node_close(&node, *state);
}

static void a_refusal_is_the_reason_of_the_failed_dial(void **state) {
  static const kvf_status statuses[] = {KVF_WRONG_PEER, KVF_AUTH_FAILED, KVF_INCOMPATIBLE, KVF_DRAINING};
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
    struct node node;
    struct raw raw;
    char address[64];
    raw_listen(&raw, address);
    node_open(&node, *state, 1, (struct node_options){0});
    node_dial(&node, address);
    raw_accept(&raw, *state);
    kvf_error *reason = base_error_add(BASE_ERROR(statuses[i], NULL, "go away"), "why", "test");
    struct wire_buffer buffer = {0};
    wire_refuse_encode(&buffer, &(struct wire_refuse){.error = reason});
    raw_send(&raw, buffer.bytes, buffer.length);
    wire_buffer_fini(&buffer);
    kvf_error_free(reason);
    raw_close(&raw, i % 2); /* a reset right behind it does not hide the reason */
    NODE_WAIT(*state, 3000, node.failures >= 1);
    assert_int_equal(kvf_error_status(node.fail_error), statuses[i]);
    assert_string_equal(kvf_error_message(kvf_error_cause(node.fail_error)), "go away");
    assert_string_equal(kvf_error_find(node.fail_error, "why"), "test");
    assert_int_equal(node.stopped, statuses[i] != KVF_DRAINING);
    close(raw.listener);
    node_close(&node, *state);
  }
}

static void dialing_oneself_is_seen(void **state) {
  struct node node;
  node_open(&node, *state, 1, (struct node_options){0});
  node_dial(&node, control_address(node.control));
  NODE_WAIT(*state, 3000, node.failures >= 1);
  assert_int_equal(kvf_error_status(node.fail_error), KVF_INVALID);
  assert_non_null(strstr(node.log_line, "itself"));
  assert_int_equal(node.ups, 0);
  node_close(&node, *state);
}

/* Bytes that are no handshake. */

static void check_bytes_refused(uv_loop_t *loop, const void *bytes, size_t length, bool with_hello, const char *secret) {
  struct node node;
  struct raw raw;
  node_open(&node, loop, 1, (struct node_options){.secret = secret});
  raw_connect(&raw, control_address(node.control));
  struct wire_hello hello = raw_hello(9);
  hello.has_secret = secret != NULL;
  if (with_hello) raw_send_hello(&raw, &hello);
  raw_send(&raw, bytes, length);
  kvf_error *error = wait_refuse(&raw, loop);
  assert_int_equal(kvf_error_status(error), KVF_PROTOCOL);
  kvf_error_free(error);
  raw_wait_end(&raw, loop, 3000);
  assert_int_equal(node.ups, with_hello && !secret);
  assert_int_equal(node.downs, node.ups);
  raw_close(&raw, false);
  node_close(&node, loop);
}

static void garbage_is_a_protocol_error(void **state) {
  static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  check_bytes_refused(*state, request, sizeof request - 1, false, NULL);
  check_bytes_refused(*state, request, sizeof request - 1, true, NULL);
  check_bytes_refused(*state, request, sizeof request - 1, true, "s");
}

static void wrong_frames_are_a_protocol_error(void **state) {
  static const struct {
    uint8_t type;
    uint32_t payload_bytes;
    bool with_hello;
    const char *secret;
  } rows[] = {
      {WIRE_AUTH, 32, false, NULL},                                             /* before HELLO */
      {WIRE_LAYOUT, 8, false, NULL},                                            /* a message before it is up */
      {WIRE_LAYOUT, 8, true, "s"},                                              /* a message before the proof */
      {WIRE_PING, 8, false, NULL},                                              /* nor a heartbeat */
      {WIRE_HELLO, 10, false, NULL},                                            /* a HELLO cut short */
      {WIRE_AUTH, 31, true, "s"},                                               /* a proof cut short */
      {WIRE_HELLO, 200, true, "s"},                                             /* HELLO twice */
      {WIRE_HELLO, 200, true, NULL},                                            /* HELLO when up */
      {WIRE_AUTH, 32, true, NULL},                                              /* AUTH when up */
      {WIRE_PING, 3, true, NULL},                                               /* a PING cut short */
      {WIRE_HELLO, 1025, false, NULL},                                          /* large before the proof */
      {WIRE_REFUSE, 1025, true, "s"},  {WIRE_PLAN, (16 << 20) + 1, true, NULL}, /* too large at any time: seen at the header */
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    static uint8_t bytes[WIRE_FRAME_BYTES + 2048];
    wire_frame_encode(&(struct wire_frame){.type = rows[i].type, .payload_bytes = rows[i].payload_bytes}, bytes);
    size_t length = WIRE_FRAME_BYTES + (rows[i].payload_bytes > 2048 ? 0 : rows[i].payload_bytes);
    check_bytes_refused(*state, bytes, length, rows[i].with_hello, rows[i].secret);
  }
}

/* Field case C31: the peer leaves at each step of the handshake, softly or by a reset. */

enum { STEP_CONNECTED, STEP_HALF_HELLO, STEP_HELLO, STEP_HALF_AUTH, STEP_AUTH, STEP_COUNT };

/* What a peer sends until it leaves at @p step. */
static void play_until(struct raw *raw, uv_loop_t *loop, int step, const char *secret, bool raw_dials) {
  struct wire_hello mine = raw_hello(9), theirs;
  mine.has_secret = 1;
  struct wire_buffer buffer = {0};
  wire_hello_encode(&buffer, &mine);
  if (step == STEP_HALF_HELLO) raw_send(raw, buffer.bytes, buffer.length / 2);
  if (step >= STEP_HELLO) raw_send(raw, buffer.bytes, buffer.length);
  buffer.length = 0;
  if (step >= STEP_HALF_AUTH) {
    size_t length;
    const uint8_t *payload = raw_wait_frame(raw, loop, WIRE_HELLO, &length);
    struct wire_scratch scratch = {0};
    struct wire_auth auth;
    assert_int_equal(wire_hello_decode(payload, length, &scratch, &theirs, NULL), KVF_OK);
    assert_true(control_handshake_prove(secret, raw_dials, raw_dials ? &mine : &theirs, raw_dials ? &theirs : &mine, auth.mac));
    wire_auth_encode(&buffer, &auth);
    raw_send(raw, buffer.bytes, step == STEP_HALF_AUTH ? buffer.length / 2 : buffer.length);
  }
  wire_buffer_fini(&buffer);
}

static void a_dialer_that_leaves_at_each_step(void **state) {
  struct node node;
  node_open(&node, *state, 1, (struct node_options){.secret = "s"});
  uint32_t refused = 0;
  for (int step = 0; step < STEP_COUNT * 2; step++) {
    struct raw raw;
    raw_connect(&raw, control_address(node.control));
    play_until(&raw, *state, step / 2, "s", true);
    if (step / 2 == STEP_AUTH) {
      size_t length;
      raw_wait_frame(&raw, *state, WIRE_AUTH, &length); /* proof against proof */
      NODE_WAIT(*state, 3000, node.session != NULL);
    } else {
      refused++;
    }
    node_turn_for(*state, 10);
    raw_close(&raw, step % 2);
    struct control_totals totals = {0};
    NODE_WAIT(*state, 3000, (control_totals_get(node.control, &totals), totals.sessions_refused == refused) && !node.session);
  }
  assert_int_equal(node.ups, 2);
  assert_int_equal(node.downs, 2);
  assert_true(node.log_lines <= 2); /* eight failures in well under two seconds: the rest is counted, not written */
  node_close(&node, *state);
}

static void an_acceptor_that_leaves_at_each_step(void **state) {
  for (int step = 0; step < STEP_COUNT * 2; step++) {
    struct node node;
    struct raw raw;
    char address[64];
    raw_listen(&raw, address);
    node_open(&node, *state, 1, (struct node_options){.secret = "s"});
    node_dial(&node, address);
    raw_accept(&raw, *state);
    play_until(&raw, *state, step / 2, "s", false);
    if (step / 2 == STEP_AUTH) NODE_WAIT(*state, 3000, node.ups == 1);
    node_turn_for(*state, 10);
    raw_close(&raw, step % 2);
    NODE_WAIT(*state, 3000, node.failures + node.downs >= 1);
    if (step / 2 == STEP_AUTH)
      assert_int_equal(kvf_error_status(node.down_error), KVF_PEER_LOST);
    else
      assert_int_equal(kvf_error_status(node.fail_error), KVF_UNREACHABLE);
    assert_false(node.stopped);
    raw_accept(&raw, *state); /* it tries again by itself */
    raw_close(&raw, false);
    close(raw.listener);
    node_close(&node, *state);
  }
}

/* The acceptor's proof must not be had for nothing: it comes after the dialer's was right. */
static void the_acceptor_is_no_oracle(void **state) {
  struct node node;
  struct raw raw;
  node_open(&node, *state, 1, (struct node_options){.secret = "s"});
  raw_connect(&raw, control_address(node.control));
  play_until(&raw, *state, STEP_AUTH, "guess", true);
  kvf_error *error = wait_refuse(&raw, *state);
  assert_int_equal(kvf_error_status(error), KVF_AUTH_FAILED);
  kvf_error_free(error);
  raw_wait_end(&raw, *state, 3000);
  for (size_t at = 0; at < raw.length;) {
    struct wire_frame frame;
    assert_int_equal(wire_frame_decode(raw.bytes + at, WIRE_PAYLOAD_LIMIT_BYTES, &frame, NULL), KVF_OK);
    assert_int_not_equal(frame.type, WIRE_AUTH);
    at += WIRE_FRAME_BYTES + frame.payload_bytes;
  }
  raw_close(&raw, false);
  node_close(&node, *state);
}

/* Silence at each step ends at the deadline, no sooner and not much later. */

static void check_took(uint64_t start_ns, uint64_t least_ms, uint64_t most_ms) {
  uint64_t took_ms = (base_clock_ns() - start_ns) / BASE_NS_PER_MS;
  if (took_ms < least_ms || took_ms > most_ms) fail_msg("took %llu ms", (unsigned long long)took_ms);
}

static void a_silent_dialer_meets_the_deadline(void **state) {
  static const char *const waiting_for[] = {"HELLO", "HELLO", "AUTH", "AUTH"};
  for (int step = 0; step < STEP_AUTH; step++) {
    struct node node;
    struct raw raw;
    node_open(&node, *state, 1, (struct node_options){.secret = "s", .handshake_ms = 300});
    raw_connect(&raw, control_address(node.control));
    uint64_t start_ns = base_clock_ns();
    play_until(&raw, *state, step, "s", true);
    kvf_error *error = wait_refuse(&raw, *state);
    check_took(start_ns, 295, 1000);
    assert_int_equal(kvf_error_status(error), KVF_TIMEOUT);
    assert_string_equal(kvf_error_find(error, "waiting_for"), waiting_for[step]);
    kvf_error_free(error);
    raw_wait_end(&raw, *state, 1000);
    raw_close(&raw, false);
    node_close(&node, *state);
  }
}

static void a_silent_acceptor_meets_the_deadline(void **state) {
  struct node node;
  struct raw raw;
  char address[64];
  raw_listen(&raw, address); /* the kernel accepts, nobody speaks */
  node_open(&node, *state, 1, (struct node_options){.handshake_ms = 300});
  uint64_t start_ns = base_clock_ns();
  node_dial(&node, address);
  NODE_WAIT(*state, 3000, node.failures == 1);
  check_took(start_ns, 295, 1000);
  assert_int_equal(kvf_error_status(node.fail_error), KVF_TIMEOUT);
  assert_string_equal(kvf_error_find(node.fail_error, "waiting_for"), "HELLO");
  assert_false(node.stopped);
  close(raw.listener);
  node_close(&node, *state);
}

static void settle(struct node *node, struct control_session *session) {
  control_session_settled(session);
}

static void an_unsettled_session_meets_the_deadline_and_a_settled_one_stays(void **state) {
  struct node a, b;
  node_open(&a, *state, 1, (struct node_options){.handshake_ms = 300});
  node_open(&b, *state, 2, (struct node_options){.handshake_ms = 300});
  b.on_up = settle;
  control_dial_stop(node_dial(&b, control_address(a.control)));
  node_turn_for(*state, 100);
  assert_int_equal(a.ups, 0); /* stopped before its first attempt */
  struct control_dial *dial = node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, a.ups && b.ups);
  control_dial_stop(dial);
  NODE_WAIT(*state, 3000, a.downs && b.downs);
  assert_int_equal(kvf_error_status(a.down_error), KVF_TIMEOUT);
  assert_string_equal(kvf_error_find(a.down_error, "waiting_for"), "layouts");
  assert_int_equal(kvf_error_status(b.down_error), KVF_PEER_LOST);
  assert_int_equal(b.messages, 1); /* the REFUSE with the reason, for those above */
  a.on_up = settle;
  uint32_t ups = b.ups, downs = b.downs;
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, b.ups > ups);
  node_turn_for(*state, 700);
  assert_int_equal(b.downs, downs);
  node_close(&a, *state);
  node_close(&b, *state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NODE_TEST(another_secret),
      NODE_TEST(a_secret_on_the_acceptor_only),
      NODE_TEST(a_secret_on_the_dialer_only),
      NODE_TEST(an_empty_secret_is_no_secret_by_mistake),
      NODE_TEST(a_dialer_of_another_version),
      NODE_TEST(a_dialer_that_expects_another_process),
      NODE_TEST(an_acceptor_of_another_version_stops_the_dial),
      NODE_TEST(a_refusal_is_the_reason_of_the_failed_dial),
      NODE_TEST(dialing_oneself_is_seen),
      NODE_TEST(garbage_is_a_protocol_error),
      NODE_TEST(wrong_frames_are_a_protocol_error),
      NODE_TEST(a_dialer_that_leaves_at_each_step),
      NODE_TEST(an_acceptor_that_leaves_at_each_step),
      NODE_TEST(the_acceptor_is_no_oracle),
      NODE_TEST(a_silent_dialer_meets_the_deadline),
      NODE_TEST(a_silent_acceptor_meets_the_deadline),
      NODE_TEST(an_unsettled_session_meets_the_deadline_and_a_settled_one_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
