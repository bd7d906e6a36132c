/* Dials: closed ports, names, backoff, a listener that comes back as another process, and closing at any moment. */
#include "raw.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"

/* An address of 127.0.0.1 where nobody listens. */
static void find_closed_port(char address[64]) {
  struct raw raw;
  raw_listen(&raw, address);
  close(raw.listener);
}

/* Field case C113. */
static void a_taken_port_is_an_error_of_open(void **state) {
  struct node first, second;
  node_open(&first, *state, 1, (struct node_options){0});
  kvf_error *error = NULL;
  assert_int_equal(node_try_open(&second, *state, 2, (struct node_options){.listen = control_address(first.control)}, &error),
                   KVF_SYSTEM);
  assert_string_equal(kvf_error_find(error, "address"), control_address(first.control));
  assert_string_equal(kvf_error_find(error, "errno"), "98");
  kvf_error_free(error);
  node_close(&first, *state);
}

static void a_bad_address_is_an_error_of_the_call(void **state) {
  struct node node;
  kvf_error *error = NULL;
  assert_int_equal(node_try_open(&node, *state, 1, (struct node_options){.listen = "127.0.0.1"}, &error), KVF_BAD_ADDRESS);
  kvf_error_free(error);
  error = NULL;
  assert_int_equal(node_try_open(&node, *state, 1, (struct node_options){.listen = "no-such-name.invalid:0"}, &error),
                   KVF_BAD_ADDRESS);
  assert_string_equal(kvf_error_find(error, "host"), "no-such-name.invalid");
  kvf_error_free(error);
  node_open(&node, *state, 1, (struct node_options){0});
  struct control_dial *dial = NULL;
  error = NULL;
  assert_int_equal(control_dial_open(node.control, "::1:80", NULL, &dial, &error), KVF_BAD_ADDRESS);
  assert_null(dial);
  kvf_error_free(error);
  node_close(&node, *state);
}

static uint64_t attempt_ns[16];

static void note_attempt(struct node *node, struct control_dial *dial) {
  if (node->failures <= 16) attempt_ns[node->failures - 1] = base_clock_ns();
}

static void a_closed_port_is_tried_again_with_growing_pauses(void **state) {
  struct node node;
  char address[64];
  find_closed_port(address);
  node_open(&node, *state, 1, (struct node_options){0});
  node.on_fail = note_attempt;
  struct control_dial *dial = node_dial(&node, address);
  NODE_WAIT(*state, 5000, node.failures == 5);
  assert_int_equal(kvf_error_status(node.fail_error), KVF_UNREACHABLE);
  assert_string_equal(kvf_error_find(node.fail_error, "remote"), address);
  assert_memory_equal(kvf_error_find(node.fail_error, "local"), "127.0.0.1:", 10);
  assert_string_equal(kvf_error_find(node.fail_error, "errno"), "111");
  assert_string_equal(kvf_error_find(node.fail_error, "attempt"), "5");
  assert_false(node.stopped);
  for (int i = 0; i < 4; i++) {
    /* 50 ms doubled i times, of which between half and all is waited. */
    uint64_t pause_ms = (attempt_ns[i + 1] - attempt_ns[i]) / BASE_NS_PER_MS, whole_ms = 50ull << i;
    if (pause_ms < whole_ms / 2 || pause_ms > whole_ms + 200) fail_msg("pause %d was %llu ms", i, (unsigned long long)pause_ms);
  }
  control_dial_stop(dial);
  node_turn_for(*state, 1000);
  assert_int_equal(node.failures, 5);
  control_dial_close(dial);
  node_close(&node, *state);
}

static void a_listener_that_starts_later_is_found(void **state) {
  struct node a, b;
  char address[64];
  find_closed_port(address);
  node_open(&b, *state, 2, (struct node_options){0});
  node_dial(&b, address);
  NODE_WAIT(*state, 3000, b.failures == 2);
  node_open(&a, *state, 1, (struct node_options){.listen = address});
  NODE_WAIT(*state, 3000, a.ups && b.ups);
  node_close(&a, *state);
  node_close(&b, *state);
}

static void settle(struct node *node, struct control_session *session) {
  control_session_settled(session);
}

/* Field case C24, this room's half: the same address answers as another incarnation, and nothing but a new session comes of it. */
static void a_restarted_listener_is_a_new_incarnation(void **state) {
  struct node a, b;
  char address[64];
  node_open(&a, *state, 1, (struct node_options){0});
  node_open(&b, *state, 2, (struct node_options){0});
  b.on_up = settle;
  snprintf(address, sizeof address, "%s", control_address(a.control));
  struct control_dial *dial = node_dial(&b, address);
  for (uint8_t identity = 11; identity < 16; identity++) {
    NODE_WAIT(*state, 3000, b.session && a.session);
    node_close(&a, *state);
    NODE_WAIT(*state, 3000, !b.session);
    uint64_t start_ns = base_clock_ns();
    node_open(&a, *state, identity, (struct node_options){.listen = address});
    NODE_WAIT(*state, 3000, b.session != NULL);
    assert_true(base_clock_ns() - start_ns < 500 * BASE_NS_PER_MS); /* the backoff starts anew after each good session */
    assert_int_equal(b.peer_incarnation[0], identity);
    assert_ptr_equal(b.up_dial, dial);
  }
  assert_int_equal(b.ups, 6);
  assert_int_equal(b.downs, 5);
  node_close(&a, *state);
  node_close(&b, *state);
}

/* A session that is up but never of use keeps the dial slow: two that disagree do not spin. */
static void an_unsettled_session_does_not_reset_the_backoff(void **state) {
  struct node a, b;
  node_open(&a, *state, 1, (struct node_options){0});
  node_open(&b, *state, 2, (struct node_options){0});
  node_dial(&b, control_address(a.control));
  uint64_t end_ns = base_clock_ns() + 1000 * BASE_NS_PER_MS;
  while (base_clock_ns() < end_ns) {
    node_turn(*state);
    if (a.session) control_session_close(a.session);
    a.session = NULL;
  }
  if (b.ups < 4 || b.ups > 8) fail_msg("%u sessions in a second", b.ups);
  node_close(&a, *state);
  node_close(&b, *state);
}

static void closing_the_session_of_a_dial_makes_it_dial_again(void **state) {
  struct node a, b;
  node_open(&a, *state, 1, (struct node_options){0});
  node_open(&b, *state, 2, (struct node_options){0});
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, b.ups == 1);
  control_session_close(b.session);
  NODE_WAIT(*state, 3000, b.ups == 2);
  assert_int_equal(b.downs + b.failures, 0);
  node_close(&a, *state);
  node_close(&b, *state);
}

static void a_name_is_looked_up(void **state) {
  struct node a, b;
  char address[64];
  node_open(&a, *state, 1, (struct node_options){0});
  node_open(&b, *state, 2, (struct node_options){0});
  /* "localhost" may be [::1] first, where nobody listens: then the second address is the one. */
  snprintf(address, sizeof address, "localhost%s", strrchr(control_address(a.control), ':'));
  node_dial(&b, address);
  NODE_WAIT(*state, 5000, b.ups == 1);
  assert_int_equal(b.failures, 0);
  node_close(&a, *state);
  node_close(&b, *state);
}

static void a_name_that_is_none_is_unreachable(void **state) {
  struct node node;
  node_open(&node, *state, 1, (struct node_options){.handshake_ms = 1000});
  node_dial(&node, "no-such-name.invalid:7000");
  NODE_WAIT(*state, 5000, node.failures >= 1);
  assert_int_equal(kvf_error_status(node.fail_error), KVF_UNREACHABLE);
  assert_string_equal(kvf_error_find(node.fail_error, "remote"), "no-such-name.invalid:7000");
  assert_false(node.stopped);
  node_close(&node, *state);
}

/* A full backlog drops our SYN: connect neither succeeds nor fails. */
static void a_connect_that_hangs_meets_the_deadline(void **state) {
  struct node node;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  char address[64];
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fillers[4];
  assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(listener, 0), 0);
  getsockname(listener, (struct sockaddr *)&at, &length);
  snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
  for (int i = 0; i < 4; i++) {
    fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)!connect(fillers[i], (struct sockaddr *)&at, sizeof at);
  }
  node_open(&node, *state, 1, (struct node_options){.handshake_ms = 300});
  uint64_t start_ns = base_clock_ns();
  node_dial(&node, address);
  NODE_WAIT(*state, 3000, node.failures == 1);
  uint64_t took_ms = (base_clock_ns() - start_ns) / BASE_NS_PER_MS;
  assert_true(took_ms >= 295 && took_ms < 1000);
  assert_int_equal(kvf_error_status(node.fail_error), KVF_UNREACHABLE);
  assert_int_equal(kvf_error_status(kvf_error_cause(node.fail_error)), KVF_TIMEOUT);
  assert_string_equal(kvf_error_find(node.fail_error, "waiting_for"), "connect");
  node_close(&node, *state);
  for (int i = 0; i < 4; i++) close(fillers[i]);
  close(listener);
}

static void close_dial(struct node *node, struct control_dial *dial) {
  control_dial_close(dial);
}
static void stop_dial(struct node *node, struct control_dial *dial) {
  control_dial_stop(dial);
}
static void close_control(struct node *node, struct control_dial *dial) {
  node_begin_close(node);
}

static void closing_when_a_dial_fails(void **state) {
  void (*const actions[])(struct node *, struct control_dial *) = {close_dial, stop_dial, close_control};
  for (int i = 0; i < 3; i++) {
    struct node node;
    char address[64];
    find_closed_port(address);
    node_open(&node, *state, 1, (struct node_options){0});
    node.on_fail = actions[i];
    node_dial(&node, address);
    NODE_WAIT(*state, 3000, node.failures == 1);
    node_turn_for(*state, 200);
    assert_int_equal(node.failures, 1);
    node_close(&node, *state);
  }
}

/* At every moment of lookup, connect and handshake, closing is clean: the turns before it are what varies. */
static void closing_at_any_moment(void **state) {
  struct node a;
  node_open(&a, *state, 1, (struct node_options){.secret = "s"});
  char name[64];
  snprintf(name, sizeof name, "localhost%s", strrchr(control_address(a.control), ':'));
  for (int turns = 0; turns < 24; turns++) {
    struct node b;
    node_open(&b, *state, 2, (struct node_options){.secret = "s"});
    struct control_dial *numeric = node_dial(&b, control_address(a.control)), *named = node_dial(&b, name);
    for (int i = 0; i < turns / 2; i++) {
      usleep(200);
      uv_run(*state, UV_RUN_NOWAIT);
    }
    if (turns % 2) {
      control_dial_close(numeric);
      control_dial_close(named);
      uint32_t ups = b.ups;
      node_turn_for(*state, 20);
      assert_int_equal(b.ups, ups);
      assert_int_equal(b.downs + b.failures, 0);
    }
    node_close(&b, *state);
  }
  node_close(&a, *state);
}

/* Out of descriptors: accepting pauses and goes on by itself, without spinning. */
static void running_out_of_descriptors_passes(void **state) {
  struct node a, b;
  struct rlimit before, none;
  node_open(&a, *state, 1, (struct node_options){0});
  node_open(&b, *state, 2, (struct node_options){0});
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, a.ups == 1);
  struct raw raw;
  raw_connect(&raw, control_address(a.control)); /* waits in the backlog */
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  int next = dup(raw.fd);
  close(next);
  none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  struct rusage start, end;
  getrusage(RUSAGE_SELF, &start);
  node_turn_for(*state, 500);
  getrusage(RUSAGE_SELF, &end);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  int64_t used_us = (end.ru_utime.tv_sec - start.ru_utime.tv_sec) * 1000000 + end.ru_utime.tv_usec - start.ru_utime.tv_usec;
  assert_true(used_us < 250000);
  assert_non_null(strstr(a.log_line, "not accepting"));
  struct wire_hello hello = raw_hello(9);
  raw_send_hello(&raw, &hello);
  NODE_WAIT(*state, 3000, a.ups == 2);
  raw_close(&raw, false);
  node_close(&a, *state);
  node_close(&b, *state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NODE_TEST(a_taken_port_is_an_error_of_open),
      NODE_TEST(a_bad_address_is_an_error_of_the_call),
      NODE_TEST(a_closed_port_is_tried_again_with_growing_pauses),
      NODE_TEST(a_listener_that_starts_later_is_found),
      NODE_TEST(a_restarted_listener_is_a_new_incarnation),
      NODE_TEST(an_unsettled_session_does_not_reset_the_backoff),
      NODE_TEST(closing_the_session_of_a_dial_makes_it_dial_again),
      NODE_TEST(a_name_is_looked_up),
      NODE_TEST(a_name_that_is_none_is_unreachable),
      NODE_TEST(a_connect_that_hangs_meets_the_deadline),
      NODE_TEST(closing_when_a_dial_fails),
      NODE_TEST(closing_at_any_moment),
      NODE_TEST(running_out_of_descriptors_passes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
