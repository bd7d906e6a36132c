/* One side of a transfer for the tests of the UCX providers: an open provider, what its callbacks were told, and a loop that sleeps
 * on its event fd as an engine would. */
#ifndef TESTS_FABRIC_UCX_SIDE_H
#define TESTS_FABRIC_UCX_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

enum { UCX_SIDE_TOKEN = 77, UCX_SIDE_REGION = 5 };

struct ucx_side {
  const struct fabric_ops *ops; /* the exported ones; the open provider may have others */
  struct fabric *fabric;
  struct fabric_endpoint *endpoint;
  uint8_t incarnation[16];

  /* Receiving: one area of memory; the first 8 bytes of a header say at which offset its piece belongs. */
  struct fabric_memory memory;
  bool memory_is_own; /* malloc, not the provider's */
  struct fabric_region *region;
  uint64_t generation;
  uint64_t place_parts; /* vectors that `place` gives */
  kvf_status place_answer;
  bool drop_on_place; /* drop the token from inside `place` */
  uint64_t place_count, landed_count, landed_bytes, lost_count;

  /* Sending. */
  uint64_t ready_count, down_count, sent_count, cancelled_count, broken_count;
  bool sent_after_down;
  kvf_status down_status, broken_status;
  char down_text[512];
};

/* 0, or the status of open; its error goes to @p error_out. */
kvf_status ucx_side_open(struct ucx_side *side, const struct fabric_ops *ops, const char *settings, kvf_error **error_out);
void ucx_side_close(struct ucx_side *side);

/* Give the receiving side memory and expose it. */
void ucx_side_expose(struct ucx_side *side, uint64_t length);
/* Connect @p sender to @p receiver, which is in the same process, and wait until it is ready. */
void ucx_side_join(struct ucx_side *sender, struct ucx_side *receiver);
kvf_status ucx_side_connect(struct ucx_side *sender, const uint8_t *address, size_t address_bytes, kvf_error **error_out);

/* A piece for @p offset of the receiver's memory, cut into @p parts. */
kvf_status ucx_side_send(struct ucx_side *side, const uint8_t *payload, uint64_t length, uint64_t offset, uint64_t generation,
                         size_t parts, kvf_error **error_out);

/* Run both (the second may be NULL) until *count reaches @p target; false after @p milliseconds. */
bool ucx_side_run(struct ucx_side *a, struct ucx_side *b, const uint64_t *count, uint64_t target, int milliseconds);
/* Run both for a while. */
void ucx_side_idle(struct ucx_side *a, struct ucx_side *b, int milliseconds);

#endif
