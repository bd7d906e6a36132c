/* Sends: the prefill side of a room. A room is opened under the same 64-bit id on both sides, in either order. */
#ifndef KVFERRY_SEND_H
#define KVFERRY_SEND_H

#include <kvferry/engine.h>
#include <kvferry/plane.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_send kvf_send;

enum { KVF_AUX_LIMIT_BYTES = 65536 };
enum { KVF_CUDA_STREAM = 1, KVF_CUDA_EVENT = 2 };

typedef struct kvf_send_options {
  size_t struct_bytes;
  uint64_t room;
  uint64_t user_tag;    /* comes back in the event */
  uint64_t progress_ns; /* 0 = engine default */
  uint64_t room_ns;     /* 0 = engine default */
} kvf_send_options;

#define KVF_SEND_OPTIONS_INIT {sizeof(kvf_send_options)}

typedef struct kvf_chunk {
  size_t struct_bytes;
  uint64_t token_first;  /* position in the request */
  uint64_t token_count;  /* may be 0, with final */
  uint32_t layer_first;  /* global layer ids [layer_first, layer_first+layer_count) */
  uint32_t layer_count;  /* 0 = all layers */
  uint32_t final;        /* 1: the last chunk of the room */
  uint32_t page_list_count;
  const kvf_page_list *page_lists; /* must cover the token range in every list that the chunk's planes use; of those
                                      with a window what lies in the receiver's; with final, the per-request slots */
  const void *aux;                 /* with final: bytes for the receiver (first token, log-probs …) */
  uint64_t aux_bytes;              /* at most KVF_AUX_LIMIT_BYTES */
  uint32_t fenced;                 /* 1: the pages are not computed yet; fence_fd tells when */
  int32_t fence_fd;                /* with fenced: an eventfd. No page of the chunk is read before a count arrives there: 1 says computed, anything
                                      else says that the computation failed, and the room fails. Duplicated: the caller may close its own. Chunks
                                      that are posted later wait behind it */
  uint32_t after_cuda; /* KVF_CUDA_…: the pages, in CUDA memory, are computed when this has come; not with fenced. As with a fence
                          no page is read before, a computation that failed fails the room, and later chunks wait behind it */
  void *cuda_handle;   /* with after_cuda: a CUstream, what is enqueued in it by now counts and NULL is the default stream; or a
                          CUevent that has been recorded. Not needed after the call; the stream never waits for a transfer */
} kvf_chunk;

#define KVF_CHUNK_INIT {sizeof(kvf_chunk)}

/** Open the sending side of a room. It waits for every rank of the receiving instance to open the same room.
 *  Returns owned; kvf_send_close it after its terminal event. Errors: INVALID, OVERLAP (room id in use), DRAINING,
 *  BACKPRESSURE, NO_MEMORY. Threads: any. Blocks: never. */
KVF_API kvf_status kvf_send_open(kvf_engine *engine, const kvf_send_options *options, kvf_send **send_out, kvf_error **error_out);

/** Post one chunk. Its pages must be computed already, which the caller guarantees, unless the chunk has a fence or comes after_cuda.
 *  Shapes:    pages[i] of a list holds tokens first_token + i*page_tokens … of the request.
 *  Ownership: copies @p chunk, lists and aux; borrows the pages' memory until the room's terminal event.
 *  Threads:   any.   Blocks: never.
 *  Errors:    INVALID (a range, after final, after_cuda without CUDA memory), FABRIC (the GPU's driver), SYSTEM (the fence cannot be duplicated), OUT_OF_RANGE (a page), TOO_LARGE (aux), NO_MEMORY. */
KVF_API kvf_status kvf_send_post(kvf_send *send, const kvf_chunk *chunk, kvf_error **error_out);

/** End the room; CANCELLED (or what came first) arrives as the terminal event. Threads: any. Blocks: never. */
KVF_API kvf_status kvf_send_cancel(kvf_send *send, kvf_error **error_out);

/** Free the handle. Before the terminal event it cancels, and the event still arrives, with a NULL handle. NULL is fine. */
KVF_API void kvf_send_close(kvf_send *send);

#ifdef __cplusplus
}
#endif
#endif
