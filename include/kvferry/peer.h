/* Peers: the ranks of other instances. Either side may connect; an accepted peer arrives with the PEER_UP event. */
#ifndef KVFERRY_PEER_H
#define KVFERRY_PEER_H

#include <kvferry/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_peer kvf_peer;

/** Connect to ranks; returns at once. PEER_UP follows each handshake, PEER_DOWN each loss or refusal; the engine reconnects with
 *  backoff until the peer is closed, except after INCOMPATIBLE and AUTH_FAILED.
 *  Shapes:    @p addresses[count] "host:port", @p peers_out[count].   Ownership: copies; returns owned.
 *  Errors: INVALID, BAD_ADDRESS, NO_MEMORY. Threads: any. Blocks: never. */
KVF_API kvf_status kvf_peer_connect(kvf_engine *engine, const char *const *addresses, size_t count, kvf_peer **peers_out,
                                    kvf_error **error_out);

/** Drop the connection and the handle; rooms with this peer fail. NULL is fine. */
KVF_API void kvf_peer_close(kvf_peer *peer);

/* DOWN → OK (handshake done) → SUSPECT (a heartbeat unanswered; rooms go on) → OK again, or DOWN (four heartbeats; rooms fail). */
enum { KVF_PEER_DOWN = 0, KVF_PEER_OK = 1, KVF_PEER_SUSPECT = 2 };

typedef struct kvf_peer_state {
  size_t struct_bytes;
  uint32_t up;          /* 1: the handshake is done */
  uint32_t rank, rank_count, stage;
  uint8_t incarnation[16];
  char label[64];
  char address[64];
  char fabric[16]; /* provider of the data that we send to it; "" when none yet */
  uint32_t way;    /* KVF_WAY_… chosen for what we send to it */
  char reason[256]; /* why this fabric and way, and what was passed over */
  uint32_t ignored_components; /* bit c: only one of the two sides has component c, and it is left out by agreement */
  uint32_t health;             /* KVF_PEER_… */
  uint64_t health_age_ns;      /* in this state since; for SUSPECT since it was last heard */
} kvf_peer_state;

#define KVF_PEER_STATE_INIT {sizeof(kvf_peer_state)}

/** Errors: INVALID. Threads: any. */
KVF_API kvf_status kvf_peer_query(kvf_peer *peer, kvf_peer_state *state_out, kvf_error **error_out);

#ifdef __cplusplus
}
#endif
#endif
