/* Regions: memory that kvferry may read and write for rooms. */
#ifndef KVFERRY_REGION_H
#define KVFERRY_REGION_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_region kvf_region;

enum { KVF_MEMORY_HOST = 1, KVF_MEMORY_SHARED = 2, KVF_MEMORY_CUDA = 3 };

typedef struct kvf_region_options {
  size_t struct_bytes;
  void *address;
  uint64_t length_bytes;
  uint32_t kind;     /* KVF_MEMORY_…; 0 = SHARED when it came from kvf_memory_alloc, CUDA when a GPU's driver is loaded and knows it for
                        device memory, else HOST. A kind that the driver contradicts is INVALID */
  uint32_t pin;      /* 1: lock the pages in memory, an error when the limit forbids it */
  const char *label; /* for people; may be NULL */
} kvf_region_options;

#define KVF_REGION_OPTIONS_INIT {sizeof(kvf_region_options)}

/** Register regions, all or none.
 *  Shapes:    @p options[count], @p regions_out[count].
 *  Ownership: borrows the memory until kvf_region_close; the mapping must not change meanwhile. Returns owned.
 *  An identical second registration is counted and needs its own close; a true overlap is refused.
 *  Errors: INVALID, OVERLAP, NO_MEMORY, RESOURCE_LIMIT (pinning), UNAVAILABLE (no GPU, driver or libkvferry_cuda),
 *  UNSUPPORTED (a second GPU), FABRIC (the GPU's driver). The field index names the entry. */
KVF_API kvf_status kvf_region_open(kvf_engine *engine, const kvf_region_options *options, size_t count, kvf_region **regions_out,
                                   kvf_error **error_out);

/** Give a registration back. NULL is fine. Memory must stay valid until every room that uses it has ended. */
KVF_API void kvf_region_close(kvf_region *region);

/** Allocate shareable memory (a sealed memfd, zeroed) for pools: ranks on the same host can then copy straight into it.
 *  Returns owned; kvf_memory_free it. Errors: INVALID, NO_MEMORY, SYSTEM. Threads: any. */
KVF_API kvf_status kvf_memory_alloc(uint64_t length_bytes, void **memory_out, kvf_error **error_out);
KVF_API void kvf_memory_free(void *memory);

/** Allocate memory on GPU @p device, zeroed, for tools and tests; a server registers what its framework allocated.
 *  Returns owned, an address that the host must not follow; kvf_cuda_memory_free it, NULL is fine.
 *  Errors: INVALID, UNAVAILABLE (no GPU, driver or libkvferry_cuda), UNSUPPORTED (another GPU is in use), NO_MEMORY, FABRIC.
 *  Threads: any. Blocks: yes. */
KVF_API kvf_status kvf_cuda_memory_alloc(int32_t device, uint64_t length_bytes, void **memory_out, kvf_error **error_out);
KVF_API void kvf_cuda_memory_free(void *memory);
/** Copy between any two kinds of memory, done on return; while some kvf_cuda_memory_alloc lives. Errors: INVALID, FABRIC. */
KVF_API kvf_status kvf_cuda_memory_copy(void *target, const void *source, uint64_t length_bytes, kvf_error **error_out);

#ifdef __cplusplus
}
#endif
#endif
