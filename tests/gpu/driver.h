/* The driver's functions for the tests, from whatever libcuda.so.1 is found: the stub here, the real one in run.sh. */
#ifndef TESTS_GPU_DRIVER_H
#define TESTS_GPU_DRIVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "stub.h"

#define DRIVER_TEXT(name) #name
#define DRIVER_SYMBOL(name) DRIVER_TEXT(name)
/* A function of the driver, or NULL: the stub's own are not in a real one. */
#define DRIVER(name) ((__typeof__(&name))driver_find(DRIVER_SYMBOL(name)))

static inline void *driver_find(const char *name) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? dlsym(library, name) : NULL;
}

static inline int driver_is_stub(void) { return DRIVER(stub_ranges) != NULL; }

/* The primary context current on this thread, so that the tests can allocate; false without a usable device. */
static inline int driver_begin(void) {
  CUdevice device;
  CUcontext context;
  int count = 0;
  if (!DRIVER(cuInit) || DRIVER(cuInit)(0) != CUDA_SUCCESS) return 0;
  if (DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count == 0) return 0;
  return DRIVER(cuDeviceGet)(&device, 0) == CUDA_SUCCESS && DRIVER(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS &&
         DRIVER(cuCtxPushCurrent)(context) == CUDA_SUCCESS;
}

#endif
