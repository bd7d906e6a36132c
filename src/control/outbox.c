/* See outbox.h. Small frames share chunks of 4 KiB; a large frame gets a chunk of its own size. The last small chunk is kept when
 * it is empty, so that a session that talks now and then allocates nothing. */
#include "control/outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/checked.h"

enum { CHUNK_BYTES = 4 << 10, VECTOR_LIMIT = 64 };

struct outbox_chunk {
  struct base_list node;
  size_t capacity, filled, sent;
  uint8_t bytes[];
};

void control_outbox_init(struct control_outbox *outbox) {
  base_list_init(&outbox->chunks);
  outbox->queued_bytes = 0;
}

void control_outbox_fini(struct control_outbox *outbox) {
  struct base_list *node;
  while ((node = base_list_pop_front(&outbox->chunks))) base_free(BASE_CONTAINER(node, struct outbox_chunk, node));
  outbox->queued_bytes = 0;
}

static struct outbox_chunk *last_chunk(const struct control_outbox *outbox) {
  return base_list_empty(&outbox->chunks) ? NULL : BASE_CONTAINER(outbox->chunks.prev, struct outbox_chunk, node);
}

bool control_outbox_append(struct control_outbox *outbox, const uint8_t *bytes, size_t length_bytes) {
  struct outbox_chunk *chunk = last_chunk(outbox);
  if (!chunk || chunk->capacity - chunk->filled < length_bytes) {
    size_t capacity = base_max_u64(CHUNK_BYTES, length_bytes);
    uint64_t size_bytes;
    chunk = base_add_u64(sizeof *chunk, capacity, &size_bytes) ? base_alloc(size_bytes) : NULL;
    if (!chunk) return false;
    *chunk = (struct outbox_chunk){.capacity = capacity};
    base_list_push_back(&outbox->chunks, &chunk->node);
  }
  memcpy(chunk->bytes + chunk->filled, bytes, length_bytes);
  chunk->filled += length_bytes;
  outbox->queued_bytes += length_bytes;
  return true;
}

static int fill_vector(const struct control_outbox *outbox, struct iovec *vector) {
  int count = 0;
  for (struct base_list *node = outbox->chunks.next; node != &outbox->chunks && count < VECTOR_LIMIT; node = node->next) {
    struct outbox_chunk *chunk = BASE_CONTAINER(node, struct outbox_chunk, node);
    vector[count++] = (struct iovec){.iov_base = chunk->bytes + chunk->sent, .iov_len = chunk->filled - chunk->sent};
  }
  return count;
}

static void drop_sent(struct control_outbox *outbox, size_t sent_bytes) {
  outbox->queued_bytes -= sent_bytes;
  while (sent_bytes) {
    struct outbox_chunk *chunk = BASE_CONTAINER(outbox->chunks.next, struct outbox_chunk, node);
    size_t step = base_min_u64(sent_bytes, chunk->filled - chunk->sent);
    chunk->sent += step;
    sent_bytes -= step;
    if (chunk->sent < chunk->filled) return;
    if (chunk == last_chunk(outbox) && chunk->capacity == CHUNK_BYTES) {
      chunk->filled = chunk->sent = 0;
      return;
    }
    base_list_remove(&chunk->node);
    base_free(chunk);
  }
}

int control_outbox_flush(struct control_outbox *outbox, int fd, uint64_t *sent_bytes) {
  struct iovec vector[VECTOR_LIMIT];
  while (outbox->queued_bytes) {
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = (size_t)fill_vector(outbox, vector)};
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
    *sent_bytes += (uint64_t)sent;
    drop_sent(outbox, (size_t)sent);
  }
  return 0;
}
