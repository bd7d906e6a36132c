/* See inbox.h. A finished partial frame is handed out from the kept memory; the next call drops it, so `partial_bytes` beyond a
 * whole frame never happens. */
#include "control/inbox.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"

enum { KEEP_BYTES = 16 << 10, FIRST_BYTES = 1 << 10 };

void control_inbox_fini(struct control_inbox *inbox) {
  base_free(inbox->partial);
  *inbox = (struct control_inbox){0};
}

static bool reserve(struct control_inbox *inbox, size_t need_bytes, size_t frame_bytes) {
  if (need_bytes <= inbox->capacity) return true;
  size_t capacity = base_max_u64(need_bytes, base_min_u64(2 * inbox->capacity, frame_bytes));
  capacity = base_max_u64(capacity, FIRST_BYTES);
  uint8_t *grown = base_realloc(inbox->partial, capacity);
  if (!grown) return false;
  inbox->partial = grown;
  inbox->capacity = capacity;
  return true;
}

/* Move bytes from the read until the partial frame has @p goal_bytes; *reached_out says whether it has. */
static kvf_status collect(struct control_inbox *inbox, struct control_inbox_cursor *cursor, size_t goal_bytes, bool *reached_out,
                          kvf_error **error_out) {
  size_t step = base_min_u64(goal_bytes - inbox->partial_bytes, cursor->left_bytes);
  if (!reserve(inbox, inbox->partial_bytes + step, goal_bytes))
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a frame of %zu bytes", goal_bytes), error_out);
  if (step) memcpy(inbox->partial + inbox->partial_bytes, cursor->bytes, step);
  inbox->partial_bytes += step;
  cursor->bytes += step;
  cursor->left_bytes -= step;
  *reached_out = inbox->partial_bytes == goal_bytes;
  return KVF_OK;
}

static kvf_status next_from_partial(struct control_inbox *inbox, struct control_inbox_cursor *cursor, uint32_t limit_bytes,
                                    struct control_inbox_frame *frame_out, bool *found_out, kvf_error **error_out) {
  struct wire_frame frame;
  bool reached = true;
  kvf_status status = KVF_OK;
  if (inbox->partial_bytes < WIRE_FRAME_BYTES) status = collect(inbox, cursor, WIRE_FRAME_BYTES, &reached, error_out);
  if (status != KVF_OK || !reached) return status;
  status = wire_frame_decode(inbox->partial, limit_bytes, &frame, error_out);
  if (status != KVF_OK) return status;
  status = collect(inbox, cursor, WIRE_FRAME_BYTES + (size_t)frame.payload_bytes, &reached, error_out);
  if (status != KVF_OK || !reached) return status;
  inbox->partial_bytes = 0; /* the memory stays until the next call */
  *frame_out = (struct control_inbox_frame){frame.type, inbox->partial + WIRE_FRAME_BYTES, frame.payload_bytes};
  *found_out = true;
  return KVF_OK;
}

static void give_back(struct control_inbox *inbox) {
  if (inbox->partial_bytes == 0 && inbox->capacity > KEEP_BYTES) control_inbox_fini(inbox);
}

kvf_status control_inbox_next(struct control_inbox *inbox, struct control_inbox_cursor *cursor, uint32_t limit_bytes,
                              struct control_inbox_frame *frame_out, bool *found_out, kvf_error **error_out) {
  *found_out = false;
  give_back(inbox);
  if (inbox->partial_bytes == 0 && cursor->left_bytes >= WIRE_FRAME_BYTES) {
    struct wire_frame frame;
    kvf_status status = wire_frame_decode(cursor->bytes, limit_bytes, &frame, error_out);
    if (status != KVF_OK) return status;
    size_t frame_bytes = WIRE_FRAME_BYTES + (size_t)frame.payload_bytes;
    if (cursor->left_bytes >= frame_bytes) {
      *frame_out = (struct control_inbox_frame){frame.type, cursor->bytes + WIRE_FRAME_BYTES, frame.payload_bytes};
      cursor->bytes += frame_bytes;
      cursor->left_bytes -= frame_bytes;
      *found_out = true;
      return KVF_OK;
    }
  }
  if (cursor->left_bytes == 0) return KVF_OK;
  return next_from_partial(inbox, cursor, limit_bytes, frame_out, found_out, error_out);
}
