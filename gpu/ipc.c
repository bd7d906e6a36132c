/* Device memory between processes of one host. A handle names a whole allocation, so an address travels as handle and offset. */
#include <string.h>

#include "inside.h"

_Static_assert(sizeof(CUipcMemHandle) == MEMORY_DEVICE_IPC_BYTES, "a handle travels as bytes");

bool ipc_export(struct memory_device *device, uint64_t address, uint8_t handle_out[MEMORY_DEVICE_IPC_BYTES], uint64_t *offset_out,
                struct memory_device_failure *failure) {
  CUipcMemHandle handle;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (!device_enter(device, failure)) return false;
  bool ready = DRIVER_CALL(failure, cuMemGetAddressRange, &base, &bytes, address) &&
               DRIVER_CALL(failure, cuIpcGetMemHandle, &handle, base);
  device_leave();
  if (!ready) return false;
  memcpy(handle_out, &handle, sizeof handle);
  *offset_out = address - base;
  return true;
}

bool ipc_import(struct memory_device *device, const uint8_t handle_bytes[MEMORY_DEVICE_IPC_BYTES], uint64_t *base_out,
                struct memory_device_failure *failure) {
  CUipcMemHandle handle;
  CUdeviceptr base = 0;
  memcpy(&handle, handle_bytes, sizeof handle);
  if (!device_enter(device, failure)) return false;
  bool ready = DRIVER_CALL(failure, cuIpcOpenMemHandle, &base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  device_leave();
  if (ready) *base_out = base;
  return ready;
}

void ipc_close(struct memory_device *device, uint64_t base) {
  struct memory_device_failure ignored;
  if (!device_enter(device, &ignored)) return;
  driver.cuIpcCloseMemHandle(base);
  device_leave();
}
