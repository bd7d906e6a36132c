/* Posts the small messages and gives out those that come. What is malformed, or of a kind that does not fit this side, is dropped.
 */
#include "fabric_ucx/message.h"

#include <string.h>

#include "base/alloc.h"
#include "fabric_ucx/instance.h"
#include "fabric_ucx/receiver.h"
#include "fabric_ucx/sender.h"

enum { MAGIC = 0x6d55564b, VERSION = 1, MESSAGE_ID = 75, PREAMBLE_BYTES = offsetof(struct fabric_ucx_message, header) };

void fabric_ucx_message_init(struct fabric_ucx_message *message, enum fabric_ucx_message_kind kind, uint64_t token,
                             uint64_t connection, const uint8_t *incarnation) {
  *message =
      (struct fabric_ucx_message){.magic = MAGIC, .version = VERSION, .kind = kind, .token = token, .connection = connection};
  memcpy(message->incarnation, incarnation, sizeof message->incarnation);
}

size_t fabric_ucx_message_bytes(enum fabric_ucx_message_kind kind) {
  if (kind == FABRIC_UCX_PIECE) return offsetof(struct fabric_ucx_message, target);
  return kind == FABRIC_UCX_LANDED || kind == FABRIC_UCX_REVOKE ? sizeof(struct fabric_ucx_message) : PREAMBLE_BYTES;
}

/* A small message on its way; UCX borrows it until it has left. */
struct parcel {
  struct fabric_ucx *fabric;
  struct fabric_ucx_message message;
  uint8_t body[];
};

static void free_parcel(void *request, ucs_status_t status, void *context) {
  struct parcel *parcel = context;
  parcel->fabric->library.ucp_request_free(request);
  base_free(parcel);
}

void fabric_ucx_message_post(struct fabric_ucx_way *way, const struct fabric_ucx_message *message, const void *body,
                             size_t body_bytes) {
  if (way->state != FABRIC_UCX_WAY_OPEN || way->failure != UCS_OK) return;
  struct parcel *parcel = base_alloc(sizeof *parcel + body_bytes);
  if (!parcel) {
    fabric_ucx_way_fail(way, UCS_ERR_NO_MEMORY);
    return;
  }
  parcel->fabric = way->fabric;
  parcel->message = *message;
  if (body_bytes) memcpy(parcel->body, body, body_bytes);
  ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                             .flags = UCP_AM_SEND_FLAG_EAGER,
                             .cb.send = free_parcel,
                             .user_data = parcel};
  ucs_status_ptr_t request = way->fabric->library.ucp_am_send_nbx(
      way->ep, MESSAGE_ID, &parcel->message, fabric_ucx_message_bytes(message->kind), parcel->body, body_bytes, &how);
  if (UCS_PTR_IS_PTR(request)) return;
  base_free(parcel);
  if (UCS_PTR_IS_ERR(request)) fabric_ucx_way_fail(way, UCS_PTR_STATUS(request));
}

ucs_status_ptr_t fabric_ucx_message_send(struct fabric_ucx_way *way, const struct fabric_ucx_message *message, const void *payload,
                                         size_t count, ucp_request_param_t *how) {
  return way->fabric->library.ucp_am_send_nbx(way->ep, MESSAGE_ID, message, fabric_ucx_message_bytes(message->kind), payload, count,
                                              how);
}

/* Whether the bytes are one whole message; fills @p message_out. */
static bool decode_message(const void *header, size_t header_bytes, struct fabric_ucx_message *message_out) {
  *message_out = (struct fabric_ucx_message){0};
  if (header_bytes < PREAMBLE_BYTES || header_bytes > sizeof *message_out) return false;
  memcpy(message_out, header, header_bytes);
  return message_out->magic == MAGIC && message_out->version == VERSION &&
         header_bytes == fabric_ucx_message_bytes(message_out->kind);
}

static void give_out(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  switch (arrival->message->kind) {
    case FABRIC_UCX_PIECE:
      fabric_ucx_receiver_begin(fabric, arrival);
      break;
    case FABRIC_UCX_MORE:
      fabric_ucx_receiver_continue(fabric, arrival);
      break;
    case FABRIC_UCX_LANDED:
      fabric_ucx_receiver_land(fabric, arrival);
      break;
    case FABRIC_UCX_HELLO:
      fabric_ucx_receiver_greet(fabric, arrival);
      break;
    case FABRIC_UCX_BYE:
      fabric_ucx_receiver_part(fabric, arrival);
      break;
    case FABRIC_UCX_WELCOME:
    case FABRIC_UCX_REFUSE:
      fabric_ucx_sender_answer(fabric, arrival->message);
      break;
    case FABRIC_UCX_REVOKE:
      fabric_ucx_sender_revoke(fabric, arrival->message);
      break;
    default:
      break;
  }
}

/* Nothing of ours asks to be fetched; UCS_OK makes UCX drop what does. */
static ucs_status_t take_message(void *context, const void *header, size_t header_bytes, void *bytes, size_t length,
                                 const ucp_am_recv_param_t *how) {
  struct fabric_ucx *fabric = context;
  struct fabric_ucx_message message;
  if (fabric->silent || how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV || !decode_message(header, header_bytes, &message))
    return UCS_OK;
  give_out(fabric, &(struct fabric_ucx_arrival){.message = &message, .bytes = bytes, .length = length});
  return UCS_OK;
}

ucs_status_t fabric_ucx_message_listen(struct fabric_ucx *fabric, ucp_worker_h worker) {
  ucp_am_handler_param_t how = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                                              UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                .id = MESSAGE_ID,
                                .flags = UCP_AM_FLAG_WHOLE_MSG,
                                .cb = take_message,
                                .arg = fabric};
  return fabric->library.ucp_worker_set_am_recv_handler(worker, &how);
}
