/* The writer: a growing buffer of whole frames. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "wire/codec.h"

void wire_buffer_fini(struct wire_buffer *buffer) {
  base_free(buffer->bytes);
  *buffer = (struct wire_buffer){0};
}

/* Room for @p length more bytes. */
static bool reserve(struct wire_buffer *buffer, size_t length) {
  uint64_t need = 0;
  if (buffer->failed) return false;
  if (!base_add_u64(buffer->length, length, &need)) return !(buffer->failed = true);
  if (need <= buffer->capacity) return true;
  uint64_t capacity = base_max_u64(base_ceil_pow2(need), 256);
  uint8_t *grown = capacity >= need ? base_realloc(buffer->bytes, capacity) : NULL;
  if (!grown) return !(buffer->failed = true);
  buffer->bytes = grown;
  buffer->capacity = capacity;
  return true;
}

void wire_put_bytes(struct wire_buffer *buffer, const void *bytes, size_t length) {
  if (!length || !reserve(buffer, length)) return;
  memcpy(buffer->bytes + buffer->length, bytes, length);
  buffer->length += length;
}

static void put_number(struct wire_buffer *buffer, uint64_t value, size_t width) {
  if (!reserve(buffer, width)) return;
  wire_store(buffer->bytes + buffer->length, value, width);
  buffer->length += width;
}

void wire_put_u8(struct wire_buffer *buffer, uint8_t value) {
  put_number(buffer, value, 1);
}
void wire_put_u16(struct wire_buffer *buffer, uint16_t value) {
  put_number(buffer, value, 2);
}
void wire_put_u32(struct wire_buffer *buffer, uint32_t value) {
  put_number(buffer, value, 4);
}
void wire_put_u64(struct wire_buffer *buffer, uint64_t value) {
  put_number(buffer, value, 8);
}

void wire_put_varint(struct wire_buffer *buffer, uint64_t value) {
  uint8_t bytes[10];
  size_t length = 0;
  for (; value >= 0x80; value >>= 7) bytes[length++] = (uint8_t)(value | 0x80);
  bytes[length++] = (uint8_t)value;
  wire_put_bytes(buffer, bytes, length);
}

bool wire_put_count(struct wire_buffer *buffer, uint32_t count, uint32_t limit) {
  if (count > limit) buffer->failed = true;
  wire_put_u32(buffer, count);
  return !buffer->failed;
}

void wire_put_blob(struct wire_buffer *buffer, const void *bytes, uint32_t length, uint32_t limit) {
  if (wire_put_count(buffer, length, limit)) wire_put_bytes(buffer, bytes, length);
}

void wire_put_text(struct wire_buffer *buffer, struct wire_text text, uint32_t limit) {
  wire_put_blob(buffer, text.text, text.length, limit);
}

size_t wire_put_blob_begin(struct wire_buffer *buffer) {
  size_t blob_at = buffer->length;
  wire_put_u32(buffer, 0);
  return blob_at;
}

void wire_put_blob_end(struct wire_buffer *buffer, size_t blob_at) {
  if (buffer->failed) return;
  size_t length = buffer->length - blob_at - 4;
  if (length > UINT32_MAX)
    buffer->failed = true;
  else
    wire_store(buffer->bytes + blob_at, length, 4);
}

size_t wire_frame_begin(struct wire_buffer *buffer, uint8_t type) {
  size_t frame_at = buffer->length;
  if (reserve(buffer, WIRE_FRAME_BYTES)) {
    wire_frame_encode(&(struct wire_frame){.type = type}, buffer->bytes + frame_at);
    buffer->length += WIRE_FRAME_BYTES;
  }
  return frame_at;
}

void wire_frame_end(struct wire_buffer *buffer, size_t frame_at) {
  if (!buffer->failed && buffer->length - frame_at - WIRE_FRAME_BYTES > WIRE_PAYLOAD_LIMIT_BYTES) buffer->failed = true;
  if (buffer->failed)
    buffer->length = frame_at;
  else
    wire_store(buffer->bytes + frame_at + 8, buffer->length - frame_at - WIRE_FRAME_BYTES, 4);
}
