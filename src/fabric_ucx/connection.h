/* A peer's connection to us. Private to the receiving side (receiver.c, receipt.c). */
#ifndef FABRIC_UCX_CONNECTION_H
#define FABRIC_UCX_CONNECTION_H

#include "fabric_ucx/instance.h"
#include "fabric_ucx/message.h"

struct fabric_ucx_receipt;

struct fabric_ucx_connection {
  struct base_list link; /* steady_connections or unsettled_connections */
  struct fabric_ucx *fabric;
  struct fabric_ucx_way way; /* back to the sender; what comes from it needs none */
  bool welcomed;             /* the token is its own */
  bool ending;
  bool quiet; /* the caller dropped the token: no token_lost */
  uint64_t token;
  uint64_t id; /* drawn by the sender */
  uint64_t deadline_ns;
  struct fabric_ucx_receipt *receipt; /* message mode: the piece that is coming in, made at the first */
  size_t address_bytes;
  uint8_t address[]; /* the sender's */
};

/* It is to be closed at the next settle; nothing more is taken from it. */
void fabric_ucx_connection_end(struct fabric_ucx_connection *connection);

/* The welcomed connection that a message came by, or NULL when the message is not to be taken. */
struct fabric_ucx_connection *fabric_ucx_connection_find(struct fabric_ucx *fabric, const struct fabric_ucx_message *message);

/* To its sender: this generation of the region takes no more pieces. */
void fabric_ucx_connection_tell_revoked(struct fabric_ucx_connection *connection, uint64_t region, uint64_t generation);

#endif
