/* Damage: a piece whose bytes differ from what its sender gave, by one bit. Never done to the sender's own memory: a payload that the
 * inner provider reads itself is copied first, one that lies in the peer's memory already is changed there. */
#include <string.h>

#include "base/alloc.h"
#include "fabric_fault/inside.h"

/* Of a copied payload; kept until its `sent`. */
struct fault_damage {
  struct base_list node;
  void *tag;
  uint8_t bytes[];
};

static void flip_a_bit(uint8_t *bytes, uint64_t length) { bytes[length / 2] ^= 0x10; }

/* A direct piece in place lies all over its target: which bytes are its own is not known here. */
static kvf_status damage_in_place(struct fabric_endpoint *inner, const struct fabric_piece *piece, kvf_error **error_out) {
  void *address = NULL;
  if (!inner->ops->map || piece->target.length != piece->payload_bytes) return KVF_OK;
  kvf_status status = inner->ops->map(inner, &piece->target, &address, error_out);
  if (status == KVF_OK) flip_a_bit(address, piece->payload_bytes);
  return status;
}

static struct fault_damage *copy_damaged(const struct fabric_piece *piece) {
  struct fault_damage *damage = base_alloc(sizeof *damage + piece->payload_bytes);
  if (!damage) return NULL;
  uint8_t *at = damage->bytes;
  for (size_t i = 0; i < piece->iov_count; i++) {
    memcpy(at, piece->iov[i].iov_base, piece->iov[i].iov_len);
    at += piece->iov[i].iov_len;
  }
  flip_a_bit(damage->bytes, piece->payload_bytes);
  damage->tag = piece->tag;
  return damage;
}

kvf_status fault_damage_send(struct fault_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out) {
  struct fabric_endpoint *inner = endpoint->inner;
  kvf_status status = KVF_OK;
  if (piece->in_place) {
    if (piece->payload_bytes) status = damage_in_place(inner, piece, error_out);
    return status == KVF_OK ? inner->ops->send(inner, piece, error_out) : status;
  }
  if (!piece->payload_bytes) return inner->ops->send(inner, piece, error_out);
  struct fault_damage *damage = copy_damaged(piece);
  if (!damage) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a piece"), error_out);
  struct fabric_piece damaged = *piece;
  const struct iovec whole = {.iov_base = damage->bytes, .iov_len = piece->payload_bytes};
  damaged.iov = &whole;
  damaged.iov_count = 1;
  base_list_push_back(&endpoint->fabric->damages, &damage->node);
  status = inner->ops->send(inner, &damaged, error_out);
  if (status != KVF_OK) fault_damage_sent(endpoint->fabric, piece->tag);
  return status;
}

void fault_damage_sent(struct fault_fabric *fabric, const void *tag) {
  BASE_LIST_EACH(&fabric->damages, node) {
    struct fault_damage *damage = BASE_CONTAINER(node, struct fault_damage, node);
    if (damage->tag != tag) continue;
    base_list_remove(&damage->node);
    base_free(damage);
    return;
  }
}

void fault_damages_free(struct fault_fabric *fabric) {
  while (!base_list_empty(&fabric->damages)) base_free(BASE_CONTAINER(base_list_pop_front(&fabric->damages), struct fault_damage, node));
}
