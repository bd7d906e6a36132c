/* Locking pages in memory, with errors that name the limit and how to raise it. */
#ifndef MEMORY_PIN_H
#define MEMORY_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Errors: RESOURCE_LIMIT (fields limit, need), INVALID (not mapped), SYSTEM. */
kvf_status memory_pin(void *address, uint64_t length, kvf_error **error_out);
/* Unlock the pages of [first, end). */
void memory_unpin(uint64_t first, uint64_t end);

#endif
