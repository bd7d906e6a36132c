/* Loading libcuda, and what its results mean. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct driver driver;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;

bool driver_fail(struct memory_device_failure *failure, uint32_t fault, const char *call, const char *text) {
  *failure = (struct memory_device_failure){.fault = fault};
  snprintf(failure->call, sizeof failure->call, "%s", call);
  snprintf(failure->text, sizeof failure->text, "%s", text);
  return false;
}

static uint32_t classify(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return MEMORY_FAULT_ABSENT;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return MEMORY_FAULT_EXHAUSTED;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
      return MEMORY_FAULT_BROKEN;
    default:
      return MEMORY_FAULT_REFUSED;
  }
}

bool driver_check(CUresult result, const char *call, struct memory_device_failure *failure) {
  if (result == CUDA_SUCCESS) return true;
  const char *name = NULL, *text = NULL;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  driver_fail(failure, classify(result), call, "");
  failure->code = (int32_t)result;
  snprintf(failure->text, sizeof failure->text, "%s: %s", name ? name : "unknown result", text ? text : "no text");
  return false;
}

#define TEXT(name) #name
#define EXPANDED(name) TEXT(name) /* cuda.h defines cuMemAlloc as cuMemAlloc_v2: that is the symbol's name */

static bool load_symbols(void *library, struct memory_device_failure *failure) {
  const char *missing = NULL;
#define DRIVER_LOAD(name)                                 \
  *(void **)&driver.name = dlsym(library, EXPANDED(name)); \
  if (!driver.name) missing = EXPANDED(name);
  DRIVER_FUNCTIONS(DRIVER_LOAD)
#undef DRIVER_LOAD
  if (!missing) return true;
  char text[120];
  snprintf(text, sizeof text, "the driver is too old: it has no %s", missing);
  return driver_fail(failure, MEMORY_FAULT_ABSENT, "dlsym", text);
}

static bool start_driver(struct memory_device_failure *failure) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return driver_fail(failure, MEMORY_FAULT_ABSENT, "dlopen", dlerror());
  int count = 0;
  bool ready = load_symbols(library, failure) && DRIVER_CALL(failure, cuInit, 0) && DRIVER_CALL(failure, cuDeviceGetCount, &count);
  if (ready && count == 0) ready = driver_fail(failure, MEMORY_FAULT_ABSENT, "cuDeviceGetCount", "the driver sees no device");
  if (!ready) dlclose(library);
  return ready;
}

bool driver_open(struct memory_device_failure *failure) {
  pthread_mutex_lock(&open_lock);
  if (!is_open) is_open = start_driver(failure);
  bool ready = is_open;
  pthread_mutex_unlock(&open_lock);
  return ready;
}
