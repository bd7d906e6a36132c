/* Endpoints: connect, end, and be freed.
 *
 *   CONNECTING --WELCOME--> READY            any --error--> ENDING --all sent--> DOWN --disconnect--> freed
 *        (the UCX endpoint is opened in settle)   any --disconnect--> ENDING --all sent--> freed            */
#include "fabric_ucx/sender.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/region.h"

static struct fabric_ucx_endpoint *endpoint_of(const struct fabric_endpoint *endpoint) {
  return (struct fabric_ucx_endpoint *)endpoint;
}

/* A callback may have put it into another list meanwhile. */
static void move_to(struct base_list *list, struct fabric_ucx_endpoint *endpoint) {
  base_list_remove(&endpoint->link);
  base_list_push_back(list, &endpoint->link);
}

static void unsettle(struct fabric_ucx_endpoint *endpoint) {
  move_to(&endpoint->fabric->unsettled_endpoints, endpoint);
  endpoint->fabric->kicked = true;
}

static bool take_address(struct fabric_ucx_endpoint *endpoint, const uint8_t *address, size_t address_bytes) {
  if (address_bytes > FABRIC_ADDRESS_LIMIT_BYTES) return false;
  const uint8_t *body = fabric_ucx_blob_open(address, address_bytes, fabric_ucx_address_kind(endpoint->fabric),
                                             endpoint->incarnation, &endpoint->address_bytes);
  if (!body || !endpoint->address_bytes) return false;
  memcpy(endpoint->address, body, endpoint->address_bytes);
  return true;
}

kvf_status fabric_ucx_endpoint_connect(struct fabric *base, const uint8_t *address, size_t address_bytes, uint64_t token,
                                       void *user, struct fabric_endpoint **endpoint_out, kvf_error **error_out) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  struct fabric_ucx_endpoint *endpoint = base_calloc(1, sizeof *endpoint);
  if (!endpoint) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for an endpoint"), error_out);
  *endpoint = (struct fabric_ucx_endpoint){.base.ops = base->ops, .fabric = fabric, .token = token, .user = user};
  if (!take_address(endpoint, address, address_bytes)) {
    base_free(endpoint);
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the peer's address is malformed or of another provider"), error_out);
  }
  if (base_random_fill(&endpoint->id, sizeof endpoint->id) || base_map_get(&fabric->endpoints, endpoint->id) ||
      !base_map_put(&fabric->endpoints, endpoint->id, endpoint)) {
    base_free(endpoint);
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for an endpoint"), error_out);
  }
  endpoint->deadline_ns = base_clock_ns() + FABRIC_UCX_CONNECT_NS;
  base_list_init(&endpoint->link);
  base_list_init(&endpoint->pieces);
  unsettle(endpoint);
  *endpoint_out = &endpoint->base;
  return KVF_OK;
}

void *fabric_ucx_endpoint_user(const struct fabric_endpoint *endpoint) {
  return endpoint_of(endpoint)->user;
}

void fabric_ucx_endpoint_disconnect(struct fabric_endpoint *base) {
  struct fabric_ucx_endpoint *endpoint = endpoint_of(base);
  endpoint->disconnecting = true;
  unsettle(endpoint);
}

/* UCX tells nobody that we leave on purpose. */
static void say_bye(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx_message bye;
  fabric_ucx_message_init(&bye, FABRIC_UCX_BYE, endpoint->token, endpoint->id, endpoint->incarnation);
  fabric_ucx_message_post(&endpoint->way, &bye, NULL, 0);
}

static void say_hello(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx *fabric = endpoint->fabric;
  struct fabric_ucx_message hello;
  fabric_ucx_message_init(&hello, FABRIC_UCX_HELLO, endpoint->token, endpoint->id, endpoint->incarnation);
  uint8_t mine[FABRIC_ADDRESS_LIMIT_BYTES];
  size_t mine_bytes = fabric_ucx_open_address(fabric, fabric_ucx_connecting_worker(fabric), mine);
  if (!mine_bytes) fabric_ucx_way_fail(&endpoint->way, UCS_ERR_EXCEEDS_LIMIT);
  fabric_ucx_message_post(&endpoint->way, &hello, mine, mine_bytes);
}

static void open_way(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx *fabric = endpoint->fabric;
  ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (const ucp_address_t *)endpoint->address};
  ucs_status_t status = fabric_ucx_way_open(&endpoint->way, fabric, fabric_ucx_connecting_worker(fabric), &params);
  if (status == UCS_OK) {
    say_hello(endpoint);
  } else {
    endpoint->error =
        fabric_ucx_instance_error(fabric, KVF_UNREACHABLE, "the peer cannot be connected to", "ucp_ep_create", status);
  }
}

void fabric_ucx_sender_answer(struct fabric_ucx *fabric, const struct fabric_ucx_message *message) {
  struct fabric_ucx_endpoint *endpoint = base_map_get(&fabric->endpoints, message->connection);
  if (!endpoint || endpoint->token != message->token || endpoint->error || endpoint->disconnecting) return;
  if (memcmp(endpoint->incarnation, message->incarnation, sizeof endpoint->incarnation)) return;
  if (message->kind == FABRIC_UCX_WELCOME && endpoint->stage == FABRIC_UCX_CONNECTING) {
    endpoint->stage = FABRIC_UCX_READY;
    fabric->kicked = true;
  } else if (message->kind == FABRIC_UCX_REFUSE && endpoint->stage == FABRIC_UCX_CONNECTING) {
    endpoint->error = BASE_ERROR(KVF_STALE, NULL, "the peer does not know the token of this connection");
    unsettle(endpoint);
  } else if (message->kind == FABRIC_UCX_REFUSE && endpoint->stage == FABRIC_UCX_READY) {
    fabric_ucx_way_fail(&endpoint->way, UCS_ERR_REJECTED);
  }
}

static void note_trouble(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx *fabric = endpoint->fabric;
  bool connecting = endpoint->stage == FABRIC_UCX_CONNECTING;
  if (endpoint->error || endpoint->stage == FABRIC_UCX_DOWN) return;
  if (endpoint->way.failure != UCS_OK) {
    endpoint->error = fabric_ucx_instance_error(fabric, connecting ? KVF_UNREACHABLE : KVF_PEER_LOST,
                                                connecting ? "the peer cannot be connected to" : "the connection to the peer broke",
                                                "connection", endpoint->way.failure);
  } else if (connecting && base_clock_ns() > endpoint->deadline_ns) {
    endpoint->error = base_error_add(BASE_ERROR(KVF_UNREACHABLE, NULL, "the peer did not answer in time"), "provider", "%s",
                                     fabric->base.ops->name);
  }
}

static void free_endpoint(struct fabric_ucx_endpoint *endpoint) {
  base_map_remove(&endpoint->fabric->endpoints, endpoint->id);
  base_list_remove(&endpoint->link);
  fabric_ucx_key_drop_all(endpoint);
  kvf_error_free(endpoint->error);
  endpoint->error = NULL;
  if (endpoint->way.state == FABRIC_UCX_WAY_CLOSING) {
    base_list_push_back(&endpoint->fabric->orphan_endpoints, &endpoint->link);
  } else {
    base_free(endpoint);
  }
}

/* Close, wait for what UCX owes, then tell the caller or be gone. False: wait on. */
static bool end(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx *fabric = endpoint->fabric;
  if (endpoint->stage != FABRIC_UCX_DOWN) {
    if (endpoint->stage != FABRIC_UCX_ENDING) {
      if (endpoint->stage == FABRIC_UCX_READY) say_bye(endpoint);
      endpoint->stage = FABRIC_UCX_ENDING;
      endpoint->deadline_ns = base_clock_ns() + FABRIC_UCX_QUIET_NS;
      fabric_ucx_way_close(&endpoint->way);
    }
    bool late = base_clock_ns() > endpoint->deadline_ns;
    if (endpoint->way.state == FABRIC_UCX_WAY_CLOSING && !late) return false;
    if (late) fabric_ucx_piece_write_off(endpoint);
    if (endpoint->accepted_count) return false;
  }
  if (endpoint->disconnecting) {
    free_endpoint(endpoint);
    return true;
  }
  endpoint->stage = FABRIC_UCX_DOWN;
  move_to(&fabric->steady_endpoints, endpoint);
  kvf_error *error = endpoint->error;
  endpoint->error = NULL;
  fabric->callbacks.endpoint_down(fabric->callbacks.context, &endpoint->base, error);
  return true;
}

static void settle_endpoint(struct fabric_ucx_endpoint *endpoint) {
  struct fabric_ucx *fabric = endpoint->fabric;
  if (endpoint->stage == FABRIC_UCX_CONNECTING && endpoint->way.state == FABRIC_UCX_WAY_NONE && !endpoint->disconnecting)
    open_way(endpoint);
  note_trouble(endpoint);
  if (endpoint->error || endpoint->disconnecting) {
    if (!end(endpoint)) move_to(&fabric->unsettled_endpoints, endpoint);
    return;
  }
  bool ready = endpoint->stage == FABRIC_UCX_READY;
  move_to(ready ? &fabric->steady_endpoints : &fabric->unsettled_endpoints, endpoint);
  if (ready) fabric->callbacks.endpoint_ready(fabric->callbacks.context, &endpoint->base);
}

void fabric_ucx_sender_unsettle_broken(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->steady_endpoints, node) {
    struct fabric_ucx_endpoint *endpoint = BASE_CONTAINER(node, struct fabric_ucx_endpoint, link);
    if (endpoint->stage == FABRIC_UCX_READY && endpoint->way.failure != UCS_OK) unsettle(endpoint);
  }
}

static void free_closed_orphans(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->orphan_endpoints, node) {
    struct fabric_ucx_endpoint *endpoint = BASE_CONTAINER(node, struct fabric_ucx_endpoint, link);
    if (endpoint->way.state != FABRIC_UCX_WAY_CLOSED) continue;
    base_list_remove(&endpoint->link);
    base_free(endpoint);
  }
}

void fabric_ucx_sender_settle(struct fabric_ucx *fabric) {
  free_closed_orphans(fabric);
  fabric_ucx_piece_settle(fabric);
  /* Callbacks may move endpoints of the batch back; then they are met next time. */
  struct base_list batch;
  base_list_init(&batch);
  base_list_splice(&batch, &fabric->unsettled_endpoints);
  for (struct base_list *node = base_list_pop_front(&batch); node; node = base_list_pop_front(&batch))
    settle_endpoint(BASE_CONTAINER(node, struct fabric_ucx_endpoint, link));
}

bool fabric_ucx_sender_shut(struct fabric_ucx *fabric) {
  bool shut = true;
  base_list_splice(&fabric->unsettled_endpoints, &fabric->steady_endpoints);
  BASE_LIST_EACH(&fabric->unsettled_endpoints, node) {
    struct fabric_ucx_endpoint *endpoint = BASE_CONTAINER(node, struct fabric_ucx_endpoint, link);
    if (endpoint->stage == FABRIC_UCX_READY && endpoint->way.state == FABRIC_UCX_WAY_OPEN) say_bye(endpoint);
    fabric_ucx_way_close(&endpoint->way);
    shut &= endpoint->way.state != FABRIC_UCX_WAY_CLOSING && base_list_empty(&endpoint->pieces);
  }
  return shut;
}

void fabric_ucx_sender_drop_keys(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->unsettled_endpoints, node) {
    struct fabric_ucx_endpoint *endpoint = BASE_CONTAINER(node, struct fabric_ucx_endpoint, link);
    fabric_ucx_piece_drop_keys(&endpoint->pieces);
    fabric_ucx_key_drop_all(endpoint);
  }
  fabric_ucx_piece_drop_keys(&fabric->finished_pieces);
}

void fabric_ucx_sender_fini(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->unsettled_endpoints, node) {
    struct fabric_ucx_endpoint *endpoint = BASE_CONTAINER(node, struct fabric_ucx_endpoint, link);
    fabric_ucx_piece_free_all(&endpoint->pieces);
    endpoint->way.state = FABRIC_UCX_WAY_CLOSED; /* with its worker */
    free_endpoint(endpoint);
  }
  BASE_LIST_EACH(&fabric->orphan_endpoints, node) base_free(BASE_CONTAINER(node, struct fabric_ucx_endpoint, link));
  fabric_ucx_piece_free_all(&fabric->finished_pieces);
  fabric_ucx_piece_free_all(&fabric->orphan_pieces);
  fabric_ucx_piece_free_all(&fabric->free_pieces);
  base_map_fini(&fabric->endpoints);
}
