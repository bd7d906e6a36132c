/* The sending side: endpoints, the keys they hold, and pieces under way. */
#ifndef FABRIC_UCX_SENDER_H
#define FABRIC_UCX_SENDER_H

#include "fabric_ucx/instance.h"
#include "fabric_ucx/message.h"

struct fabric_ucx_key;

enum fabric_ucx_endpoint_stage { FABRIC_UCX_CONNECTING, FABRIC_UCX_READY, FABRIC_UCX_ENDING, FABRIC_UCX_DOWN };

struct fabric_ucx_endpoint {
  struct fabric_endpoint base;
  struct base_list link; /* steady_endpoints or unsettled_endpoints */
  struct fabric_ucx *fabric;
  struct fabric_ucx_way way;
  enum fabric_ucx_endpoint_stage stage;
  bool disconnecting;
  kvf_error *error; /* why it ends; NULL while it works, or when the caller ends it */
  uint64_t id;
  uint64_t token;
  void *user;
  uint64_t deadline_ns; /* CONNECTING: for WELCOME; ENDING: for what UCX still owes */
  uint64_t sequence;
  uint32_t accepted_count;                     /* pieces that wait for their `sent` */
  struct base_list pieces;                     /* those that UCX holds */
  struct base_map keys;                        /* region → struct fabric_ucx_key */
  uint8_t incarnation[16];                     /* the peer's */
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES]; /* UCX's part of the peer's address, validated */
  size_t address_bytes;
};

/* A piece under way. One-sided: the puts and their flush first, then the message; else the message and those after it carry the
 * payload. */
struct fabric_ucx_piece {
  struct base_list link;
  struct fabric_ucx *fabric;
  struct fabric_ucx_endpoint *endpoint; /* NULL: written off, UCX's callback frees it */
  struct fabric_ucx_key *key;
  void *tag;
  uint32_t pending_count; /* operations that UCX has not completed */
  bool announced;         /* its message was posted */
  ucs_status_t status;    /* the first failure */
  const char *call;       /* and what failed */
  struct fabric_ucx_message message;
  struct fabric_ucx_message *more; /* message mode: of the fragments after the first */
  size_t more_capacity;
  ucp_dt_iov_t *iov;
  size_t iov_capacity;
};

kvf_status fabric_ucx_endpoint_connect(struct fabric *fabric, const uint8_t *address, size_t address_bytes, uint64_t token,
                                       void *user, struct fabric_endpoint **endpoint_out, kvf_error **error_out);
void *fabric_ucx_endpoint_user(const struct fabric_endpoint *endpoint);
void fabric_ucx_endpoint_disconnect(struct fabric_endpoint *endpoint);

kvf_status fabric_ucx_piece_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out);

/* Messages; from inside UCX's callback. */
void fabric_ucx_sender_answer(struct fabric_ucx *fabric, const struct fabric_ucx_message *message);
void fabric_ucx_sender_revoke(struct fabric_ucx *fabric, const struct fabric_ucx_message *message);

/* piece.c: report what has ended. */
void fabric_ucx_piece_settle(struct fabric_ucx *fabric);
/* UCX still holds pieces of a way that is closed: give their tags back, leave the objects to UCX. */
void fabric_ucx_piece_write_off(struct fabric_ucx_endpoint *endpoint);

void fabric_ucx_piece_drop_keys(struct base_list *pieces);
void fabric_ucx_piece_free_all(struct base_list *pieces);

/* A way that breaks says so in its `failure` only. */
void fabric_ucx_sender_unsettle_broken(struct fabric_ucx *fabric);
void fabric_ucx_sender_settle(struct fabric_ucx *fabric);
/* Start to close all endpoints; true when none is left. */
bool fabric_ucx_sender_shut(struct fabric_ucx *fabric);
/* UCX wants keys destroyed before its workers. */
void fabric_ucx_sender_drop_keys(struct fabric_ucx *fabric);
/* Free what is left, once the workers are gone. */
void fabric_ucx_sender_fini(struct fabric_ucx *fabric);

#endif
