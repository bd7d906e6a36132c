/* Messages of random content, and one table to encode, decode and describe any of them. The description has every field, so two
 * messages are the same when their descriptions are. */
#ifndef TESTS_WIRE_SAMPLE_H
#define TESTS_WIRE_SAMPLE_H

#include <stdio.h>

#include "wire/message.h"

#define SAMPLE_MEMBER(noun) struct wire_##noun message_##noun;
union sample_message {
  WIRE_MESSAGES(SAMPLE_MEMBER)
};
#undef SAMPLE_MEMBER

/* A message and what it points to. */
struct sample {
  union sample_message message;
  uint64_t random;
  size_t used;
  uint8_t memory[1 << 20] __attribute__((aligned(16)));
};

struct sample_kind {
  const char *name;
  uint8_t type;
  void (*build)(struct sample *sample);
  void (*encode)(struct wire_buffer *buffer, const union sample_message *message);
  kvf_status (*decode)(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                       union sample_message *message_out, kvf_error **error_out);
  void (*describe)(FILE *out, const union sample_message *message);
  kvf_error **(*error)(union sample_message *message); /* NULL: the message holds none */
};

/* Every message with a payload. */
extern const struct sample_kind sample_kinds[];
extern const size_t sample_kind_count;

void sample_build(const struct sample_kind *kind, struct sample *sample, uint64_t seed);
void sample_release(const struct sample_kind *kind, union sample_message *message);
/* Owned by the caller. */
char *sample_describe(const struct sample_kind *kind, const union sample_message *message);

#endif
