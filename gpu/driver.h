/* The driver API, loaded from libcuda.so.1 when it is first needed. Types and prototypes are cuda.h's, so a wrong argument does not
 * compile; the symbols have the versions that cuda.h gives the names at build time, all of them older than CUDA 12. */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <cuda.h>

#include "memory/device_ops.h"

/* clang-format off */
#define DRIVER_FUNCTIONS(X)                                                                                             \
  X(cuInit) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet)                                    \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent) X(cuCtxPopCurrent)                       \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)                                        \
  X(cuMemAlloc) X(cuMemFree) X(cuMemAllocHost) X(cuMemFreeHost) X(cuMemcpy) X(cuMemcpyHtoDAsync) X(cuMemsetD8)          \
  X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuMemGetAddressRange)                      \
  X(cuPointerGetAttribute) X(cuMemRetainAllocationHandle) X(cuMemRelease)                                               \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent)                                      \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery)                                                   \
  X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle)
/* clang-format on */

struct driver {
#define DRIVER_MEMBER(name) __typeof__(&name) name;
  DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* Valid after driver_open. */
extern struct driver driver;

bool driver_open(struct memory_device_failure *failure);
/* True for CUDA_SUCCESS; else the failure is filled in. */
bool driver_check(CUresult result, const char *call, struct memory_device_failure *failure);
bool driver_fail(struct memory_device_failure *failure, uint32_t fault, const char *call, const char *text);

#define DRIVER_CALL(failure, name, ...) driver_check(driver.name(__VA_ARGS__), #name, failure)

#endif
