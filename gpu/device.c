/* A device in use: its primary context, the kernels, and the lanes that copy side by side. */
#include <stdio.h>
#include <stdlib.h>

#include "inside.h"

extern const unsigned char kvferry_kernels[]; /* fatbin, by bin2c */

bool device_enter(struct memory_device *device, struct memory_device_failure *failure) {
  return DRIVER_CALL(failure, cuCtxPushCurrent, device->context);
}

void device_leave(void) {
  CUcontext left;
  driver.cuCtxPopCurrent(&left);
}

static bool load_kernels(struct memory_device *device, struct memory_device_failure *failure) {
  if (!DRIVER_CALL(failure, cuModuleLoadData, &device->module, kvferry_kernels)) return false;
  for (uint32_t shift = 0; shift < DEVICE_KERNELS; shift++) {
    char name[32];
    snprintf(name, sizeof name, "kvferry_copy_%u", 1u << shift);
    if (!DRIVER_CALL(failure, cuModuleGetFunction, &device->kernels[shift], device->module, name)) return false;
  }
  return true;
}

/* Streams that do not wait for the legacy default stream, which frameworks still use. */
static bool make_lane(struct device_lane *lane, uint32_t tile_limit, struct memory_device_failure *failure) {
  const size_t bytes = tile_limit * sizeof *lane->tiles;
  return DRIVER_CALL(failure, cuStreamCreate, &lane->stream, CU_STREAM_NON_BLOCKING) &&
         DRIVER_CALL(failure, cuEventCreate, &lane->done, CU_EVENT_DISABLE_TIMING) &&
         DRIVER_CALL(failure, cuMemAllocHost, (void **)&lane->tiles, bytes) &&
         DRIVER_CALL(failure, cuMemAlloc, &lane->device_tiles, bytes);
}

static void free_lane(struct device_lane *lane) {
  if (lane->stream) driver.cuStreamSynchronize(lane->stream);
  if (lane->done) driver.cuEventDestroy(lane->done);
  if (lane->tiles) driver.cuMemFreeHost(lane->tiles);
  if (lane->device_tiles) driver.cuMemFree(lane->device_tiles);
  if (lane->stream) driver.cuStreamDestroy(lane->stream);
}

static bool make_parts(struct memory_device *device, struct memory_device_failure *failure) {
  if (!load_kernels(device, failure)) return false;
  if (!DRIVER_CALL(failure, cuStreamCreate, &device->order_stream, CU_STREAM_NON_BLOCKING)) return false;
  for (uint32_t i = 0; i < device->lane_count; i++)
    if (!make_lane(&device->lanes[i], device->tile_limit, failure)) return false;
  return true;
}

bool device_open(int32_t number, uint32_t lane_count, uint32_t tile_limit, struct memory_device **device_out,
                 struct memory_device_failure *failure) {
  if (!driver_open(failure)) return false;
  struct memory_device *device = calloc(1, sizeof *device);
  if (device) device->lanes = calloc(lane_count ? lane_count : 1, sizeof *device->lanes);
  if (!device || !device->lanes) {
    free(device);
    return driver_fail(failure, MEMORY_FAULT_EXHAUSTED, "calloc", "no host memory");
  }
  device->lane_count = lane_count;
  device->tile_limit = tile_limit;
  bool ready = DRIVER_CALL(failure, cuDeviceGet, &device->device, number) &&
               DRIVER_CALL(failure, cuDevicePrimaryCtxRetain, &device->context, device->device);
  if (ready && device_enter(device, failure)) {
    ready = make_parts(device, failure);
    device_leave();
  } else {
    ready = false;
  }
  if (!ready) {
    device_close(device);
    return false;
  }
  *device_out = device;
  return true;
}

void device_close(struct memory_device *device) {
  struct memory_device_failure ignored;
  if (!device) return;
  if (device->context && device_enter(device, &ignored)) {
    for (uint32_t i = 0; i < device->lane_count; i++) free_lane(&device->lanes[i]);
    if (device->order_stream) driver.cuStreamDestroy(device->order_stream);
    if (device->module) driver.cuModuleUnload(device->module);
    device_leave();
  }
  if (device->context) driver.cuDevicePrimaryCtxRelease(device->device);
  free(device->lanes);
  free(device);
}

struct copy_tile *device_lane_tiles(struct memory_device *device, uint32_t lane) { return device->lanes[lane].tiles; }

/* All in the lane's stream, so one after the other; the host waits for nothing. */
static bool enqueue(struct memory_device *device, struct device_lane *lane, uint32_t tile_count, uint32_t shift,
                    struct memory_device_failure *failure) {
  const uint32_t tiles_a_block = DEVICE_BLOCK_THREADS / COPY_TILE_LANES;
  const uint32_t blocks = (tile_count + tiles_a_block - 1) / tiles_a_block;
  void *arguments[] = {&lane->device_tiles, &tile_count};
  return DRIVER_CALL(failure, cuMemcpyHtoDAsync, lane->device_tiles, lane->tiles, tile_count * sizeof *lane->tiles, lane->stream) &&
         DRIVER_CALL(failure, cuLaunchKernel, device->kernels[shift], blocks, 1, 1, DEVICE_BLOCK_THREADS, 1, 1, 0, lane->stream,
                     arguments, NULL) &&
         DRIVER_CALL(failure, cuEventRecord, lane->done, lane->stream);
}

bool device_lane_launch(struct memory_device *device, uint32_t lane, uint32_t tile_count, uint32_t shift,
                        struct memory_device_failure *failure) {
  if (tile_count == 0) return true;
  if (!device_enter(device, failure)) return false;
  bool ready = enqueue(device, &device->lanes[lane], tile_count, shift, failure);
  /* A part may be on its way already: the pages must be quiet before anyone hears of the failure. */
  if (!ready) driver.cuStreamSynchronize(device->lanes[lane].stream);
  device_leave();
  return ready;
}

enum memory_device_state device_event_poll(struct memory_device *device, CUevent event, struct memory_device_failure *failure) {
  if (!device_enter(device, failure)) return MEMORY_DEVICE_FAILED;
  CUresult result = driver.cuEventQuery(event);
  device_leave();
  if (result == CUDA_ERROR_NOT_READY) return MEMORY_DEVICE_BUSY;
  return driver_check(result, "cuEventQuery", failure) ? MEMORY_DEVICE_DONE : MEMORY_DEVICE_FAILED;
}

enum memory_device_state device_lane_poll(struct memory_device *device, uint32_t lane, struct memory_device_failure *failure) {
  enum memory_device_state state = device_event_poll(device, device->lanes[lane].done, failure);
  struct memory_device_failure ignored;
  if (state == MEMORY_DEVICE_FAILED && device_enter(device, &ignored)) {
    /* A failed question is no proof that the lane is quiet. On a broken context this returns at once. */
    driver.cuStreamSynchronize(device->lanes[lane].stream);
    device_leave();
  }
  return state;
}
