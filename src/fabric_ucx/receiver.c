/* Tokens and the connections that use them.
 *
 *   HELLO(token, address) -> connection, opened back to there -> claims the token -> WELCOME
 *
 * A token belongs to one connection at a time: a later one that names it makes the earlier end, and waits until it has. A HELLO
 * without an admitted token gets no answer: that would mean to trust the address in it. */
#include "fabric_ucx/receiver.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/connection.h"

struct token {
  uint64_t value;
  struct fabric_ucx_connection *connection;
};

kvf_status fabric_ucx_token_admit(struct fabric *base, uint64_t value, kvf_error **error_out) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  if (base_map_get(&fabric->tokens, value)) return KVF_OK;
  struct token *token = base_calloc(1, sizeof *token);
  if (token) token->value = value;
  if (token && base_map_put(&fabric->tokens, value, token)) return KVF_OK;
  base_free(token);
  return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a token"), error_out);
}

/* A callback may have put it into another list meanwhile. */
static void move_to(struct base_list *list, struct fabric_ucx_connection *connection) {
  base_list_remove(&connection->link);
  base_list_push_back(list, &connection->link);
}

static void unsettle(struct fabric_ucx_connection *connection) {
  move_to(&connection->fabric->unsettled_connections, connection);
  connection->fabric->kicked = true;
}

void fabric_ucx_connection_end(struct fabric_ucx_connection *connection) {
  connection->ending = true;
  unsettle(connection);
}

void fabric_ucx_token_drop(struct fabric *base, uint64_t value) {
  struct token *token = base_map_remove(&fabric_ucx_of(base)->tokens, value);
  if (!token) return;
  if (token->connection) {
    token->connection->quiet = true;
    fabric_ucx_connection_end(token->connection);
  }
  base_free(token);
}

bool fabric_ucx_token_live(struct fabric *fabric, uint64_t value) {
  const struct token *token = base_map_get(&fabric_ucx_of(fabric)->tokens, value);
  return token && token->connection;
}

static struct fabric_ucx_connection *create_connection(struct fabric_ucx *fabric, const uint8_t *address, size_t address_bytes) {
  struct fabric_ucx_connection *connection = base_calloc(1, sizeof *connection + address_bytes);
  if (!connection) return NULL;
  connection->fabric = fabric;
  connection->way.fabric = fabric;
  connection->deadline_ns = base_clock_ns() + FABRIC_UCX_CONNECT_NS;
  connection->address_bytes = address_bytes;
  if (address_bytes) memcpy(connection->address, address, address_bytes);
  base_list_init(&connection->link);
  fabric->stranger_count++;
  unsettle(connection);
  return connection;
}

static bool is_for_us(const struct fabric_ucx *fabric, const struct fabric_ucx_message *message) {
  return !memcmp(message->incarnation, fabric->incarnation, sizeof fabric->incarnation);
}

static void post_answer(struct fabric_ucx_connection *connection, enum fabric_ucx_message_kind kind) {
  struct fabric_ucx_message answer;
  fabric_ucx_message_init(&answer, kind, connection->token, connection->id, connection->fabric->incarnation);
  fabric_ucx_message_post(&connection->way, &answer, NULL, 0);
}

/* The sender's UCX address is looked at only when its token is one of ours. */
void fabric_ucx_receiver_greet(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  uint8_t incarnation[16];
  size_t address_bytes;
  if (!is_for_us(fabric, arrival->message) || !base_map_get(&fabric->tokens, arrival->message->token)) return;
  if (arrival->length > FABRIC_ADDRESS_LIMIT_BYTES || fabric->stranger_count >= FABRIC_UCX_STRANGER_LIMIT) return;
  const uint8_t *address =
      fabric_ucx_blob_open(arrival->bytes, arrival->length, fabric_ucx_address_kind(fabric), incarnation, &address_bytes);
  if (!address || !address_bytes) return;
  struct fabric_ucx_connection *connection = create_connection(fabric, address, address_bytes);
  if (!connection) return;
  connection->id = arrival->message->connection;
  connection->token = arrival->message->token;
}

struct fabric_ucx_connection *fabric_ucx_connection_find(struct fabric_ucx *fabric, const struct fabric_ucx_message *message) {
  const struct token *token = base_map_get(&fabric->tokens, message->token);
  struct fabric_ucx_connection *connection = token ? token->connection : NULL;
  if (!connection || connection->ending || connection->id != message->connection || !is_for_us(fabric, message)) return NULL;
  return connection;
}

void fabric_ucx_receiver_part(struct fabric_ucx *fabric, const struct fabric_ucx_arrival *arrival) {
  struct fabric_ucx_connection *connection = fabric_ucx_connection_find(fabric, arrival->message);
  if (connection) fabric_ucx_connection_end(connection);
}

void fabric_ucx_connection_tell_revoked(struct fabric_ucx_connection *connection, uint64_t region, uint64_t generation) {
  struct fabric_ucx_message revoke;
  fabric_ucx_message_init(&revoke, FABRIC_UCX_REVOKE, connection->token, connection->id, connection->fabric->incarnation);
  revoke.target = (struct fabric_target){.region = region, .generation = generation};
  fabric_ucx_message_post(&connection->way, &revoke, NULL, 0);
}

void fabric_ucx_receiver_tell_revoked(struct fabric_ucx *fabric, uint64_t region, uint64_t generation) {
  BASE_LIST_EACH(&fabric->steady_connections, node)
  fabric_ucx_connection_tell_revoked(BASE_CONTAINER(node, struct fabric_ucx_connection, link), region, generation);
}

static void open_way_back(struct fabric_ucx_connection *connection) {
  struct fabric_ucx *fabric = connection->fabric;
  ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (const ucp_address_t *)connection->address};
  ucs_status_t status = fabric_ucx_way_open(&connection->way, fabric, fabric_ucx_connected_worker(fabric), &params);
  if (status != UCS_OK) connection->ending = true;
}

static void claim_token(struct fabric_ucx_connection *connection) {
  struct fabric_ucx *fabric = connection->fabric;
  struct token *token = base_map_get(&fabric->tokens, connection->token);
  if (token && token->connection) {
    if (!token->connection->ending) fabric_ucx_connection_end(token->connection);
    return;
  }
  if (!token) {
    connection->ending = true;
    return;
  }
  token->connection = connection;
  connection->welcomed = true;
  fabric->stranger_count--;
  post_answer(connection, FABRIC_UCX_WELCOME);
}

/* Nothing of it moves any more: tell the caller, forget it. */
static void bury(struct fabric_ucx_connection *connection) {
  struct fabric_ucx *fabric = connection->fabric;
  struct token *token = connection->welcomed && !connection->quiet ? base_map_get(&fabric->tokens, connection->token) : NULL;
  if (!connection->welcomed) fabric->stranger_count--;
  base_free(connection->receipt);
  connection->receipt = NULL;
  if (connection->way.state == FABRIC_UCX_WAY_CLOSING) {
    move_to(&fabric->orphan_connections, connection);
  } else {
    base_list_remove(&connection->link);
    base_free(connection);
  }
  if (!token) return;
  token->connection = NULL;
  fabric->callbacks.token_lost(fabric->callbacks.context, token->value);
}

/* Tell the sender, if it can be told, and close. UCX may take long to end a close towards a dead process; nobody waits for that,
 * since what comes in does not depend on the way back. */
static void end(struct fabric_ucx_connection *connection) {
  if (connection->way.state == FABRIC_UCX_WAY_OPEN) post_answer(connection, FABRIC_UCX_REFUSE);
  fabric_ucx_way_close(&connection->way);
  bury(connection);
}

static void free_closed_orphans(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->orphan_connections, node) {
    struct fabric_ucx_connection *connection = BASE_CONTAINER(node, struct fabric_ucx_connection, link);
    if (connection->way.state != FABRIC_UCX_WAY_CLOSED) continue;
    base_list_remove(&connection->link);
    base_free(connection);
  }
}

static void settle_connection(struct fabric_ucx_connection *connection) {
  struct fabric_ucx *fabric = connection->fabric;
  bool late = !connection->welcomed && base_clock_ns() > connection->deadline_ns;
  connection->ending |= connection->way.failure != UCS_OK || late;
  if (!connection->ending && connection->way.state == FABRIC_UCX_WAY_NONE) open_way_back(connection);
  if (!connection->ending && !connection->welcomed) claim_token(connection);
  if (connection->ending) {
    end(connection);
  } else {
    move_to(connection->welcomed ? &fabric->steady_connections : &fabric->unsettled_connections, connection);
  }
}

void fabric_ucx_receiver_unsettle_broken(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->steady_connections, node) {
    struct fabric_ucx_connection *connection = BASE_CONTAINER(node, struct fabric_ucx_connection, link);
    if (connection->way.failure != UCS_OK) unsettle(connection);
  }
}

void fabric_ucx_receiver_settle(struct fabric_ucx *fabric) {
  free_closed_orphans(fabric);
  struct base_list batch;
  base_list_init(&batch);
  base_list_splice(&batch, &fabric->unsettled_connections);
  for (struct base_list *node = base_list_pop_front(&batch); node; node = base_list_pop_front(&batch))
    settle_connection(BASE_CONTAINER(node, struct fabric_ucx_connection, link));
}

bool fabric_ucx_receiver_shut(struct fabric_ucx *fabric) {
  bool shut = true;
  base_list_splice(&fabric->unsettled_connections, &fabric->steady_connections);
  base_list_splice(&fabric->unsettled_connections, &fabric->orphan_connections);
  BASE_LIST_EACH(&fabric->unsettled_connections, node) {
    struct fabric_ucx_connection *connection = BASE_CONTAINER(node, struct fabric_ucx_connection, link);
    fabric_ucx_way_close(&connection->way);
    shut &= connection->way.state != FABRIC_UCX_WAY_CLOSING;
  }
  return shut;
}

void fabric_ucx_receiver_fini(struct fabric_ucx *fabric) {
  BASE_LIST_EACH(&fabric->unsettled_connections, node) {
    struct fabric_ucx_connection *connection = BASE_CONTAINER(node, struct fabric_ucx_connection, link);
    base_free(connection->receipt);
    base_free(connection);
  }
  size_t cursor = 0;
  for (void *token = base_map_next(&fabric->tokens, &cursor); token; token = base_map_next(&fabric->tokens, &cursor))
    base_free(token);
  base_map_fini(&fabric->tokens);
}
