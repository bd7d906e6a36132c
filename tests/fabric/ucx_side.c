/* Callbacks that count, and loops around the providers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/fabric.h"
#include "ucx_side.h"

/* libuct of UCX 1.13 loses a few small strings for each context that it closes. Nothing else is suppressed, so a leak of ours, or
 * one through another library of UCX, still fails the test. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:libuct.so\n";
}

static kvf_status place_piece(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes, struct iovec *iov_out,
                              size_t *iov_count_inout) {
  struct ucx_side *side = context;
  uint64_t offset;
  side->place_count++;
  assert_int_equal(token, UCX_SIDE_TOKEN);
  if (side->drop_on_place) side->fabric->ops->token_drop(side->fabric, token);
  if (side->place_answer) return side->place_answer;
  memcpy(&offset, header, sizeof offset);
  assert_true(offset + payload_bytes <= side->memory.length);
  uint64_t parts = side->place_parts && payload_bytes >= side->place_parts ? side->place_parts : 1;
  assert_true(parts <= *iov_count_inout);
  uint64_t step = payload_bytes / parts;
  for (uint64_t i = 0; i < parts; i++) {
    uint8_t *base = (uint8_t *)side->memory.address + offset + i * step;
    iov_out[i] = (struct iovec){base, i + 1 < parts ? step : payload_bytes - i * step};
  }
  *iov_count_inout = parts;
  return KVF_OK;
}

static void count_landed(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes) {
  struct ucx_side *side = context;
  assert_int_equal(token, UCX_SIDE_TOKEN);
  assert_int_equal(header[FABRIC_HEADER_BYTES - 1], 0xa5);
  side->landed_count++;
  side->landed_bytes += payload_bytes;
}

static void count_lost(void *context, uint64_t token) {
  struct ucx_side *side = context;
  assert_int_equal(token, UCX_SIDE_TOKEN);
  side->lost_count++;
}

static void count_sent(void *context, void *tag, kvf_error *error) {
  struct ucx_side *side = context;
  assert_ptr_equal(tag, side);
  side->sent_count++;
  if (side->down_count) side->sent_after_down = true;
  if (kvf_error_status(error) == KVF_CANCELLED) {
    side->cancelled_count++;
  } else if (error) {
    side->broken_count++;
    side->broken_status = kvf_error_status(error);
  }
  kvf_error_free(error);
}

static void count_ready(void *context, struct fabric_endpoint *endpoint) {
  struct ucx_side *side = context;
  assert_ptr_equal(endpoint, side->endpoint);
  assert_ptr_equal(endpoint->ops->endpoint_user(endpoint), side);
  side->ready_count++;
}

static void count_down(void *context, struct fabric_endpoint *endpoint, kvf_error *error) {
  struct ucx_side *side = context;
  assert_ptr_equal(endpoint, side->endpoint);
  assert_non_null(error);
  side->down_count++;
  side->down_status = kvf_error_status(error);
  kvf_error_format(error, side->down_text, sizeof side->down_text);
  kvf_error_free(error);
}

kvf_status ucx_side_open(struct ucx_side *side, const struct fabric_ops *ops, const char *settings, kvf_error **error_out) {
  *side = (struct ucx_side){.ops = ops};
  assert_int_equal(base_random_fill(side->incarnation, sizeof side->incarnation), 0);
  struct fabric_options options = {.host = "127.0.0.1",
                                   .settings = settings,
                                   .callbacks = {.context = side,
                                                 .place = place_piece,
                                                 .landed = count_landed,
                                                 .token_lost = count_lost,
                                                 .sent = count_sent,
                                                 .endpoint_ready = count_ready,
                                                 .endpoint_down = count_down}};
  memcpy(options.incarnation, side->incarnation, sizeof side->incarnation);
  return ops->open(&options, &side->fabric, error_out);
}

void ucx_side_close(struct ucx_side *side) {
  side->ops->close(side->fabric);
  if (side->memory_is_own) free(side->memory.address);
}

void ucx_side_expose(struct ucx_side *side, uint64_t length) {
  const struct fabric_ops *ops = side->fabric->ops;
  if (!side->memory.address) {
    if (ops->memory_alloc) {
      assert_int_equal(ops->memory_alloc(side->fabric, length, &side->memory, NULL), KVF_OK);
    } else {
      side->memory = (struct fabric_memory){.address = calloc(1, length), .length = length};
      side->memory_is_own = true;
    }
  }
  struct fabric_exposure exposure = {.region = UCX_SIDE_REGION,
                                     .generation = ++side->generation,
                                     .address = side->memory.address,
                                     .length = length,
                                     .memory_fd = -1};
  assert_int_equal(ops->region_expose(side->fabric, &exposure, &side->region, NULL), KVF_OK);
}

kvf_status ucx_side_connect(struct ucx_side *sender, const uint8_t *address, size_t address_bytes, kvf_error **error_out) {
  return sender->fabric->ops->connect(sender->fabric, address, address_bytes, UCX_SIDE_TOKEN, sender, &sender->endpoint, error_out);
}

void ucx_side_join(struct ucx_side *sender, struct ucx_side *receiver) {
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES], key[FABRIC_KEY_LIMIT_BYTES];
  const struct fabric_ops *ops = receiver->fabric->ops;
  uint64_t ready = sender->ready_count + 1;
  assert_int_equal(ops->token_admit(receiver->fabric, UCX_SIDE_TOKEN, NULL), KVF_OK);
  assert_int_equal(ucx_side_connect(sender, address, ops->address(receiver->fabric, address), NULL), KVF_OK);
  assert_true(ucx_side_run(sender, receiver, &sender->ready_count, ready, 5000));
  if (!ops->key_import || !receiver->region) return;
  size_t key_bytes = ops->region_key(receiver->region, key);
  assert_int_equal(
      ops->key_import(sender->endpoint, UCX_SIDE_REGION, receiver->generation, receiver->memory.length, key, key_bytes, NULL),
      KVF_OK);
}

kvf_status ucx_side_send(struct ucx_side *side, const uint8_t *payload, uint64_t length, uint64_t offset, uint64_t generation,
                         size_t parts, kvf_error **error_out) {
  uint8_t header[FABRIC_HEADER_BYTES] = {[FABRIC_HEADER_BYTES - 1] = 0xa5};
  struct iovec iov[FABRIC_IOV_LIMIT];
  memcpy(header, &offset, sizeof offset);
  if (parts > length) parts = length;
  for (size_t i = 0; i < parts; i++) {
    uint64_t step = length / parts;
    iov[i] = (struct iovec){(void *)(payload + i * step), i + 1 < parts ? step : length - i * step};
  }
  struct fabric_piece piece = {.header = header,
                               .iov = iov,
                               .iov_count = parts,
                               .payload_bytes = length,
                               .target = {.region = UCX_SIDE_REGION, .generation = generation, .offset = offset, .length = length},
                               .tag = side};
  return side->fabric->ops->send(side->endpoint, &piece, error_out);
}

/* One turn: progress, and sleep when neither has anything to do. */
static void turn(struct ucx_side *a, struct ucx_side *b) {
  struct ucx_side *sides[2] = {a, b};
  struct pollfd fds[2];
  int count = 0;
  bool did = false;
  for (int i = 0; i < 2; i++) {
    if (sides[i]) did |= sides[i]->fabric->ops->progress(sides[i]->fabric);
  }
  for (int i = 0; i < 2 && !did; i++) {
    if (!sides[i]) continue;
    if (!sides[i]->fabric->ops->arm(sides[i]->fabric)) return;
    fds[count++] = (struct pollfd){.fd = sides[i]->fabric->ops->event_fd(sides[i]->fabric), .events = POLLIN};
  }
  if (!did) poll(fds, count, 50);
}

bool ucx_side_run(struct ucx_side *a, struct ucx_side *b, const uint64_t *count, uint64_t target, int milliseconds) {
  uint64_t deadline_ns = base_clock_ns() + milliseconds * BASE_NS_PER_MS;
  while (*count < target && base_clock_ns() < deadline_ns) turn(a, b);
  return *count >= target;
}

void ucx_side_idle(struct ucx_side *a, struct ucx_side *b, int milliseconds) {
  uint64_t deadline_ns = base_clock_ns() + milliseconds * BASE_NS_PER_MS;
  while (base_clock_ns() < deadline_ns) turn(a, b);
}
