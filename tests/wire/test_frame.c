/* The outer frame, the names of the types, and the piece header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "wire/message.h"

static void a_frame_is_what_its_picture_says(void **state) {
  uint8_t bytes[WIRE_FRAME_BYTES];
  const uint8_t expected[WIRE_FRAME_BYTES] = {'K', 'V', 'F', 'Y', 1, 17, 0, 0, 0x04, 0x03, 0x02, 0x00};
  wire_frame_encode(&(struct wire_frame){.type = WIRE_OPEN, .payload_bytes = 0x020304}, bytes);
  assert_memory_equal(bytes, expected, sizeof bytes);
  struct wire_frame frame;
  assert_int_equal(wire_frame_decode(bytes, WIRE_PAYLOAD_LIMIT_BYTES, &frame, NULL), KVF_OK);
  assert_int_equal(frame.type, WIRE_OPEN);
  assert_int_equal(frame.payload_bytes, 0x020304);
}

static kvf_status decode_frame(const uint8_t *bytes, uint32_t limit, struct wire_frame *frame_out) {
  kvf_error *error = NULL;
  kvf_status status = wire_frame_decode(bytes, limit, frame_out, &error);
  assert_int_equal(status, kvf_error_status(error));
  kvf_error_free(error);
  return status;
}

/* Magic, version and flags: any change is refused. Type: passed on. Length: refused over the limit, never wrong. */
static void every_damaged_byte_of_a_frame_is_seen(void **state) {
  uint8_t good[WIRE_FRAME_BYTES];
  wire_frame_encode(&(struct wire_frame){.type = WIRE_HELLO, .payload_bytes = 200}, good);
  for (size_t at = 0; at < sizeof good; at++) {
    for (unsigned change = 1; change < 256; change++) {
      uint8_t bytes[WIRE_FRAME_BYTES];
      memcpy(bytes, good, sizeof bytes);
      bytes[at] ^= (uint8_t)change;
      struct wire_frame frame = {0};
      kvf_status status = decode_frame(bytes, WIRE_PAYLOAD_UNPROVEN_BYTES, &frame);
      uint32_t length = bytes[8] | (uint32_t)bytes[9] << 8 | (uint32_t)bytes[10] << 16 | (uint32_t)bytes[11] << 24;
      bool fine = at == 5 || (at >= 8 && length <= WIRE_PAYLOAD_UNPROVEN_BYTES);
      assert_int_equal(status, fine ? KVF_OK : KVF_PROTOCOL);
      if (fine) assert_int_equal(frame.payload_bytes, length);
    }
  }
}

static void the_limit_itself_is_allowed(void **state) {
  uint8_t bytes[WIRE_FRAME_BYTES];
  struct wire_frame frame;
  wire_frame_encode(&(struct wire_frame){.type = WIRE_HELLO, .payload_bytes = 1024}, bytes);
  assert_int_equal(decode_frame(bytes, 1024, &frame), KVF_OK);
  assert_int_equal(decode_frame(bytes, 1023, &frame), KVF_PROTOCOL);
}

static void every_type_has_a_name(void **state) {
  assert_string_equal(wire_type_name(WIRE_HELLO), "HELLO");
  assert_string_equal(wire_type_name(WIRE_FAIL_ACK), "FAIL_ACK");
  assert_string_equal(wire_type_name(0), "type 0");
  assert_string_equal(wire_type_name(12), "type 12");
  assert_string_equal(wire_type_name(77), "type 77");
  assert_string_equal(wire_type_name(255), "type 255");
  for (unsigned type = 0; type < 256; type++) {
    char number[16];
    snprintf(number, sizeof number, "type %u", type);
    const char *name = wire_type_name((uint8_t)type);
    assert_true(strcmp(name, number) == 0 || strncmp(name, "type", 4) != 0);
  }
}

static struct wire_piece random_piece(uint64_t *random) {
  return (struct wire_piece){.room = base_random_next(random),
                             .sequence = (uint32_t)base_random_next(random),
                             .attempt = (uint32_t)base_random_next(random),
                             .plan = (uint32_t)base_random_next(random),
                             .direct = (uint32_t)base_random_next(random) & 1,
                             .cut_first = (uint32_t)base_random_next(random),
                             .cut_count = (uint32_t)base_random_next(random),
                             .token_first = base_random_next(random),
                             .token_count = (uint32_t)base_random_next(random),
                             .grant = (uint32_t)base_random_next(random),
                             .grant_generation = (uint32_t)base_random_next(random),
                             .bytes = base_random_next(random),
                             .checksum = base_random_next(random),
                             .opening = (uint32_t)base_random_next(random)};
}

static void assert_pieces_equal(const struct wire_piece *a, const struct wire_piece *b) {
  assert_int_equal(a->room, b->room);
  assert_int_equal(a->sequence, b->sequence);
  assert_int_equal(a->attempt, b->attempt);
  assert_int_equal(a->plan, b->plan);
  assert_int_equal(a->direct, b->direct);
  assert_int_equal(a->cut_first, b->cut_first);
  assert_int_equal(a->cut_count, b->cut_count);
  assert_int_equal(a->token_first, b->token_first);
  assert_int_equal(a->token_count, b->token_count);
  assert_int_equal(a->grant, b->grant);
  assert_int_equal(a->grant_generation, b->grant_generation);
  assert_int_equal(a->bytes, b->bytes);
  assert_int_equal(a->checksum, b->checksum);
  assert_int_equal(a->opening, b->opening);
}

static void a_piece_header_comes_back_whole(void **state) {
  uint64_t random = 41;
  for (int i = 0; i < 1000; i++) {
    struct wire_piece piece = random_piece(&random), again = {0};
    uint8_t bytes[WIRE_PIECE_BYTES];
    wire_piece_encode(&piece, bytes);
    assert_int_equal(wire_piece_decode(bytes, &again, NULL), KVF_OK);
    assert_pieces_equal(&piece, &again);
  }
}

static void every_damaged_byte_of_a_piece_header_is_seen(void **state) {
  uint64_t random = 42;
  struct wire_piece piece = random_piece(&random);
  uint8_t good[WIRE_PIECE_BYTES], bytes[WIRE_PIECE_BYTES];
  wire_piece_encode(&piece, good);
  for (size_t at = 0; at < sizeof good; at++) {
    for (unsigned change = 1; change < 256; change++) {
      memcpy(bytes, good, sizeof bytes);
      bytes[at] ^= (uint8_t)change;
      struct wire_piece again = {.room = 7};
      kvf_error *error = NULL;
      assert_int_equal(wire_piece_decode(bytes, &again, &error), KVF_PROTOCOL);
      assert_int_equal(again.room, 7);
      kvf_error_free(error);
    }
  }
}

/* What a one-sided write may leave when two headers mix: words swapped or shifted, or nothing written yet. */
static void misplaced_words_of_a_piece_header_are_seen(void **state) {
  uint64_t random = 43;
  struct wire_piece piece = random_piece(&random), again;
  uint8_t good[WIRE_PIECE_BYTES], bytes[WIRE_PIECE_BYTES];
  wire_piece_encode(&piece, good);
  for (size_t a = 0; a < 9; a++) {
    for (size_t b = a + 1; b < 9; b++) {
      memcpy(bytes, good, sizeof bytes);
      memcpy(bytes + a * 8, good + b * 8, 8);
      memcpy(bytes + b * 8, good + a * 8, 8);
      assert_int_equal(wire_piece_decode(bytes, &again, NULL), KVF_PROTOCOL);
    }
  }
  memset(bytes, 0, sizeof bytes);
  assert_int_equal(wire_piece_decode(bytes, &again, NULL), KVF_PROTOCOL);
  memset(bytes, 0xff, sizeof bytes);
  assert_int_equal(wire_piece_decode(bytes, &again, NULL), KVF_PROTOCOL);
  piece.direct = 2;
  wire_piece_encode(&piece, bytes);
  assert_int_equal(wire_piece_decode(bytes, &again, NULL), KVF_PROTOCOL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_frame_is_what_its_picture_says),
      cmocka_unit_test(every_damaged_byte_of_a_frame_is_seen),
      cmocka_unit_test(the_limit_itself_is_allowed),
      cmocka_unit_test(every_type_has_a_name),
      cmocka_unit_test(a_piece_header_comes_back_whole),
      cmocka_unit_test(every_damaged_byte_of_a_piece_header_is_seen),
      cmocka_unit_test(misplaced_words_of_a_piece_header_are_seen),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
