/* The GPU as the rooms see it: libkvferry_cuda, loaded when somebody first speaks of CUDA memory, and the one device that this
 * process uses. A process that never does loads nothing. Any thread may call. */
#ifndef MEMORY_DEVICE_H
#define MEMORY_DEVICE_H

#include "base/error.h"
#include "memory/device_ops.h"

enum { MEMORY_DEVICE_LANES = 8, MEMORY_DEVICE_TILES = 16384 };

/* A reference to the process's device; the first one opens it. All of them name one device.
 * Errors: UNAVAILABLE (no libkvferry_cuda, no driver, no device, no code for it), UNSUPPORTED (another device is in use),
 * NO_MEMORY, FABRIC (the driver refused). */
kvf_status memory_device_take(int32_t number, struct memory_device **device_out, kvf_error **error_out);
/* Give a reference back; the last one closes the device. NULL is fine. */
void memory_device_give(struct memory_device *device);
/* The same device again, with lanes for one thread's copies; the holder of a reference may ask. Errors as above. */
kvf_status memory_device_open(int32_t number, struct memory_device **device_out, kvf_error **error_out);
void memory_device_close(struct memory_device *device);
/* Memory on a device, with a reference to it, and copies between any two kinds. Errors as above; INVALID for a copy without a device. */
kvf_status memory_device_alloc(int32_t number, uint64_t bytes, void **memory_out, kvf_error **error_out);
void memory_device_free(void *memory);
kvf_status memory_device_copy(void *target, const void *source, uint64_t bytes, kvf_error **error_out);
/* The table; valid while a reference is held. */
const struct memory_device_ops *memory_device_ops(void);

/* Has anything in this process loaded a GPU's driver? Asking loads none. */
bool memory_device_is_driver_loaded(void);
/* What the driver says of an address. Errors: UNAVAILABLE, FABRIC. */
kvf_status memory_device_query(const void *address, struct memory_pointer *pointer_out, kvf_error **error_out);

/* "device memory", "managed memory", "pinned host memory", "unknown to the driver" */
const char *memory_pointer_name(uint32_t kind);
/* What a driver's failure is here. */
kvf_error *memory_device_error(const struct memory_device_failure *failure);

/* Let kernels reach host memory, when this process uses a device; false when it does not, or the driver refuses. */
bool memory_device_pin(void *address, uint64_t length_bytes);
void memory_device_unpin(void *address);

#endif
