/* The pages behind memory. A device registers whole pages, so cuts between parts must lie on their boundaries. */
#ifndef FABRIC_UCX_PAGE_H
#define FABRIC_UCX_PAGE_H

#include <stdint.h>

/* The largest page size of the mappings that the range touches; the system's usual one where that cannot be found out. */
uint64_t fabric_ucx_page_bytes(const void *address, uint64_t length);

#endif
