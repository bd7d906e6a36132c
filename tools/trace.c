/* Request traces: line by line, every field checked before it is used. */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { INPUT_LIMIT_TOKENS = 1 << 28 };

void trace_fini(struct trace *trace) {
  for (size_t i = 0; i < trace->count; i++) free(trace->requests[i].block_ids);
  free(trace->requests);
  *trace = (struct trace){0};
}

struct trace_request *trace_add(struct trace *trace, size_t block_count) {
  if (trace->count == trace->capacity) {
    size_t capacity = trace->capacity ? trace->capacity * 2 : 256;
    struct trace_request *grown = realloc(trace->requests, capacity * sizeof *grown);
    if (!grown) return NULL;
    trace->requests = grown;
    trace->capacity = capacity;
  }
  uint64_t *ids = calloc(block_count ? block_count : 1, sizeof *ids);
  if (!ids) return NULL;
  struct trace_request *request = &trace->requests[trace->count++];
  *request = (struct trace_request){.block_ids = ids, .block_count = block_count};
  return request;
}

struct line {
  const char *source;
  size_t number;
  const json_t *object;
  struct complaint *complaint;
};

static bool refuse_field(const struct line *line, const char *field, const char *why) {
  return complain(line->complaint, "%s: line %zu: field %s %s", line->source, line->number, field, why);
}

static bool read_count(const struct line *line, const char *field, uint64_t least, uint64_t most, uint64_t *count_out) {
  const json_t *value = json_object_get(line->object, field);
  if (!value) return refuse_field(line, field, "is missing");
  if (!json_is_integer(value)) return refuse_field(line, field, "is not a whole number");
  if (json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) < least)
    return refuse_field(line, field, "is too small");
  if ((uint64_t)json_integer_value(value) > most) return refuse_field(line, field, "is too large");
  *count_out = (uint64_t)json_integer_value(value);
  return true;
}

static bool read_blocks(const struct line *line, struct trace_request *request) {
  const json_t *ids = json_object_get(line->object, "hash_ids");
  for (size_t i = 0; i < request->block_count; i++) {
    const json_t *id = json_array_get(ids, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0) return refuse_field(line, "hash_ids", "holds something that is no id");
    request->block_ids[i] = (uint64_t)json_integer_value(id);
  }
  return true;
}

static bool read_request(const struct line *line, struct trace *trace) {
  uint64_t timestamp_ms, input, output;
  if (!json_is_object(line->object))
    return complain(line->complaint, "%s: line %zu: not a JSON object", line->source, line->number);
  if (!read_count(line, "timestamp", 0, UINT32_MAX, &timestamp_ms)) return false;
  if (!read_count(line, "input_length", 1, INPUT_LIMIT_TOKENS, &input)) return false;
  if (!read_count(line, "output_length", 0, INPUT_LIMIT_TOKENS, &output)) return false;
  if (trace->count && timestamp_ms < trace->requests[trace->count - 1].timestamp_ms)
    return refuse_field(line, "timestamp", "is before that of the line above");
  const json_t *ids = json_object_get(line->object, "hash_ids");
  if (!ids) return refuse_field(line, "hash_ids", "is missing");
  if (!json_is_array(ids)) return refuse_field(line, "hash_ids", "is not a list");
  size_t blocks = (size_t)((input + TRACE_BLOCK_TOKENS - 1) / TRACE_BLOCK_TOKENS);
  if (json_array_size(ids) != blocks) return refuse_field(line, "hash_ids", "does not have one id per 512 tokens of input_length");
  struct trace_request *request = trace_add(trace, blocks);
  if (!request) return complain(line->complaint, "out of memory");
  request->timestamp_ms = timestamp_ms;
  request->input_tokens = input;
  request->output_tokens = output;
  return read_blocks(line, request);
}

static bool read_line(const char *text, size_t length, struct line *line, struct trace *trace) {
  json_error_t error;
  json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (!object) return complain(line->complaint, "%s: line %zu: not JSON: %s", line->source, line->number, error.text);
  line->object = object;
  bool good = read_request(line, trace);
  json_decref(object);
  return good;
}

bool trace_read(FILE *file, const char *source, size_t limit, struct trace *trace_out, struct complaint *complaint) {
  struct trace trace = {0};
  struct line line = {.source = source, .complaint = complaint};
  char *text = NULL;
  size_t capacity = 0;
  bool good = true;
  ssize_t length;
  while (good && trace.count < limit && (length = getline(&text, &capacity, file)) >= 0) {
    line.number++;
    if (strspn(text, " \t\r\n") < (size_t)length) good = read_line(text, (size_t)length, &line, &trace);
  }
  if (good && ferror(file)) good = complain(complaint, "%s: %s", source, strerror(errno));
  if (good && trace.count == 0) good = complain(complaint, "%s: holds no request", source);
  free(text);
  if (good)
    *trace_out = trace;
  else
    trace_fini(&trace);
  return good;
}

bool trace_load(const char *path, size_t limit, struct trace *trace_out, struct complaint *complaint) {
  FILE *file = fopen(path, "rb");
  if (!file) return complain(complaint, "%s: %s", path, strerror(errno));
  bool good = trace_read(file, path, limit, trace_out, complaint);
  fclose(file);
  return good;
}
