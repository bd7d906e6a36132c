/* Records: framing. */
#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct header {
  uint32_t type, text_bytes;
};

static size_t count_fixed_bytes(enum record_type type) {
  if (type == RECORD_ROOM) return sizeof(struct record_room);
  return type == RECORD_SUMMARY ? sizeof(struct record_summary) : 0;
}

bool record_write(int fd, enum record_type type, const void *fixed, const char *text) {
  char frame[sizeof(struct header) + sizeof(struct record) + RECORD_TEXT_LIMIT];
  size_t fixed_bytes = count_fixed_bytes(type);
  const struct header header = {type, text ? (uint32_t)strnlen(text, RECORD_TEXT_LIMIT) : 0};
  memcpy(frame, &header, sizeof header);
  if (fixed_bytes) memcpy(frame + sizeof header, fixed, fixed_bytes);
  if (text) memcpy(frame + sizeof header + fixed_bytes, text, header.text_bytes);
  size_t length = sizeof header + fixed_bytes + header.text_bytes;
  for (size_t done = 0; done < length;) {
    ssize_t wrote = write(fd, frame + done, length - done);
    if (wrote < 0 && errno != EINTR) return false;
    if (wrote > 0) done += (size_t)wrote;
  }
  return true;
}

int record_read(struct record_reader *reader, int fd) {
  enum { STEP_BYTES = 65536 };
  if (reader->capacity - reader->used < STEP_BYTES) {
    char *grown = realloc(reader->buffer, reader->used + STEP_BYTES);
    if (!grown) return -1;
    reader->buffer = grown;
    reader->capacity = reader->used + STEP_BYTES;
  }
  ssize_t got = read(fd, reader->buffer + reader->used, STEP_BYTES);
  if (got > 0) reader->used += (size_t)got;
  if (got > 0) return 1;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

int record_next(struct record_reader *reader, struct record *record_out) {
  struct header header;
  if (reader->used < sizeof header) return 0;
  memcpy(&header, reader->buffer, sizeof header);
  if (header.type < RECORD_LISTENING || header.type > RECORD_FAILURE || header.text_bytes > RECORD_TEXT_LIMIT) return -1;
  size_t fixed_bytes = count_fixed_bytes(header.type);
  size_t length = sizeof header + fixed_bytes + header.text_bytes;
  if (reader->used < length) return 0;
  record_out->type = header.type;
  memcpy(&record_out->room, reader->buffer + sizeof header, fixed_bytes);
  memcpy(record_out->text, reader->buffer + sizeof header + fixed_bytes, header.text_bytes);
  record_out->text[header.text_bytes] = 0;
  reader->used -= length;
  memmove(reader->buffer, reader->buffer + length, reader->used);
  return 1;
}

void record_reader_fini(struct record_reader *reader) {
  free(reader->buffer);
  *reader = (struct record_reader){0};
}
