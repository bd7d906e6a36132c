/* The cases. Each starts fresh receiving processes, and ends with a count of descriptors on both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "conformance.h"
#include "conformance_sender.h"

enum { TOKEN_A = 41, TOKEN_B = 42, BUFFER_BYTES = 4 << 20 };

static const struct fabric_ops *tested_ops;
static const char *tested_settings;

struct bench {
  struct peer a, b;
  struct sender sender;
  struct sender_way to_a, to_b;
  uint64_t fds;
  uint8_t *buffer; /* BUFFER_BYTES */
};

static struct bench bench;

static int set_up(void **state) {
  bench = (struct bench){0};
  bench.fds = peer_fd_count();
  bench.buffer = malloc(BUFFER_BYTES);
  peer_start(&bench.a, tested_ops, tested_settings, TOKEN_A);
  peer_start(&bench.b, tested_ops, tested_settings, TOKEN_B);
  sender_open(&bench.sender, tested_ops, tested_settings);
  return 0;
}

static int tear_down(void **state) {
  sender_close(&bench.sender);
  free(bench.buffer);
  int exit_a = peer_stop(&bench.a), exit_b = peer_stop(&bench.b);
  uint64_t fds = peer_fd_count();
  if (exit_a == 0 && exit_b == 0 && fds <= bench.fds) return 0;
  print_error("receivers ended with %d and %d; descriptors %llu, before %llu\n", exit_a, exit_b, (unsigned long long)fds,
              (unsigned long long)bench.fds);
  return -1;
}

static bool has(uint32_t trait) {
  return (bench.sender.ops->traits & trait) != 0;
}

static void skip_unless(uint32_t trait, bool wanted) {
  if (has(trait) != wanted) skip();
}

/* Until @p peer has landed @p count pieces, or for some seconds. */
static bool wait_landed(struct peer *peer, uint64_t count) {
  uint64_t deadline_ns = base_clock_ns() + SENDER_WAIT_MS * BASE_NS_PER_MS;
  while (peer_state_of(peer).landed < count && base_clock_ns() < deadline_ns) sender_idle(&bench.sender, 1);
  return peer_state_of(peer).landed >= count;
}

static void expect_landed(struct peer *peer, uint64_t count) {
  assert_true(wait_landed(peer, count));
  struct peer_state state = peer_state_of(peer);
  assert_int_equal(state.landed, count);
  assert_int_equal(state.bad, 0);
}

/* ---- what arrives ---- */

static void test_sizes(void **state) {
  const uint64_t sizes[] = {1, 7, 511, 4096, 4097, 65536, 1 << 20, (3 << 20) + 13};
  const size_t count = sizeof sizes / sizeof *sizes;
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  for (size_t i = 0; i < count; i++) {
    sender_send(&bench.to_a, bench.buffer, sizes[i], i * 1000 + 3);
    sender_settle(&bench.sender);
    expect_landed(&bench.a, i + 1);
  }
  assert_int_equal(bench.sender.sent_ok, count);
}

/* Streams @p count pieces to slots of a ring in the peer's region and in the buffer, never more than half a ring ahead of it. */
static void stream(struct sender_way *way, struct peer *peer, uint64_t count, uint64_t length) {
  uint64_t slots = BUFFER_BYTES / length, landed = 0;
  for (uint64_t i = 0; i < count; i++) {
    while (i >= landed + slots / 2) {
      sender_idle(way->sender, 1);
      landed = peer_state_of(peer).landed;
    }
    /* A buffer may be filled again only when its former piece has been told `sent`. */
    sender_run(way->sender, &way->sender->sent, way->sender->accepted > slots / 2 ? way->sender->accepted - slots / 2 : 0,
               SENDER_WAIT_MS);
    sender_send(way, bench.buffer + i % slots * length, length, i % slots * length);
  }
}

static void test_many_in_order(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  stream(&bench.to_a, &bench.a, 10000, 4096);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 10000);
}

static void test_large_stream(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  stream(&bench.to_a, &bench.a, 64, 256 << 10);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 64);
}

static void test_two_peers_at_once(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_connect(&bench.sender, &bench.to_b, &bench.b);
  for (uint64_t i = 0; i < 200; i++) {
    uint8_t *buffer = bench.buffer + i * 2 * 8192;
    sender_send(&bench.to_a, buffer, 8192, i * 8192);
    sender_send(&bench.to_b, buffer + 8192, 8000, i * 8192 + 1);
  }
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 200);
  expect_landed(&bench.b, 200);
}

static void test_vector_lists(void **state) {
  static struct iovec iov[FABRIC_IOV_LIMIT + 1];
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  uint64_t length = 0;
  for (size_t i = 0; i < FABRIC_IOV_LIMIT; i++) {
    uint64_t part = i % 5 == 3 ? 0 : 17 + i * 3;
    iov[i] = (struct iovec){bench.buffer + length, part};
    length += part;
  }
  peer_pattern_fill(bench.buffer, length, 99);
  for (int i = 0; i < 3; i++)
    assert_int_equal(sender_post(&bench.to_a, iov, FABRIC_IOV_LIMIT, length, (uint64_t)i << 20, 99, NULL), KVF_OK);
  iov[FABRIC_IOV_LIMIT] = (struct iovec){bench.buffer, 0};
  assert_int_equal(sender_post(&bench.to_a, iov, FABRIC_IOV_LIMIT + 1, length, 0, 99, NULL), KVF_INVALID);
  assert_int_equal(sender_post(&bench.to_a, iov, 2, length, 0, 99, NULL), KVF_INVALID);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 3);
}

static void test_in_place(void **state) {
  skip_unless(FABRIC_MAPPABLE, true);
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  for (uint64_t i = 0; i < 50; i++) {
    struct peer_header header;
    struct fabric_piece piece = {.header = (const uint8_t *)&header,
                                 .payload_bytes = 10000,
                                 .in_place = true,
                                 .tag = (void *)(uintptr_t)bench.sender.accepted};
    void *address = NULL;
    sender_header_fill(&bench.to_a, 10000, i * 12345, i, &header, &piece.target);
    kvf_status status;
    while ((status = bench.sender.ops->map(bench.to_a.endpoint, &piece.target, &address, NULL)) == KVF_NOT_READY)
      sender_idle(&bench.sender, 5);
    assert_int_equal(status, KVF_OK);
    peer_pattern_fill(address, 10000, i);
    bench.sender.way_of[bench.sender.accepted] = &bench.to_a;
    assert_int_equal(bench.sender.ops->send(bench.to_a.endpoint, &piece, NULL), KVF_OK);
    bench.sender.accepted++;
  }
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 50);
}

/* ---- what must not arrive ---- */

/* The provider refuses the piece, or its receiver does; either way it does not land and later ones do. */
static void expect_refused(uint64_t length, uint64_t offset, kvf_status one_sided_status) {
  struct peer_state before = peer_state_of(&bench.a);
  peer_pattern_fill(bench.buffer, length, 1);
  const struct iovec iov = {bench.buffer, length};
  kvf_error *error = NULL;
  kvf_status status = sender_post(&bench.to_a, &iov, 1, length, offset, 1, &error);
  if (has(FABRIC_ONE_SIDED) && one_sided_status) {
    assert_int_equal(status, one_sided_status);
    const char *const fields[] = {"region", "generation", "expected", "offset", "length", "region_bytes"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) assert_non_null(kvf_error_find(error, fields[i]));
  }
  kvf_error_free(error);
  sender_settle(&bench.sender);
  if (!has(FABRIC_ONE_SIDED)) {
    while (peer_state_of(&bench.a).refused == before.refused) usleep(500);
  } else {
    usleep(20000);
  }
  assert_int_equal(peer_state_of(&bench.a).landed, before.landed);
}

static void test_place_refusals(void **state) {
  skip_unless(FABRIC_ONE_SIDED, false);
  struct peer_reply reply;
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  peer_ask(&bench.a, PEER_REFUSE_EVERY, 3, &reply);
  for (uint64_t i = 1; i <= 30; i++) sender_send(&bench.to_a, bench.buffer + (i - 1) * 130000, i % 2 ? 130000 : 300, i * 200000);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 20);
  assert_int_equal(peer_state_of(&bench.a).refused, 10);
}

static void test_stale_and_out_of_range(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_send(&bench.to_a, bench.buffer, 5000, 0);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 1);
  struct peer_reply exposed;
  peer_ask(&bench.a, PEER_REVOKE, 0, &exposed);
  peer_ask(&bench.a, PEER_EXPOSE, 2, &exposed);
  assert_int_equal(sender_import(&bench.to_a, 2, &exposed), KVF_OK);
  bench.to_a.generation = 1;
  expect_refused(5000, 0, KVF_STALE);
  bench.to_a.generation = 2;
  expect_refused(4096, PEER_REGION_BYTES - 4095, KVF_OUT_OF_RANGE);
  expect_refused(4096, PEER_REGION_BYTES, KVF_OUT_OF_RANGE);
  expect_refused(4096, UINT64_MAX - 100, KVF_OUT_OF_RANGE);
  sender_send(&bench.to_a, bench.buffer, 4096, PEER_REGION_BYTES - 4096);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 2);
}

static void test_revoked_region(void **state) {
  struct peer_reply exposed;
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_send(&bench.to_a, bench.buffer, 5000, 0);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 1);
  peer_ask(&bench.a, PEER_REVOKE, 0, &exposed);
  expect_refused(5000, 9000, has(FABRIC_MAPPABLE) ? KVF_KEY_REVOKED : KVF_OK);
  if (bench.to_a.down) return; /* a device that fails the connection over a revoked key may do so */
  peer_ask(&bench.a, PEER_EXPOSE, 2, &exposed);
  expect_refused(5000, 9000, has(FABRIC_MAPPABLE) ? KVF_KEY_REVOKED : KVF_OK);
  assert_int_equal(sender_import(&bench.to_a, 2, &exposed), KVF_OK);
  sender_send(&bench.to_a, bench.buffer, 5000, 9000);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 2);
}

static void test_wrong_key_bytes(void **state) {
  skip_unless(FABRIC_ONE_SIDED, true);
  struct peer_reply exposed;
  const struct fabric_ops *ops = bench.sender.ops;
  assert_int_equal(sender_connect_start(&bench.sender, &bench.to_a, &bench.a, TOKEN_A), KVF_OK);
  peer_ask(&bench.a, PEER_REVOKE, 0, &exposed);
  peer_ask(&bench.a, PEER_EXPOSE, 2, &exposed);
  bench.to_a.generation = 2;
  assert_true(sender_run(&bench.sender, &bench.to_a.ready, 1, SENDER_WAIT_MS));
  expect_refused(5000, 0, KVF_NOT_REGISTERED);
  for (uint64_t bit = 0; bit < exposed.byte_count * 8; bit++) {
    struct peer_reply wrong = exposed;
    wrong.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(sender_import(&bench.to_a, 2, &wrong), KVF_INVALID);
  }
  for (uint64_t length = 0; length < exposed.byte_count; length++)
    assert_int_equal(ops->key_import(bench.to_a.endpoint, PEER_REGION, 2, PEER_REGION_BYTES, exposed.bytes, length, NULL),
                     KVF_INVALID);
  expect_refused(5000, 0, KVF_NOT_REGISTERED);
  assert_int_equal(sender_import(&bench.to_a, 2, &exposed), KVF_OK);
  sender_send(&bench.to_a, bench.buffer, 5000, 0);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 1);
  ops->key_drop(bench.to_a.endpoint, PEER_REGION);
  expect_refused(5000, 0, KVF_NOT_REGISTERED);
}

/* ---- connections ---- */

static void expect_no_way(struct peer *peer, uint64_t token) {
  if (sender_connect_start(&bench.sender, &bench.to_a, peer, token) == KVF_OK) {
    assert_true(sender_run(&bench.sender, &bench.to_a.down, 1, SENDER_WAIT_MS));
    bench.sender.ops->disconnect(bench.to_a.endpoint);
  }
  assert_int_not_equal(bench.to_a.down_status, KVF_OK);
  assert_int_equal(bench.to_a.ready, 0);
}

static void test_unknown_token(void **state) {
  expect_no_way(&bench.a, 4711);
  sender_connect(&bench.sender, &bench.to_b, &bench.b);
}

static void test_malformed_addresses(void **state) {
  struct peer_reply reply;
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES + 1] = {0};
  uint64_t random = 5;
  struct fabric_endpoint *endpoint = NULL;
  peer_ask(&bench.a, PEER_ADDRESS, 0, &reply);
  for (size_t length = 0; length < reply.byte_count; length++) {
    kvf_status status = bench.sender.ops->connect(bench.sender.fabric, reply.bytes, length, TOKEN_A, NULL, &endpoint, NULL);
    assert_int_equal(status, KVF_INVALID);
  }
  for (int i = 0; i < 1000; i++) {
    size_t length = base_random_next(&random) % sizeof address;
    for (size_t k = 0; k < length; k++) address[k] = (uint8_t)base_random_next(&random);
    kvf_status status = bench.sender.ops->connect(bench.sender.fabric, address, length, TOKEN_A, NULL, &endpoint, NULL);
    assert_int_not_equal(status, KVF_OK);
  }
}

static void test_token_drop(void **state) {
  struct peer_reply reply;
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_send(&bench.to_a, bench.buffer, 5000, 0);
  expect_landed(&bench.a, 1);
  peer_ask(&bench.a, PEER_DROP, TOKEN_A, &reply);
  assert_true(sender_run(&bench.sender, &bench.to_a.down, 1, SENDER_WAIT_MS));
  sender_settle(&bench.sender);
  const struct iovec iov = {bench.buffer, 100};
  assert_int_not_equal(sender_post(&bench.to_a, &iov, 1, 100, 0, 1, NULL), KVF_OK);
  bench.sender.ops->disconnect(bench.to_a.endpoint);
  expect_no_way(&bench.a, TOKEN_A);
  peer_ask(&bench.a, PEER_ADMIT, TOKEN_A, &reply);
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
}

static void test_token_drop_inside_landed(void **state) {
  struct peer_reply reply;
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  peer_ask(&bench.a, PEER_DROP_ON_LANDED, 5, &reply);
  for (uint64_t i = 0; i < 20; i++) {
    const struct iovec iov = {bench.buffer + i * 4096, 4096};
    peer_pattern_fill(iov.iov_base, 4096, i);
    if (sender_post(&bench.to_a, &iov, 1, 4096, i * 4096, i, NULL) != KVF_OK) break;
  }
  assert_true(sender_run(&bench.sender, &bench.to_a.down, 1, SENDER_WAIT_MS));
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 5);
}

static void test_reconnect(void **state) {
  for (uint64_t round = 0; round < 4; round++) {
    sender_connect(&bench.sender, &bench.to_a, &bench.a);
    for (uint64_t i = 0; i < 10; i++) sender_send(&bench.to_a, bench.buffer + i * 4096, 4096, i * 4096);
    sender_settle(&bench.sender);
    expect_landed(&bench.a, (round + 1) * 10);
    bench.sender.ops->disconnect(bench.to_a.endpoint);
    sender_idle(&bench.sender, 5);
    uint64_t deadline_ns = base_clock_ns() + 5 * BASE_NS_PER_S;
    while (peer_state_of(&bench.a).lost < round + 1 && base_clock_ns() < deadline_ns) sender_idle(&bench.sender, 5);
    assert_int_equal(peer_state_of(&bench.a).lost, round + 1);
  }
}

static void test_token_live(void **state) {
  skip_unless(FABRIC_MIGHT_WRITE_LATE, true);
  struct peer_reply reply;
  peer_ask(&bench.a, PEER_LIVE, TOKEN_A, &reply);
  assert_int_equal(reply.answer, 0);
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  peer_ask(&bench.a, PEER_LIVE, TOKEN_A, &reply);
  assert_int_equal(reply.answer, 1);
  bench.sender.ops->disconnect(bench.to_a.endpoint);
  uint64_t deadline_ns = base_clock_ns() + 5 * BASE_NS_PER_S;
  while (peer_state_of(&bench.a).lost < 1 && base_clock_ns() < deadline_ns) sender_idle(&bench.sender, 5);
  peer_ask(&bench.a, PEER_LIVE, TOKEN_A, &reply);
  assert_int_equal(reply.answer, 0);
}

/* ---- peers that die or stop ---- */

/* Post until the queue is full, without waiting for anything. */
static void post_until_full(struct sender_way *way, uint64_t length, uint64_t limit) {
  peer_pattern_fill(bench.buffer, length, 7);
  const struct iovec iov = {bench.buffer, length};
  for (uint64_t i = 0; i < limit; i++) {
    kvf_status status = sender_post(way, &iov, 1, length, 0, 7, NULL);
    if (status != KVF_OK) {
      assert_int_equal(status, KVF_BACKPRESSURE);
      return;
    }
  }
}

static void test_killed_while_streaming(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_connect(&bench.sender, &bench.to_b, &bench.b);
  stream(&bench.to_a, &bench.a, 100, 65536);
  post_until_full(&bench.to_a, 65536, 100);
  /* Reaped at once: UCX's shared memory takes a process for alive as long as its number is in use. */
  peer_kill(&bench.a);
  for (int i = 0; i < 1000 && !bench.to_a.down; i++) {
    sender_idle(&bench.sender, 1);
    if (!bench.to_a.down) {
      const struct iovec iov = {bench.buffer, 65536};
      kvf_status status = sender_post(&bench.to_a, &iov, 1, 65536, 0, 7, NULL);
      assert_true(status == KVF_OK || status == KVF_BACKPRESSURE || status == KVF_PEER_LOST || status == KVF_FABRIC);
    }
  }
  assert_true(sender_run(&bench.sender, &bench.to_a.down, 1, SENDER_WAIT_MS));
  assert_int_equal(bench.sender.sent, bench.sender.accepted);
  assert_int_equal(bench.to_a.down_status, KVF_PEER_LOST);
  sender_idle(&bench.sender, 30);
  assert_int_equal(bench.to_a.down, 1);
  bench.sender.ops->disconnect(bench.to_a.endpoint);
  sender_send(&bench.to_b, bench.buffer, 65536, 0);
  sender_settle(&bench.sender);
  expect_landed(&bench.b, 1);
}

static void test_killed_while_idle(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  bench.to_a.disconnect_on_down = true;
  peer_kill(&bench.a);
  assert_true(sender_run(&bench.sender, &bench.to_a.down, 1, SENDER_WAIT_MS));
  assert_int_equal(bench.to_a.down_status, KVF_PEER_LOST);
}

static void test_stopped_peer(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_connect(&bench.sender, &bench.to_b, &bench.b);
  kill(bench.a.pid, SIGSTOP);
  for (int i = 0; i < 30; i++) {
    post_until_full(&bench.to_a, 65536, 600);
    sender_idle(&bench.sender, 5);
  }
  assert_int_equal(bench.to_a.down, 0);
  assert_true(bench.sender.sent < bench.sender.accepted);
  for (uint64_t i = 0; i < 20; i++) {
    uint64_t start_ns = base_clock_ns();
    sender_send(&bench.to_b, bench.buffer + 65536, 65536, 0);
    assert_true(wait_landed(&bench.b, i + 1));
    assert_true(base_clock_ns() - start_ns < 2 * BASE_NS_PER_S);
  }
  uint64_t before_ns = base_clock_ns();
  bench.sender.ops->disconnect(bench.to_a.endpoint);
  sender_settle(&bench.sender);
  assert_true(base_clock_ns() - before_ns < BASE_NS_PER_S);
  assert_true(bench.sender.cancelled > 0);
  assert_int_equal(bench.to_a.down, 0);
  kill(bench.a.pid, SIGCONT);
  peer_kill(&bench.a);
}

/* ---- the callers' side of the contract ---- */

static void test_disconnect_inside_sent(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  bench.to_a.disconnect_on_sent = true;
  post_until_full(&bench.to_a, 4096, 40);
  sender_settle(&bench.sender);
  assert_int_equal(bench.to_a.down, 0);
}

static void test_close_with_work_pending(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_connect_start(&bench.sender, &bench.to_b, &bench.b, TOKEN_B);
  post_until_full(&bench.to_a, 65536, 200);
  sender_close(&bench.sender);
  memset(bench.buffer, 0xee, BUFFER_BYTES);
}

static void test_receiver_closes_with_work_pending(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  post_until_full(&bench.to_a, 65536, 200);
  sender_idle(&bench.sender, 1);
  assert_int_equal(peer_stop(&bench.a), 0);
  assert_true(sender_run(&bench.sender, &bench.to_a.down, 1, SENDER_WAIT_MS));
  sender_settle(&bench.sender);
}

static void test_idle_costs_nothing(void **state) {
  sender_connect(&bench.sender, &bench.to_a, &bench.a);
  sender_send(&bench.to_a, bench.buffer, 65536, 0);
  sender_settle(&bench.sender);
  expect_landed(&bench.a, 1);
  sender_idle(&bench.sender, 300); /* what is left of the handshake's timers */
  struct timespec cpu;
  struct peer_state before = peer_state_of(&bench.a);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  uint64_t cpu_before_ns = (uint64_t)cpu.tv_sec * BASE_NS_PER_S + (uint64_t)cpu.tv_nsec, wakeups = bench.sender.wakeups;
  sender_idle(&bench.sender, 1000);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  uint64_t cpu_ns = (uint64_t)cpu.tv_sec * BASE_NS_PER_S + (uint64_t)cpu.tv_nsec - cpu_before_ns;
  struct peer_state after = peer_state_of(&bench.a);
  print_message("one idle second: sender %.2f ms, receiver %.2f ms\n", (double)cpu_ns / 1e6,
                (double)(after.cpu_ns - before.cpu_ns) / 1e6);
  assert_true(cpu_ns < 20 * BASE_NS_PER_MS);
  assert_true(after.cpu_ns - before.cpu_ns < 20 * BASE_NS_PER_MS);
  assert_true(bench.sender.wakeups - wakeups < 20);
  assert_true(after.wakeups - before.wakeups < 20);
}

static bool is_unavailable(void) {
  struct sender *sender = &bench.sender;
  struct fabric_options options = {.host = "127.0.0.1", .settings = tested_settings, .callbacks = {.context = sender}};
  kvf_error *error = NULL;
  struct fabric *fabric;
  kvf_status status = tested_ops->open(&options, &fabric, &error);
  if (status == KVF_OK) fabric->ops->close(fabric);
  if (status == KVF_UNAVAILABLE) printf("%s is not available here: %s\n", tested_ops->name, kvf_error_message(error));
  kvf_error_free(error);
  return status == KVF_UNAVAILABLE;
}

int conformance_run(const struct fabric_ops *ops, const char *settings) {
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(sizes),
      CASE(many_in_order),
      CASE(large_stream),
      CASE(two_peers_at_once),
      CASE(vector_lists),
      CASE(in_place),
      CASE(place_refusals),
      CASE(stale_and_out_of_range),
      CASE(revoked_region),
      CASE(wrong_key_bytes),
      CASE(unknown_token),
      CASE(malformed_addresses),
      CASE(token_drop),
      CASE(token_drop_inside_landed),
      CASE(reconnect),
      CASE(token_live),
      CASE(killed_while_streaming),
      CASE(killed_while_idle),
      CASE(stopped_peer),
      CASE(disconnect_inside_sent),
      CASE(close_with_work_pending),
      CASE(receiver_closes_with_work_pending),
      CASE(idle_costs_nothing),
  };
  tested_ops = ops;
  tested_settings = settings;
  if (is_unavailable()) return 77;
  return cmocka_run_group_tests_name(ops->name, tests, NULL, NULL);
}
