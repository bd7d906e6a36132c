/* Peers: from a session that has proven itself to a link that the transfers use.
 *
 *   session up ─→ LAYOUT ⇄ ─→ compared ─→ READY ⇄ ─→ up          (OFFER and EXPOSE travel beside READY)
 *                               └─→ REFUSE: both sides are told which field differs, and nobody tries again
 * Nothing is sent before our own cache is open; a LAYOUT that comes earlier waits here. */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "engine/inside.h"
#include "layout/cut.h"

static kvf_peer *create_peer(kvf_engine *engine) {
  kvf_peer *peer = base_calloc(1, sizeof *peer);
  if (!peer) return NULL;
  peer->engine = engine;
  peer->state.struct_bytes = sizeof peer->state;
  peer->changed_ns = base_clock_ns();
  base_list_init(&peer->node);
  return peer;
}

static void free_peer(kvf_peer *peer) {
  base_list_remove(&peer->node);
  base_free(peer->early_layout);
  kvf_error_free(peer->reason);
  base_free(peer);
}

static void push_event(kvf_peer *peer, uint32_t type, const kvf_error *error) {
  kvf_event event = {.type = type, .status = kvf_error_status(error), .error = base_error_copy(error)};
  pthread_mutex_lock(&peer->engine->lock);
  event.peer = peer->closed ? NULL : peer;
  engine_event_push(peer->engine, &event);
  pthread_mutex_unlock(&peer->engine->lock);
}

static void set_up(kvf_peer *peer, bool up) {
  kvf_engine *engine = peer->engine;
  if (peer->up == up) return;
  peer->up = up;
  pthread_mutex_lock(&engine->lock);
  peer->state.up = up;
  peer->changed_ns = base_clock_ns();
  pthread_mutex_unlock(&engine->lock);
  if (up) {
    stats_counter_add(&engine->counters.peers_up, 1);
  } else {
    stats_counter_subtract(&engine->counters.peers_up, 1);
    stats_counter_add(&engine->counters.peers_lost, 1);
  }
}

static void forget_session(kvf_peer *peer) {
  peer->session = NULL;
  peer->link = NULL;
  peer->layout_sent = peer->ready_sent = peer->ready_received = false;
  base_free(peer->early_layout);
  peer->early_layout = NULL;
}

/* The session is over: its link, its rooms, and the word to the caller. */
static void lose_session(kvf_peer *peer, const kvf_error *error) {
  struct transfer_link *link = peer->link;
  forget_session(peer);
  set_up(peer, false);
  if (link) transfer_link_lost(link, error);
  push_event(peer, KVF_EVENT_PEER_DOWN, error);
  engine_waiting_check(peer->engine);
}

/* This pair will never agree: remember why and do not dial again. */
static void note_refusal(kvf_peer *peer, const kvf_error *error) {
  peer->refused = true;
  kvf_error_free(peer->reason);
  peer->reason = base_error_copy(error);
  if (peer->dial) control_dial_stop(peer->dial);
}

/* ---- layouts ---- */

static void send_layout(kvf_peer *peer) {
  kvf_engine *engine = peer->engine;
  const struct kvf_cache *cache = engine->ready_cache;
  if (!cache || peer->layout_sent) return;
  peer->layout_sent = true;
  struct wire_buffer frames = {0};
  wire_layout_encode(&frames, &(struct wire_layout){.rank = cache->rank,
                                                    .rank_count = cache->rank_count,
                                                    .stage = cache->planes.stage,
                                                    .components = cache->components,
                                                    .ignored = cache->ignored,
                                                    .piece_bytes = engine->config.piece_bytes,
                                                    .arena_bytes = engine->config.arena_bytes,
                                                    .plane_count = cache->planes.plane_count,
                                                    .planes = cache->wire_planes,
                                                    .plane_regions = cache->plane_regions});
  if (!frames.failed) control_session_send(peer->session, frames.bytes, frames.length);
  wire_buffer_fini(&frames);
}

/* Would either direction between the two work? Layers that only one side has are no matter between two single ranks. */
static kvf_error *compare(const kvf_rank_planes *mine, const kvf_rank_planes *theirs) {
  struct layout_cuts cuts = {0};
  kvf_error *error = NULL;
  kvf_status status = layout_cuts_build(theirs, 1, mine, 0, &cuts, &error);
  if (status == KVF_OK) layout_cuts_fini(&cuts);
  if (status == KVF_INCOMPATIBLE || status == KVF_INVALID || status == KVF_NO_MEMORY) return error;
  kvf_error_free(error);
  return NULL;
}

/* Components that only one side has: refused, or left out by agreement and told. */
static kvf_error *agree_on_components(kvf_peer *peer, const struct wire_layout *layout, uint32_t *moved_out) {
  kvf_engine *engine = peer->engine;
  const struct kvf_cache *cache = engine->ready_cache;
  kvf_error *error = NULL;
  if (layout_components_compare(cache->components, layout->components, cache->ignored, layout->ignored, moved_out, &error) != KVF_OK) return error;
  uint32_t left_out = cache->components ^ layout->components;
  pthread_mutex_lock(&engine->lock);
  peer->state.ignored_components = left_out;
  pthread_mutex_unlock(&engine->lock);
  if (!left_out) return NULL;
  stats_counter_add(&engine->counters.peers_partial, 1);
  base_log_write(&engine->log, KVF_LOG_NOTICE, "%s: components %#x are on one side only and are not moved", peer->state.label, left_out);
  return NULL;
}

static void describe_peer(kvf_peer *peer, const struct wire_layout *layout, char *label, size_t capacity) {
  kvf_engine *engine = peer->engine;
  pthread_mutex_lock(&engine->lock);
  peer->state.rank = layout->rank;
  peer->state.rank_count = layout->rank_count;
  peer->state.stage = layout->stage;
  snprintf(peer->state.address, sizeof peer->state.address, "%s", control_session_address(peer->session));
  pthread_mutex_unlock(&engine->lock);
  snprintf(label, capacity, "%s@%s", peer->state.label, peer->state.address);
}

/* One side that wants checksums is enough, when the other can. */
static kvf_error *agree_on_checksums(const kvf_peer *peer, bool *checksum_out) {
  bool wanted = peer->engine->config.checksum;
  *checksum_out = wanted || (peer->capabilities & WIRE_WANTS_CHECKSUM);
  if (!wanted || (peer->capabilities & WIRE_CAN_CHECKSUM)) return NULL;
  kvf_error *error = BASE_ERROR(KVF_INCOMPATIBLE, NULL, "this rank wants checksums, and the other cannot make them");
  base_error_add(error, "field", "checksum");
  base_error_add(error, "mine", "wanted");
  return base_error_add(error, "yours", "unknown");
}

static kvf_error *accept_layout(kvf_peer *peer, const struct wire_layout *layout) {
  kvf_engine *engine = peer->engine;
  const struct kvf_cache *cache = engine->ready_cache;
  const kvf_rank_planes theirs = {.planes = layout->planes, .plane_count = layout->plane_count, .stage = layout->stage};
  kvf_error *error = NULL;
  if (layout_planes_validate(theirs.planes, theirs.plane_count, &error) != KVF_OK) return error;
  if (layout->rank_count == 0 || layout->rank >= layout->rank_count) return BASE_ERROR(KVF_PROTOCOL, NULL, "rank %u of %u", layout->rank, layout->rank_count);
  if (layout->piece_bytes < ENGINE_PIECE_LEAST_BYTES) return BASE_ERROR(KVF_PROTOCOL, NULL, "pieces of %llu bytes", (unsigned long long)layout->piece_bytes);
  uint32_t moved = 0;
  error = compare(&cache->planes, &theirs);
  if (!error) error = agree_on_components(peer, layout, &moved);
  bool checksum = false;
  if (!error) error = agree_on_checksums(peer, &checksum);
  if (error) return error;
  char label[96];
  describe_peer(peer, layout, label, sizeof label);
  uint64_t token = 0;
  while (!token) base_random_fill(&token, sizeof token);
  const struct transfer_link_options options = {.user = peer,
                                                .label = label,
                                                .token = token,
                                                .planes = theirs,
                                                .plane_regions = layout->plane_regions,
                                                .rank = layout->rank,
                                                .rank_count = layout->rank_count,
                                                .components = moved,
                                                .piece_bytes = layout->piece_bytes,
                                                .checksum = checksum};
  transfer_link_add(engine->transfer, &options, &peer->link, &error);
  return error;
}

static void come_up(kvf_peer *peer) {
  if (!peer->ready_sent || !peer->ready_received || peer->up) return;
  control_session_settled(peer->session);
  set_up(peer, true);
  push_event(peer, KVF_EVENT_PEER_UP, NULL);
  engine_waiting_check(peer->engine);
}

/* Both sides learn the difference; the session ends with it. */
static kvf_error *refuse(kvf_peer *peer, kvf_error *cause) {
  char label[96];
  snprintf(label, sizeof label, "%s@%s", peer->state.label, control_session_address(peer->session));
  kvf_error *error = BASE_ERROR(kvf_error_status(cause), cause, "%s cannot be paired with this rank", label);
  struct wire_buffer frames = {0};
  wire_refuse_encode(&frames, &(struct wire_refuse){.error = error});
  if (!frames.failed) control_session_send(peer->session, frames.bytes, frames.length);
  wire_buffer_fini(&frames);
  note_refusal(peer, error);
  return error;
}

static kvf_error *layout_arrived(kvf_peer *peer, const uint8_t *payload, size_t payload_bytes) {
  struct wire_scratch scratch = {0};
  struct wire_layout layout;
  kvf_error *error = NULL;
  if (peer->link) return BASE_ERROR(KVF_PROTOCOL, NULL, "a second LAYOUT");
  if (!peer->engine->ready_cache) {
    base_free(peer->early_layout);
    peer->early_layout = base_alloc(payload_bytes);
    peer->early_layout_bytes = payload_bytes;
    if (!peer->early_layout) return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a layout");
    memcpy(peer->early_layout, payload, payload_bytes);
    return NULL;
  }
  send_layout(peer);
  if (wire_layout_decode(payload, payload_bytes, &scratch, &layout, &error) == KVF_OK) {
    error = accept_layout(peer, &layout);
    if (error) error = refuse(peer, error);
  }
  wire_scratch_reset(&scratch);
  if (error) return error;
  struct wire_buffer frames = {0};
  wire_ready_encode(&frames);
  if (!frames.failed) control_session_send(peer->session, frames.bytes, frames.length);
  wire_buffer_fini(&frames);
  peer->ready_sent = true;
  come_up(peer);
  return NULL;
}

static kvf_error *refused_by_peer(kvf_peer *peer, const uint8_t *payload, size_t payload_bytes) {
  struct wire_scratch scratch = {0};
  struct wire_refuse refuse_message = {0};
  kvf_error *error = NULL;
  if (wire_refuse_decode(payload, payload_bytes, &scratch, &refuse_message, &error) == KVF_OK) {
    kvf_status status = kvf_error_status(refuse_message.error);
    error = BASE_ERROR(status, refuse_message.error, "%s refused this rank", peer->state.label);
    note_refusal(peer, error);
  }
  wire_scratch_reset(&scratch);
  return error;
}

/* ---- sessions ---- */

static void remember_hello(kvf_peer *peer, const struct wire_hello *hello) {
  kvf_engine *engine = peer->engine;
  peer->capabilities = hello->capabilities;
  pthread_mutex_lock(&engine->lock);
  size_t length = hello->label.length < sizeof peer->state.label - 1 ? hello->label.length : sizeof peer->state.label - 1;
  for (size_t i = 0; i < length; i++) {
    char byte = hello->label.text[i];
    peer->state.label[i] = byte > ' ' && byte < 127 ? byte : '?';
  }
  peer->state.label[length] = '\0';
  memcpy(peer->state.incarnation, hello->incarnation, sizeof peer->state.incarnation);
  pthread_mutex_unlock(&engine->lock);
}

static void session_up(void *context, struct control_session *session, struct control_dial *dial, const struct wire_hello *hello) {
  kvf_engine *engine = context;
  kvf_peer *peer = dial ? control_dial_tag(dial) : create_peer(engine);
  if (!peer) {
    control_session_close(session);
    return;
  }
  if (!dial) base_list_push_back(&engine->peers, &peer->node);
  forget_session(peer);
  peer->session = session;
  control_session_set_tag(session, peer);
  remember_hello(peer, hello);
  send_layout(peer);
}

static kvf_error *session_message(void *context, struct control_session *session, uint8_t type, const uint8_t *payload, size_t payload_bytes) {
  kvf_peer *peer = control_session_tag(session);
  if (!peer) return BASE_ERROR(KVF_CLOSED, NULL, "the peer is closed");
  switch (type) {
    case WIRE_LAYOUT: return layout_arrived(peer, payload, payload_bytes);
    case WIRE_REFUSE: return refused_by_peer(peer, payload, payload_bytes);
    case WIRE_BYE: return NULL;
    case WIRE_READY:
      peer->ready_received = true;
      come_up(peer);
      return NULL;
    default:
      if (peer->link) return transfer_link_message(peer->link, type, payload, payload_bytes);
      return BASE_ERROR(KVF_PROTOCOL, NULL, "%s before LAYOUT", wire_type_name(type));
  }
}

static void session_down(void *context, struct control_session *session, const kvf_error *error) {
  kvf_peer *peer = control_session_tag(session);
  if (!peer) return;
  lose_session(peer, error);
}

static void dial_failed(void *context, struct control_dial *dial, const kvf_error *error, bool stopped) {
  kvf_peer *peer = control_dial_tag(dial);
  if (stopped) note_refusal(peer, error);
  /* Told once, not at each attempt. */
  if (stopped || !peer->told_down) push_event(peer, KVF_EVENT_PEER_DOWN, error);
  peer->told_down = true;
  engine_waiting_check(peer->engine);
}

struct control_callbacks engine_peer_callbacks(kvf_engine *engine) {
  return (struct control_callbacks){
      .context = engine, .session_up = session_up, .session_message = session_message, .session_down = session_down, .dial_failed = dial_failed};
}

void engine_post_frames(void *context, struct transfer_link *link, const struct wire_buffer *frames) {
  kvf_peer *peer = transfer_link_user(link);
  if (!peer || !peer->session) return;
  if (frames->failed)
    base_log_write(&peer->engine->log, KVF_LOG_ERROR, "messages to %s were lost: out of memory", peer->state.label);
  else
    control_session_send(peer->session, frames->bytes, frames->length);
}

void engine_peers_cache_is_set(kvf_engine *engine) {
  BASE_LIST_EACH(&engine->peers, node) {
    kvf_peer *peer = BASE_CONTAINER(node, kvf_peer, node);
    if (!peer->session) continue;
    send_layout(peer);
    uint8_t *layout = peer->early_layout;
    if (!layout) continue;
    peer->early_layout = NULL;
    kvf_error *error = layout_arrived(peer, layout, peer->early_layout_bytes);
    base_free(layout);
    if (!error) continue;
    struct control_session *session = peer->session;
    lose_session(peer, error);
    control_session_set_tag(session, NULL);
    control_session_close(session);
    kvf_error_free(error);
  }
}

static void drop_connection(kvf_peer *peer, const kvf_error *reason) {
  struct transfer_link *link = peer->link;
  struct control_session *session = peer->session;
  struct control_dial *dial = peer->dial;
  forget_session(peer);
  set_up(peer, false);
  peer->dial = NULL;
  if (session) {
    control_session_set_tag(session, NULL);
    control_session_close(session);
  }
  if (dial) control_dial_close(dial);
  if (link) transfer_link_lost(link, reason);
}

void engine_peers_drop_all(kvf_engine *engine) {
  kvf_error *reason = BASE_ERROR(KVF_CLOSED, NULL, "the engine was closed");
  BASE_LIST_EACH(&engine->peers, node) drop_connection(BASE_CONTAINER(node, kvf_peer, node), reason);
  kvf_error_free(reason);
}

/* ---- the caller's side ---- */

struct peer_command {
  struct engine_command base;
  kvf_peer *peer;
  char *address;
};

static void run_connect(kvf_engine *engine, struct engine_command *base) {
  struct peer_command *command = BASE_CONTAINER(base, struct peer_command, base);
  kvf_peer *peer = command->peer;
  kvf_error *error = NULL;
  base_list_push_back(&engine->peers, &peer->node);
  if (engine->stage == ENGINE_RUNNING && control_dial_open(engine->control, command->address, peer, &peer->dial, &error) != KVF_OK) {
    note_refusal(peer, error);
    push_event(peer, KVF_EVENT_PEER_DOWN, error);
    kvf_error_free(error);
  }
  base_free(command->address);
  base_free(command);
}

kvf_status engine_peer_connect(kvf_engine *engine, const char *address, kvf_peer **peer_out, kvf_error **error_out) {
  struct control_host_port parsed;
  if (control_address_parse(address, false, &parsed, error_out) != KVF_OK) return KVF_BAD_ADDRESS;
  kvf_peer *peer = create_peer(engine);
  struct peer_command *command = base_calloc(1, sizeof *command);
  char *copy = base_strdup(address);
  if (!peer || !command || !copy) {
    base_free(peer);
    base_free(command);
    base_free(copy);
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a peer"), error_out);
  }
  snprintf(peer->state.address, sizeof peer->state.address, "%s", address);
  peer->counted = true;
  atomic_fetch_add(&engine->references, 1);
  *command = (struct peer_command){.base.run = run_connect, .peer = peer, .address = copy};
  engine_post(engine, &command->base);
  *peer_out = peer;
  return KVF_OK;
}

static void run_close(kvf_engine *engine, struct engine_command *base) {
  struct peer_command *command = BASE_CONTAINER(base, struct peer_command, base);
  kvf_peer *peer = command->peer;
  kvf_error *reason = BASE_ERROR(KVF_CLOSED, NULL, "the peer was closed here");
  note_refusal(peer, reason);
  engine_waiting_check(engine);
  drop_connection(peer, reason);
  kvf_error_free(reason);
  free_peer(peer);
  base_free(command);
}

void engine_peer_close(kvf_peer *peer) {
  kvf_engine *engine = peer->engine;
  bool counted = peer->counted;
  pthread_mutex_lock(&engine->lock);
  bool dead = engine->closed;
  peer->closed = true;
  BASE_LIST_EACH(&engine->events, node) {
    kvf_event *event = &BASE_CONTAINER(node, struct engine_event, node)->event;
    if (event->peer == peer) event->peer = NULL;
  }
  pthread_mutex_unlock(&engine->lock);
  struct peer_command *command = dead ? NULL : base_calloc(1, sizeof *command);
  if (dead) {
    free_peer(peer);
  } else if (command) {
    *command = (struct peer_command){.base.run = run_close, .peer = peer};
    engine_post(engine, &command->base);
  }
  if (counted) engine_release(engine);
}

static void describe_health(kvf_peer *peer) {
  pthread_mutex_lock(&peer->engine->lock);
  uint64_t silence_ns = peer->up ? control_session_silence_ns(peer->session) : 0;
  peer->state.health = silence_ns ? KVF_PEER_SUSPECT : peer->up ? KVF_PEER_OK : KVF_PEER_DOWN;
  peer->state.health_age_ns = silence_ns ? silence_ns : base_clock_ns() - peer->changed_ns;
  pthread_mutex_unlock(&peer->engine->lock);
}

void engine_peers_suspect_count(kvf_engine *engine, uint64_t *count_out, uint64_t *silence_ns_out) {
  *count_out = *silence_ns_out = 0;
  BASE_LIST_EACH(&engine->peers, node) {
    const kvf_peer *peer = BASE_CONTAINER(node, kvf_peer, node);
    uint64_t silence_ns = peer->up ? control_session_silence_ns(peer->session) : 0;
    *count_out += silence_ns > 0;
    if (silence_ns > *silence_ns_out) *silence_ns_out = silence_ns;
  }
}

static void describe_link(struct transfer *transfer, void *argument) {
  kvf_peer *peer = argument;
  describe_health(peer);
  if (!peer->link) return;
  kvf_peer_state fresh = {0};
  transfer_link_describe(peer->link, &fresh);
  pthread_mutex_lock(&peer->engine->lock);
  memcpy(peer->state.fabric, fresh.fabric, sizeof fresh.fabric);
  memcpy(peer->state.reason, fresh.reason, sizeof fresh.reason);
  peer->state.way = fresh.way;
  pthread_mutex_unlock(&peer->engine->lock);
}

void engine_peer_query(kvf_peer *peer, kvf_peer_state *state_out) {
  kvf_engine *engine = peer->engine;
  if (!engine_is_closed(engine)) engine_call(engine, describe_link, peer);
  pthread_mutex_lock(&engine->lock);
  *state_out = peer->state;
  pthread_mutex_unlock(&engine->lock);
}

void engine_peers_free_unheld(kvf_engine *engine) {
  BASE_LIST_EACH(&engine->peers, node) {
    kvf_peer *peer = BASE_CONTAINER(node, kvf_peer, node);
    if (peer->counted)
      base_list_remove(&peer->node);
    else
      free_peer(peer);
  }
}
