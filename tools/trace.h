/* Request traces: one JSON object a line with timestamp (ms), input_length and output_length (tokens) and hash_ids,
 * one id per 512-token block of the prompt; an equal id is a block that two prompts share. */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "complaint.h"

enum { TRACE_BLOCK_TOKENS = 512 };

struct trace_request {
  uint64_t timestamp_ms;
  uint64_t input_tokens;
  uint64_t output_tokens;
  uint64_t *block_ids;
  size_t block_count; /* ceil(input_tokens / TRACE_BLOCK_TOKENS) */
};

struct trace {
  struct trace_request *requests;
  size_t count, capacity;
};

/** Read at most @p limit requests. A line that is not as above is refused with its number and field. */
bool trace_load(const char *path, size_t limit, struct trace *trace_out, struct complaint *complaint);
bool trace_read(FILE *file, const char *source, size_t limit, struct trace *trace_out, struct complaint *complaint);

/** A free slot at the end with room for @p block_count ids, or NULL without memory. */
struct trace_request *trace_add(struct trace *trace, size_t block_count);
void trace_fini(struct trace *trace);

#endif
