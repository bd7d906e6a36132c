/* Decoding what a stranger sent, and the one property that holds for all of it: what was understood can be said again. */
#include "fuzz/wire_input.h"

#include <stdlib.h>
#include <string.h>

#include "wire/message.h"

enum { INPUT_FRAME = 0, INPUT_PIECE = 255 };

static void require(int condition) {
  if (!condition) abort();
}

/* A refusal must be one that the header names, and a refused field must have a name. */
static void check_refusal(kvf_status status, kvf_error *error) {
  require(status == KVF_PROTOCOL || status == KVF_NO_MEMORY);
  require(kvf_error_status(error) == status);
  require(status != KVF_PROTOCOL || kvf_error_find(error, "field") != NULL);
  kvf_error_free(error);
}

#define RELEASE_NOTHING(message) ((void)(message))
#define RELEASE_ERROR(message) kvf_error_free((message)->error)
#define CHECK(noun, release)                                                                                                \
  static int check_##noun(const uint8_t *payload, size_t length) {                                                          \
    struct wire_##noun first, second;                                                                                       \
    struct wire_scratch first_scratch = {0}, second_scratch = {0};                                                          \
    struct wire_buffer once = {0}, twice = {0};                                                                             \
    kvf_error *error = NULL;                                                                                                \
    kvf_status status = wire_##noun##_decode(payload, length, &first_scratch, &first, &error);                              \
    if (status == KVF_OK) {                                                                                                 \
      wire_##noun##_encode(&once, &first);                                                                                  \
      require(!once.failed);                                                                                                \
      require(wire_##noun##_decode(once.bytes + WIRE_FRAME_BYTES, once.length - WIRE_FRAME_BYTES, &second_scratch, &second, \
                                   NULL) == KVF_OK);                                                                        \
      wire_##noun##_encode(&twice, &second);                                                                                \
      require(once.length == twice.length && memcmp(once.bytes, twice.bytes, once.length) == 0);                            \
      release(&first);                                                                                                      \
      release(&second);                                                                                                     \
    } else {                                                                                                                \
      check_refusal(status, error);                                                                                         \
    }                                                                                                                       \
    wire_buffer_fini(&once);                                                                                                \
    wire_buffer_fini(&twice);                                                                                               \
    wire_scratch_reset(&first_scratch);                                                                                     \
    wire_scratch_reset(&second_scratch);                                                                                    \
    return status == KVF_OK;                                                                                                \
  }

CHECK(hello, RELEASE_NOTHING)
CHECK(auth, RELEASE_NOTHING)
CHECK(layout, RELEASE_NOTHING)
CHECK(offer, RELEASE_NOTHING)
CHECK(expose, RELEASE_NOTHING)
CHECK(revoke, RELEASE_NOTHING)
CHECK(refuse, RELEASE_ERROR)
CHECK(ping, RELEASE_NOTHING)
CHECK(bye, RELEASE_NOTHING)
CHECK(plan, RELEASE_NOTHING)
CHECK(open, RELEASE_NOTHING)
CHECK(grant, RELEASE_NOTHING)
CHECK(ack, RELEASE_NOTHING)
CHECK(nack, RELEASE_ERROR)
CHECK(done, RELEASE_NOTHING)
CHECK(want, RELEASE_NOTHING)
CHECK(return, RELEASE_NOTHING)
CHECK(refresh, RELEASE_NOTHING)
CHECK(final, RELEASE_NOTHING)
CHECK(fail, RELEASE_ERROR)
CHECK(fail_ack, RELEASE_NOTHING)

static int (*const checks[256])(const uint8_t *payload, size_t length) = {
    [WIRE_HELLO] = check_hello,   [WIRE_AUTH] = check_auth,        [WIRE_LAYOUT] = check_layout,   [WIRE_OFFER] = check_offer,
    [WIRE_EXPOSE] = check_expose, [WIRE_REVOKE] = check_revoke,    [WIRE_REFUSE] = check_refuse,   [WIRE_PING] = check_ping,
    [WIRE_PONG] = check_ping,     [WIRE_BYE] = check_bye,          [WIRE_PLAN] = check_plan,       [WIRE_OPEN] = check_open,
    [WIRE_GRANT] = check_grant,   [WIRE_ACK] = check_ack,          [WIRE_NACK] = check_nack,       [WIRE_DONE] = check_done,
    [WIRE_WANT] = check_want,     [WIRE_RETURN] = check_return,    [WIRE_REFRESH] = check_refresh, [WIRE_FINAL] = check_final,
    [WIRE_FAIL] = check_fail,     [WIRE_FAIL_ACK] = check_fail_ack};

static int check_payload(uint8_t type, const uint8_t *payload, size_t length) {
  require(wire_type_name(type)[0] != '\0');
  return checks[type] ? checks[type](payload, length) : 0;
}

static int check_frame(const uint8_t *bytes, size_t length) {
  struct wire_frame frame;
  uint8_t again[WIRE_FRAME_BYTES];
  kvf_error *error = NULL;
  if (length < WIRE_FRAME_BYTES) return 0;
  kvf_status status = wire_frame_decode(bytes, WIRE_PAYLOAD_LIMIT_BYTES, &frame, &error);
  if (status != KVF_OK) {
    require(status == KVF_PROTOCOL && kvf_error_status(error) == status);
    kvf_error_free(error);
    return 0;
  }
  wire_frame_encode(&frame, again);
  require(memcmp(bytes, again, sizeof again) == 0);
  size_t there = length - WIRE_FRAME_BYTES;
  return frame.payload_bytes <= there && check_payload(frame.type, bytes + WIRE_FRAME_BYTES, frame.payload_bytes);
}

static int check_piece(const uint8_t *bytes, size_t length) {
  struct wire_piece first, second;
  uint8_t once[WIRE_PIECE_BYTES], twice[WIRE_PIECE_BYTES];
  if (length < WIRE_PIECE_BYTES || wire_piece_decode(bytes, &first, NULL) != KVF_OK) return 0;
  wire_piece_encode(&first, once);
  require(wire_piece_decode(once, &second, NULL) == KVF_OK);
  wire_piece_encode(&second, twice);
  require(memcmp(once, twice, sizeof once) == 0);
  return 1;
}

int wire_input_check(const uint8_t *bytes, size_t length) {
  if (length == 0) return 0;
  if (bytes[0] == INPUT_FRAME) return check_frame(bytes + 1, length - 1);
  if (bytes[0] == INPUT_PIECE) return check_piece(bytes + 1, length - 1);
  return check_payload(bytes[0], bytes + 1, length - 1);
}
