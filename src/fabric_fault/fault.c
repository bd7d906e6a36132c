/* The wrapper: every call goes to the inner provider, but for those that the plan picks. */
#include "fabric_fault/fault.h"

#include <string.h>

#include "base/alloc.h"
#include "fabric/piece.h"
#include "fabric_fault/inside.h"

static const struct fabric_ops *const *offered;
static size_t offered_count;

void fabric_fault_offer(const struct fabric_ops *const *inners, size_t count) {
  offered = inners;
  offered_count = count;
}

static struct fault_fabric *of(const struct fabric *base) {
  return (struct fault_fabric *)base;
}

static struct fault_endpoint *wrapper_of(const struct fabric_endpoint *inner) {
  return inner->ops->endpoint_user(inner);
}

/* ---- callbacks of the inner provider ---- */

static kvf_status place(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes, struct iovec *iov_out,
                        size_t *iov_count_inout) {
  struct fault_fabric *fabric = context;
  return fabric->callbacks.place(fabric->callbacks.context, token, header, payload_bytes, iov_out, iov_count_inout);
}

static void landed(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes) {
  struct fault_fabric *fabric = context;
  if (fault_plan_hits(&fabric->plan, FAULT_POINT_drop_landed)) return;
  bool twice = fault_plan_hits(&fabric->plan, FAULT_POINT_duplicate_landed);
  fabric->callbacks.landed(fabric->callbacks.context, token, header, payload_bytes);
  if (twice) fabric->callbacks.landed(fabric->callbacks.context, token, header, payload_bytes);
}

static void token_lost(void *context, uint64_t token) {
  struct fault_fabric *fabric = context;
  fabric->callbacks.token_lost(fabric->callbacks.context, token);
}

static void sent(void *context, void *tag, kvf_error *error) {
  struct fault_fabric *fabric = context;
  fault_damage_sent(fabric, tag);
  fabric->callbacks.sent(fabric->callbacks.context, tag, error);
}

static void endpoint_ready(void *context, struct fabric_endpoint *inner) {
  struct fault_fabric *fabric = context;
  struct fault_endpoint *endpoint = wrapper_of(inner);
  if (endpoint->inner) fabric->callbacks.endpoint_ready(fabric->callbacks.context, &endpoint->base);
}

/* Tell the victims of @p only, or of all endpoints, that their send has failed. */
static bool tell_victims(struct fault_fabric *fabric, const struct fault_endpoint *only) {
  struct base_list told;
  base_list_init(&told);
  BASE_LIST_EACH(&fabric->victims, node) {
    if (only && BASE_CONTAINER(node, struct fault_victim, node)->endpoint != only) continue;
    base_list_remove(node);
    base_list_push_back(&told, node);
  }
  bool did = !base_list_empty(&told);
  struct base_list *node;
  while ((node = base_list_pop_front(&told))) {
    struct fault_victim *victim = BASE_CONTAINER(node, struct fault_victim, node);
    void *tag = victim->tag;
    kvf_error *error = victim->endpoint ? fault_plan_error(KVF_FABRIC, "the piece was not delivered")
                                        : BASE_ERROR(KVF_CANCELLED, NULL, "the connection was cut with pieces on their way");
    base_free(victim);
    fabric->callbacks.sent(fabric->callbacks.context, tag, error);
  }
  return did;
}

static void endpoint_down(void *context, struct fabric_endpoint *inner, kvf_error *error) {
  struct fault_fabric *fabric = context;
  struct fault_endpoint *endpoint = wrapper_of(inner);
  tell_victims(fabric, endpoint);
  if (endpoint->inner)
    fabric->callbacks.endpoint_down(fabric->callbacks.context, &endpoint->base, error);
  else
    kvf_error_free(error);
}

/* ---- operations ---- */

static const struct fabric_ops *find_inner(const char *name) {
  for (size_t i = 0; i < offered_count; i++) {
    if (offered[i] != &fabric_fault_ops && strcmp(offered[i]->name, name) == 0) return offered[i];
  }
  return NULL;
}

static void close_fabric(struct fabric *base) {
  struct fault_fabric *fabric = of(base);
  if (fabric->inner) fabric->inner->ops->close(fabric->inner);
  while (!base_list_empty(&fabric->endpoints))
    base_free(BASE_CONTAINER(base_list_pop_front(&fabric->endpoints), struct fault_endpoint, node));
  while (!base_list_empty(&fabric->victims))
    base_free(BASE_CONTAINER(base_list_pop_front(&fabric->victims), struct fault_victim, node));
  fault_damages_free(fabric);
  base_free(fabric);
}

static int event_fd(struct fabric *base) {
  return of(base)->inner->ops->event_fd(of(base)->inner);
}

/* Victims are told before the inner provider goes on, so that the order of a piece and its neighbours is nearly kept. */
static bool progress(struct fabric *base) {
  struct fault_fabric *fabric = of(base);
  bool did = tell_victims(fabric, NULL);
  did = fabric->inner->ops->progress(fabric->inner) || did;
  BASE_LIST_EACH(&fabric->endpoints, node) {
    struct fault_endpoint *endpoint = BASE_CONTAINER(node, struct fault_endpoint, node);
    if (endpoint->inner) continue;
    /* The inner provider has freed its endpoint in its own turn. */
    base_list_remove(&endpoint->node);
    base_free(endpoint);
  }
  return did;
}

static bool arm(struct fabric *base) {
  struct fault_fabric *fabric = of(base);
  if (!base_list_empty(&fabric->victims)) return false;
  return !fabric->inner->ops->arm || fabric->inner->ops->arm(fabric->inner);
}

static kvf_status memory_alloc(struct fabric *base, uint64_t length, struct fabric_memory *memory_out, kvf_error **error_out) {
  return of(base)->inner->ops->memory_alloc(of(base)->inner, length, memory_out, error_out);
}

static void memory_free(struct fabric *base, struct fabric_memory *memory) {
  of(base)->inner->ops->memory_free(of(base)->inner, memory);
}

static kvf_status region_expose(struct fabric *base, const struct fabric_exposure *exposure, struct fabric_region **region_out,
                                kvf_error **error_out) {
  return of(base)->inner->ops->region_expose(of(base)->inner, exposure, region_out, error_out);
}

static size_t address(const struct fabric *base, uint8_t *bytes) {
  return of(base)->inner->ops->address(of(base)->inner, bytes);
}

static kvf_status token_admit(struct fabric *base, uint64_t token, kvf_error **error_out) {
  return of(base)->inner->ops->token_admit(of(base)->inner, token, error_out);
}

static void token_drop(struct fabric *base, uint64_t token) {
  of(base)->inner->ops->token_drop(of(base)->inner, token);
}

static bool token_live(struct fabric *base, uint64_t token) {
  return of(base)->inner->ops->token_live(of(base)->inner, token);
}

static kvf_status connect_endpoint(struct fabric *base, const uint8_t *bytes, size_t length, uint64_t token, void *user,
                                   struct fabric_endpoint **endpoint_out, kvf_error **error_out) {
  struct fault_fabric *fabric = of(base);
  if (fault_plan_hits(&fabric->plan, FAULT_POINT_fail_connect))
    return base_error_give(fault_plan_error(KVF_UNREACHABLE, "the peer cannot be connected to"), error_out);
  struct fault_endpoint *endpoint = base_calloc(1, sizeof *endpoint);
  if (!endpoint) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for an endpoint"), error_out);
  endpoint->base.ops = &fabric->ops;
  endpoint->fabric = fabric;
  endpoint->user = user;
  kvf_status status = fabric->inner->ops->connect(fabric->inner, bytes, length, token, endpoint, &endpoint->inner, error_out);
  if (status != KVF_OK) {
    base_free(endpoint);
    return status;
  }
  base_list_push_back(&fabric->endpoints, &endpoint->node);
  *endpoint_out = &endpoint->base;
  return KVF_OK;
}

static struct fault_endpoint *endpoint_of(const struct fabric_endpoint *base) {
  return (struct fault_endpoint *)base;
}

static void *endpoint_user(const struct fabric_endpoint *base) {
  return endpoint_of(base)->user;
}

static void disconnect(struct fabric_endpoint *base) {
  struct fault_endpoint *endpoint = endpoint_of(base);
  BASE_LIST_EACH(&endpoint->fabric->victims, node) {
    struct fault_victim *victim = BASE_CONTAINER(node, struct fault_victim, node);
    if (victim->endpoint == endpoint) victim->endpoint = NULL;
  }
  struct fabric_endpoint *inner = endpoint->inner;
  endpoint->inner = NULL;
  inner->ops->disconnect(inner);
}

static kvf_status key_import(struct fabric_endpoint *base, uint64_t region, uint64_t generation, uint64_t region_bytes,
                             const uint8_t *key, size_t key_bytes, kvf_error **error_out) {
  struct fault_endpoint *endpoint = endpoint_of(base);
  if (fault_plan_hits(&endpoint->fabric->plan, FAULT_POINT_fail_import))
    return base_error_give(fault_plan_error(KVF_FABRIC, "the key cannot be used"), error_out);
  return endpoint->inner->ops->key_import(endpoint->inner, region, generation, region_bytes, key, key_bytes, error_out);
}

static void key_drop(struct fabric_endpoint *base, uint64_t region) {
  endpoint_of(base)->inner->ops->key_drop(endpoint_of(base)->inner, region);
}

static kvf_status map(struct fabric_endpoint *base, const struct fabric_target *target, void **address_out, kvf_error **error_out) {
  struct fault_endpoint *endpoint = endpoint_of(base);
  if (fault_plan_hits(&endpoint->fabric->plan, FAULT_POINT_fail_map)) {
    kvf_error *error = fault_plan_error(KVF_KEY_REVOKED, "the peer has revoked the key of its region");
    return base_error_give(fabric_target_describe(error, target, target->generation, 0), error_out);
  }
  return endpoint->inner->ops->map(endpoint->inner, target, address_out, error_out);
}

static kvf_status send_piece(struct fabric_endpoint *base, const struct fabric_piece *piece, kvf_error **error_out) {
  struct fault_endpoint *endpoint = endpoint_of(base);
  struct fault_fabric *fabric = endpoint->fabric;
  if (fault_plan_hits(&fabric->plan, FAULT_POINT_refuse_send))
    return base_error_give(fault_plan_error(KVF_FABRIC, "the piece was not taken"), error_out);
  if (fault_plan_hits(&fabric->plan, FAULT_POINT_corrupt)) return fault_damage_send(endpoint, piece, error_out);
  if (!fault_plan_hits(&fabric->plan, FAULT_POINT_fail_send)) return endpoint->inner->ops->send(endpoint->inner, piece, error_out);
  struct fault_victim *victim = base_calloc(1, sizeof *victim);
  if (!victim) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a piece"), error_out);
  victim->endpoint = endpoint;
  victim->tag = piece->tag;
  base_list_push_back(&fabric->victims, &victim->node);
  return KVF_OK;
}

/* The inner provider's table with our functions where it has any. */
static void make_ops(struct fault_fabric *fabric) {
  const struct fabric_ops *inner = fabric->inner->ops;
  fabric->ops = *inner;
  fabric->ops.open = fabric_fault_ops.open;
  fabric->ops.close = close_fabric;
  fabric->ops.event_fd = event_fd;
  fabric->ops.progress = progress;
  fabric->ops.arm = arm;
  if (inner->memory_alloc) fabric->ops.memory_alloc = memory_alloc;
  if (inner->memory_free) fabric->ops.memory_free = memory_free;
  fabric->ops.region_expose = region_expose;
  fabric->ops.address = address;
  fabric->ops.token_admit = token_admit;
  fabric->ops.token_drop = token_drop;
  if (inner->token_live) fabric->ops.token_live = token_live;
  fabric->ops.connect = connect_endpoint;
  fabric->ops.endpoint_user = endpoint_user;
  fabric->ops.disconnect = disconnect;
  if (inner->key_import) fabric->ops.key_import = key_import;
  if (inner->key_drop) fabric->ops.key_drop = key_drop;
  if (inner->map) fabric->ops.map = map;
  fabric->ops.send = send_piece;
}

static kvf_status open_inner(struct fault_fabric *fabric, const struct fabric_options *options, kvf_error **error_out) {
  char name[32], rest[512];
  kvf_status status = fault_plan_parse(&fabric->plan, options->settings, name, sizeof name, rest, sizeof rest, error_out);
  if (status != KVF_OK) return status;
  const struct fabric_ops *inner = find_inner(name);
  if (!inner) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "fault: inner=\"%s\" names no provider", name), error_out);
  struct fabric_options passed = *options;
  passed.settings = rest[0] ? rest : NULL;
  passed.callbacks = (struct fabric_callbacks){.context = fabric,
                                               .place = place,
                                               .landed = landed,
                                               .token_lost = token_lost,
                                               .sent = sent,
                                               .endpoint_ready = endpoint_ready,
                                               .endpoint_down = endpoint_down};
  return inner->open(&passed, &fabric->inner, error_out);
}

static kvf_status open_fabric(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out) {
  struct fault_fabric *fabric = base_calloc(1, sizeof *fabric);
  if (!fabric) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for fault"), error_out);
  fabric->callbacks = options->callbacks;
  base_list_init(&fabric->endpoints);
  base_list_init(&fabric->victims);
  base_list_init(&fabric->damages);
  kvf_status status = open_inner(fabric, options, error_out);
  if (status != KVF_OK) {
    close_fabric(&fabric->base);
    return status;
  }
  make_ops(fabric);
  fabric->base.ops = &fabric->ops;
  *fabric_out = &fabric->base;
  return KVF_OK;
}

/* Only a name and a way in: everything else is known once the inner provider is. */
const struct fabric_ops fabric_fault_ops = {.name = "fault", .open = open_fabric};
