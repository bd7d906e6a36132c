/* Pieces on their way in. The first message of one says where its payload is to go and brings the first bytes; the others follow in
 * order, one piece of a connection at a time. Each byte is copied once, from UCX's buffer to its place. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric_ucx/connection.h"
#include "fabric_ucx/receiver.h"
#include "fabric_ucx/region.h"

struct fabric_ucx_receipt {
  bool open;     /* more is to come */
  bool dropping; /* nobody wants it */
  uint64_t sequence;
  uint64_t payload_bytes;
  uint64_t taken_bytes;
  size_t iov_index; /* where the next byte goes */
  uint64_t iov_taken_bytes;
  size_t iov_count;
  struct iovec iov[FABRIC_IOV_LIMIT];
  uint8_t header[FABRIC_HEADER_BYTES];
};

static bool adds_up(const struct fabric_ucx_receipt *receipt) {
  uint64_t total = 0;
  if (receipt->iov_count > FABRIC_IOV_LIMIT) return false;
  for (size_t i = 0; i < receipt->iov_count; i++) {
    if (!base_add_u64(total, receipt->iov[i].iov_len, &total)) return false;
  }
  return total == receipt->payload_bytes;
}

/* Ask the caller where the payload belongs. */
static void find_place(struct fabric_ucx_connection *connection) {
  struct fabric_ucx *fabric = connection->fabric;
  struct fabric_ucx_receipt *receipt = connection->receipt;
  receipt->iov_count = FABRIC_IOV_LIMIT;
  receipt->dropping = fabric->callbacks.place(fabric->callbacks.context, connection->token, receipt->header, receipt->payload_bytes,
                                              receipt->iov, &receipt->iov_count) != KVF_OK;
  if (receipt->dropping || adds_up(receipt)) return;
  base_log_write(&fabric->log, KVF_LOG_ERROR, "%s: the place for a piece of %llu bytes has another size; its connection is closed",
                 fabric->base.ops->name, (unsigned long long)receipt->payload_bytes);
  fabric_ucx_connection_end(connection);
}

static void scatter(struct fabric_ucx_receipt *receipt, const uint8_t *bytes, uint64_t length) {
  while (length) {
    const struct iovec *part = &receipt->iov[receipt->iov_index];
    uint64_t step = base_min_u64(length, part->iov_len - receipt->iov_taken_bytes);
    if (step) memcpy((uint8_t *)part->iov_base + receipt->iov_taken_bytes, bytes, step);
    bytes += step;
    length -= step;
    receipt->iov_taken_bytes += step;
    if (receipt->iov_taken_bytes < part->iov_len) return;
    receipt->iov_taken_bytes = 0;
    receipt->iov_index++;
  }
}

/* More bytes of the open piece. Only the last message may end it, and none may overrun it. */
static void take_bytes(struct fabric_ucx_connection *connection, const struct fabric_ucx_arrival *arrival) {
  struct fabric_ucx *fabric = connection->fabric;
  struct fabric_ucx_receipt *receipt = connection->receipt;
  uint64_t left = receipt->payload_bytes - receipt->taken_bytes;
  if (arrival->length > left || (left && !arrival->length)) {
    fabric_ucx_connection_end(connection);
    return;
  }
  if (!receipt->dropping) scatter(receipt, arrival->bytes, arrival->length);
  receipt->taken_bytes += arrival->length;
  if (receipt->taken_bytes < receipt->payload_bytes) return;
  receipt->open = false;
  if (!receipt->dropping)
    fabric->callbacks.landed(fabric->callbacks.context, connection->token, receipt->header, receipt->payload_bytes);
}

void fabric_ucx_receiver_begin(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  const struct fabric_ucx_message *message = arrival->message;
  struct fabric_ucx_connection *connection = fabric_ucx_connection_find(fabric, message);
  if (!connection || fabric->one_sided) return;
  if (!connection->receipt) connection->receipt = base_calloc(1, sizeof *connection->receipt);
  struct fabric_ucx_receipt *receipt = connection->receipt;
  if (!receipt || receipt->open) {
    fabric_ucx_connection_end(connection);
    return;
  }
  receipt->open = true;
  receipt->sequence = message->sequence;
  receipt->payload_bytes = message->payload_bytes;
  receipt->taken_bytes = receipt->iov_taken_bytes = receipt->iov_index = 0;
  memcpy(receipt->header, message->header, FABRIC_HEADER_BYTES);
  find_place(connection);
  if (!connection->ending) take_bytes(connection, arrival);
}

void fabric_ucx_receiver_continue(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  const struct fabric_ucx_message *message = arrival->message;
  struct fabric_ucx_connection *connection = fabric_ucx_connection_find(fabric, message);
  if (!connection) return;
  const struct fabric_ucx_receipt *receipt = connection->receipt;
  bool next = receipt && receipt->open && receipt->sequence == message->sequence && receipt->taken_bytes == message->offset &&
              receipt->payload_bytes == message->payload_bytes;
  if (next) {
    take_bytes(connection, arrival);
  } else {
    fabric_ucx_connection_end(connection);
  }
}

void fabric_ucx_receiver_land(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  const struct fabric_ucx_message *message = arrival->message;
  struct fabric_ucx_connection *connection = fabric_ucx_connection_find(fabric, message);
  if (!connection || !fabric->one_sided || message->payload_bytes > message->target.length) return;
  if (fabric_ucx_region_accepts(fabric, &message->target)) {
    fabric->callbacks.landed(fabric->callbacks.context, message->token, message->header, message->payload_bytes);
  } else {
    fabric_ucx_connection_tell_revoked(connection, message->target.region, message->target.generation);
  }
}
