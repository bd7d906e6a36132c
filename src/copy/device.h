/* The GPU's backend: the same orders as on the CPU, begun and asked for instead of done on the spot. The CPU's backend is the
 * reference that it matches bit for bit.
 *
 * Each copy takes a lane; several are under way side by side. Where packed memory is not within a kernel's reach (host memory that
 * is not pinned) the copy goes through a pinned buffer of the lane's. One thread calls. */
#ifndef COPY_DEVICE_H
#define COPY_DEVICE_H

#include "base/error.h"
#include "copy/order.h"
#include "memory/device.h"

struct copy_device;

enum copy_state { COPY_BUSY, COPY_DONE, COPY_FAILED };

/* @p piece_bytes: the largest piece, for the buffers. Errors: those of memory_device_take. */
kvf_status copy_device_create(struct memory_device *device, uint64_t piece_bytes, struct copy_device **copies_out, kvf_error **error_out);
/* No copy may be under way. NULL is fine. */
void copy_device_destroy(struct copy_device *copies);

/* Begin a copy of @p order, which is copied, what it points at not; *lane_out names it. Errors: BACKPRESSURE (every lane is busy), NO_MEMORY, FABRIC. After an error nothing of it is
 * under way. */
kvf_status copy_device_begin(struct copy_device *copies, const struct copy_order *order, uint32_t *lane_out, kvf_error **error_out);
/* DONE and FAILED free the lane; the order's memory is quiet from then on. */
enum copy_state copy_device_poll(struct copy_device *copies, uint32_t lane, kvf_error **error_out);

#endif
