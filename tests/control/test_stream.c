/* The byte streams below a session: frames however the bytes are cut, and a queue that leaves in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "control/inbox.h"
#include "control/outbox.h"

enum { FRAME_COUNT = 200, STREAM_LIMIT_BYTES = 1 << 20 };

static uint64_t seed_of_run(void) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = 0;
  if (text)
    seed = strtoull(text, NULL, 0);
  else
    base_random_fill(&seed, sizeof seed);
  print_message("KVF_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

static uint8_t byte_of_frame(uint32_t frame, size_t at) {
  return (uint8_t)(frame * 31 + at * 7);
}

/* FRAME_COUNT frames of mostly small, sometimes large, sometimes empty payloads. */
static size_t make_stream(uint64_t *seed, uint8_t *stream, uint32_t *sizes_out) {
  size_t length = 0;
  for (uint32_t i = 0; i < FRAME_COUNT; i++) {
    uint64_t draw = base_random_next(seed);
    sizes_out[i] = draw % 10 == 0 ? (uint32_t)(draw >> 32) % 40000 : (uint32_t)(draw >> 32) % 30;
    if (length + WIRE_FRAME_BYTES + sizes_out[i] > STREAM_LIMIT_BYTES) sizes_out[i] = 0;
    wire_frame_encode(&(struct wire_frame){.type = (uint8_t)i, .payload_bytes = sizes_out[i]}, stream + length);
    length += WIRE_FRAME_BYTES;
    for (size_t at = 0; at < sizes_out[i]; at++) stream[length++] = byte_of_frame(i, at);
  }
  return length;
}

static void check_frame(uint32_t index, const struct control_inbox_frame *frame, uint32_t size) {
  assert_int_equal(frame->type, (uint8_t)index);
  assert_int_equal(frame->payload_bytes, size);
  for (size_t at = 0; at < size; at++) {
    if (frame->payload[at] != byte_of_frame(index, at)) fail_msg("frame %u differs at %zu", index, at);
  }
}

static void frames_come_whole_however_the_reads_are_cut(void **state) {
  uint64_t seed = seed_of_run();
  uint8_t *stream = malloc(STREAM_LIMIT_BYTES + WIRE_FRAME_BYTES * FRAME_COUNT);
  static uint32_t sizes[FRAME_COUNT];
  for (int round = 0; round < 60; round++) {
    size_t length = make_stream(&seed, stream, sizes), at = 0;
    uint64_t largest_read = 1ull << (base_random_next(&seed) % 17);
    struct control_inbox inbox = {0};
    uint32_t seen = 0;
    while (at < length) {
      size_t step = 1 + base_random_next(&seed) % largest_read;
      if (step > length - at) step = length - at;
      uint8_t *read = malloc(step); /* of its own, so that reading past it is seen */
      memcpy(read, stream + at, step);
      struct control_inbox_cursor cursor = {read, step};
      struct control_inbox_frame frame;
      bool found = true;
      while (found) {
        assert_int_equal(control_inbox_next(&inbox, &cursor, WIRE_PAYLOAD_LIMIT_BYTES, &frame, &found, NULL), KVF_OK);
        if (!found) break;
        bool whole_in_read = frame.payload >= read && frame.payload <= read + step;
        assert_true(whole_in_read || frame.payload == inbox.partial + WIRE_FRAME_BYTES);
        check_frame(seen, &frame, sizes[seen]);
        seen++;
      }
      assert_int_equal(cursor.left_bytes, 0);
      free(read);
      at += step;
    }
    assert_int_equal(seen, FRAME_COUNT);
    assert_int_equal(inbox.partial_bytes, 0);
    assert_true(inbox.capacity <= 16 << 10);
    control_inbox_fini(&inbox);
  }
  free(stream);
}

static void memory_follows_what_arrived_not_what_was_announced(void **state) {
  uint8_t start[WIRE_FRAME_BYTES + 100] = {0};
  wire_frame_encode(&(struct wire_frame){.type = 1, .payload_bytes = WIRE_PAYLOAD_LIMIT_BYTES}, start);
  struct control_inbox inbox = {0};
  struct control_inbox_cursor cursor = {start, sizeof start};
  struct control_inbox_frame frame;
  bool found;
  assert_int_equal(control_inbox_next(&inbox, &cursor, WIRE_PAYLOAD_LIMIT_BYTES, &frame, &found, NULL), KVF_OK);
  assert_false(found);
  assert_true(inbox.capacity <= 4096);
  control_inbox_fini(&inbox);
}

static void a_frame_over_the_limit_is_refused_at_its_header(void **state) {
  for (size_t cut = 1; cut <= WIRE_FRAME_BYTES; cut++) {
    uint8_t header[WIRE_FRAME_BYTES];
    wire_frame_encode(&(struct wire_frame){.type = 1, .payload_bytes = WIRE_PAYLOAD_UNPROVEN_BYTES + 1}, header);
    struct control_inbox inbox = {0};
    struct control_inbox_cursor cursor = {header, cut};
    struct control_inbox_frame frame;
    bool found;
    kvf_error *error = NULL;
    kvf_status status = control_inbox_next(&inbox, &cursor, WIRE_PAYLOAD_UNPROVEN_BYTES, &frame, &found, &error);
    if (cut < WIRE_FRAME_BYTES) {
      assert_int_equal(status, KVF_OK);
      cursor = (struct control_inbox_cursor){header + cut, sizeof header - cut};
      status = control_inbox_next(&inbox, &cursor, WIRE_PAYLOAD_UNPROVEN_BYTES, &frame, &found, &error);
    }
    assert_int_equal(status, KVF_PROTOCOL);
    kvf_error_free(error);
    control_inbox_fini(&inbox);
  }
}

static void no_memory_is_an_error(void **state) {
  uint8_t start[5] = {'K', 'V', 'F', 'Y', 1};
  struct control_inbox inbox = {0};
  struct control_inbox_cursor cursor = {start, sizeof start};
  struct control_inbox_frame frame;
  bool found;
  base_alloc_fail_after(1);
  assert_int_equal(control_inbox_next(&inbox, &cursor, 100, &frame, &found, NULL), KVF_NO_MEMORY);
  struct control_outbox outbox;
  control_outbox_init(&outbox);
  base_alloc_fail_after(1);
  assert_false(control_outbox_append(&outbox, start, sizeof start));
  base_alloc_fail_after(0);
  assert_int_equal(outbox.queued_bytes, 0);
  control_inbox_fini(&inbox);
}

static void the_queue_leaves_in_order_through_a_narrow_socket(void **state) {
  uint64_t seed = seed_of_run(), sent = 0;
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  struct control_outbox outbox;
  control_outbox_init(&outbox);
  static uint8_t piece[100000], got[70000];
  size_t put = 0, taken = 0;
  while (put < 20u << 20 || taken < put) {
    size_t length = put < 20u << 20 ? base_random_next(&seed) % (base_random_next(&seed) % 8 ? 200 : sizeof piece) : 0;
    for (size_t i = 0; i < length; i++) piece[i] = (uint8_t)((put + i) * 13 >> 3);
    assert_true(length == 0 || control_outbox_append(&outbox, piece, length));
    put += length;
    if (length == 0 || base_random_next(&seed) % 4 == 0) assert_int_equal(control_outbox_flush(&outbox, pair[0], &sent), 0);
    ssize_t count = read(pair[1], got, 1 + base_random_next(&seed) % (sizeof got - 1));
    for (ssize_t i = 0; i < count; i++, taken++) assert_int_equal(got[i], (uint8_t)(taken * 13 >> 3));
  }
  assert_int_equal(outbox.queued_bytes, 0);
  assert_int_equal(sent, put);
  assert_true(outbox.chunks.next == outbox.chunks.prev); /* at most one chunk is kept */
  close(pair[1]);
  assert_true(control_outbox_append(&outbox, piece, 10));
  assert_int_not_equal(control_outbox_flush(&outbox, pair[0], &sent), 0); /* and no SIGPIPE */
  control_outbox_fini(&outbox);
  close(pair[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_come_whole_however_the_reads_are_cut),
      cmocka_unit_test(memory_follows_what_arrived_not_what_was_announced),
      cmocka_unit_test(a_frame_over_the_limit_is_refused_at_its_header),
      cmocka_unit_test(no_memory_is_an_error),
      cmocka_unit_test(the_queue_leaves_in_order_through_a_narrow_socket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
