/* Error chains. One allocation a link; fields grow in a small array of their own. */
#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct error_field {
  char *name;
  char *value;
};

struct kvf_error {
  kvf_status status;
  uint32_t line;
  const char *file; /* a string literal, never owned */
  char *message;
  struct error_field *fields;
  size_t field_count;
  kvf_error *cause;
};

static kvf_error error_no_memory = {.status = KVF_NO_MEMORY, .file = __FILE__, .message = (char *)"out of memory"};

static char *print_alloc(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return NULL;
  char *text = base_alloc((size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, arguments);
  return text;
}

kvf_error *base_error_create(kvf_status status, const char *file, uint32_t line, kvf_error *cause, const char *format, ...) {
  kvf_error *error = base_calloc(1, sizeof *error);
  va_list arguments;
  va_start(arguments, format);
  char *message = error ? print_alloc(format, arguments) : NULL;
  va_end(arguments);
  if (!message) {
    base_free(error);
    kvf_error_free(cause);
    return &error_no_memory;
  }
  const char *slash = strstr(file, "src/");
  *error = (kvf_error){.status = status, .line = line, .file = slash ? slash : file, .message = message, .cause = cause};
  return error;
}

static kvf_error *add_field(kvf_error *error, const char *name, char *value) {
  struct error_field *grown = base_realloc(error->fields, (error->field_count + 1) * sizeof *grown);
  char *name_copy = base_strdup(name);
  if (grown) error->fields = grown;
  if (!grown || !name_copy || !value) {
    base_free(name_copy);
    base_free(value);
    return error;
  }
  grown[error->field_count++] = (struct error_field){.name = name_copy, .value = value};
  return error;
}

kvf_error *base_error_add(kvf_error *error, const char *name, const char *format, ...) {
  if (!error || error == &error_no_memory) return error;
  va_list arguments;
  va_start(arguments, format);
  char *value = print_alloc(format, arguments);
  va_end(arguments);
  return add_field(error, name, value);
}

kvf_error *base_error_create_errno(const char *file, uint32_t line, const char *call, int number) {
  kvf_error *error = base_error_create(KVF_SYSTEM, file, line, NULL, "%s: %s", call, strerror(number));
  return base_error_add(error, "errno", "%d", number);
}

kvf_status base_error_give(kvf_error *error, kvf_error **error_out) {
  kvf_status status = kvf_error_status(error);
  if (error_out)
    *error_out = error;
  else
    kvf_error_free(error);
  return status;
}

kvf_error *base_error_copy(const kvf_error *error) {
  if (!error) return NULL;
  if (error == &error_no_memory) return &error_no_memory;
  kvf_error *copy = base_error_create(error->status, error->file, error->line, base_error_copy(error->cause), "%s", error->message);
  for (size_t i = 0; i < error->field_count; i++) base_error_add(copy, error->fields[i].name, "%s", error->fields[i].value);
  return copy;
}

kvf_status kvf_error_status(const kvf_error *error) { return error ? error->status : KVF_OK; }
const char *kvf_error_message(const kvf_error *error) { return error ? error->message : ""; }
const kvf_error *kvf_error_cause(const kvf_error *error) { return error ? error->cause : NULL; }
const char *kvf_error_file(const kvf_error *error) { return error ? error->file : ""; }
uint32_t kvf_error_line(const kvf_error *error) { return error ? error->line : 0; }
size_t kvf_error_field_count(const kvf_error *error) { return error ? error->field_count : 0; }

kvf_status kvf_error_field(const kvf_error *error, size_t index, const char **name_out, const char **value_out) {
  if (!error || index >= error->field_count || !name_out || !value_out) return KVF_INVALID;
  *name_out = error->fields[index].name;
  *value_out = error->fields[index].value;
  return KVF_OK;
}

const char *kvf_error_find(const kvf_error *error, const char *name) {
  for (; error; error = error->cause) {
    for (size_t i = 0; i < error->field_count; i++) {
      if (strcmp(error->fields[i].name, name) == 0) return error->fields[i].value;
    }
  }
  return NULL;
}

/* Appends like snprintf into a buffer that may already be full; returns the bytes the text needs. */
BASE_PRINTF(4, 5)
static size_t append(char *text, size_t capacity_bytes, size_t used, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  bool fits = used < capacity_bytes;
  int length = vsnprintf(fits ? text + used : NULL, fits ? capacity_bytes - used : 0, format, arguments);
  va_end(arguments);
  return length > 0 ? (size_t)length : 0;
}

size_t kvf_error_format(const kvf_error *error, char *text, size_t capacity_bytes) {
  size_t used = 0;
  if (text && capacity_bytes) text[0] = '\0';
  for (const kvf_error *link = error; link; link = link->cause) {
    used += append(text, capacity_bytes, used, "%s%s: %s", link == error ? "" : "\n  caused by ", kvf_status_name(link->status), link->message);
    for (size_t i = 0; i < link->field_count; i++)
      used += append(text, capacity_bytes, used, "%s%s=%s", i ? " " : "  [", link->fields[i].name, link->fields[i].value);
    if (link->field_count) used += append(text, capacity_bytes, used, "]");
  }
  return used;
}

void kvf_error_free(kvf_error *error) {
  while (error && error != &error_no_memory) {
    kvf_error *cause = error->cause;
    for (size_t i = 0; i < error->field_count; i++) {
      base_free(error->fields[i].name);
      base_free(error->fields[i].value);
    }
    base_free(error->fields);
    base_free(error->message);
    base_free(error);
    error = cause;
  }
}
