/* Seals and opens the frame of addresses and keys. */
#include "fabric_ucx/blob.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are copied as they lie in memory");

enum { MAGIC = 0x5855564b, VERSION = 1 };

struct head {
  uint32_t magic;
  uint8_t version;
  uint8_t kind;
  uint16_t body_bytes;
  uint32_t crc;
  uint32_t zero;
  uint8_t incarnation[16];
};
_Static_assert(sizeof(struct head) == FABRIC_UCX_BLOB_HEAD_BYTES, "the frame has no holes");

/* CRC-32 (reflected 0xedb88320), a bit at a time: frames are short and rare. */
static uint32_t extend_crc(uint32_t crc, const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
  }
  return crc;
}

/* Over the head, its own crc taken as zero, and the body. */
static uint32_t compute_crc(struct head head, const uint8_t *body) {
  uint8_t bytes[sizeof head];
  head.crc = 0;
  memcpy(bytes, &head, sizeof head);
  return ~extend_crc(extend_crc(~0u, bytes, sizeof bytes), body, head.body_bytes);
}

size_t fabric_ucx_blob_seal(uint8_t *bytes, enum fabric_ucx_blob_kind kind, const uint8_t *incarnation, size_t body_bytes) {
  struct head head = {.magic = MAGIC, .version = VERSION, .kind = kind, .body_bytes = (uint16_t)body_bytes};
  memcpy(head.incarnation, incarnation, sizeof head.incarnation);
  head.crc = compute_crc(head, bytes + sizeof head);
  memcpy(bytes, &head, sizeof head);
  return sizeof head + body_bytes;
}

const uint8_t *fabric_ucx_blob_open(const uint8_t *bytes, size_t length, enum fabric_ucx_blob_kind kind, uint8_t *incarnation_out,
                                    size_t *body_bytes_out) {
  struct head head;
  if (length < sizeof head) return NULL;
  memcpy(&head, bytes, sizeof head);
  if (head.magic != MAGIC || head.version != VERSION || head.kind != kind || head.zero) return NULL;
  if (head.body_bytes != length - sizeof head) return NULL;
  if (compute_crc(head, bytes + sizeof head) != head.crc) return NULL;
  memcpy(incarnation_out, head.incarnation, sizeof head.incarnation);
  *body_bytes_out = head.body_bytes;
  return bytes + sizeof head;
}
