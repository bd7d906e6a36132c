/* See raw.h. */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/address.h"

static void set_non_blocking(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void raw_connect(struct raw *raw, const char *address) {
  struct control_host_port parsed;
  assert_int_equal(control_address_parse(address, false, &parsed, NULL), KVF_OK);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(parsed.port)};
  inet_pton(AF_INET, parsed.host, &to.sin_addr);
  *raw = (struct raw){.listener = -1, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  assert_int_equal(connect(raw->fd, (struct sockaddr *)&to, sizeof to), 0);
  set_non_blocking(raw->fd);
}

void raw_listen(struct raw *raw, char address[64]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  *raw = (struct raw){.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), .fd = -1};
  assert_int_equal(bind(raw->listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(raw->listener, 16), 0);
  assert_int_equal(getsockname(raw->listener, (struct sockaddr *)&at, &length), 0);
  snprintf(address, 64, "127.0.0.1:%u", ntohs(at.sin_port));
}

static bool has_accepted(struct raw *raw) {
  if (raw->fd < 0) raw->fd = accept4(raw->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return raw->fd >= 0;
}

void raw_accept(struct raw *raw, uv_loop_t *loop) {
  NODE_WAIT(loop, 3000, has_accepted(raw));
  raw->length = 0;
  raw->ended = false;
}

void raw_send(struct raw *raw, const void *bytes, size_t length) {
  assert_int_equal(send(raw->fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

struct wire_hello raw_hello(uint8_t identity) {
  struct wire_hello hello = {
      .version_min = WIRE_VERSION_MIN, .version_max = WIRE_VERSION_MAX, .heartbeat_ns = 1, .label = {"raw", 3}};
  memset(hello.incarnation, identity, sizeof hello.incarnation);
  memset(hello.nonce, identity, sizeof hello.nonce);
  return hello;
}

void raw_send_hello(struct raw *raw, const struct wire_hello *hello) {
  struct wire_buffer buffer = {0};
  wire_hello_encode(&buffer, hello);
  assert_false(buffer.failed);
  raw_send(raw, buffer.bytes, buffer.length);
  wire_buffer_fini(&buffer);
}

static void pull(struct raw *raw) {
  ssize_t length = recv(raw->fd, raw->bytes + raw->length, sizeof raw->bytes - raw->length, MSG_DONTWAIT);
  if (length > 0) raw->length += (size_t)length;
  if (length == 0 || (length < 0 && errno != EAGAIN)) raw->ended = true;
}

static bool find_frame(struct raw *raw, uint8_t type, size_t *at_out, size_t *payload_bytes_out) {
  pull(raw);
  for (size_t at = 0; at + WIRE_FRAME_BYTES <= raw->length;) {
    struct wire_frame frame;
    assert_int_equal(wire_frame_decode(raw->bytes + at, WIRE_PAYLOAD_LIMIT_BYTES, &frame, NULL), KVF_OK);
    if (at + WIRE_FRAME_BYTES + frame.payload_bytes > raw->length) return false;
    if (frame.type == type) {
      *at_out = at + WIRE_FRAME_BYTES;
      *payload_bytes_out = frame.payload_bytes;
      return true;
    }
    at += WIRE_FRAME_BYTES + frame.payload_bytes;
  }
  return false;
}

const uint8_t *raw_wait_frame(struct raw *raw, uv_loop_t *loop, uint8_t type, size_t *payload_bytes_out) {
  size_t at = 0;
  NODE_WAIT(loop, 3000, find_frame(raw, type, &at, payload_bytes_out));
  return raw->bytes + at;
}

static bool has_ended(struct raw *raw) {
  if (raw->length > sizeof raw->bytes / 2) raw->length = 0;
  pull(raw);
  return raw->ended;
}

void raw_wait_end(struct raw *raw, uv_loop_t *loop, uint64_t limit_ms) {
  NODE_WAIT(loop, limit_ms, has_ended(raw));
}

void raw_close(struct raw *raw, bool reset) {
  struct linger linger = {.l_onoff = 1, .l_linger = 0};
  if (reset && raw->fd >= 0) setsockopt(raw->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  if (raw->fd >= 0) close(raw->fd);
  raw->fd = -1;
}
