/* Pieces under way: accept, post, and give their tags back exactly once.
 *
 *   message mode    messages with the payload, cut to fragments -------> finished -> `sent`
 *   one-sided mode  puts + flush -> (settle) message without payload -> finished -> `sent`          any failure -> finished
 *
 * UCX's callbacks only count; pieces are recycled, so that sending allocates nothing once it is warm. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "fabric_ucx/region.h"
#include "fabric_ucx/sender.h"

static kvf_status check_piece(const struct fabric_ucx_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out) {
  uint64_t total = 0;
  bool sound = piece->iov_count <= FABRIC_IOV_LIMIT && !piece->in_place;
  for (size_t i = 0; sound && i < piece->iov_count; i++) sound = base_add_u64(total, piece->iov[i].iov_len, &total);
  kvf_error *error = NULL;
  if (!sound || total != piece->payload_bytes) {
    error = BASE_ERROR(KVF_INVALID, NULL, "the piece's vectors are too many or do not add up to its payload");
  } else if (endpoint->stage == FABRIC_UCX_CONNECTING) {
    error = BASE_ERROR(KVF_NOT_READY, NULL, "the endpoint is not connected yet");
  } else if (endpoint->stage != FABRIC_UCX_READY || endpoint->way.failure != UCS_OK) {
    error = BASE_ERROR(KVF_PEER_LOST, NULL, "the endpoint is down");
  } else if (endpoint->accepted_count >= FABRIC_UCX_ACCEPTED_LIMIT) {
    error = base_error_add(BASE_ERROR(KVF_BACKPRESSURE, NULL, "too many pieces are under way"), "limit", "%d",
                           FABRIC_UCX_ACCEPTED_LIMIT);
  }
  return error ? base_error_give(error, error_out) : KVF_OK;
}

static void recycle(struct fabric_ucx_piece *piece) {
  piece->endpoint = NULL;
  piece->key = NULL;
  base_list_push_back(&piece->fabric->free_pieces, &piece->link);
}

/* Make room for what UCX borrows: the vectors as they are cut, and the messages after the first. */
static bool reserve(struct fabric_ucx_piece *piece, const struct fabric_piece *order) {
  uint64_t more_count =
      piece->fabric->one_sided ? 0 : base_ceil_div_u64(order->payload_bytes, piece->fabric->settings.fragment_bytes);
  uint64_t iov_count = order->iov_count + more_count, bytes;
  if (iov_count > piece->iov_capacity) {
    if (!base_mul_u64(iov_count, sizeof *piece->iov, &bytes)) return false;
    ucp_dt_iov_t *iov = base_realloc(piece->iov, bytes);
    if (!iov) return false;
    piece->iov = iov;
    piece->iov_capacity = iov_count;
  }
  if (more_count > piece->more_capacity) {
    if (!base_mul_u64(more_count, sizeof *piece->more, &bytes)) return false;
    struct fabric_ucx_message *more = base_realloc(piece->more, bytes);
    if (!more) return false;
    piece->more = more;
    piece->more_capacity = more_count;
  }
  return true;
}

static struct fabric_ucx_piece *take_piece(struct fabric_ucx *fabric, const struct fabric_piece *order) {
  struct base_list *node = base_list_pop_front(&fabric->free_pieces);
  struct fabric_ucx_piece *piece = node ? BASE_CONTAINER(node, struct fabric_ucx_piece, link) : base_calloc(1, sizeof *piece);
  if (!piece) return NULL;
  piece->fabric = fabric;
  base_list_init(&piece->link);
  if (reserve(piece, order)) return piece;
  recycle(piece);
  return NULL;
}

static void finish(struct fabric_ucx_piece *piece) {
  base_list_remove(&piece->link);
  if (!piece->endpoint) {
    recycle(piece);
    return;
  }
  base_list_push_back(&piece->fabric->finished_pieces, &piece->link);
  piece->fabric->kicked = true;
}

static void note_status(struct fabric_ucx_piece *piece, ucs_status_t status, const char *call) {
  if (status == UCS_OK || piece->status != UCS_OK) return;
  piece->status = status;
  piece->call = call;
}

static void complete_operation(void *request, ucs_status_t status, void *context) {
  struct fabric_ucx_piece *piece = context;
  piece->fabric->library.ucp_request_free(request);
  note_status(piece, status, piece->announced ? "ucp_am_send_nbx" : "ucp_put_nbx");
  if (--piece->pending_count == 0) finish(piece);
}

static void track(struct fabric_ucx_piece *piece, ucs_status_ptr_t request, const char *call) {
  if (UCS_PTR_IS_PTR(request)) {
    piece->pending_count++;
  } else {
    note_status(piece, UCS_PTR_STATUS(request), call);
  }
}

static ucp_request_param_t request_params(struct fabric_ucx_piece *piece) {
  return (ucp_request_param_t){
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = complete_operation, .user_data = piece};
}

static void send_message(struct fabric_ucx_piece *piece, const struct fabric_ucx_message *message, const ucp_dt_iov_t *iov,
                         size_t iov_count) {
  ucp_request_param_t how = request_params(piece);
  how.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_EAGER;
  const void *bytes = iov_count ? iov->buffer : NULL;
  size_t count = iov_count ? iov->length : 0;
  if (iov_count > 1) {
    how.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    how.datatype = ucp_dt_make_iov();
    bytes = iov;
    count = iov_count;
  }
  piece->announced = true;
  track(piece, fabric_ucx_message_send(&piece->endpoint->way, message, bytes, count, &how), "ucp_am_send_nbx");
}

/* Cut the next @p length bytes off the order's vectors into @p iov_out; returns how many vectors that took. */
static size_t cut_fragment(const struct iovec **from, uint64_t *from_taken, uint64_t length, ucp_dt_iov_t *iov_out) {
  size_t count = 0;
  while (length) {
    uint64_t step = base_min_u64(length, (*from)->iov_len - *from_taken);
    if (step) iov_out[count++] = (ucp_dt_iov_t){(uint8_t *)(*from)->iov_base + *from_taken, step};
    length -= step;
    *from_taken += step;
    if (*from_taken < (*from)->iov_len) continue;
    *from_taken = 0;
    (*from)++;
  }
  return count;
}

static void send_fragments(struct fabric_ucx_piece *piece, const struct fabric_piece *order) {
  uint64_t limit = piece->fabric->settings.fragment_bytes, offset = 0, taken = 0;
  const struct iovec *from = order->iov;
  ucp_dt_iov_t *iov = piece->iov;
  struct fabric_ucx_message *more = piece->more;
  do {
    uint64_t length = base_min_u64(limit, order->payload_bytes - offset);
    size_t count = cut_fragment(&from, &taken, length, iov);
    const struct fabric_ucx_message *message = &piece->message;
    if (offset) {
      *more = piece->message;
      more->kind = FABRIC_UCX_MORE;
      more->offset = offset;
      message = more++;
    }
    send_message(piece, message, iov, count);
    iov += count;
    offset += length;
  } while (offset < order->payload_bytes && piece->status == UCS_OK);
}

/* Bytes that belong together may lie in several parts of the region: each has its own key. */
static void put_run(struct fabric_ucx_piece *piece, const uint8_t *bytes, uint64_t length, uint64_t offset,
                    const ucp_request_param_t *how) {
  const struct fabric_ucx_library *library = &piece->fabric->library;
  const struct fabric_ucx_key *key = piece->key;
  while (length && piece->status == UCS_OK) {
    uint64_t index = fabric_ucx_parts_find(&key->parts, offset);
    uint64_t step = base_min_u64(length, fabric_ucx_parts_end(&key->parts, index) - offset);
    track(piece,
          library->ucp_put_nbx(piece->endpoint->way.ep, bytes, step, key->parts.base_address + offset, key->rkeys[index], how),
          "ucp_put_nbx");
    bytes += step;
    offset += step;
    length -= step;
  }
}

/* The flush covers the puts before it: once all have completed, the payload is in the peer's memory. */
static void put(struct fabric_ucx_piece *piece, const struct fabric_piece *order) {
  ucp_request_param_t how = request_params(piece);
  uint64_t offset = piece->message.target.offset;
  for (size_t i = 0; i < order->iov_count && piece->status == UCS_OK; i++) {
    put_run(piece, order->iov[i].iov_base, order->iov[i].iov_len, offset, &how);
    offset += order->iov[i].iov_len;
  }
  if (piece->status == UCS_OK)
    track(piece, piece->fabric->library.ucp_ep_flush_nbx(piece->endpoint->way.ep, &how), "ucp_ep_flush_nbx");
}

static void post(struct fabric_ucx_piece *piece, const struct fabric_piece *order) {
  if (piece->fabric->one_sided) {
    put(piece, order);
    if (!piece->pending_count && piece->status == UCS_OK) send_message(piece, &piece->message, NULL, 0);
  } else {
    send_fragments(piece, order);
  }
  if (piece->pending_count) {
    base_list_push_back(&piece->endpoint->pieces, &piece->link);
  } else {
    finish(piece);
  }
}

kvf_status fabric_ucx_piece_send(struct fabric_endpoint *base, const struct fabric_piece *order, kvf_error **error_out) {
  struct fabric_ucx_endpoint *endpoint = (struct fabric_ucx_endpoint *)base;
  struct fabric_ucx *fabric = endpoint->fabric;
  kvf_status status = check_piece(endpoint, order, error_out);
  if (status) return status;
  struct fabric_ucx_key *key = NULL;
  struct fabric_target target = order->target;
  target.length = base_max_u64(target.length, order->payload_bytes);
  if (fabric->one_sided) status = fabric_ucx_key_find(endpoint, &target, &key, error_out);
  if (status) return status;
  struct fabric_ucx_piece *piece = take_piece(fabric, order);
  if (!piece) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a piece"), error_out);
  piece->endpoint = endpoint;
  piece->key = key;
  piece->tag = order->tag;
  piece->pending_count = 0;
  piece->announced = false;
  piece->status = UCS_OK;
  fabric_ucx_message_init(&piece->message, key ? FABRIC_UCX_LANDED : FABRIC_UCX_PIECE, endpoint->token, endpoint->id,
                          endpoint->incarnation);
  piece->message.sequence = ++endpoint->sequence;
  piece->message.payload_bytes = order->payload_bytes;
  memcpy(piece->message.header, order->header, FABRIC_HEADER_BYTES);
  piece->message.target = target;
  if (key) key->use_count++;
  endpoint->accepted_count++;
  post(piece, order);
  return KVF_OK;
}

/* Give the tag back; the piece is no longer the endpoint's. */
static void report(struct fabric_ucx_piece *piece) {
  struct fabric_ucx *fabric = piece->fabric;
  struct fabric_ucx_endpoint *endpoint = piece->endpoint;
  kvf_error *error = NULL;
  if (endpoint->disconnecting) {
    error = BASE_ERROR(KVF_CANCELLED, NULL, "the endpoint was disconnected");
  } else if (piece->status != UCS_OK) {
    error = fabric_ucx_instance_error(fabric, KVF_PEER_LOST, "the piece was not delivered", piece->call, piece->status);
    fabric_ucx_way_fail(&endpoint->way, piece->status);
  }
  fabric_ucx_key_release(fabric, piece->key);
  piece->key = NULL;
  piece->endpoint = NULL;
  endpoint->accepted_count--;
  fabric->callbacks.sent(fabric->callbacks.context, piece->tag, error);
}

static void settle_piece(struct fabric_ucx_piece *piece) {
  struct fabric_ucx_endpoint *endpoint = piece->endpoint;
  bool goes_on = !piece->announced && piece->status == UCS_OK && !endpoint->disconnecting && endpoint->stage == FABRIC_UCX_READY;
  if (goes_on) {
    send_message(piece, &piece->message, NULL, 0);
    if (piece->pending_count) {
      base_list_push_back(&endpoint->pieces, &piece->link);
      return;
    }
  } else if (!piece->announced) {
    note_status(piece, UCS_ERR_CANCELED, "ucp_put_nbx");
  }
  report(piece);
  recycle(piece);
}

void fabric_ucx_piece_settle(struct fabric_ucx *fabric) {
  struct base_list batch;
  base_list_init(&batch);
  base_list_splice(&batch, &fabric->finished_pieces);
  for (struct base_list *node = base_list_pop_front(&batch); node; node = base_list_pop_front(&batch))
    settle_piece(BASE_CONTAINER(node, struct fabric_ucx_piece, link));
}

void fabric_ucx_piece_write_off(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx *fabric = endpoint->fabric;
  for (struct base_list *node = base_list_pop_front(&endpoint->pieces); node; node = base_list_pop_front(&endpoint->pieces)) {
    struct fabric_ucx_piece *piece = BASE_CONTAINER(node, struct fabric_ucx_piece, link);
    note_status(piece, UCS_ERR_CANCELED, "ucp_ep_close_nbx");
    base_list_push_back(&fabric->orphan_pieces, &piece->link);
    report(piece);
  }
}

void fabric_ucx_piece_drop_keys(struct base_list *pieces) {
  BASE_LIST_EACH(pieces, node) {
    struct fabric_ucx_piece *piece = BASE_CONTAINER(node, struct fabric_ucx_piece, link);
    fabric_ucx_key_release(piece->fabric, piece->key);
    piece->key = NULL;
  }
}

void fabric_ucx_piece_free_all(struct base_list *pieces) {
  for (struct base_list *node = base_list_pop_front(pieces); node; node = base_list_pop_front(pieces)) {
    struct fabric_ucx_piece *piece = BASE_CONTAINER(node, struct fabric_ucx_piece, link);
    base_free(piece->iov);
    base_free(piece->more);
    base_free(piece);
  }
}
