/* Receives: the decode side of a room. */
#ifndef KVFERRY_RECV_H
#define KVFERRY_RECV_H

#include <kvferry/peer.h>
#include <kvferry/plane.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_recv kvf_recv;

typedef struct kvf_recv_options {
  size_t struct_bytes;
  uint64_t room;
  uint64_t user_tag;
  kvf_peer *const *peers; /* every rank of the sending instance, each once, in any order */
  uint32_t peer_count;
  uint32_t page_list_count;
  const kvf_page_list *page_lists; /* must cover [token_first, token_end) in every list that the cache uses, or its last
                                      window_tokens; one page for per-request slots */
  uint64_t token_first;            /* first token wanted: what a prefix cache already holds is left out */
  uint64_t token_end;              /* one past the last; equal to token_first for nothing but the aux bytes */
  uint64_t progress_ns;
  uint64_t room_ns;
} kvf_recv_options;

#define KVF_RECV_OPTIONS_INIT {sizeof(kvf_recv_options)}

/** Open the receiving side of a room. Peers that are not up yet are waited for.
 *  Ownership: copies @p options; borrows the pages until the terminal event. Returns owned; kvf_recv_close it.
 *  Errors: INVALID (a range, a repeated page or peer), OUT_OF_RANGE, OVERLAP (room id in use), DRAINING, NO_MEMORY.
 *  Threads: any. Blocks: never. */
KVF_API kvf_status kvf_recv_open(kvf_engine *engine, const kvf_recv_options *options, kvf_recv **recv_out, kvf_error **error_out);

/** The auxiliary bytes, valid after DONE until the handle is closed. Owned by @p recv. Errors: INVALID, NOT_READY. */
KVF_API kvf_status kvf_recv_aux(const kvf_recv *recv, const void **aux_out, uint64_t *aux_bytes_out, kvf_error **error_out);

/** End the room; the pages may be reused only after the terminal event. Threads: any. Blocks: never. */
KVF_API kvf_status kvf_recv_cancel(kvf_recv *recv, kvf_error **error_out);

/** Free the handle. Before the terminal event it cancels, and the event still arrives, with a NULL handle. NULL is fine. */
KVF_API void kvf_recv_close(kvf_recv *recv);

#ifdef __cplusplus
}
#endif
#endif
