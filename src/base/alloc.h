/* The library's allocator: malloc with a fault point, so that tests can fail the n-th allocation. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *base_alloc(size_t size_bytes);
void *base_calloc(size_t count, size_t size_bytes);
void *base_realloc(void *memory, size_t size_bytes);
char *base_strdup(const char *text);
void base_free(void *memory);

/* Let @p countdown allocations succeed, fail the next one, then succeed again; 0 switches the fault off.
 * Process-wide; for tests. */
void base_alloc_fail_after(uint64_t countdown);

#endif
