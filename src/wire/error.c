/* Error chains on their way: links innermost first, so that the reader can build the chain as it goes.
 *
 *   4 links | each: 4 status, text message, 4 fields | each: text name, text value
 *
 * What comes from a peer will be printed: its text is made harmless here, once, and its statuses are ones that we know. */
#include <string.h>

#include "base/checked.h"
#include "wire/codec.h"

/* The shortest link and field on the wire, for checking counts. */
enum { LINK_BYTES_MIN = 12, FIELD_BYTES_MIN = 8 };

static void put_cut_text(struct wire_buffer *buffer, const char *text, uint32_t limit) {
  wire_put_text(buffer, (struct wire_text){.text = text, .length = (uint32_t)strnlen(text, limit)}, limit);
}

static void put_link(struct wire_buffer *buffer, const kvf_error *link) {
  wire_put_u32(buffer, (uint32_t)kvf_error_status(link));
  put_cut_text(buffer, kvf_error_message(link), WIRE_TEXT_LIMIT_BYTES);
  uint32_t count = (uint32_t)base_min_u64(kvf_error_field_count(link), WIRE_ERROR_FIELD_LIMIT);
  wire_put_u32(buffer, count);
  for (uint32_t i = 0; i < count; i++) {
    const char *name = "", *value = "";
    kvf_error_field(link, i, &name, &value);
    put_cut_text(buffer, name, WIRE_LABEL_LIMIT_BYTES);
    put_cut_text(buffer, value, WIRE_TEXT_LIMIT_BYTES);
  }
}

/* The receiver must learn of a failure even when nobody said why. */
static void put_unknown_reason(struct wire_buffer *buffer) {
  wire_put_u32(buffer, 1);
  wire_put_u32(buffer, KVF_INTERNAL);
  put_cut_text(buffer, "no reason given", WIRE_TEXT_LIMIT_BYTES);
  wire_put_u32(buffer, 0);
}

void wire_put_error(struct wire_buffer *buffer, const kvf_error *error) {
  const kvf_error *links[WIRE_ERROR_DEPTH_LIMIT];
  uint32_t count = 0;
  for (; error; error = kvf_error_cause(error)) {
    /* A chain that is too deep loses its middle: the innermost cause says most. */
    if (count == WIRE_ERROR_DEPTH_LIMIT) count--;
    links[count++] = error;
  }
  if (!count) {
    put_unknown_reason(buffer);
    return;
  }
  wire_put_u32(buffer, count);
  while (count > 0) put_link(buffer, links[--count]);
}

/* A NUL-terminated copy that a terminal or a log can bear. */
static void copy_printable(struct wire_text text, char *text_out) {
  for (uint32_t i = 0; i < text.length; i++) text_out[i] = text.text[i] >= 0x20 && text.text[i] < 0x7f ? text.text[i] : '?';
  text_out[text.length] = '\0';
}

static void get_field(struct wire_reader *reader, kvf_error *link, const char *field) {
  char name[WIRE_LABEL_LIMIT_BYTES + 1], value[WIRE_TEXT_LIMIT_BYTES + 1];
  copy_printable(wire_get_text(reader, WIRE_LABEL_LIMIT_BYTES, field), name);
  copy_printable(wire_get_text(reader, WIRE_TEXT_LIMIT_BYTES, field), value);
  if (!reader->error) base_error_add(link, name, "%s", value);
}

/* A later version may have more statuses; to us they are failures of the peer. */
static kvf_status known_status(uint32_t status) {
  kvf_status_text text;
  bool known = status <= INT32_MAX && kvf_status_query((kvf_status)status, &text) == KVF_OK;
  return known ? (kvf_status)status : KVF_PEER_FAILED;
}

/* The link around @p cause, which is consumed. */
static kvf_error *get_link(struct wire_reader *reader, kvf_error *cause, const char *field) {
  char message[WIRE_TEXT_LIMIT_BYTES + 1];
  uint32_t number = wire_get_u32(reader, field);
  copy_printable(wire_get_text(reader, WIRE_TEXT_LIMIT_BYTES, field), message);
  uint32_t field_count = wire_get_count(reader, WIRE_ERROR_FIELD_LIMIT, FIELD_BYTES_MIN, field);
  if (number == KVF_OK) wire_reader_refuse(reader, field, "a link is not an error");
  if (reader->error) return cause;
  kvf_status status = known_status(number);
  kvf_error *link = base_error_create(status, "peer", 0, cause, "%s", message);
  if (kvf_error_status(link) != status) reader->error = BASE_ERROR(KVF_NO_MEMORY, NULL, "%s.%s", reader->message, field);
  for (uint32_t i = 0; i < field_count; i++) get_field(reader, link, field);
  if (status != (kvf_status)number) base_error_add(link, "status", "%u", number);
  return link;
}

kvf_error *wire_get_error(struct wire_reader *reader, const char *field) {
  uint32_t count = wire_get_count(reader, WIRE_ERROR_DEPTH_LIMIT, LINK_BYTES_MIN, field);
  if (!count) wire_reader_refuse(reader, field, "the chain has no link");
  kvf_error *error = NULL;
  for (uint32_t i = 0; i < count; i++) error = get_link(reader, error, field);
  if (!reader->error) return error;
  kvf_error_free(error);
  return NULL;
}
