/* tcp alone: strangers at the listener, lying peers, addresses of both families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "conformance_sender.h"
#include "fabric_tcp/inside.h"

enum { TOKEN = 99 };

static struct peer peer;
static struct sender sender;
static struct sender_way way;
static uint8_t buffer[65536];

static int set_up(void **state) {
  peer_start(&peer, &fabric_tcp_ops, NULL, TOKEN);
  sender_open(&sender, &fabric_tcp_ops, NULL);
  return 0;
}

static int tear_down(void **state) {
  sender_close(&sender);
  return peer_stop(&peer);
}

static struct tcp_addresses addresses_of(struct peer *of) {
  struct peer_reply reply;
  struct tcp_addresses addresses;
  peer_ask(of, PEER_ADDRESS, 0, &reply);
  assert_int_equal(tcp_address_decode(reply.bytes, reply.byte_count, &addresses, NULL), KVF_OK);
  return addresses;
}

static int dial(const struct tcp_addresses *addresses) {
  int fd = socket(addresses->entries[0].socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&addresses->entries[0].socket, addresses->entries[0].length), 0);
  return fd;
}

/* The other side has closed, within @p milliseconds. */
static bool is_closed(int fd, int milliseconds) {
  uint64_t deadline_ns = base_clock_ns() + (uint64_t)milliseconds * BASE_NS_PER_MS;
  while (base_clock_ns() < deadline_ns) {
    char bytes[256];
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (poll(&polled, 1, 20) <= 0) continue;
    if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0 && errno != EAGAIN) return true;
  }
  return false;
}

static void expect_works(uint64_t landed) {
  if (!way.ready || way.down) sender_connect(&sender, &way, &peer);
  sender_send(&way, buffer, sizeof buffer, 0);
  sender_settle(&sender);
  uint64_t deadline_ns = base_clock_ns() + 10 * BASE_NS_PER_S;
  while (peer_state_of(&peer).landed < landed && base_clock_ns() < deadline_ns) sender_idle(&sender, 1);
  struct peer_state state = peer_state_of(&peer);
  assert_int_equal(state.landed, landed);
  assert_int_equal(state.bad, 0);
}

static void make_greeting(uint8_t greeting[TCP_GREETING_BYTES], uint64_t token, const uint8_t incarnation[16]) {
  uint32_t words[2] = {htole32(TCP_GREETING_MAGIC), htole32(1)};
  token = htole64(token);
  memcpy(greeting, words, 8);
  memcpy(greeting + 8, &token, 8);
  memcpy(greeting + 16, incarnation, 16);
}

static void test_garbage_is_shown_the_door(void **state) {
  struct tcp_addresses addresses = addresses_of(&peer);
  uint64_t random = 3;
  for (int round = 0; round < 50; round++) {
    uint8_t garbage[512];
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (uint8_t)base_random_next(&random);
    int fd = dial(&addresses);
    send(fd, garbage, TCP_GREETING_BYTES + (size_t)round, MSG_NOSIGNAL);
    assert_true(is_closed(fd, 2000));
    close(fd);
  }
  way = (struct sender_way){0};
  expect_works(1);
}

static void test_silent_strangers_do_not_keep_others_out(void **state) {
  enum { STRANGERS = 150 };
  static int fds[STRANGERS];
  struct tcp_addresses addresses = addresses_of(&peer);
  for (int i = 0; i < STRANGERS; i++) {
    fds[i] = dial(&addresses);
    send(fds[i], "KVTG", 4, MSG_NOSIGNAL);
  }
  way = (struct sender_way){0};
  expect_works(1);
  assert_true(is_closed(fds[0], 2000));             /* pushed out */
  assert_true(is_closed(fds[STRANGERS - 1], 7000)); /* timed out */
  for (int i = 0; i < STRANGERS; i++) close(fds[i]);
}

static void test_wrong_incarnation_and_token(void **state) {
  struct tcp_addresses addresses = addresses_of(&peer);
  for (int wrong = 0; wrong < 2; wrong++) {
    uint8_t greeting[TCP_GREETING_BYTES], answer[TCP_WELCOME_BYTES];
    uint32_t words[2];
    make_greeting(greeting, wrong == 0 ? TOKEN : TOKEN + 1, addresses.incarnation);
    if (wrong == 0) greeting[20] ^= 1;
    int fd = dial(&addresses);
    send(fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    memcpy(words, answer, sizeof words);
    assert_int_equal(le32toh(words[1]), wrong == 0 ? TCP_ANSWER_WRONG_INCARNATION : TCP_ANSWER_UNKNOWN_TOKEN);
    assert_true(is_closed(fd, 2000));
    close(fd);
  }
  assert_int_equal(peer_state_of(&peer).lost, 0);
}

static int dial_admitted(void) {
  struct tcp_addresses addresses = addresses_of(&peer);
  uint8_t greeting[TCP_GREETING_BYTES], answer[TCP_WELCOME_BYTES];
  make_greeting(greeting, TOKEN, addresses.incarnation);
  int fd = dial(&addresses);
  /* Byte by byte: a greeting may come in any pieces. */
  for (size_t i = 0; i < sizeof greeting; i++) send(fd, greeting + i, 1, MSG_NOSIGNAL);
  assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
  return fd;
}

static void test_lying_heads_end_the_connection(void **state) {
  for (int lie = 0; lie < 3; lie++) {
    uint8_t head[TCP_HEAD_BYTES] = {0};
    uint32_t magic = htole32(lie == 0 ? 0xdeadbeef : TCP_PIECE_MAGIC), word = lie == 1;
    uint64_t payload_bytes = htole64(lie == 2 ? UINT64_MAX : 10);
    memcpy(head, &magic, 4);
    memcpy(head + 4, &word, 4);
    memcpy(head + 8, &payload_bytes, 8);
    int fd = dial_admitted();
    send(fd, head, sizeof head, MSG_NOSIGNAL);
    assert_true(is_closed(fd, 2000));
    close(fd);
    assert_int_equal(peer_state_of(&peer).lost, lie + 1);
  }
  way = (struct sender_way){0};
  expect_works(1);
}

static void test_truncated_piece_never_lands(void **state) {
  uint8_t head[TCP_HEAD_BYTES] = {0};
  struct peer_reply reply;
  uint32_t magic = htole32(TCP_PIECE_MAGIC);
  uint64_t payload_bytes = htole64(5000);
  struct peer_header header = {.sequence = 1, .generation = 1, .length = 5000};
  header.check = peer_header_check(&header);
  memcpy(head, &magic, 4);
  memcpy(head + 8, &payload_bytes, 8);
  memcpy(head + 16, &header, sizeof header);
  peer_ask(&peer, PEER_STATE, 0, &reply);
  int fd = dial_admitted();
  send(fd, head, sizeof head, MSG_NOSIGNAL);
  send(fd, buffer, 4999, MSG_NOSIGNAL);
  close(fd);
  uint64_t deadline_ns = base_clock_ns() + 5 * BASE_NS_PER_S;
  while (peer_state_of(&peer).lost == 0 && base_clock_ns() < deadline_ns) usleep(500);
  assert_int_equal(peer_state_of(&peer).lost, 1);
  assert_int_equal(peer_state_of(&peer).landed, 0);
}

static void test_new_connection_replaces_the_old(void **state) {
  int fd = dial_admitted();
  way = (struct sender_way){0};
  expect_works(1);
  assert_true(is_closed(fd, 2000));
  assert_int_equal(peer_state_of(&peer).lost, 1);
  close(fd);
}

/* ---- the face towards peers ---- */

static void ignore_landed(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes) {}
static void ignore_lost(void *context, uint64_t token) {}

/* Opened on @p host, it is reached by what it advertises. */
static void expect_reachable(const char *host) {
  struct fabric_options options = {.host = host, .callbacks = {.landed = ignore_landed, .token_lost = ignore_lost}};
  struct fabric *fabric;
  kvf_error *error = NULL;
  if (fabric_tcp_ops.open(&options, &fabric, &error) != KVF_OK) {
    print_message("%s cannot be listened on here\n", host);
    kvf_error_free(error);
    return;
  }
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES];
  size_t address_bytes = fabric_tcp_ops.address(fabric, address);
  assert_int_equal(fabric_tcp_ops.token_admit(fabric, 7, NULL), KVF_OK);
  way = (struct sender_way){.sender = &sender};
  assert_int_equal(fabric_tcp_ops.connect(sender.fabric, address, address_bytes, 7, &way, &way.endpoint, NULL), KVF_OK);
  uint64_t deadline_ns = base_clock_ns() + 6 * BASE_NS_PER_S;
  while (!way.ready && base_clock_ns() < deadline_ns) {
    fabric_tcp_ops.progress(fabric);
    sender_idle(&sender, 1);
  }
  assert_int_equal(way.ready, 1);
  fabric_tcp_ops.disconnect(way.endpoint);
  fabric_tcp_ops.close(fabric);
}

static void test_hosts(void **state) {
  const char *const hosts[] = {"127.0.0.1", "::1", "0.0.0.0", "::", "localhost"};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) expect_reachable(hosts[i]);
  struct fabric_options options = {.host = "203.0.113.77"};
  struct fabric *fabric;
  kvf_error *error = NULL;
  assert_int_equal(fabric_tcp_ops.open(&options, &fabric, &error), KVF_SYSTEM);
  assert_string_equal(kvf_error_find(error, "local"), "203.0.113.77");
  assert_string_equal(kvf_error_find(error, "errno"), "99");
  kvf_error_free(error);
}

/* An address list whose first entry refuses: the second is tried. */
static void test_the_next_address_is_tried(void **state) {
  struct peer_reply reply;
  peer_ask(&peer, PEER_ADDRESS, 0, &reply);
  const char refusing[] = "127.0.0.1:1";
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES];
  memcpy(address, reply.bytes, 18);
  address[1] = 2;
  address[18] = sizeof refusing - 1;
  memcpy(address + 19, refusing, sizeof refusing - 1);
  size_t used = 18 + sizeof refusing;
  memcpy(address + used, reply.bytes + 18, reply.byte_count - 18);
  way = (struct sender_way){.sender = &sender};
  used += reply.byte_count - 18;
  assert_int_equal(fabric_tcp_ops.connect(sender.fabric, address, used, TOKEN, &way, &way.endpoint, NULL), KVF_OK);
  assert_true(sender_run(&sender, &way.ready, 1, 5000));
}

static void test_closed_port_is_unreachable(void **state) {
  const char refusing[] = "127.0.0.1:1";
  uint8_t address[64] = {1, 1};
  address[18] = sizeof refusing - 1;
  memcpy(address + 19, refusing, sizeof refusing - 1);
  way = (struct sender_way){.sender = &sender};
  assert_int_equal(fabric_tcp_ops.connect(sender.fabric, address, 18 + sizeof refusing, TOKEN, &way, &way.endpoint, NULL), KVF_OK);
  assert_true(sender_run(&sender, &way.down, 1, 5000));
  assert_int_equal(way.down_status, KVF_UNREACHABLE);
  address[19] = 'x'; /* a name, which must not be looked up */
  assert_int_equal(fabric_tcp_ops.connect(sender.fabric, address, 18 + sizeof refusing, TOKEN, &way, &way.endpoint, NULL),
                   KVF_INVALID);
}

static void test_unknown_settings_are_refused(void **state) {
  struct fabric_options options = {.host = "127.0.0.1", .settings = "speed=high"};
  struct fabric *fabric;
  assert_int_equal(fabric_tcp_ops.open(&options, &fabric, NULL), KVF_INVALID);
  options.settings = "user_timeout_ms=500";
  assert_int_equal(fabric_tcp_ops.open(&options, &fabric, NULL), KVF_OK);
  fabric_tcp_ops.close(fabric);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(garbage_is_shown_the_door),
      CASE(silent_strangers_do_not_keep_others_out),
      CASE(wrong_incarnation_and_token),
      CASE(lying_heads_end_the_connection),
      CASE(truncated_piece_never_lands),
      CASE(new_connection_replaces_the_old),
      CASE(hosts),
      CASE(the_next_address_is_tried),
      CASE(closed_port_is_unreachable),
      CASE(unknown_settings_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
