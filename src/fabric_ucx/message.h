/* What travels in UCX active messages: one message id, a fixed preamble, and behind it what the kind needs.
 *
 *   HELLO    connecting -> connected  data = the sender's own address
 *   WELCOME  connected -> connecting
 *   REFUSE   connected -> connecting  the token is unknown, or known no more
 *   PIECE    sender -> receiver       header, and the first bytes of the payload as data (message mode)
 *   MORE     sender -> receiver       further bytes of it, in order
 *   LANDED   sender -> receiver       header, target; the payload was put before (one-sided mode)
 *   REVOKE   receiver -> sender       target: this generation of the region takes no more pieces (one-sided mode)
 *   BYE      sender -> receiver       the sender is about to drop the connection
 *
 * All are small enough for one UCX segment, so that UCX neither assembles them nor fetches them on its own: every byte that is
 * placed is placed by our own copy, which stops the moment a connection ends. `connection` is drawn by the connecting side. The
 * incarnation is the connected side's in every message. */
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
  FABRIC_UCX_MORE,
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
  uint64_t connection;
  uint64_t sequence;                   /* PIECE, MORE, LANDED: of the piece */
  uint64_t payload_bytes;              /* of the whole piece */
  uint64_t offset;                     /* MORE: of its bytes in the payload */
  uint8_t header[FABRIC_HEADER_BYTES]; /* PIECE, LANDED */
  struct fabric_target target;         /* LANDED, REVOKE */
};
_Static_assert(sizeof(struct fabric_ucx_message) == 192, "the message has no holes");

/* One that has come. */
struct fabric_ucx_arrival {
  const struct fabric_ucx_message *message; /* a copy, aligned, with zeros for what its kind lacks */
  const uint8_t *bytes;
  uint64_t length;
};

void fabric_ucx_message_init(struct fabric_ucx_message *message, enum fabric_ucx_message_kind kind, uint64_t token,
                             uint64_t connection, const uint8_t *incarnation);
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
