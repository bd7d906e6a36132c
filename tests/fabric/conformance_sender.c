/* Counting callbacks around a provider's sending side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "conformance_sender.h"

static void sent(void *context, void *tag, kvf_error *error) {
  struct sender *sender = context;
  uint64_t index = (uint64_t)(uintptr_t)tag;
  assert_false(sender->closed);
  assert_true(index < SENDER_TAGS);
  assert_int_equal(sender->told[index]++, 0);
  struct sender_way *way = sender->way_of[index];
  assert_int_equal(way->down, 0);
  sender->sent++;
  switch (kvf_error_status(error)) {
    case KVF_OK:
      sender->sent_ok++;
      break;
    case KVF_CANCELLED:
      sender->cancelled++;
      break;
    default:
      sender->failed++;
      sender->failed_status = kvf_error_status(error);
  }
  kvf_error_free(error);
  if (way->disconnect_on_sent) {
    way->disconnect_on_sent = false;
    sender->ops->disconnect(way->endpoint);
  }
}

static void endpoint_ready(void *context, struct fabric_endpoint *endpoint) {
  struct sender *sender = context;
  assert_false(sender->closed);
  struct sender_way *way = sender->ops->endpoint_user(endpoint);
  assert_ptr_equal(way->endpoint, endpoint);
  way->ready++;
}

static void endpoint_down(void *context, struct fabric_endpoint *endpoint, kvf_error *error) {
  struct sender *sender = context;
  assert_false(sender->closed);
  struct sender_way *way = sender->ops->endpoint_user(endpoint);
  assert_ptr_equal(way->endpoint, endpoint);
  assert_non_null(error);
  way->down++;
  way->down_status = kvf_error_status(error);
  kvf_error_free(error);
  if (way->disconnect_on_down) sender->ops->disconnect(endpoint);
}

void sender_open(struct sender *sender, const struct fabric_ops *ops, const char *settings) {
  *sender = (struct sender){0};
  struct fabric_options options = {
      .host = "127.0.0.1",
      .settings = settings,
      .callbacks = {.context = sender, .sent = sent, .endpoint_ready = endpoint_ready, .endpoint_down = endpoint_down}};
  kvf_error *error = NULL;
  base_random_fill(options.incarnation, sizeof options.incarnation);
  assert_int_equal(ops->open(&options, &sender->fabric, &error), KVF_OK);
  sender->ops = sender->fabric->ops;
}

void sender_close(struct sender *sender) {
  sender->closed = true;
  if (sender->fabric) sender->ops->close(sender->fabric);
  sender->fabric = NULL;
}

static bool step(struct sender *sender, int milliseconds) {
  if (sender->ops->progress(sender->fabric)) return true;
  if (sender->ops->arm && !sender->ops->arm(sender->fabric)) return true;
  struct pollfd polled = {.fd = sender->ops->event_fd(sender->fabric), .events = POLLIN};
  int ready = poll(&polled, 1, milliseconds);
  sender->wakeups += ready > 0;
  return ready > 0;
}

bool sender_run(struct sender *sender, const uint64_t *count, uint64_t target, int milliseconds) {
  uint64_t deadline_ns = base_clock_ns() + (uint64_t)milliseconds * BASE_NS_PER_MS;
  while (*count < target && base_clock_ns() < deadline_ns) step(sender, 20);
  return *count >= target;
}

void sender_idle(struct sender *sender, int milliseconds) {
  uint64_t deadline_ns = base_clock_ns() + (uint64_t)milliseconds * BASE_NS_PER_MS;
  for (uint64_t now_ns = base_clock_ns(); now_ns < deadline_ns; now_ns = base_clock_ns())
    step(sender, (int)((deadline_ns - now_ns) / BASE_NS_PER_MS) + 1);
}

void sender_settle(struct sender *sender) {
  assert_true(sender_run(sender, &sender->sent, sender->accepted, SENDER_WAIT_MS));
  assert_int_equal(sender->sent, sender->accepted);
}

kvf_status sender_connect_start(struct sender *sender, struct sender_way *way, struct peer *peer, uint64_t token) {
  struct peer_reply reply;
  peer_ask(peer, PEER_ADDRESS, 0, &reply);
  *way = (struct sender_way){.sender = sender, .generation = 1, .sequence = 1};
  kvf_error *error = NULL;
  kvf_status status = sender->ops->connect(sender->fabric, reply.bytes, reply.byte_count, token, way, &way->endpoint, &error);
  way->down_status = status;
  kvf_error_free(error);
  return status;
}

kvf_status sender_import(struct sender_way *way, uint64_t generation, const struct peer_reply *exposed) {
  const struct fabric_ops *ops = way->sender->ops;
  way->generation = generation;
  if (!ops->key_import) return KVF_OK;
  return ops->key_import(way->endpoint, PEER_REGION, generation, PEER_REGION_BYTES, exposed->bytes, exposed->byte_count, NULL);
}

void sender_connect(struct sender *sender, struct sender_way *way, struct peer *peer) {
  struct peer_reply exposed;
  assert_int_equal(sender_connect_start(sender, way, peer, peer->token), KVF_OK);
  peer_ask(peer, PEER_REVOKE, 0, &exposed);
  peer_ask(peer, PEER_EXPOSE, 1, &exposed);
  assert_int_equal(sender_import(way, 1, &exposed), KVF_OK);
  assert_true(sender_run(sender, &way->ready, 1, SENDER_WAIT_MS));
  assert_int_equal(way->down, 0);
}

void sender_header_fill(struct sender_way *way, uint64_t length, uint64_t offset, uint64_t seed, struct peer_header *header_out,
                        struct fabric_target *target_out) {
  *header_out = (struct peer_header){
      .sequence = way->sequence++, .generation = way->generation, .offset = offset, .length = length, .seed = seed};
  header_out->check = peer_header_check(header_out);
  *target_out = (struct fabric_target){.region = PEER_REGION, .generation = way->generation, .offset = offset, .length = length};
}

kvf_status sender_post(struct sender_way *way, const struct iovec *iov, size_t iov_count, uint64_t length, uint64_t offset,
                       uint64_t seed, kvf_error **error_out) {
  struct sender *sender = way->sender;
  struct peer_header header;
  struct fabric_piece piece = {.header = (const uint8_t *)&header,
                               .iov = iov,
                               .iov_count = iov_count,
                               .payload_bytes = length,
                               .tag = (void *)(uintptr_t)sender->accepted};
  sender_header_fill(way, length, offset, seed, &header, &piece.target);
  assert_true(sender->accepted < SENDER_TAGS);
  sender->way_of[sender->accepted] = way;
  kvf_status status;
  uint64_t deadline_ns = base_clock_ns() + 5 * BASE_NS_PER_S;
  while ((status = sender->ops->send(way->endpoint, &piece, error_out)) == KVF_NOT_READY && base_clock_ns() < deadline_ns) {
    if (error_out) kvf_error_free(*error_out);
    step(sender, 20);
  }
  if (status == KVF_OK) sender->accepted++;
  return status;
}

void sender_send(struct sender_way *way, void *buffer, uint64_t length, uint64_t offset) {
  uint64_t seed = way->sequence * 7919 + offset;
  peer_pattern_fill(buffer, length, seed);
  const struct iovec iov = {buffer, length};
  kvf_status status;
  while ((status = sender_post(way, &iov, 1, length, offset, seed, NULL)) == KVF_BACKPRESSURE) {
    /* The promise is that a `sent` follows. */
    way->sequence--;
    assert_true(sender_run(way->sender, &way->sender->sent, way->sender->sent + 1, SENDER_WAIT_MS));
    seed = way->sequence * 7919 + offset;
  }
  assert_int_equal(status, KVF_OK);
}
