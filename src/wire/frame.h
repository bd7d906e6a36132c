/* The outer frame of the control connection. Frozen: every version of kvferry can read it.
 *
 *   offset 0  4  magic "KVFY"
 *          4  1  frame version, 1
 *          5  1  message type
 *          6  2  flags, 0
 *          8  4  payload bytes, at most WIRE_PAYLOAD_LIMIT_BYTES
 *         12     payload
 * All numbers little endian. */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
  WIRE_FRAME_BYTES = 12,
  WIRE_FRAME_TYPE_OFFSET = 5,
  WIRE_PAYLOAD_LIMIT_BYTES = 16 << 20,
  /* Before authentication nothing larger is read. */
  WIRE_PAYLOAD_UNPROVEN_BYTES = 1024
};

struct wire_frame {
  uint8_t type;
  uint32_t payload_bytes;
};

void wire_frame_encode(const struct wire_frame *frame, uint8_t bytes_out[WIRE_FRAME_BYTES]);
/* Errors: PROTOCOL (magic, frame version, flags, length over @p limit). */
kvf_status wire_frame_decode(const uint8_t bytes[WIRE_FRAME_BYTES], uint32_t limit, struct wire_frame *frame_out, kvf_error **error_out);

#endif
