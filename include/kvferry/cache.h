/* The cache: the planes that this rank holds, and its place in its instance. One per engine. */
#ifndef KVFERRY_CACHE_H
#define KVFERRY_CACHE_H

#include <kvferry/engine.h>
#include <kvferry/plane.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_cache kvf_cache;

typedef struct kvf_cache_options {
  size_t struct_bytes;
  const kvf_plane *planes;
  uint32_t plane_count;
  uint32_t plane_bytes; /* sizeof(kvf_plane) as compiled; 0 = this header's */
  uint32_t rank;        /* this rank's number in its instance, over all of tensor, pipeline and context parallelism */
  uint32_t rank_count;  /* ranks of the instance */
  uint32_t stage;       /* pipeline stage */
  uint32_t components;  /* bit c: some rank of this instance holds planes of component c. 0 = what this rank holds; with pipeline stages that
                           hold different components it must be given */
  uint32_t ignore_components; /* bit c: the other instance may lack component c, or have it where this one lacks it; nothing of it is moved then.
                                 Without it such a pair is INCOMPATIBLE. What is ignored is in kvf_peer_state and in the metrics */
} kvf_cache_options;

#define KVF_CACHE_OPTIONS_INIT {sizeof(kvf_cache_options), NULL, 0, 0, 0, 1, 0, 0, 0}

/** Declare what this rank holds. From here on the engine completes handshakes; before, connecting peers wait.
 *  Ownership: copies @p options; borrows the planes' memory, which must lie in registered regions. Returns owned.
 *  Errors: INVALID (a plane, a second cache), NOT_REGISTERED, OUT_OF_RANGE, TOO_LARGE. The field plane names the entry. */
KVF_API kvf_status kvf_cache_open(kvf_engine *engine, const kvf_cache_options *options, kvf_cache **cache_out, kvf_error **error_out);

/** NULL is fine. Ends every room of this engine as CANCELLED. */
KVF_API void kvf_cache_close(kvf_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
