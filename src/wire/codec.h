/* Private to the room: how messages are written and read. Both sides fail once and stay failed, so that a message's encode or
 * decode is a list of its fields and one look at the end. Little endian throughout.
 *
 * A writer is the wire_buffer itself. A frame that failed is taken back whole: a buffer never holds half a frame.
 * A reader names the message and each field, and checks every length and count before anything is allocated for it.
 *
 *   text, blob  4 length, bytes          list  4 count, entries of a fixed size          varint  7 bits a byte, low ones first */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include "wire/message.h"

/* The offset at which the frame starts, for wire_frame_end, which fills in its length. */
size_t wire_frame_begin(struct wire_buffer *buffer, uint8_t type);
void wire_frame_end(struct wire_buffer *buffer, size_t frame_at);

void wire_put_u8(struct wire_buffer *buffer, uint8_t value);
void wire_put_u16(struct wire_buffer *buffer, uint16_t value);
void wire_put_u32(struct wire_buffer *buffer, uint32_t value);
void wire_put_u64(struct wire_buffer *buffer, uint64_t value);
void wire_put_varint(struct wire_buffer *buffer, uint64_t value);
void wire_put_bytes(struct wire_buffer *buffer, const void *bytes, size_t length);
void wire_put_blob(struct wire_buffer *buffer, const void *bytes, uint32_t length, uint32_t limit);
void wire_put_text(struct wire_buffer *buffer, struct wire_text text, uint32_t limit);
/* False, and failed, when @p count is above @p limit: then the entries must not be written. */
bool wire_put_count(struct wire_buffer *buffer, uint32_t count, uint32_t limit);
/* A blob whose length is known only after it is written: the first gives its offset to the second. */
size_t wire_put_blob_begin(struct wire_buffer *buffer);
void wire_put_blob_end(struct wire_buffer *buffer, size_t blob_at);

struct wire_reader {
  const char *message; /* "HELLO" */
  const uint8_t *bytes;
  size_t at, length;
  struct wire_scratch *scratch;
  kvf_error *error; /* the first failure; from then on every value read is 0 */
};

struct wire_reader wire_reader_open(const char *message, const uint8_t *payload, size_t payload_bytes,
                                    struct wire_scratch *scratch);
/* Hands the failure, if any, to the caller. */
kvf_status wire_reader_close(struct wire_reader *reader, kvf_error **error_out);
/* PROTOCOL about @p field: "OPEN.page_lists: <why>". */
void wire_reader_refuse(struct wire_reader *reader, const char *field, const char *why);

uint8_t wire_get_u8(struct wire_reader *reader, const char *field);
uint16_t wire_get_u16(struct wire_reader *reader, const char *field);
uint32_t wire_get_u32(struct wire_reader *reader, const char *field);
uint64_t wire_get_u64(struct wire_reader *reader, const char *field);
uint64_t wire_get_varint(struct wire_reader *reader, const char *field);
void wire_get_bytes(struct wire_reader *reader, void *bytes_out, size_t length, const char *field);
/* Borrowed from the payload. */
struct wire_text wire_get_text(struct wire_reader *reader, uint32_t limit, const char *field);
/* A count of entries of @p wire_bytes each that are all there; they can be read without another failure. */
uint32_t wire_get_count(struct wire_reader *reader, uint32_t limit, size_t wire_bytes, const char *field);
/* @p count entries of @p entry_bytes from the scratch; NULL for none, and after a failure. */
void *wire_reader_alloc(struct wire_reader *reader, size_t count, size_t entry_bytes);

/* Error chains. What is over a limit is left out when written: of a deep chain the middle. */
void wire_put_error(struct wire_buffer *buffer, const kvf_error *error);
kvf_error *wire_get_error(struct wire_reader *reader, const char *field);

/* Page lists. */
void wire_put_page_lists(struct wire_buffer *buffer, const kvf_page_list *lists, uint32_t count);
uint32_t wire_get_page_lists(struct wire_reader *reader, kvf_page_list *lists_out, const char *field);

/* Numbers at a place in memory. */
static inline void wire_store(uint8_t *bytes, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) bytes[i] = (uint8_t)(value >> (8 * i));
}
static inline uint64_t wire_load(const uint8_t *bytes, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; i++) value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

#endif
