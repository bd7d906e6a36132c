/* The reader: bounds first, then bytes. Nothing here trusts a length it has not compared with what is left. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "wire/codec.h"

enum { SCRATCH_SLOTS = sizeof((struct wire_scratch *)0)->memory / sizeof((struct wire_scratch *)0)->memory[0] };

void wire_scratch_reset(struct wire_scratch *scratch) {
  for (size_t i = 0; i < SCRATCH_SLOTS; i++) base_free(scratch->memory[i]);
  *scratch = (struct wire_scratch){0};
}

struct wire_reader wire_reader_open(const char *message, const uint8_t *payload, size_t payload_bytes,
                                    struct wire_scratch *scratch) {
  return (struct wire_reader){.message = message, .bytes = payload, .length = payload_bytes, .scratch = scratch};
}

kvf_status wire_reader_close(struct wire_reader *reader, kvf_error **error_out) {
  return reader->error ? base_error_give(reader->error, error_out) : KVF_OK;
}

void wire_reader_refuse(struct wire_reader *reader, const char *field, const char *why) {
  if (reader->error) return;
  kvf_error *error = BASE_ERROR(KVF_PROTOCOL, NULL, "%s.%s: %s", reader->message, field, why);
  base_error_add(error, "field", "%s", field);
  reader->error = base_error_add(error, "payload_bytes", "%zu", reader->length);
}

/* @p need bytes, or NULL and a failure. */
static const uint8_t *take(struct wire_reader *reader, size_t need, const char *field) {
  if (reader->error) return NULL;
  if (need > reader->length - reader->at) {
    wire_reader_refuse(reader, field, "missing or cut short");
    base_error_add(reader->error, "need", "%zu", need);
    base_error_add(reader->error, "left", "%zu", reader->length - reader->at);
    return NULL;
  }
  const uint8_t *bytes = reader->bytes + reader->at;
  reader->at += need;
  return bytes;
}

static uint64_t get_number(struct wire_reader *reader, size_t width, const char *field) {
  const uint8_t *bytes = take(reader, width, field);
  return bytes ? wire_load(bytes, width) : 0;
}

uint8_t wire_get_u8(struct wire_reader *reader, const char *field) {
  return (uint8_t)get_number(reader, 1, field);
}
uint16_t wire_get_u16(struct wire_reader *reader, const char *field) {
  return (uint16_t)get_number(reader, 2, field);
}
uint32_t wire_get_u32(struct wire_reader *reader, const char *field) {
  return (uint32_t)get_number(reader, 4, field);
}
uint64_t wire_get_u64(struct wire_reader *reader, const char *field) {
  return get_number(reader, 8, field);
}

uint64_t wire_get_varint(struct wire_reader *reader, const char *field) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 63; shift += 7) {
    uint64_t byte = get_number(reader, 1, field);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  wire_reader_refuse(reader, field, "a number is too long");
  return 0;
}

void wire_get_bytes(struct wire_reader *reader, void *bytes_out, size_t length, const char *field) {
  const uint8_t *bytes = take(reader, length, field);
  if (bytes) memcpy(bytes_out, bytes, length);
}

uint32_t wire_get_count(struct wire_reader *reader, uint32_t limit, size_t wire_bytes, const char *field) {
  uint32_t count = wire_get_u32(reader, field);
  uint64_t need = 0;
  if (reader->error) return 0;
  if (count > limit) {
    wire_reader_refuse(reader, field, "over its limit");
    base_error_add(reader->error, "count", "%u", count);
    base_error_add(reader->error, "limit", "%u", limit);
    return 0;
  }
  if (base_mul_u64(count, wire_bytes, &need) && need <= reader->length - reader->at) return count;
  wire_reader_refuse(reader, field, "missing or cut short");
  base_error_add(reader->error, "need", "%llu", (unsigned long long)need);
  base_error_add(reader->error, "left", "%zu", reader->length - reader->at);
  return 0;
}

struct wire_text wire_get_text(struct wire_reader *reader, uint32_t limit, const char *field) {
  uint32_t length = wire_get_count(reader, limit, 1, field);
  const uint8_t *bytes = take(reader, length, field);
  return (struct wire_text){.text = bytes ? (const char *)bytes : "", .length = bytes ? length : 0};
}

void *wire_reader_alloc(struct wire_reader *reader, size_t count, size_t entry_bytes) {
  if (reader->error || !count) return NULL;
  size_t slot = 0;
  while (slot < SCRATCH_SLOTS && reader->scratch->memory[slot]) slot++;
  assert(slot < SCRATCH_SLOTS); /* the caller has not reset the scratch */
  void *memory = slot < SCRATCH_SLOTS ? base_calloc(count, entry_bytes) : NULL;
  if (memory)
    reader->scratch->memory[slot] = memory;
  else
    reader->error = BASE_ERROR(KVF_NO_MEMORY, NULL, "%s: no memory for %zu entries", reader->message, count);
  return memory;
}
