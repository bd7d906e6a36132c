/* A driver for hosts without a GPU, for tests only: a libcuda.so.1 whose device is host memory and whose kernels are the reference
 * of copy/tile.h. It is no proof of anything about a GPU; it finds what the host's side does wrong:
 *   - device memory is mapped without access at its address, so a host that follows such an address dies;
 *   - kernels may reach device memory and registered host memory only, and each access is checked;
 *   - streams run on threads of their own, so what is not ordered by events is not ordered.
 * KVF_STUB: words that make it fail: no-device, old-device, no-memory, broken, slow; stub_fail() of the tests sets it. */
#include <cuda.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stub.h"
#include "tile_reference.h"

enum { RANGE_LIMIT = 256 };

/* Device memory, or host memory that was registered. */
struct range {
  uint64_t base, bytes;
  char *alias; /* where the host may touch device memory; NULL for host memory */
  int fd;      /* behind device memory */
  int is_virtual, is_managed, is_imported;
};

static struct range ranges[RANGE_LIMIT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts; /* pushed and not popped, on this device's one context */
static _Thread_local int depth;

struct CUevent_st {
  pthread_mutex_t lock;
  pthread_cond_t came;
  uint64_t recorded, reached; /* the last record asked for, and the last one that its stream has passed */
};

enum operation_kind { OPERATION_COPY, OPERATION_KERNEL, OPERATION_RECORD, OPERATION_WAIT };
struct operation {
  struct operation *next;
  enum operation_kind kind;
  uint64_t target, source, bytes;
  uint32_t tile_count, shift;
  CUevent event;
  uint64_t record;
};

struct CUstream_st {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct operation *first, **last;
  int busy, ending;
};

static int has_word(const char *word) {
  const char *words = getenv("KVF_STUB");
  return words && strstr(words, word) != NULL;
}

/* ---- memory ---- */

static struct range *find_range(uint64_t address) {
  for (int i = 0; i < RANGE_LIMIT; i++)
    if (ranges[i].bytes && address >= ranges[i].base && address - ranges[i].base < ranges[i].bytes) return &ranges[i];
  return NULL;
}

static struct range *add_range(uint64_t base, uint64_t bytes, char *alias, int fd) {
  for (int i = 0; i < RANGE_LIMIT; i++) {
    if (ranges[i].bytes) continue;
    ranges[i] = (struct range){.base = base, .bytes = bytes, .alias = alias, .fd = fd};
    return &ranges[i];
  }
  abort();
}

/* What a kernel or the copy engine may touch, or the end of the test. */
static void *reach(uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  struct range *range = find_range(address);
  if (!range || address + bytes > range->base + range->bytes) {
    fprintf(stderr, "stub driver: a kernel reaches for %p, which is neither device memory nor registered\n", (void *)(uintptr_t)address);
    abort();
  }
  char *place = range->alias ? range->alias + (address - range->base) : (char *)(uintptr_t)address;
  pthread_mutex_unlock(&lock);
  return place;
}

/* For copies that the host asks for: ordinary memory too. */
static void *reach_any(uint64_t address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_range(address);
  char *place = range && range->alias ? range->alias + (address - range->base) : (char *)(uintptr_t)address;
  pthread_mutex_unlock(&lock);
  return place;
}

static CUresult map_device(int fd, size_t bytes, CUdeviceptr *address_out, struct range **range_out) {
  void *alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void *address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (alias == MAP_FAILED || address == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  struct range *range = add_range((uintptr_t)address, bytes, alias, fd);
  pthread_mutex_unlock(&lock);
  if (range_out) *range_out = range;
  *address_out = (uintptr_t)address;
  return CUDA_SUCCESS;
}

static CUresult alloc_device(CUdeviceptr *address_out, size_t bytes, struct range **range_out) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  if (has_word("no-memory")) return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = memfd_create("stub-device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  return map_device(fd, bytes, address_out, range_out);
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) { return alloc_device(address, bytes, NULL); }

/* The tests' word for memory of the virtual memory API, and of cuMemAllocManaged. */
CUresult stub_alloc_virtual(CUdeviceptr *address, size_t bytes) {
  struct range *range;
  CUresult result = alloc_device(address, bytes, &range);
  if (result == CUDA_SUCCESS) range->is_virtual = 1;
  return result;
}
CUresult stub_alloc_managed(CUdeviceptr *address, size_t bytes) {
  struct range *range;
  CUresult result = alloc_device(address, bytes, &range);
  if (result == CUDA_SUCCESS) range->is_managed = 1;
  return result;
}

CUresult cuMemFree(CUdeviceptr address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_range(address);
  CUresult result = range && range->base == address && range->alias ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    munmap(range->alias, range->bytes);
    munmap((void *)(uintptr_t)range->base, range->bytes);
    close(range->fd);
    *range = (struct range){0};
  }
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult cuMemHostRegister(void *address, size_t bytes, unsigned int flags) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  if (!(flags & CU_MEMHOSTREGISTER_DEVICEMAP)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  struct range *other = find_range((uintptr_t)address);
  if (!other) add_range((uintptr_t)address, bytes, NULL, -1);
  pthread_mutex_unlock(&lock);
  return other ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_range((uintptr_t)address);
  CUresult result = range && !range->alias && range->base == (uintptr_t)address ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (result == CUDA_SUCCESS) *range = (struct range){0};
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult cuMemAllocHost(void **address, size_t bytes) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  *address = malloc(bytes);
  return *address ? cuMemHostRegister(*address, bytes, CU_MEMHOSTREGISTER_DEVICEMAP) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *address) {
  CUresult result = cuMemHostUnregister(address);
  if (result == CUDA_SUCCESS) free(address);
  return result;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *reach_out, void *address, unsigned int flags) {
  (void)flags;
  pthread_mutex_lock(&lock);
  struct range *range = find_range((uintptr_t)address);
  pthread_mutex_unlock(&lock);
  if (!range || range->alias) return CUDA_ERROR_INVALID_VALUE;
  *reach_out = (uintptr_t)address;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  struct range *range = find_range(address);
  pthread_mutex_unlock(&lock);
  if (!range || !range->alias) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = range->base;
  if (bytes) *bytes = range->bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (has_word("no-query")) return CUDA_ERROR_NOT_PERMITTED;
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  struct range *range = find_range(address);
  pthread_mutex_unlock(&lock);
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(CUmemorytype *)value = range->alias ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *(unsigned int *)value = (unsigned int)range->is_managed;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int *)value = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *(int *)value = !range->is_virtual;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_range((uintptr_t)address);
  pthread_mutex_unlock(&lock);
  if (!range || !range->is_virtual) return CUDA_ERROR_INVALID_VALUE;
  *handle = 1;
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) { return handle == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  memmove(reach_any(target), reach_any(source), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t bytes) {
  memset(reach(address, bytes), value, bytes);
  return CUDA_SUCCESS;
}

/* ---- between processes ---- */

struct handle {
  int pid, fd;
  uint64_t bytes;
};

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle_out, CUdeviceptr address) {
  pthread_mutex_lock(&lock);
  struct range *range = find_range(address);
  pthread_mutex_unlock(&lock);
  if (!range || !range->alias || range->is_virtual) return CUDA_ERROR_INVALID_VALUE;
  const struct handle handle = {.pid = getpid(), .fd = range->fd, .bytes = range->bytes};
  memset(handle_out, 0, sizeof *handle_out);
  memcpy(handle_out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *base, CUipcMemHandle bytes, unsigned int flags) {
  struct handle handle;
  char path[64];
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
  memcpy(&handle, &bytes, sizeof handle);
  if (handle.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT; /* as the real one: not in the process that made it */
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
  FILE *file = fopen(path, "r+");
  if (!file) return CUDA_ERROR_INVALID_VALUE;
  struct range *range;
  CUresult result = map_device(dup(fileno(file)), handle.bytes, base, &range);
  fclose(file);
  if (result == CUDA_SUCCESS) range->is_imported = 1;
  return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr base) { return cuMemFree(base); }

/* How many imports are open, for tests. */
int stub_imports(void) {
  int count = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < RANGE_LIMIT; i++) count += ranges[i].bytes && ranges[i].is_imported;
  pthread_mutex_unlock(&lock);
  return count;
}
/* And ranges of any kind: what a test leaks. */
int stub_ranges(void) {
  int count = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < RANGE_LIMIT; i++) count += ranges[i].bytes != 0;
  pthread_mutex_unlock(&lock);
  return count;
}

/* ---- streams and events ---- */

static void wait_event(CUevent event, uint64_t record) {
  pthread_mutex_lock(&event->lock);
  while (event->reached < record) pthread_cond_wait(&event->came, &event->lock);
  pthread_mutex_unlock(&event->lock);
}

static void run_operation(const struct operation *operation) {
  switch (operation->kind) {
    case OPERATION_COPY:
      memcpy(reach(operation->target, operation->bytes), reach(operation->source, operation->bytes), operation->bytes);
      break;
    case OPERATION_KERNEL:
      if (has_word("slow")) usleep(20000);
      tile_reference_run(reach(operation->source, operation->tile_count * sizeof(struct copy_tile)), operation->tile_count,
                         operation->shift, reach);
      break;
    case OPERATION_RECORD:
      pthread_mutex_lock(&operation->event->lock);
      operation->event->reached = operation->record;
      pthread_cond_broadcast(&operation->event->came);
      pthread_mutex_unlock(&operation->event->lock);
      break;
    case OPERATION_WAIT:
      wait_event(operation->event, operation->record);
      break;
  }
}

static void *run_stream(void *argument) {
  CUstream stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->first && !stream->ending) pthread_cond_wait(&stream->changed, &stream->lock);
    struct operation *operation = stream->first;
    if (!operation) break;
    stream->first = operation->next;
    if (!stream->first) stream->last = &stream->first;
    stream->busy = 1;
    pthread_mutex_unlock(&stream->lock);
    run_operation(operation);
    free(operation);
    pthread_mutex_lock(&stream->lock);
    stream->busy = 0;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

static CUresult enqueue(CUstream stream, struct operation operation) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  struct operation *queued = malloc(sizeof *queued);
  *queued = operation;
  queued->next = NULL;
  pthread_mutex_lock(&stream->lock);
  *stream->last = queued;
  stream->last = &queued->next;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream_out, unsigned int flags) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = calloc(1, sizeof *stream);
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  stream->last = &stream->first;
  pthread_create(&stream->thread, NULL, run_stream, stream);
  *stream_out = stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  if (!stream) return CUDA_SUCCESS; /* the default stream: this driver's cuMemcpy is done on return */
  pthread_mutex_lock(&stream->lock);
  while (stream->first || stream->busy) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  pthread_mutex_lock(&stream->lock);
  stream->ending = 1;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  free(stream);
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event_out, unsigned int flags) {
  (void)flags;
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  CUevent event = calloc(1, sizeof *event);
  pthread_mutex_init(&event->lock, NULL);
  pthread_cond_init(&event->came, NULL);
  *event_out = event;
  return CUDA_SUCCESS;
}
/* Records that are still queued would point at it: left to the end of the process, as tests make few. */
CUresult cuEventDestroy(CUevent event) { return event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuEventRecord(CUevent event, CUstream stream) {
  pthread_mutex_lock(&event->lock);
  uint64_t record = ++event->recorded;
  pthread_mutex_unlock(&event->lock);
  return enqueue(stream, (struct operation){.kind = OPERATION_RECORD, .event = event, .record = record});
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  (void)flags;
  pthread_mutex_lock(&event->lock);
  uint64_t record = event->recorded;
  pthread_mutex_unlock(&event->lock);
  return enqueue(stream, (struct operation){.kind = OPERATION_WAIT, .event = event, .record = record});
}

CUresult cuEventQuery(CUevent event) {
  if (has_word("broken")) return CUDA_ERROR_ILLEGAL_ADDRESS;
  pthread_mutex_lock(&event->lock);
  CUresult result = event->reached < event->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  pthread_mutex_unlock(&event->lock);
  return result;
}

/* An event that fires when the test says so. */
void stub_event_hold(CUevent event) {
  pthread_mutex_lock(&event->lock);
  event->recorded++;
  pthread_mutex_unlock(&event->lock);
}
void stub_event_fire(CUevent event) {
  pthread_mutex_lock(&event->lock);
  event->reached = event->recorded;
  pthread_cond_broadcast(&event->came);
  pthread_mutex_unlock(&event->lock);
}

/* ---- the rest ---- */

CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *count) {
  *count = !has_word("no-device");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = 0;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  (void)device;
  *context = (CUcontext)&contexts;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  if (context != (CUcontext)&contexts) return CUDA_ERROR_INVALID_CONTEXT;
  depth++;
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext *context) {
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  depth--;
  *context = (CUcontext)&contexts;
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  static const unsigned char fatbin_magic[] = {0x50, 0xed, 0x55, 0xba};
  if (has_word("old-device")) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (memcmp(image, fatbin_magic, sizeof fatbin_magic) != 0) return CUDA_ERROR_INVALID_IMAGE;
  *module = (CUmodule)&contexts;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { return module == (CUmodule)&contexts ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

/* A function is its shift, plus one. */
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  unsigned bytes = 0;
  (void)module;
  if (sscanf(name, "kvferry_copy_%u", &bytes) != 1 || !bytes || bytes > 16 || bytes & (bytes - 1)) return CUDA_ERROR_NOT_FOUND;
  *function = (CUfunction)(uintptr_t)(__builtin_ctz(bytes) + 1);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                        unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **arguments,
                        void **extra) {
  (void)extra;
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes || block_x % COPY_TILE_LANES || !grid_x)
    return CUDA_ERROR_INVALID_VALUE;
  const struct operation operation = {.kind = OPERATION_KERNEL,
                                      .source = *(const CUdeviceptr *)arguments[0],
                                      .tile_count = *(const uint32_t *)arguments[1],
                                      .shift = (uint32_t)(uintptr_t)function - 1};
  if ((uint64_t)grid_x * block_x / COPY_TILE_LANES < operation.tile_count) return CUDA_ERROR_INVALID_VALUE; /* tiles without a warp */
  return enqueue(stream, operation);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return enqueue(stream, (struct operation){.kind = OPERATION_COPY, .target = target, .source = source, .bytes = bytes});
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  return enqueue(stream, (struct operation){.kind = OPERATION_COPY, .target = target, .source = (uintptr_t)source, .bytes = bytes});
}

CUresult cuGetErrorName(CUresult result, const char **name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY        ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == CUDA_ERROR_NO_BINARY_FOR_GPU  ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : result == CUDA_ERROR_ILLEGAL_ADDRESS    ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == CUDA_ERROR_NOT_PERMITTED      ? "CUDA_ERROR_NOT_PERMITTED"
                                                    : NULL;
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult result, const char **text) {
  (void)result;
  *text = "as the test demands";
  return CUDA_SUCCESS;
}
