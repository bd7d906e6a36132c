/* The one symbol of the library. */
#include "inside.h"

extern const struct memory_device_ops kvferry_cuda_ops;

__attribute__((visibility("default"))) const struct memory_device_ops kvferry_cuda_ops = {
    .version = MEMORY_DEVICE_OPS_VERSION,
    .struct_bytes = sizeof(struct memory_device_ops),
    .driver_open = driver_open,
    .pointer_query = pointer_query,
    .device_open = device_open,
    .device_close = device_close,
    .memory_alloc = pointer_alloc,
    .memory_free = pointer_free,
    .memory_copy = pointer_copy,
    .host_register = pointer_host_register,
    .host_unregister = pointer_host_unregister,
    .host_reach = pointer_host_reach,
    .lane_tiles = device_lane_tiles,
    .lane_launch = device_lane_launch,
    .lane_poll = device_lane_poll,
    .order_open = order_open,
    .order_poll = order_poll,
    .order_close = order_close,
    .ipc_export = ipc_export,
    .ipc_import = ipc_import,
    .ipc_close = ipc_close,
};
