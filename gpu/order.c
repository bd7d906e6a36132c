/* A moment in a caller's stream, held by an event of ours: the caller may reuse or destroy its own at once. Nothing is enqueued in
 * a stream of the caller's but that event, and no lane waits for it: a copy is not begun before its moment has come, so one room's
 * long computation does not hold up the copies of another. */
#include <stdlib.h>

#include "inside.h"

struct memory_device_order {
  struct memory_device *device;
  CUevent event;
};

static bool record(struct memory_device *device, CUstream stream, CUevent after, CUevent event, struct memory_device_failure *failure) {
  if (after)
    return DRIVER_CALL(failure, cuStreamWaitEvent, device->order_stream, after, 0) &&
           DRIVER_CALL(failure, cuEventRecord, event, device->order_stream);
  return DRIVER_CALL(failure, cuEventRecord, event, stream);
}

bool order_open(struct memory_device *device, void *stream, void *event, struct memory_device_order **order_out,
                struct memory_device_failure *failure) {
  struct memory_device_order *order = calloc(1, sizeof *order);
  if (!order) return driver_fail(failure, MEMORY_FAULT_EXHAUSTED, "calloc", "no host memory");
  order->device = device;
  bool ready = device_enter(device, failure);
  if (ready) {
    ready = DRIVER_CALL(failure, cuEventCreate, &order->event, CU_EVENT_DISABLE_TIMING) &&
            record(device, stream, event, order->event, failure);
    device_leave();
  }
  if (!ready) {
    order_close(order);
    return false;
  }
  *order_out = order;
  return true;
}

enum memory_device_state order_poll(struct memory_device_order *order, struct memory_device_failure *failure) {
  return device_event_poll(order->device, order->event, failure);
}

void order_close(struct memory_device_order *order) {
  struct memory_device_failure ignored;
  if (!order) return;
  if (order->event && device_enter(order->device, &ignored)) {
    driver.cuEventDestroy(order->event);
    device_leave();
  }
  free(order);
}
