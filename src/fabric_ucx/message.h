/* What travels in UCX active messages: one message id, a fixed preamble, and behind it what the kind needs.
 *
 *   HELLO    connecting → connected   number = endpoint id; data = the sender's own address (one-sided mode)
 *   WELCOME  connected → connecting   number = that id
 *   REFUSE   connected → connecting   number = that id; payload_bytes = a kvf_status
 *   PIECE    sender → receiver        header, and the payload as data
 *   LANDED   sender → receiver        header, target; the payload was put before (one-sided mode)
 *   REVOKE   receiver → sender        number, as in WELCOME; target: this generation of the region takes no more pieces (one-sided
 * mode) BYE      sender → receiver        the sender is about to drop the connection (one-sided mode)
 *
 * The incarnation is the receiver's of the message, WELCOME's and REVOKE's the one of who sends it. */
#ifndef FABRIC_UCX_MESSAGE_H
#define FABRIC_UCX_MESSAGE_H

#include <ucp/api/ucp.h>

#include "fabric/fabric.h"

struct fabric_ucx;
struct fabric_ucx_way;

enum fabric_ucx_message_kind {
  FABRIC_UCX_HELLO = 1,
  FABRIC_UCX_WELCOME,
  FABRIC_UCX_REFUSE,
  FABRIC_UCX_PIECE,
  FABRIC_UCX_LANDED,
  FABRIC_UCX_REVOKE,
  FABRIC_UCX_BYE
};

struct fabric_ucx_message {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;
  uint64_t token;
  uint8_t incarnation[16];
  uint64_t number;
  uint64_t payload_bytes;
  uint8_t header[FABRIC_HEADER_BYTES]; /* PIECE, LANDED */
  struct fabric_target target;         /* LANDED, REVOKE */
};
_Static_assert(sizeof(struct fabric_ucx_message) == 176, "the message has no holes");

/* One that has come. */
struct fabric_ucx_arrival {
  const struct fabric_ucx_message *message; /* a copy, aligned, with zeros for what its kind lacks */
  ucp_ep_h from;                            /* the UCX endpoint that answers to its sender */
  void *payload;                            /* or, for a rendezvous, UCX's handle of it */
  uint64_t payload_bytes;
  bool rendezvous;
};

void fabric_ucx_message_init(struct fabric_ucx_message *message, enum fabric_ucx_message_kind kind, uint64_t token,
                             const uint8_t *incarnation);
/* How much of it travels. */
size_t fabric_ucx_message_bytes(enum fabric_ucx_message_kind kind);

/* Send a copy of @p message, and of @p body, and forget about it. A failure fails the way. */
void fabric_ucx_message_post(struct fabric_ucx_way *way, const struct fabric_ucx_message *message, const void *body,
                             size_t body_bytes);

/* ucp_am_send_nbx of a piece; @p message and the payload are borrowed until it completes. */
ucs_status_ptr_t fabric_ucx_message_send(struct fabric_ucx_way *way, const struct fabric_ucx_message *message, const void *payload,
                                         size_t count, ucp_request_param_t *how);

/* Have @p worker give its messages to this room. */
ucs_status_t fabric_ucx_message_listen(struct fabric_ucx *fabric, ucp_worker_h worker);

#endif
