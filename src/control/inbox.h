/* Bytes on their way into one session, cut into frames. Frames that lie whole in what was read are handed out where they are; only
 * the unfinished end of a read is kept, in memory that grows with what has really arrived and is given back after a large frame. */
#ifndef CONTROL_INBOX_H
#define CONTROL_INBOX_H

#include "wire/frame.h"

struct control_inbox {
  uint8_t *partial;
  size_t partial_bytes, capacity;
};

/* What is being read and how far it has been taken. */
struct control_inbox_cursor {
  const uint8_t *bytes;
  size_t left_bytes;
};

struct control_inbox_frame {
  uint8_t type;
  const uint8_t *payload; /* until the next call on this inbox */
  size_t payload_bytes;
};

void control_inbox_fini(struct control_inbox *inbox);
/* Take the next frame. KVF_OK with *found_out false: the read is used up. @p limit_bytes bounds a payload. Errors: PROTOCOL,
 * NO_MEMORY. */
kvf_status control_inbox_next(struct control_inbox *inbox, struct control_inbox_cursor *cursor, uint32_t limit_bytes,
                              struct control_inbox_frame *frame_out, bool *found_out, kvf_error **error_out);

#endif
