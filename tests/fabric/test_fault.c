/* The fault provider does what its settings say, exactly, and is otherwise the provider that it wraps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "conformance_sender.h"
#include "fabric_fault/fault.h"
#include "fabric_shm/shm.h"
#include "fabric_tcp/tcp.h"

enum { TOKEN = 12, PIECES = 10 };

static struct peer peer;
static struct sender sender;
static struct sender_way way;
static uint8_t buffer[PIECES * 4096];

static void start(const char *sender_settings, const char *peer_settings) {
  peer_start(&peer, &fabric_fault_ops, peer_settings, TOKEN);
  sender_open(&sender, &fabric_fault_ops, sender_settings);
}

static void start_connected(const char *sender_settings, const char *peer_settings) {
  start(sender_settings, peer_settings);
  sender_connect(&sender, &way, &peer);
}

static int tear_down(void **state) {
  sender_close(&sender);
  return peer_stop(&peer);
}

static void send_all(void) {
  for (uint64_t i = 0; i < PIECES; i++) sender_send(&way, buffer + i * 4096, 4096, i * 4096);
  sender_settle(&sender);
}

static void expect_landed(uint64_t landed, uint64_t bad) {
  uint64_t deadline_ns = base_clock_ns() + 5 * BASE_NS_PER_S;
  while (peer_state_of(&peer).landed < landed && base_clock_ns() < deadline_ns) sender_idle(&sender, 1);
  sender_idle(&sender, 20);
  assert_int_equal(peer_state_of(&peer).landed, landed);
  assert_int_equal(peer_state_of(&peer).bad, bad);
}

static void test_fail_send(void **state) {
  start_connected("inner=tcp,fail_send=3,count=2", "inner=tcp");
  send_all();
  assert_int_equal(sender.failed, 2);
  assert_int_equal(sender.failed_status, KVF_FABRIC);
  assert_int_equal(sender.sent_ok, PIECES - 2);
  expect_landed(PIECES - 2, 0);
}

static void test_refuse_send(void **state) {
  start_connected("inner=shm,refuse_send=2", "inner=shm");
  const struct iovec iov = {buffer, 4096};
  peer_pattern_fill(buffer, 4096, 1);
  assert_int_equal(sender_post(&way, &iov, 1, 4096, 0, 1, NULL), KVF_OK);
  kvf_error *error = NULL;
  assert_int_equal(sender_post(&way, &iov, 1, 4096, 0, 1, &error), KVF_FABRIC);
  assert_string_equal(kvf_error_find(error, "provider"), "fault");
  assert_string_equal(kvf_error_find(error, "fault_status"), "-80");
  kvf_error_free(error);
  assert_int_equal(sender_post(&way, &iov, 1, 4096, 0, 1, NULL), KVF_OK);
  sender_settle(&sender);
  expect_landed(2, 0);
}

static void test_drop_landed(void **state) {
  start_connected("inner=shm", "inner=shm,drop_landed=4,count=3");
  send_all();
  assert_int_equal(sender.sent_ok, PIECES);
  expect_landed(PIECES - 3, 0);
}

static void test_duplicate_landed(void **state) {
  start_connected("inner=tcp", "inner=tcp,duplicate_landed=5");
  send_all();
  expect_landed(PIECES + 1, 1); /* which the receiver's own order check notices */
}

/* One piece arrives with other bytes than were given, and the sender's own memory is as it was. */
static void test_corrupt(void **state) {
  static const char *const inners[] = {"inner=tcp", "inner=shm"};
  for (int i = 0; i < 2; i++) {
    char settings[64];
    snprintf(settings, sizeof settings, "%s,corrupt=4,count=2", inners[i]);
    start_connected(settings, inners[i]);
    send_all();
    assert_int_equal(sender.sent_ok, PIECES);
    expect_landed(PIECES, 2);
    static uint8_t right[4096];
    for (uint64_t piece = 0; piece < PIECES; piece++) {
      peer_pattern_fill(right, sizeof right, (piece + 1) * 7919 + piece * 4096); /* as sender_send fills it */
      assert_memory_equal(buffer + piece * 4096, right, sizeof right);
    }
    if (i == 0) assert_int_equal(tear_down(state), 0);
  }
}

static void test_chance_follows_the_seed(void **state) {
  uint64_t failed[2];
  for (int i = 0; i < 2; i++) {
    start_connected("inner=tcp,fail_send=1,chance=400,seed=7", "inner=tcp");
    send_all();
    failed[i] = sender.failed;
    if (i == 0) assert_int_equal(tear_down(state), 0);
  }
  assert_int_equal(failed[0], failed[1]);
  assert_true(failed[0] > 0 && failed[0] < PIECES);
}

static void test_import_map_and_connect(void **state) {
  start("inner=shm,fail_connect=1,fail_import=1,fail_map=1", "inner=shm");
  assert_int_equal(sender_connect_start(&sender, &way, &peer, TOKEN), KVF_UNREACHABLE);
  assert_int_equal(sender_connect_start(&sender, &way, &peer, TOKEN), KVF_OK);
  struct peer_reply exposed;
  peer_ask(&peer, PEER_REVOKE, 0, &exposed);
  peer_ask(&peer, PEER_EXPOSE, 2, &exposed);
  assert_int_equal(sender_import(&way, 2, &exposed), KVF_FABRIC);
  assert_int_equal(sender_import(&way, 2, &exposed), KVF_OK);
  const struct fabric_target target = {.region = PEER_REGION, .generation = 2, .length = 10};
  void *address;
  assert_int_equal(sender.ops->map(way.endpoint, &target, &address, NULL), KVF_KEY_REVOKED);
  assert_int_not_equal(sender.ops->map(way.endpoint, &target, &address, NULL), KVF_KEY_REVOKED);
}

static void test_disconnect_cancels_victims(void **state) {
  start_connected("inner=tcp,fail_send=1,count=100", "inner=tcp");
  const struct iovec iov = {buffer, 4096};
  for (int i = 0; i < 5; i++) assert_int_equal(sender_post(&way, &iov, 1, 4096, 0, 1, NULL), KVF_OK);
  sender.ops->disconnect(way.endpoint);
  sender_settle(&sender);
  assert_int_equal(sender.cancelled, 5);
}

static void test_wraps_by_name(void **state) {
  start("inner=tcp", "inner=shm");
  assert_string_equal(sender.ops->name, "tcp");
  assert_int_equal(sender.ops->traits, fabric_tcp_ops.traits);
  assert_null(sender.ops->key_import);
  struct fabric *fabric;
  const char *const wrong[] = {
      "", "inner=none", "inner=fault", "inner=tcp,fail_send=x", "inner=tcp,chance=1001", "inner=tcp,bogus=1"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct fabric_options options = {.host = "127.0.0.1", .settings = wrong[i]};
    assert_int_equal(fabric_fault_ops.open(&options, &fabric, NULL), KVF_INVALID);
  }
  struct fabric_options options = {.host = "127.0.0.1", .settings = "user_timeout_ms=7,inner=tcp"};
  assert_int_equal(fabric_fault_ops.open(&options, &fabric, NULL), KVF_OK);
  fabric->ops->close(fabric);
}

int main(void) {
  static const struct fabric_ops *const inners[] = {&fabric_shm_ops, &fabric_tcp_ops};
  fabric_fault_offer(inners, sizeof inners / sizeof *inners);
#define CASE(name) cmocka_unit_test_teardown(test_##name, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(fail_send),
      CASE(refuse_send),
      CASE(drop_landed),
      CASE(duplicate_landed),
      CASE(corrupt),
      CASE(chance_follows_the_seed),
      CASE(import_map_and_connect),
      CASE(disconnect_cancels_victims),
      CASE(wraps_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
