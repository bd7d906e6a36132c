/* The library is looked for by its name, then beside libkvferry itself. Once loaded it stays: threads of the driver may live in it. */
#include "memory/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY_NAME "libkvferry_cuda.so.0"

static struct {
  pthread_mutex_t lock;
  const struct memory_device_ops *ops; /* NULL: not loaded */
  struct memory_device *device;
  int32_t number;
  uint32_t references;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- loading ---- */

static void *load_beside(void) {
  Dl_info own;
  char path[1024];
  if (!dladdr(&shared, &own) || !own.dli_fname) return NULL;
  const char *slash = strrchr(own.dli_fname, '/');
  int folder_bytes = slash ? (int)(slash - own.dli_fname) + 1 : 0;
  snprintf(path, sizeof path, "%.*s" LIBRARY_NAME, folder_bytes, own.dli_fname);
  return folder_bytes ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static kvf_error *load_library(void) {
  char reason[256] = "";
  void *library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
  if (!library) snprintf(reason, sizeof reason, "%s", dlerror());
  if (!library) library = load_beside();
  if (!library)
    return BASE_ERROR(KVF_UNAVAILABLE, BASE_ERROR(KVF_SYSTEM, NULL, "dlopen: %s", reason),
                      "CUDA memory needs " LIBRARY_NAME ", which is not installed: it is built where nvcc is found");
  const struct memory_device_ops *ops = dlsym(library, MEMORY_DEVICE_OPS_SYMBOL);
  if (!ops || ops->version != MEMORY_DEVICE_OPS_VERSION || ops->struct_bytes != sizeof *ops) {
    dlclose(library);
    return BASE_ERROR(KVF_UNAVAILABLE, NULL, LIBRARY_NAME " is of another version than this library");
  }
  shared.ops = ops;
  return NULL;
}

/* Lock held. */
static kvf_error *open_driver(void) {
  struct memory_device_failure failure;
  kvf_error *error = shared.ops ? NULL : load_library();
  if (error || shared.ops->driver_open(&failure)) return error;
  return memory_device_error(&failure);
}

bool memory_device_is_driver_loaded(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver) dlclose(driver);
  return driver != NULL;
}

kvf_error *memory_device_error(const struct memory_device_failure *failure) {
  static const struct {
    kvf_status status;
    const char *text;
  } meanings[] = {
      [MEMORY_FAULT_ABSENT] = {KVF_UNAVAILABLE, "there is no usable GPU: the driver is missing, sees no device, or the device is none "
                                                "that libkvferry_cuda has code for (compute capability 8.0 and later)"},
      [MEMORY_FAULT_EXHAUSTED] = {KVF_NO_MEMORY, "the GPU's driver is out of memory"},
      [MEMORY_FAULT_REFUSED] = {KVF_FABRIC, "the GPU's driver refused a call"},
      [MEMORY_FAULT_BROKEN] = {KVF_FABRIC, "the GPU's context is broken: nothing in this process can use it any more"},
  };
  uint32_t fault = failure->fault > MEMORY_FAULT_BROKEN || !failure->fault ? MEMORY_FAULT_REFUSED : failure->fault;
  kvf_error *cause = BASE_ERROR(KVF_FABRIC, NULL, "%s: %s", failure->call, failure->text);
  base_error_add(cause, "cuda_result", "%d", (int)failure->code);
  return BASE_ERROR(meanings[fault].status, cause, "%s", meanings[fault].text);
}

/* ---- the device ---- */

static kvf_error *take_device(int32_t number) {
  struct memory_device_failure failure;
  if (shared.references && number != shared.number) {
    kvf_error *error = BASE_ERROR(KVF_UNSUPPORTED, NULL, "one process uses one GPU, and another one is in use");
    base_error_add(error, "device", "%d", (int)number);
    return base_error_add(error, "in_use", "%d", (int)shared.number);
  }
  if (shared.references++) return NULL;
  kvf_error *error = open_driver();
  if (!error && !shared.ops->device_open(number, 0, 0, &shared.device, &failure))
    error = base_error_add(memory_device_error(&failure), "device", "%d", (int)number);
  if (error) shared.references = 0;
  shared.number = number;
  return error;
}

kvf_status memory_device_take(int32_t number, struct memory_device **device_out, kvf_error **error_out) {
  pthread_mutex_lock(&shared.lock);
  kvf_error *error = take_device(number);
  if (!error) *device_out = shared.device;
  pthread_mutex_unlock(&shared.lock);
  return error ? base_error_give(error, error_out) : KVF_OK;
}

void memory_device_give(struct memory_device *device) {
  if (!device) return;
  pthread_mutex_lock(&shared.lock);
  if (--shared.references == 0) {
    shared.ops->device_close(shared.device);
    shared.device = NULL;
  }
  pthread_mutex_unlock(&shared.lock);
}

kvf_status memory_device_open(int32_t number, struct memory_device **device_out, kvf_error **error_out) {
  struct memory_device_failure failure;
  if (shared.ops->device_open(number, MEMORY_DEVICE_LANES, MEMORY_DEVICE_TILES, device_out, &failure)) return KVF_OK;
  return base_error_give(base_error_add(memory_device_error(&failure), "device", "%d", (int)number), error_out);
}

void memory_device_close(struct memory_device *device) {
  if (device) shared.ops->device_close(device);
}

const struct memory_device_ops *memory_device_ops(void) { return shared.ops; }

kvf_status memory_device_query(const void *address, struct memory_pointer *pointer_out, kvf_error **error_out) {
  struct memory_device_failure failure;
  pthread_mutex_lock(&shared.lock);
  kvf_error *error = open_driver();
  if (!error && !shared.ops->pointer_query((uint64_t)(uintptr_t)address, pointer_out, &failure)) error = memory_device_error(&failure);
  pthread_mutex_unlock(&shared.lock);
  return error ? base_error_give(error, error_out) : KVF_OK;
}

const char *memory_pointer_name(uint32_t kind) {
  static const char *const names[] = {[MEMORY_POINTER_UNKNOWN] = "unknown to the driver",
                                      [MEMORY_POINTER_HOST] = "pinned host memory",
                                      [MEMORY_POINTER_DEVICE] = "device memory",
                                      [MEMORY_POINTER_MANAGED] = "managed memory"};
  return kind <= MEMORY_POINTER_MANAGED ? names[kind] : "of a kind that is not known here";
}

bool memory_device_pin(void *address, uint64_t length_bytes) {
  struct memory_device_failure ignored;
  pthread_mutex_lock(&shared.lock);
  bool pinned = shared.device && shared.ops->host_register(shared.device, address, length_bytes, &ignored);
  pthread_mutex_unlock(&shared.lock);
  return pinned;
}

void memory_device_unpin(void *address) {
  pthread_mutex_lock(&shared.lock);
  if (shared.device) shared.ops->host_unregister(shared.device, address);
  pthread_mutex_unlock(&shared.lock);
}

/* ---- memory ---- */

kvf_status memory_device_alloc(int32_t number, uint64_t bytes, void **memory_out, kvf_error **error_out) {
  struct memory_device_failure failure;
  struct memory_device *device;
  uint64_t address;
  kvf_status status = memory_device_take(number, &device, error_out);
  if (status != KVF_OK) return status;
  if (shared.ops->memory_alloc(device, bytes, &address, &failure)) {
    *memory_out = (void *)(uintptr_t)address;
    return KVF_OK;
  }
  memory_device_give(device);
  return base_error_give(base_error_add(memory_device_error(&failure), "length", "%llu", (unsigned long long)bytes), error_out);
}

void memory_device_free(void *memory) {
  if (!memory) return;
  shared.ops->memory_free(shared.device, (uint64_t)(uintptr_t)memory);
  memory_device_give(shared.device);
}

kvf_status memory_device_copy(void *target, const void *source, uint64_t bytes, kvf_error **error_out) {
  struct memory_device_failure failure;
  pthread_mutex_lock(&shared.lock);
  struct memory_device *device = shared.device;
  pthread_mutex_unlock(&shared.lock);
  if (!device) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "no GPU is in use"), error_out);
  if (shared.ops->memory_copy(device, (uint64_t)(uintptr_t)target, (uint64_t)(uintptr_t)source, bytes, &failure)) return KVF_OK;
  return base_error_give(memory_device_error(&failure), error_out);
}
