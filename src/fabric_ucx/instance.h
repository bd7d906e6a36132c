/* One open provider: a UCX context, its workers, and everything that lives on them.
 *
 * Threads: all calls and callbacks happen on the one I/O thread. Callbacks of UCX do the least they can: they move an object to a
 * list and set `kicked`. `settle` (progress.c) then does what UCX forbids inside its callbacks, and calls the user.
 *
 * Workers: peers know each other by worker address, and UCX takes endpoints in both directions between two workers for one and the
 * same connection. Then closing what we send over would close what we receive over, so each role has a worker of its own. UCX's
 * listeners are not used: one stray packet to their port can abort the process (1.13, tcp_sockcm_ep.c). */
#ifndef FABRIC_UCX_INSTANCE_H
#define FABRIC_UCX_INSTANCE_H

#include <ucp/api/ucp.h>

#include "base/list.h"
#include "base/map.h"
#include "fabric/fabric.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/library.h"
#include "fabric_ucx/settings.h"
#include "fabric_ucx/way.h"

#define FABRIC_UCX_CONNECT_NS 5000000000ull /* from connect to WELCOME */
#define FABRIC_UCX_QUIET_NS 200000000ull    /* what a closed way may still owe before it is written off */

enum {
  FABRIC_UCX_STRANGER_LIMIT = 256, /* connections that have not been welcomed */
  FABRIC_UCX_ACCEPTED_LIMIT = 256  /* pieces of one endpoint under way */
};

struct fabric_ucx {
  struct fabric base;
  struct fabric_ucx_library library;
  struct fabric_ucx_settings settings;
  struct fabric_callbacks callbacks;
  struct base_log log;
  uint8_t incarnation[16];
  bool one_sided;
  bool kicked; /* settle has work */
  bool broken; /* a way has failed: look which */
  bool silent; /* closing: nobody is to be called */

  ucp_context_h context;
  ucp_worker_h workers[2]; /* the first connects to peers, the second is connected to */
  size_t worker_count;
  int event_fd; /* an epoll set: the workers' event fds and the timer */
  int timer_fd;
  bool ticking;
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES];
  size_t address_bytes;

  /* Sending side. */
  struct base_map endpoints;
  struct base_list steady_endpoints, unsettled_endpoints;
  struct base_list orphan_endpoints; /* gone for the caller, but UCX never ended their close */
  struct base_list finished_pieces, free_pieces, orphan_pieces;

  /* Receiving side. */
  struct base_map tokens;
  struct base_list steady_connections, unsettled_connections;
  struct base_list orphan_connections; /* gone for the caller; UCX has not ended their close */
  size_t stranger_count;               /* connections that have not been welcomed */

  struct base_map regions;
  struct base_list memories;
};

static inline struct fabric_ucx *fabric_ucx_of(const struct fabric *fabric) {
  return (struct fabric_ucx *)fabric;
}
static inline enum fabric_ucx_blob_kind fabric_ucx_address_kind(const struct fabric_ucx *fabric) {
  return fabric->one_sided ? FABRIC_UCX_BLOB_ONE_SIDED : FABRIC_UCX_BLOB_MESSAGE;
}
static inline ucp_worker_h fabric_ucx_connecting_worker(const struct fabric_ucx *fabric) {
  return fabric->workers[0];
}
static inline ucp_worker_h fabric_ucx_connected_worker(const struct fabric_ucx *fabric) {
  return fabric->workers[1];
}

/* What UCX said to @p call, under @p status and a line of our own. */
kvf_error *fabric_ucx_instance_error(const struct fabric_ucx *fabric, kvf_status status, const char *message, const char *call,
                                     ucs_status_t ucs_status);

/* open.c */
kvf_status fabric_ucx_open_message(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out);
kvf_status fabric_ucx_open_one_sided(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out);
void fabric_ucx_close(struct fabric *fabric);
/* The sealed address of @p worker, or 0 when it is too long or UCX refuses. */
size_t fabric_ucx_open_address(struct fabric_ucx *fabric, ucp_worker_h worker, uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES]);

/* progress.c */
int fabric_ucx_event_fd(struct fabric *fabric);
bool fabric_ucx_progress(struct fabric *fabric);
bool fabric_ucx_arm(struct fabric *fabric);

/* ops.c */
extern const struct fabric_ops fabric_ucx_emulated_ops;

#endif
