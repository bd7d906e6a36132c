/* Injected faults: what the rules mean, and what each action does to frames on their way. */
#include "node.h"

#include <string.h>

#include "control/fault.h"

enum { TYPE = 77 };

static void rules_are_read_strictly(void **state) {
  static const char *const good[] = {"", "drop:OPEN:out:1", "seed=7,drop:any:both:1/200", "stall:all:in:5:0", "delay:fail_ack:in:2x3:50",
                                     "cut:HELLO:out:1,duplicate:type 77:both:3,"};
  static const char *const bad[] = {"drop", "drop:OPEN:out", "lose:OPEN:out:1", "drop:OPENING:out:1", "drop:OPEN:up:1", "drop:OPEN:out:0",
                                    "drop:OPEN:out:1x0", "drop:OPEN:out:1/0", "drop:OPEN:out:-1", "drop:OPEN:out:1:5", "delay:OPEN:out:1",
                                    "delay:OPEN:out:1:soon", "seed=x", "drop:OPEN:out:1:5:6", "drop:OPEN:out:99999999999999999999"};
  struct control_fault fault;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_int_equal(control_fault_parse(&fault, good[i], NULL), KVF_OK);
  assert_int_equal(fault.rule_count, 2);
  assert_int_equal(control_fault_parse(&fault, NULL, NULL), KVF_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kvf_error *error = NULL;
    assert_int_equal(control_fault_parse(&fault, bad[i], &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "rule"), bad[i]);
    kvf_error_free(error);
  }
}

static void counts_and_chances(void **state) {
  struct control_fault fault;
  uint64_t wait_ns;
  assert_int_equal(control_fault_parse(&fault, "drop:OPEN:out:2x2,delay:any:out:4:30", NULL), KVF_OK);
  static const int wanted[] = {CONTROL_FAULT_NONE, CONTROL_FAULT_DROP, CONTROL_FAULT_DROP, CONTROL_FAULT_DELAY, CONTROL_FAULT_NONE};
  for (int i = 0; i < 5; i++) {
    assert_int_equal(control_fault_judge(&fault, WIRE_OPEN, CONTROL_IN, &wait_ns), CONTROL_FAULT_NONE);
    assert_int_equal(control_fault_judge(&fault, WIRE_PING, CONTROL_OUT, &wait_ns), CONTROL_FAULT_NONE);
    assert_int_equal(control_fault_judge(&fault, WIRE_OPEN, CONTROL_OUT, &wait_ns), wanted[i]);
    assert_int_equal(wait_ns, i == 3 ? 30 * BASE_NS_PER_MS : 0);
  }
  assert_int_equal(fault.injected, 3);
  uint32_t hits[2] = {0};
  for (int run = 0; run < 2; run++) {
    assert_int_equal(control_fault_parse(&fault, "seed=5,drop:all:both:1/10", NULL), KVF_OK);
    for (int i = 0; i < 10000; i++) hits[run] += control_fault_judge(&fault, (uint8_t)i, CONTROL_IN, &wait_ns) == CONTROL_FAULT_DROP;
  }
  assert_int_equal(hits[0], hits[1]);
  assert_true(hits[0] > 800 && hits[0] < 1200);
}

/* The payloads that arrive, one letter each, in order. */
struct heard {
  char text[16];
  size_t length;
};

static kvf_error *hear(struct node *node, struct control_session *session, uint8_t type, const uint8_t *payload, size_t payload_bytes) {
  struct heard *heard = node->extra;
  assert_int_equal(type, TYPE);
  assert_int_equal(payload_bytes, 1);
  heard->text[heard->length++] = (char)payload[0];
  return NULL;
}

static void settle(struct node *node, struct control_session *session) { control_session_settled(session); }

static void say(struct node *node, const char *letters) {
  for (; *letters; letters++) {
    uint8_t frame[WIRE_FRAME_BYTES + 1];
    wire_frame_encode(&(struct wire_frame){.type = TYPE, .payload_bytes = 1}, frame);
    frame[WIRE_FRAME_BYTES] = (uint8_t)*letters;
    if (node->session) control_session_send(node->session, frame, sizeof frame);
  }
}

/* "abcd" is sent under @p fault; what came after @p wait_ms. The faults lie with the sender, then with the receiver. */
static void check(uv_loop_t *loop, const char *out_rule, const char *in_rule, uint64_t wait_ms, const char *wanted) {
  for (int side = 0; side < 2; side++) {
    struct node speaker, listener;
    struct heard heard = {{0}, 0};
    node_open(&listener, loop, 1, (struct node_options){.fault = side ? in_rule : NULL, .heartbeat_ms = 10000});
    node_open(&speaker, loop, 2, (struct node_options){.fault = side ? NULL : out_rule, .heartbeat_ms = 10000});
    speaker.on_up = listener.on_up = settle;
    listener.extra = &heard;
    listener.on_message = hear;
    node_dial(&speaker, control_address(listener.control));
    NODE_WAIT(loop, 3000, speaker.ups && listener.ups);
    say(&speaker, "abcd");
    node_turn_for(loop, wait_ms);
    assert_string_equal(heard.text, wanted);
    assert_int_equal(speaker.downs + listener.downs, 0);
    node_close(&speaker, loop);
    node_close(&listener, loop);
  }
}

static void each_action_does_what_it_says(void **state) {
  check(*state, "drop:type 77:out:2", "drop:type 77:in:2", 40, "acd");
  check(*state, "duplicate:type 77:out:2", "duplicate:type 77:in:2", 40, "abbcd");
  check(*state, "reorder:type 77:out:2", "reorder:type 77:in:2", 40, "acbd");
  check(*state, "delay:type 77:out:2:60", "delay:type 77:in:2:60", 40, "acd");
  check(*state, "delay:type 77:out:2:30", "delay:type 77:in:2:30", 200, "acdb");
  check(*state, "stall:type 77:out:2:60", "stall:type 77:in:2:60", 40, "a");
  check(*state, "stall:type 77:out:2:30", "stall:type 77:in:2:30", 200, "abcd");
  check(*state, "stall:type 77:out:2:0", "stall:type 77:in:2:0", 100, "a");
}

/* A cut connection is lost on both sides, and the dial brings it back. */
static void a_cut_is_a_lost_connection(void **state) {
  struct node a, b;
  node_open(&a, *state, 1, (struct node_options){.fault = "cut:type 77:in:2"});
  node_open(&b, *state, 2, (struct node_options){0});
  struct heard heard = {{0}, 0};
  a.extra = &heard;
  a.on_message = hear;
  a.on_up = b.on_up = settle;
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, a.ups && b.ups);
  say(&b, "ab");
  NODE_WAIT(*state, 1000, a.downs == 1 && b.downs == 1);
  assert_int_equal(kvf_error_status(b.down_error), KVF_PEER_LOST);
  assert_string_equal(heard.text, "a");
  NODE_WAIT(*state, 2000, a.ups == 2 && b.ups == 2);
  node_close(&a, *state);
  node_close(&b, *state);
}

/* The handshake survives each loss of its own: the deadline, and another attempt. */
static void a_lost_greeting_is_tried_again(void **state) {
  static const char *const rules[] = {"drop:HELLO:out:1", "drop:HELLO:in:1", "drop:AUTH:out:1", "drop:AUTH:in:1"};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    struct node a, b;
    node_open(&a, *state, 1, (struct node_options){.fault = rules[i], .secret = "s", .handshake_ms = 150});
    node_open(&b, *state, 2, (struct node_options){.secret = "s", .handshake_ms = 150});
    a.on_up = b.on_up = settle;
    node_dial(&b, control_address(a.control));
    NODE_WAIT(*state, 3000, a.ups && b.ups && a.session && b.session);
    node_close(&a, *state);
    node_close(&b, *state);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_are_read_strictly),  cmocka_unit_test(counts_and_chances), NODE_TEST(each_action_does_what_it_says),
      NODE_TEST(a_cut_is_a_lost_connection), NODE_TEST(a_lost_greeting_is_tried_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
