/* One UCX endpoint in PEER error mode: opened once, failed at most once, closed by force. Both the endpoints that we connect and
 * those that peers connected to us stand on one. */
#ifndef FABRIC_UCX_WAY_H
#define FABRIC_UCX_WAY_H

#include <stdbool.h>

#include <ucp/api/ucp.h>

struct fabric_ucx;

enum fabric_ucx_way_state { FABRIC_UCX_WAY_NONE, FABRIC_UCX_WAY_OPEN, FABRIC_UCX_WAY_CLOSING, FABRIC_UCX_WAY_CLOSED };

struct fabric_ucx_way {
  struct fabric_ucx *fabric;
  ucp_ep_h ep;
  enum fabric_ucx_way_state state;
  ucs_status_t failure; /* UCS_OK while it works */
};

/* @p params holds where to; the rest is filled in. Must not be called from inside a UCX callback. */
ucs_status_t fabric_ucx_way_open(struct fabric_ucx_way *way, struct fabric_ucx *fabric, ucp_worker_h worker,
                                 ucp_ep_params_t *params);

/* Force: every operation on it ends now or at the next progress. Must not be called from inside a UCX callback. */
void fabric_ucx_way_close(struct fabric_ucx_way *way);

/* An operation on it failed. */
void fabric_ucx_way_fail(struct fabric_ucx_way *way, ucs_status_t status);

#endif
