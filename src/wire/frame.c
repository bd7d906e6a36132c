/* The outer frame: the one part of the protocol that never changes. */
#include "wire/frame.h"

#include <string.h>

#include "wire/codec.h"

static const uint8_t frame_magic[4] = {'K', 'V', 'F', 'Y'};
enum { FRAME_VERSION = 1 };

void wire_frame_encode(const struct wire_frame *frame, uint8_t bytes_out[WIRE_FRAME_BYTES]) {
  memcpy(bytes_out, frame_magic, sizeof frame_magic);
  bytes_out[4] = FRAME_VERSION;
  bytes_out[5] = frame->type;
  wire_store(bytes_out + 6, 0, 2);
  wire_store(bytes_out + 8, frame->payload_bytes, 4);
}

kvf_status wire_frame_decode(const uint8_t bytes[WIRE_FRAME_BYTES], uint32_t limit, struct wire_frame *frame_out,
                             kvf_error **error_out) {
  uint32_t flags = (uint32_t)wire_load(bytes + 6, 2), payload_bytes = (uint32_t)wire_load(bytes + 8, 4);
  kvf_error *error = NULL;
  if (memcmp(bytes, frame_magic, sizeof frame_magic) != 0) {
    error = BASE_ERROR(KVF_PROTOCOL, NULL, "these bytes are not a frame of kvferry");
    base_error_add(error, "magic", "%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  } else if (bytes[4] != FRAME_VERSION) {
    error = BASE_ERROR(KVF_PROTOCOL, NULL, "frame version %u is not known here", bytes[4]);
  } else if (flags) {
    error = BASE_ERROR(KVF_PROTOCOL, NULL, "frame flags 0x%04x are not known here", flags);
  } else if (payload_bytes > limit) {
    error = BASE_ERROR(KVF_PROTOCOL, NULL, "a %s of %u bytes is too long here", wire_type_name(bytes[5]), payload_bytes);
    base_error_add(error, "limit", "%u", limit);
  }
  if (error) return base_error_give(error, error_out);
  *frame_out = (struct wire_frame){.type = bytes[5], .payload_bytes = payload_bytes};
  return KVF_OK;
}

/* Names of the types in use, and for the rest "type N" as a constant, since a peer may send any number at any time. */
#define TEN(tens)                                                                                                   \
  "type " #tens "0", "type " #tens "1", "type " #tens "2", "type " #tens "3", "type " #tens "4", "type " #tens "5", \
      "type " #tens "6", "type " #tens "7", "type " #tens "8", "type " #tens "9"
static const char *const type_numbers[] = {TEN(),   TEN(1),  TEN(2),  TEN(3),  TEN(4),  TEN(5),  TEN(6),  TEN(7),  TEN(8),
                                           TEN(9),  TEN(10), TEN(11), TEN(12), TEN(13), TEN(14), TEN(15), TEN(16), TEN(17),
                                           TEN(18), TEN(19), TEN(20), TEN(21), TEN(22), TEN(23), TEN(24), TEN(25)};
#undef TEN

static const char *const type_names[] = {
    [WIRE_HELLO] = "HELLO",   [WIRE_AUTH] = "AUTH",     [WIRE_LAYOUT] = "LAYOUT",    [WIRE_OFFER] = "OFFER",
    [WIRE_EXPOSE] = "EXPOSE", [WIRE_REVOKE] = "REVOKE", [WIRE_READY] = "READY",      [WIRE_REFUSE] = "REFUSE",
    [WIRE_PING] = "PING",     [WIRE_PONG] = "PONG",     [WIRE_BYE] = "BYE",          [WIRE_PLAN] = "PLAN",
    [WIRE_OPEN] = "OPEN",     [WIRE_GRANT] = "GRANT",   [WIRE_ACK] = "ACK",          [WIRE_NACK] = "NACK",
    [WIRE_DONE] = "DONE",     [WIRE_WANT] = "WANT",     [WIRE_RETURN] = "RETURN",    [WIRE_REFRESH] = "REFRESH",
    [WIRE_FINAL] = "FINAL",   [WIRE_FAIL] = "FAIL",     [WIRE_FAIL_ACK] = "FAIL_ACK"};

const char *wire_type_name(uint8_t type) {
  const char *name = type < sizeof type_names / sizeof type_names[0] ? type_names[type] : NULL;
  return name ? name : type_numbers[type];
}
