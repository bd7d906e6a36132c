/* What libkvferry_cuda offers to the core: the GPU's driver behind a table of functions, so that the core knows no CUDA header and
 * links no CUDA library. The library is loaded when the first CUDA memory is registered (memory/device.h).
 *
 * Addresses are numbers here: those of a device must never be followed on the host. A function that can fail fills in *failure and
 * returns false. Threads: any, but a lane belongs to one thread at a time. Includes stdint and stdbool only. */
#ifndef MEMORY_DEVICE_OPS_H
#define MEMORY_DEVICE_OPS_H

#include <stdbool.h>
#include <stdint.h>

enum { MEMORY_DEVICE_OPS_VERSION = 1, MEMORY_DEVICE_IPC_BYTES = 64 };
#define MEMORY_DEVICE_OPS_SYMBOL "kvferry_cuda_ops"

struct copy_tile;

enum memory_device_fault {
  MEMORY_FAULT_ABSENT = 1, /* no driver, no device, no code for this device */
  MEMORY_FAULT_EXHAUSTED,  /* out of memory */
  MEMORY_FAULT_REFUSED,    /* the driver cannot do this with this memory */
  MEMORY_FAULT_BROKEN      /* a kernel or the context failed: nothing on this device works any more */
};

struct memory_device_failure {
  uint32_t fault; /* MEMORY_FAULT_… */
  int32_t code;   /* the driver's CUresult */
  char call[48];  /* the driver's function */
  char text[200];
};

/* What the driver says of an address. */
enum memory_pointer_kind { MEMORY_POINTER_UNKNOWN, MEMORY_POINTER_HOST, MEMORY_POINTER_DEVICE, MEMORY_POINTER_MANAGED };
struct memory_pointer {
  uint32_t kind;
  int32_t device;
  uint64_t base, bytes; /* the allocation around it; of device memory */
  bool is_movable;      /* mapped by the virtual memory API: what is behind the address can change */
  bool has_ipc;         /* another process of this host can be given it */
};

enum memory_device_state { MEMORY_DEVICE_BUSY, MEMORY_DEVICE_DONE, MEMORY_DEVICE_FAILED };

struct memory_device;       /* a device in use: context, kernels, lanes */
struct memory_device_order; /* a moment in somebody else's stream */

struct memory_device_ops {
  uint32_t version, struct_bytes;

  /* Load the driver and look for a device. Again after a failure: tries again. */
  bool (*driver_open)(struct memory_device_failure *failure);
  bool (*pointer_query)(uint64_t address, struct memory_pointer *pointer_out, struct memory_device_failure *failure);

  /* A lane is a stream with room for tile_limit tiles, in pinned memory and on the device. */
  bool (*device_open)(int32_t device, uint32_t lane_count, uint32_t tile_limit, struct memory_device **device_out,
                      struct memory_device_failure *failure);
  /* Waits for what its lanes still do. NULL is fine. */
  void (*device_close)(struct memory_device *device);

  /* For pools of tools and tests; zeroed. */
  bool (*memory_alloc)(struct memory_device *device, uint64_t bytes, uint64_t *address_out, struct memory_device_failure *failure);
  void (*memory_free)(struct memory_device *device, uint64_t address);
  /* Any kind to any kind, done on return. */
  bool (*memory_copy)(struct memory_device *device, uint64_t target, uint64_t source, uint64_t bytes,
                      struct memory_device_failure *failure);

  /* Lock host memory and let kernels reach it; reach says at which address they do, false when they cannot. */
  bool (*host_register)(struct memory_device *device, void *address, uint64_t bytes, struct memory_device_failure *failure);
  void (*host_unregister)(struct memory_device *device, void *address);
  bool (*host_reach)(struct memory_device *device, uint64_t address, uint64_t *reach_out);

  /* The lane's pinned array, to be filled with tiles while the lane is not busy; then one launch; then poll until not BUSY. */
  struct copy_tile *(*lane_tiles)(struct memory_device *device, uint32_t lane);
  bool (*lane_launch)(struct memory_device *device, uint32_t lane, uint32_t tile_count, uint32_t shift,
                      struct memory_device_failure *failure);
  enum memory_device_state (*lane_poll)(struct memory_device *device, uint32_t lane, struct memory_device_failure *failure);

  /* What was enqueued until now, in the caller's stream or before the caller's event (CUstream, CUevent; give one, the other NULL).
   * The caller's handle is not needed afterwards, and its stream never waits. */
  bool (*order_open)(struct memory_device *device, void *stream, void *event, struct memory_device_order **order_out,
                     struct memory_device_failure *failure);
  enum memory_device_state (*order_poll)(struct memory_device_order *order, struct memory_device_failure *failure);
  void (*order_close)(struct memory_device_order *order);

  /* Between processes of one host. The importer maps the whole allocation. */
  bool (*ipc_export)(struct memory_device *device, uint64_t address, uint8_t handle_out[MEMORY_DEVICE_IPC_BYTES], uint64_t *offset_out,
                     struct memory_device_failure *failure);
  bool (*ipc_import)(struct memory_device *device, const uint8_t handle[MEMORY_DEVICE_IPC_BYTES], uint64_t *base_out,
                     struct memory_device_failure *failure);
  void (*ipc_close)(struct memory_device *device, uint64_t base);
};

#endif
