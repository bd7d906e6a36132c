/* Field case C117: hundreds of peers come at once, one of them stalls, and the limits hold. */
#include "raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DIAL_COUNT = 239, CROWD_COUNT = 40 };

static void settle(struct node *node, struct control_session *session) {
  control_session_settled(session);
}

static void a_storm_is_over_in_seconds_though_one_stalls(void **state) {
  struct node server, *clients = calloc(DIAL_COUNT, sizeof *clients);
  struct raw staller;
  node_open(&server, *state, 255, (struct node_options){.secret = "s", .heartbeat_ms = 1000});
  server.on_up = settle;
  raw_connect(&staller, control_address(server.control));
  raw_send(&staller, "KVFY", 4); /* and never another byte */
  for (int i = 0; i < DIAL_COUNT; i++) {
    node_open(&clients[i], *state, (uint8_t)(i + 1), (struct node_options){.secret = "s", .heartbeat_ms = 1000});
    clients[i].on_up = settle;
  }
  uint64_t start_ns = base_clock_ns();
  for (int i = 0; i < DIAL_COUNT; i++) node_dial(&clients[i], control_address(server.control));
  NODE_WAIT(*state, 5000, server.ups == DIAL_COUNT);
  print_message("%d sessions up after %llu ms\n", DIAL_COUNT, (unsigned long long)((base_clock_ns() - start_ns) / BASE_NS_PER_MS));
  node_turn_for(*state, 1500); /* they stay */
  assert_int_equal(server.downs, 0);
  for (int i = 0; i < DIAL_COUNT; i++) assert_int_equal(clients[i].ups * 100 + clients[i].downs + clients[i].failures, 100);
  for (int i = 0; i < DIAL_COUNT; i++) node_begin_close(&clients[i]);
  for (int i = 0; i < DIAL_COUNT; i++) node_close(&clients[i], *state);
  raw_close(&staller, true);
  node_close(&server, *state);
  free(clients);
}

/* A crowd of strangers that never prove themselves takes no more than its share, and leaves room again when its time is over. */
static void strangers_are_bounded(void **state) {
  enum { LIMIT = 10 };
  struct node server, client;
  node_open(&server, *state, 1, (struct node_options){.handshake_ms = 400, .unproven_limit = LIMIT});
  server.on_up = settle;
  static struct raw crowd[CROWD_COUNT];
  for (int i = 0; i < CROWD_COUNT; i++) raw_connect(&crowd[i], control_address(server.control));
  struct control_totals totals = {0};
  NODE_WAIT(*state, 3000,
            (control_totals_get(server.control, &totals), totals.sessions_refused + totals.sessions_accepted == CROWD_COUNT));
  assert_int_equal(totals.sessions_accepted, LIMIT);
  for (int i = LIMIT; i < CROWD_COUNT; i++) raw_wait_end(&crowd[i], *state, 1000); /* closed at once */
  node_open(&client, *state, 2, (struct node_options){0});
  client.on_up = settle;
  node_dial(&client, control_address(server.control));
  NODE_WAIT(*state, 3000, client.ups == 1);
  assert_true(client.failures > 0); /* it had to wait for the strangers' deadline */
  assert_int_equal(kvf_error_status(client.fail_error), KVF_UNREACHABLE);
  for (int i = 0; i < CROWD_COUNT; i++) raw_close(&crowd[i], false);
  node_close(&client, *state);
  node_close(&server, *state);
}

static void sessions_are_bounded_in_all(void **state) {
  enum { LIMIT = 3 };
  struct node server, clients[LIMIT + 1];
  node_open(&server, *state, 1, (struct node_options){.session_limit = LIMIT});
  server.on_up = settle;
  for (int i = 0; i <= LIMIT; i++) {
    node_open(&clients[i], *state, (uint8_t)(10 + i), (struct node_options){0});
    clients[i].on_up = settle;
    node_dial(&clients[i], control_address(server.control));
    NODE_WAIT(*state, 3000, i < LIMIT ? clients[i].ups == 1 : clients[i].failures >= 1);
  }
  assert_int_equal(server.ups, LIMIT);
  node_close(&clients[0], *state); /* one leaves, the last gets in */
  NODE_WAIT(*state, 5000, clients[LIMIT].ups == 1);
  for (int i = 1; i <= LIMIT; i++) node_close(&clients[i], *state);
  node_close(&server, *state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NODE_TEST(a_storm_is_over_in_seconds_though_one_stalls),
      NODE_TEST(strangers_are_bounded),
      NODE_TEST(sessions_are_bounded_in_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
