/* The receiving side: tokens, the connections that use them, and the pieces that come by them. */
#ifndef FABRIC_UCX_RECEIVER_H
#define FABRIC_UCX_RECEIVER_H

#include "fabric_ucx/instance.h"
#include "fabric_ucx/message.h"

kvf_status fabric_ucx_token_admit(struct fabric *fabric, uint64_t token, kvf_error **error_out);
void fabric_ucx_token_drop(struct fabric *fabric, uint64_t token);
bool fabric_ucx_token_live(struct fabric *fabric, uint64_t token);

/* Messages; from inside UCX's callback. */
void fabric_ucx_receiver_greet(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival);
void fabric_ucx_receiver_begin(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival);
void fabric_ucx_receiver_continue(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival);
void fabric_ucx_receiver_land(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival);
void fabric_ucx_receiver_part(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival);

/* Tell everyone who may hold a key of it. */
void fabric_ucx_receiver_tell_revoked(struct fabric_ucx *fabric, uint64_t region, uint64_t generation);

/* A way that breaks says so in its `failure` only. */
void fabric_ucx_receiver_unsettle_broken(struct fabric_ucx *fabric);
void fabric_ucx_receiver_settle(struct fabric_ucx *fabric);
/* Start to close all connections; true when none is left. */
bool fabric_ucx_receiver_shut(struct fabric_ucx *fabric);
/* Free what is left, once the workers are gone. */
void fabric_ucx_receiver_fini(struct fabric_ucx *fabric);

#endif
