/* The GPU's thread: begins the copies of pieces in CUDA memory, several side by side, asks for their end, and watches the moments in
 * callers' streams that chunks wait for. There is one in an engine that has registered CUDA memory. */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include "copy/device.h"
#include "transfer/transfer.h"

struct engine_device;

/* @p finish takes each finished job, on this thread. Takes @p device over, also when it fails. */
kvf_status engine_device_create(struct memory_device *device, uint64_t piece_bytes,
                                void (*finish)(void *context, struct transfer_job *job), void *context,
                                struct engine_device **device_out, kvf_error **error_out);
/* Ends what is queued, then the thread. NULL is fine. */
void engine_device_destroy(struct engine_device *device);
void engine_device_submit(struct engine_device *device, struct transfer_job *job);

/* An eventfd that gets a count of 1 when what was enqueued in @p stream, or before @p event, is done, and 2 when it failed.
 * The caller closes it. Errors: FABRIC, SYSTEM, NO_MEMORY. */
kvf_status engine_device_fence(struct engine_device *device, void *stream, void *event, int *fence_fd_out, kvf_error **error_out);

#endif
