/* The library's own structures, and the functions behind the table. */
#ifndef GPU_INSIDE_H
#define GPU_INSIDE_H

#include "copy/tile.h"
#include "driver.h"

enum { DEVICE_KERNELS = COPY_TILE_SHIFT_LIMIT + 1, DEVICE_BLOCK_THREADS = 256 };

/* One copy at a time: tiles to the device, kernel, event. */
struct device_lane {
  CUstream stream;
  CUevent done;
  struct copy_tile *tiles; /* pinned */
  CUdeviceptr device_tiles;
};

struct memory_device {
  CUdevice device;
  CUcontext context; /* the device's primary one, as the frameworks use */
  CUmodule module;
  CUfunction kernels[DEVICE_KERNELS]; /* by shift */
  CUstream order_stream;              /* waits for callers' events so that no lane has to */
  uint32_t lane_count, tile_limit;
  struct device_lane *lanes;
};

/* The context is current from here to device_leave on this thread; what was current before comes back. */
bool device_enter(struct memory_device *device, struct memory_device_failure *failure);
void device_leave(void);

/* device.c */
bool device_open(int32_t number, uint32_t lane_count, uint32_t tile_limit, struct memory_device **device_out,
                 struct memory_device_failure *failure);
void device_close(struct memory_device *device);
struct copy_tile *device_lane_tiles(struct memory_device *device, uint32_t lane);
bool device_lane_launch(struct memory_device *device, uint32_t lane, uint32_t tile_count, uint32_t shift,
                        struct memory_device_failure *failure);
enum memory_device_state device_lane_poll(struct memory_device *device, uint32_t lane, struct memory_device_failure *failure);
enum memory_device_state device_event_poll(struct memory_device *device, CUevent event, struct memory_device_failure *failure);

/* pointer.c */
bool pointer_query(uint64_t address, struct memory_pointer *pointer_out, struct memory_device_failure *failure);
bool pointer_alloc(struct memory_device *device, uint64_t bytes, uint64_t *address_out, struct memory_device_failure *failure);
void pointer_free(struct memory_device *device, uint64_t address);
bool pointer_copy(struct memory_device *device, uint64_t target, uint64_t source, uint64_t bytes, struct memory_device_failure *failure);
bool pointer_host_register(struct memory_device *device, void *address, uint64_t bytes, struct memory_device_failure *failure);
void pointer_host_unregister(struct memory_device *device, void *address);
bool pointer_host_reach(struct memory_device *device, uint64_t address, uint64_t *reach_out);

/* order.c */
bool order_open(struct memory_device *device, void *stream, void *event, struct memory_device_order **order_out,
                struct memory_device_failure *failure);
enum memory_device_state order_poll(struct memory_device_order *order, struct memory_device_failure *failure);
void order_close(struct memory_device_order *order);

/* ipc.c */
bool ipc_export(struct memory_device *device, uint64_t address, uint8_t handle_out[MEMORY_DEVICE_IPC_BYTES], uint64_t *offset_out,
                struct memory_device_failure *failure);
bool ipc_import(struct memory_device *device, const uint8_t handle[MEMORY_DEVICE_IPC_BYTES], uint64_t *base_out,
                struct memory_device_failure *failure);
void ipc_close(struct memory_device *device, uint64_t base);

#endif
