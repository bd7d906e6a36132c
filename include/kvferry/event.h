/* Completions. Events wait in the engine until they are polled; the event fd is readable while there are any. */
#ifndef KVFERRY_EVENT_H
#define KVFERRY_EVENT_H

#include <kvferry/peer.h>
#include <kvferry/recv.h>
#include <kvferry/send.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KVF_EVENT_PEER_UP = 1,      /* peer */
  KVF_EVENT_PEER_DOWN = 2,    /* peer, error */
  KVF_EVENT_SEND_END = 3,     /* terminal: status OK, CANCELLED or the failure */
  KVF_EVENT_RECV_END = 4,     /* terminal */
  KVF_EVENT_SEND_FAILING = 5, /* the failure is known, the pages are still held; SEND_END follows */
  KVF_EVENT_RECV_FAILING = 6
};

typedef struct kvf_event {
  uint32_t type;
  kvf_status status;
  uint64_t room;
  uint64_t user_tag;
  kvf_peer *peer;   /* the peer of a PEER event; valid until the engine is closed or kvf_peer_close */
  kvf_send *send;   /* NULL when its handle was closed */
  kvf_recv *recv;   /* NULL when its handle was closed */
  kvf_error *error; /* owned by whoever polled it; kvf_error_free it */
  uint64_t bytes;   /* payload of this room on this rank */
  uint64_t elapsed_ns; /* open to end */
  uint64_t grant_wait_ns, gather_ns, write_ns, scatter_ns; /* summed over this room's pieces */
  uint32_t pieces;  /* bulk writes */
  uint32_t retries; /* pieces sent again */
  uint64_t slices;  /* contiguous runs that they replaced */
} kvf_event;

/** Take up to @p capacity events. Shapes: @p events[capacity]. Never blocks; *count_out may be 0.
 *  Errors: INVALID. Threads: any, one at a time gets each event. */
KVF_API kvf_status kvf_engine_poll(kvf_engine *engine, kvf_event *events, size_t capacity, size_t *count_out, kvf_error **error_out);

/** Wait until there are events, at most @p timeout_ns. Errors: TIMEOUT, INVALID. Blocks: at most that long. */
KVF_API kvf_status kvf_engine_wait(kvf_engine *engine, uint64_t timeout_ns, kvf_error **error_out);

/** A descriptor for poll or epoll: readable while events wait. Owned by the engine; do not read it. */
KVF_API int kvf_engine_event_fd(const kvf_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
