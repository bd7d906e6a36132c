/* A peer's connection to us. Private to the receiving side (receiver.c, receipt.c). */
#ifndef FABRIC_UCX_CONNECTION_H
#define FABRIC_UCX_CONNECTION_H

#include "fabric_ucx/instance.h"
#include "fabric_ucx/message.h"

struct fabric_ucx_connection {
  struct base_list link; /* steady_connections or unsettled_connections */
  struct fabric_ucx *fabric;
  struct fabric_ucx_way way;
  bool greeted;  /* it has named a token */
  bool welcomed; /* and the token is its own */
  bool ending;
  bool quiet; /* the caller dropped the token: no token_lost */
  uint64_t token;
  uint64_t greeting;    /* the sender's endpoint id */
  uint64_t deadline_ns; /* for HELLO and its answer; once ending, for what UCX still owes */
  uint32_t receipt_count;
  struct base_list receipts; /* payloads that UCX is fetching */
  size_t address_bytes;      /* one-sided mode: where to answer */
  uint8_t address[];
};

/* It is to be closed at the next settle. */
void fabric_ucx_connection_end(struct fabric_ucx_connection *connection);

/* The welcomed connection that a piece came by, or NULL when the piece is not to be taken. */
struct fabric_ucx_connection *fabric_ucx_connection_find(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival);

/* To its sender: this generation of the region takes no more pieces. */
void fabric_ucx_connection_tell_revoked(struct fabric_ucx_connection *connection, uint64_t region, uint64_t generation);

/* receipt.c: report what has been fetched. */
void fabric_ucx_receipt_settle(struct fabric_ucx *fabric);
/* UCX still holds receipts of a way that is closed: nothing is written any more; leave the objects to UCX. */
void fabric_ucx_receipt_write_off(struct fabric_ucx_connection *connection);
void fabric_ucx_receipt_free_all(struct base_list *receipts);

#endif
