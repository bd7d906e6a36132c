/* Memory that other processes of this host can be given: sealed memfds, mapped shared. A process-wide registry finds the memfd
 * behind an address. The seals (no shrinking, no growing, no further seals) keep a peer that got the descriptor from cutting the
 * file short under our mapping, which would be a SIGBUS here. Any thread may call. */
#ifndef MEMORY_SHARED_H
#define MEMORY_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Zeroed, not yet faulted in; the length is rounded up to whole pages. Errors: INVALID (0 bytes, too many), NO_MEMORY, SYSTEM. */
kvf_status memory_shared_alloc(uint64_t bytes, void **memory_out, kvf_error **error_out);
/* NULL is fine. Processes that have mapped the memory keep their mapping. */
void memory_shared_free(void *memory);
/* Does [address, address + length) lie in one allocation? The descriptor stays the registry's and lives until memory_shared_free.
 */
bool memory_shared_find(const void *address, uint64_t length, int *fd_out, uint64_t *offset_out);

/* Is @p fd a memfd that can neither shrink nor grow, and at least @p bytes long? For descriptors that came from a peer. */
bool memory_shared_is_sealed(int fd, uint64_t bytes);

#endif
