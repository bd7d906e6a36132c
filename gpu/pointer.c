/* What an address is, and memory of the device's or for the device's use. */
#include "inside.h"

/* The virtual memory API hands out the handle behind an address; memory of cuMemAlloc has none. */
static bool is_virtual(uint64_t address) {
  CUmemGenericAllocationHandle handle;
  if (driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address) != CUDA_SUCCESS) return false;
  driver.cuMemRelease(handle);
  return true;
}

/* INVALID_VALUE is the driver's word for an address that it has never heard of: ordinary host memory. */
static bool query_type(uint64_t address, struct memory_pointer *pointer, struct memory_device_failure *failure) {
  CUmemorytype type = 0;
  unsigned int managed = 0;
  CUresult result = driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (result == CUDA_ERROR_INVALID_VALUE) return true;
  if (!driver_check(result, "cuPointerGetAttribute(MEMORY_TYPE)", failure)) return false;
  if (driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS) managed = 0;
  if (managed)
    pointer->kind = MEMORY_POINTER_MANAGED;
  else if (type == CU_MEMORYTYPE_HOST)
    pointer->kind = MEMORY_POINTER_HOST;
  else if (type == CU_MEMORYTYPE_DEVICE)
    pointer->kind = MEMORY_POINTER_DEVICE;
  return true;
}

static bool query(uint64_t address, struct memory_pointer *pointer_out, struct memory_device_failure *failure) {
  struct memory_pointer pointer = {.kind = MEMORY_POINTER_UNKNOWN, .device = -1};
  if (!query_type(address, &pointer, failure)) return false;
  if (pointer.kind == MEMORY_POINTER_DEVICE) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    int legacy = 0, ordinal = 0;
    if (!DRIVER_CALL(failure, cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)) return false;
    if (!DRIVER_CALL(failure, cuMemGetAddressRange, &base, &bytes, address)) return false;
    pointer.device = ordinal;
    pointer.base = base;
    pointer.bytes = bytes;
    pointer.is_movable = is_virtual(address);
    if (driver.cuPointerGetAttribute(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) == CUDA_SUCCESS)
      pointer.has_ipc = legacy && !pointer.is_movable;
  }
  *pointer_out = pointer;
  return true;
}

/* Any thread may ask, and some of the questions need a current context. A thread without one borrows the first device's for them. */
bool pointer_query(uint64_t address, struct memory_pointer *pointer_out, struct memory_device_failure *failure) {
  CUdevice device;
  CUcontext context;
  if (query(address, pointer_out, failure)) return true;
  if (failure->code != CUDA_ERROR_INVALID_CONTEXT) return false;
  if (!DRIVER_CALL(failure, cuDeviceGet, &device, 0) || !DRIVER_CALL(failure, cuDevicePrimaryCtxRetain, &context, device)) return false;
  bool known = DRIVER_CALL(failure, cuCtxPushCurrent, context);
  if (known) {
    known = query(address, pointer_out, failure);
    device_leave();
  }
  driver.cuDevicePrimaryCtxRelease(device);
  return known;
}

bool pointer_alloc(struct memory_device *device, uint64_t bytes, uint64_t *address_out, struct memory_device_failure *failure) {
  CUdeviceptr address = 0;
  if (!device_enter(device, failure)) return false;
  bool ready = DRIVER_CALL(failure, cuMemAlloc, &address, bytes);
  if (ready && !DRIVER_CALL(failure, cuMemsetD8, address, 0, bytes)) {
    driver.cuMemFree(address);
    ready = false;
  }
  device_leave();
  if (ready) *address_out = address;
  return ready;
}

void pointer_free(struct memory_device *device, uint64_t address) {
  struct memory_device_failure ignored;
  if (!device_enter(device, &ignored)) return;
  driver.cuMemFree(address);
  device_leave();
}

/* cuMemcpy takes any pair of addresses, but between two of a device it may return before it is done: the order stream cannot be
 * asked then, so the context's default stream is. */
bool pointer_copy(struct memory_device *device, uint64_t target, uint64_t source, uint64_t bytes,
                  struct memory_device_failure *failure) {
  if (!device_enter(device, failure)) return false;
  bool ready = DRIVER_CALL(failure, cuMemcpy, target, source, bytes) && DRIVER_CALL(failure, cuStreamSynchronize, NULL);
  device_leave();
  return ready;
}

bool pointer_host_register(struct memory_device *device, void *address, uint64_t bytes, struct memory_device_failure *failure) {
  if (!device_enter(device, failure)) return false;
  bool ready = DRIVER_CALL(failure, cuMemHostRegister, address, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  device_leave();
  return ready;
}

void pointer_host_unregister(struct memory_device *device, void *address) {
  struct memory_device_failure ignored;
  if (!device_enter(device, &ignored)) return;
  driver.cuMemHostUnregister(address);
  device_leave();
}

bool pointer_host_reach(struct memory_device *device, uint64_t address, uint64_t *reach_out) {
  struct memory_device_failure ignored;
  CUdeviceptr reach = 0;
  if (!device_enter(device, &ignored)) return false;
  bool ready = driver.cuMemHostGetDevicePointer(&reach, (void *)(uintptr_t)address, 0) == CUDA_SUCCESS;
  device_leave();
  if (ready) *reach_out = reach;
  return ready;
}
