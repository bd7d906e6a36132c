/* Payloads on their way in. A small one comes with its message and is copied to where the caller wants it; a large one stays with
 * the sender until the caller has said where, and UCX fetches it straight to there. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric_ucx/connection.h"
#include "fabric_ucx/receiver.h"
#include "fabric_ucx/region.h"

struct receipt {
  struct base_list link;
  struct fabric_ucx *fabric;
  struct fabric_ucx_connection *connection; /* NULL: written off */
  ucs_status_t status;
  uint64_t payload_bytes;
  uint8_t header[FABRIC_HEADER_BYTES];
  size_t iov_count;
  struct iovec iov[FABRIC_IOV_LIMIT];
};

static struct receipt *take_receipt(struct fabric_ucx *fabric) {
  struct base_list *node = base_list_pop_front(&fabric->free_receipts);
  struct receipt *receipt = node ? BASE_CONTAINER(node, struct receipt, link) : base_alloc(sizeof *receipt);
  if (!receipt) return NULL;
  receipt->fabric = fabric;
  base_list_init(&receipt->link);
  return receipt;
}

static void recycle(struct receipt *receipt) {
  base_list_push_back(&receipt->fabric->free_receipts, &receipt->link);
}

static bool adds_up(const struct receipt *receipt) {
  uint64_t total = 0;
  if (receipt->iov_count > FABRIC_IOV_LIMIT) return false;
  for (size_t i = 0; i < receipt->iov_count; i++) {
    if (!base_add_u64(total, receipt->iov[i].iov_len, &total)) return false;
  }
  return total == receipt->payload_bytes;
}

static void scatter(const struct receipt *receipt, const uint8_t *payload) {
  for (size_t i = 0; i < receipt->iov_count; i++) {
    if (receipt->iov[i].iov_len) memcpy(receipt->iov[i].iov_base, payload, receipt->iov[i].iov_len);
    payload += receipt->iov[i].iov_len;
  }
}

static void finish(struct receipt *receipt, ucs_status_t status) {
  base_list_remove(&receipt->link);
  if (!receipt->connection) {
    recycle(receipt);
    return;
  }
  receipt->status = status;
  base_list_push_back(&receipt->fabric->finished_receipts, &receipt->link);
  receipt->fabric->kicked = true;
}

static void complete_fetch(void *request, ucs_status_t status, size_t length, void *context) {
  struct receipt *receipt = context;
  receipt->fabric->library.ucp_request_free(request);
  finish(receipt, status);
}

static void fetch(struct receipt *receipt, void *payload) {
  struct fabric_ucx *fabric = receipt->fabric;
  ucp_request_param_t how = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.recv_am = complete_fetch, .user_data = receipt};
  void *to = receipt->iov[0].iov_base;
  size_t count = receipt->payload_bytes;
  if (receipt->iov_count > 1) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    how.datatype = ucp_dt_make_iov();
    to = receipt->iov; /* of the same form as UCX's, see piece.c */
    count = receipt->iov_count;
  }
  base_list_push_back(&receipt->connection->receipts, &receipt->link);
  receipt->connection->receipt_count++;
  ucs_status_ptr_t request = fabric->library.ucp_am_recv_data_nbx(fabric_ucx_connected_worker(fabric), payload, to, count, &how);
  if (!UCS_PTR_IS_PTR(request)) finish(receipt, UCS_PTR_STATUS(request));
}

/* Ask the caller where the payload belongs. False: nowhere. */
static bool find_place(struct receipt *receipt, const struct fabric_ucx_message *message) {
  struct fabric_ucx *fabric = receipt->fabric;
  receipt->payload_bytes = message->payload_bytes;
  receipt->iov_count = FABRIC_IOV_LIMIT;
  memcpy(receipt->header, message->header, FABRIC_HEADER_BYTES);
  if (fabric->callbacks.place(fabric->callbacks.context, message->token, receipt->header, message->payload_bytes, receipt->iov,
                              &receipt->iov_count)) {
    return false;
  }
  if (adds_up(receipt)) return !receipt->connection->ending;
  base_log_write(&fabric->log, KVF_LOG_ERROR, "%s: the place for a piece of %llu bytes has another size; its connection is closed",
                 fabric->base.ops->name, (unsigned long long)message->payload_bytes);
  fabric_ucx_connection_end(receipt->connection);
  return false;
}

ucs_status_t fabric_ucx_receiver_place(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  const struct fabric_ucx_message *message = arrival->message;
  struct fabric_ucx_connection *connection = fabric_ucx_connection_find(fabric, arrival);
  if (!connection || fabric->one_sided || message->payload_bytes != arrival->payload_bytes) return UCS_OK;
  struct receipt *receipt = take_receipt(fabric);
  if (!receipt) {
    fabric_ucx_connection_end(connection);
    return UCS_OK;
  }
  receipt->connection = connection;
  if (!find_place(receipt, message)) {
    recycle(receipt);
    return UCS_OK;
  }
  if (arrival->rendezvous && receipt->payload_bytes) {
    fetch(receipt, arrival->payload);
    return UCS_INPROGRESS;
  }
  scatter(receipt, arrival->payload);
  fabric->callbacks.landed(fabric->callbacks.context, message->token, receipt->header, receipt->payload_bytes);
  recycle(receipt);
  return UCS_OK;
}

void fabric_ucx_receiver_land(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  const struct fabric_ucx_message *message = arrival->message;
  struct fabric_ucx_connection *connection = fabric_ucx_connection_find(fabric, arrival);
  if (!connection || !fabric->one_sided || message->payload_bytes > message->target.length) return;
  if (fabric_ucx_region_accepts(fabric, &message->target)) {
    fabric->callbacks.landed(fabric->callbacks.context, message->token, message->header, message->payload_bytes);
    return;
  }
  fabric_ucx_connection_tell_revoked(connection, message->target.region, message->target.generation);
}

static void settle_receipt(struct receipt *receipt) {
  struct fabric_ucx *fabric = receipt->fabric;
  struct fabric_ucx_connection *connection = receipt->connection;
  connection->receipt_count--;
  if (receipt->status != UCS_OK) {
    fabric_ucx_way_fail(&connection->way, receipt->status);
  } else if (!connection->quiet) {
    fabric->callbacks.landed(fabric->callbacks.context, connection->token, receipt->header, receipt->payload_bytes);
  }
  recycle(receipt);
}

void fabric_ucx_receipt_settle(struct fabric_ucx *fabric) {
  struct base_list batch;
  base_list_init(&batch);
  base_list_splice(&batch, &fabric->finished_receipts);
  for (struct base_list *node = base_list_pop_front(&batch); node; node = base_list_pop_front(&batch))
    settle_receipt(BASE_CONTAINER(node, struct receipt, link));
}

void fabric_ucx_receipt_write_off(struct fabric_ucx_connection *connection) {
  BASE_LIST_EACH(&connection->receipts, node) {
    struct receipt *receipt = BASE_CONTAINER(node, struct receipt, link);
    receipt->connection = NULL;
    base_list_remove(&receipt->link);
    base_list_push_back(&connection->fabric->orphan_receipts, &receipt->link);
    connection->receipt_count--;
  }
}

void fabric_ucx_receipt_free_all(struct base_list *receipts) {
  for (struct base_list *node = base_list_pop_front(receipts); node; node = base_list_pop_front(receipts))
    base_free(BASE_CONTAINER(node, struct receipt, link));
}
