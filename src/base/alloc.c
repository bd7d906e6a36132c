/* malloc with one fault point; the countdown is off (zero) outside tests and then costs one relaxed load. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t fail_countdown;

static bool fault_is_due(void) {
  uint_fast64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
  if (left == 0) return false;
  return atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) == 1;
}

void base_alloc_fail_after(uint64_t countdown) { atomic_store(&fail_countdown, countdown); }

void *base_alloc(size_t size_bytes) { return fault_is_due() ? NULL : malloc(size_bytes ? size_bytes : 1); }

void *base_calloc(size_t count, size_t size_bytes) {
  return fault_is_due() ? NULL : calloc(count ? count : 1, size_bytes ? size_bytes : 1);
}

void *base_realloc(void *memory, size_t size_bytes) {
  return fault_is_due() ? NULL : realloc(memory, size_bytes ? size_bytes : 1);
}

char *base_strdup(const char *text) {
  size_t length = strlen(text) + 1;
  char *copy = base_alloc(length);
  if (copy) memcpy(copy, text, length);
  return copy;
}

void base_free(void *memory) { free(memory); }
