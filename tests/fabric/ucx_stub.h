/* What the stand-in for UCX has been asked to do, and what it is to do wrong. */
#ifndef TESTS_FABRIC_UCX_STUB_H
#define TESTS_FABRIC_UCX_STUB_H

#include <stdint.h>

enum { UCX_STUB_MAP_LIMIT = 64 };

struct ucx_stub_journal {
  struct {
    void *address;
    uint64_t length;
  } mapped[UCX_STUB_MAP_LIMIT]; /* in the order of the calls */
  uint64_t map_count;
  uint64_t live_count;   /* mapped and not unmapped */
  uint64_t fail_at;      /* this call of ucp_mem_map fails; 0: none */
  uint64_t packed_bytes; /* of a key; 0: 11 */
};

#endif
