/* Orders become tiles in the lane's pinned array and one launch; an order with more tiles than the array holds is launched in
 * turns, each when the one before is done. */
#include "copy/device.h"

#include <string.h>

#include "base/alloc.h"
#include "memory/shared.h"

struct lane {
  bool busy;
  struct copy_order order;
  struct copy_order reached; /* the order with addresses as kernels see them */
  struct copy_tiling tiling;
  void *bounce; /* pageable memory on the host's side of it, or NULL */
  uint64_t bytes;
};

struct copy_device {
  struct memory_device *device;
  const struct memory_device_ops *ops;
  void *buffers; /* pinned; one for each lane */
  uint64_t buffer_bytes;
  struct lane lanes[MEMORY_DEVICE_LANES];
};

kvf_status copy_device_create(struct memory_device *device, uint64_t piece_bytes, struct copy_device **copies_out, kvf_error **error_out) {
  struct copy_device *copies = base_calloc(1, sizeof *copies);
  if (!copies) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a GPU's copies"), error_out);
  copies->device = device;
  copies->ops = memory_device_ops();
  copies->buffer_bytes = piece_bytes;
  *copies_out = copies;
  return KVF_OK;
}

void copy_device_destroy(struct copy_device *copies) {
  if (!copies) return;
  if (copies->buffers) copies->ops->host_unregister(copies->device, copies->buffers);
  memory_shared_free(copies->buffers);
  base_free(copies);
}

/* Made when the first copy needs one: most never do. */
static kvf_error *make_buffers(struct copy_device *copies) {
  struct memory_device_failure failure;
  if (copies->buffers) return NULL;
  void *buffers;
  kvf_error *error = NULL;
  if (memory_shared_alloc(copies->buffer_bytes * MEMORY_DEVICE_LANES, &buffers, &error) != KVF_OK) return error;
  if (!copies->ops->host_register(copies->device, buffers, copies->buffer_bytes * MEMORY_DEVICE_LANES, &failure)) {
    memory_shared_free(buffers);
    return memory_device_error(&failure);
  }
  copies->buffers = buffers;
  return NULL;
}

/* Where kernels find the packed bytes. */
static kvf_error *reach_packed(struct copy_device *copies, uint32_t index, const struct copy_order *order) {
  struct lane *lane = &copies->lanes[index];
  struct memory_pointer pointer;
  struct memory_device_failure failure;
  lane->bounce = NULL;
  if (order->kind == COPY_PAIRS || copies->ops->host_reach(copies->device, order->packed, &lane->reached.packed)) return NULL;
  if (!copies->ops->pointer_query(order->packed, &pointer, &failure)) return memory_device_error(&failure);
  if (pointer.kind == MEMORY_POINTER_DEVICE || pointer.kind == MEMORY_POINTER_MANAGED) return NULL;
  kvf_error *error = make_buffers(copies);
  if (error) return error;
  if (lane->bytes > copies->buffer_bytes) return BASE_ERROR(KVF_INTERNAL, NULL, "a piece is larger than its buffer");
  uint8_t *buffer = (uint8_t *)copies->buffers + index * copies->buffer_bytes;
  if (!copies->ops->host_reach(copies->device, (uintptr_t)buffer, &lane->reached.packed))
    return BASE_ERROR(KVF_FABRIC, NULL, "kernels cannot reach a buffer that was pinned for them");
  if (order->kind == COPY_SCATTER) memcpy(buffer, (const void *)(uintptr_t)order->packed, lane->bytes);
  lane->bounce = buffer;
  return NULL;
}

/* The next tiles of a lane. *more_out is false when there were none. */
static kvf_error *launch(struct copy_device *copies, uint32_t index, bool *more_out) {
  uint64_t alignment = 0;
  struct memory_device_failure failure;
  struct copy_tile *tiles = copies->ops->lane_tiles(copies->device, index);
  uint32_t count = copy_tiling_next(&copies->lanes[index].tiling, tiles, MEMORY_DEVICE_TILES, &alignment);
  *more_out = count > 0;
  if (count == 0 || copies->ops->lane_launch(copies->device, index, count, copy_tile_shift(alignment), &failure)) return NULL;
  return memory_device_error(&failure);
}

kvf_status copy_device_begin(struct copy_device *copies, const struct copy_order *order, uint32_t *lane_out, kvf_error **error_out) {
  uint32_t index = 0;
  bool more;
  while (index < MEMORY_DEVICE_LANES && copies->lanes[index].busy) index++;
  if (index == MEMORY_DEVICE_LANES) return base_error_give(BASE_ERROR(KVF_BACKPRESSURE, NULL, "every lane of the GPU is busy"), error_out);
  struct lane *lane = &copies->lanes[index];
  *lane = (struct lane){.order = *order, .reached = *order};
  kvf_error *error = NULL;
  if (!layout_piece_bytes(order->link, &order->piece, &lane->bytes)) error = BASE_ERROR(KVF_INTERNAL, NULL, "a piece leaves its cuts");
  if (!error) error = reach_packed(copies, index, order);
  copy_tiling_begin(&lane->tiling, &lane->reached);
  if (!error) error = launch(copies, index, &more);
  if (error) return base_error_give(error, error_out);
  lane->busy = true;
  *lane_out = index;
  return KVF_OK;
}

static enum copy_state end(struct lane *lane, kvf_error *error, kvf_error **error_out) {
  lane->busy = false;
  if (!error && lane->bounce && lane->order.kind == COPY_GATHER)
    memcpy((void *)(uintptr_t)lane->order.packed, lane->bounce, lane->bytes);
  if (!error) return COPY_DONE;
  base_error_give(error, error_out);
  return COPY_FAILED;
}

enum copy_state copy_device_poll(struct copy_device *copies, uint32_t index, kvf_error **error_out) {
  struct memory_device_failure failure;
  struct lane *lane = &copies->lanes[index];
  bool more = true;
  enum memory_device_state state = copies->ops->lane_poll(copies->device, index, &failure);
  if (state == MEMORY_DEVICE_BUSY) return COPY_BUSY;
  kvf_error *error = state == MEMORY_DEVICE_FAILED ? memory_device_error(&failure) : launch(copies, index, &more);
  return error || !more ? end(lane, error, error_out) : COPY_BUSY;
}
