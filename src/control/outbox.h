/* Bytes on their way out of one session: a list of chunks, so that many small frames leave in one call and a large queue is never
 * moved. */
#ifndef CONTROL_OUTBOX_H
#define CONTROL_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum { CONTROL_OUTBOX_LIMIT_BYTES = 64 << 20 };

struct control_outbox {
  struct base_list chunks;
  size_t queued_bytes;
};

void control_outbox_init(struct control_outbox *outbox);
void control_outbox_fini(struct control_outbox *outbox);
/* Copies. False when memory is out: nothing was added. */
bool control_outbox_append(struct control_outbox *outbox, const uint8_t *bytes, size_t length_bytes);
/* Send what the socket takes, adding to @p sent_bytes. 0 (look at queued_bytes for what is left), or the errno. */
int control_outbox_flush(struct control_outbox *outbox, int fd, uint64_t *sent_bytes);

#endif
