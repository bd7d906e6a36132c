/* The handles of rooms: opened and closed by the caller's threads, ended by the I/O thread.
 * A handle is freed by the close command; when its room is still under way, by its end. */
#include <string.h>

#include "engine/inside.h"

/* ---- opening ---- */

/* Lock held. */
static kvf_error *check_new_room(kvf_engine *engine, const struct base_map *rooms, uint64_t room) {
  if (engine->closing) return BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed");
  if (engine->draining) return BASE_ERROR(KVF_DRAINING, NULL, "this engine takes no new rooms");
  if (!engine->cache) return BASE_ERROR(KVF_INVALID, NULL, "no cache is open: kvf_cache_open comes first");
  if (base_map_get(rooms, room))
    return base_error_add(BASE_ERROR(KVF_OVERLAP, NULL, "the room is open already"), "room", "%llu", (unsigned long long)room);
  if (engine->event_count < engine->config.event_capacity) return NULL;
  kvf_error *error = BASE_ERROR(KVF_BACKPRESSURE, NULL, "too many events wait to be polled");
  return base_error_add(error, "limit", "%u", engine->config.event_capacity);
}

/* Put a new handle into its map, with a reference to the engine. */
static kvf_error *enter_room(kvf_engine *engine, struct base_map *rooms, uint64_t room, void *handle) {
  pthread_mutex_lock(&engine->lock);
  kvf_error *error = check_new_room(engine, rooms, room);
  if (!error && !base_map_put(rooms, room, handle)) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a room");
  if (!error) atomic_fetch_add(&engine->references, 1);
  pthread_mutex_unlock(&engine->lock);
  return error;
}

struct send_open_command {
  struct engine_command base;
  kvf_send *send;
  kvf_send_options options;
};

static void end_at_once(kvf_engine *engine, uint32_t type, kvf_send *send, kvf_recv *recv, uint64_t room, uint64_t user_tag, kvf_error *error) {
  const kvf_event event = {.type = type, .status = kvf_error_status(error), .room = room, .user_tag = user_tag, .error = error};
  engine_room_event(engine, send ? (void *)send : (void *)recv, &event);
}

static void run_send_open(kvf_engine *engine, struct engine_command *base) {
  struct send_open_command *command = BASE_CONTAINER(base, struct send_open_command, base);
  kvf_send *send = command->send;
  if (engine->stage != ENGINE_RUNNING)
    end_at_once(engine, KVF_EVENT_SEND_END, send, NULL, send->room, command->options.user_tag,
                BASE_ERROR(KVF_CANCELLED, NULL, "the engine was closed"));
  else if (transfer_send_open(engine->transfer, &command->options, send, &send->transfer) != KVF_OK)
    end_at_once(engine, KVF_EVENT_SEND_END, send, NULL, send->room, command->options.user_tag,
                BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a room"));
  base_free(command);
}

kvf_status engine_send_open(kvf_engine *engine, const kvf_send_options *options, kvf_send **send_out, kvf_error **error_out) {
  kvf_send *send = base_calloc(1, sizeof *send);
  struct send_open_command *command = base_calloc(1, sizeof *command);
  kvf_error *error = send && command ? NULL : BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a room");
  if (!error) error = enter_room(engine, &engine->sends, options->room, send);
  if (error) {
    base_free(send);
    base_free(command);
    return base_error_give(error, error_out);
  }
  send->engine = engine;
  send->room = options->room;
  base_list_init(&send->held);
  *command = (struct send_open_command){.base.run = run_send_open, .send = send, .options = *options};
  engine_post(engine, &command->base);
  *send_out = send;
  return KVF_OK;
}

struct recv_open_command {
  struct engine_command base;
  kvf_recv *recv;
  kvf_recv_options options;
  struct layout_pages pages; /* owned copies of the lists */
  kvf_page_list lists[KVF_PAGE_LIST_LIMIT];
};

static void free_recv_open(struct recv_open_command *command) {
  if (!command) return;
  for (int i = 0; i < KVF_PAGE_LIST_LIMIT; i++) base_free((void *)command->lists[i].pages);
  base_free(command);
}

static void run_recv_open(kvf_engine *engine, struct engine_command *base) {
  struct recv_open_command *command = BASE_CONTAINER(base, struct recv_open_command, base);
  kvf_recv *recv = command->recv;
  if (engine->stage != ENGINE_RUNNING) {
    end_at_once(engine, KVF_EVENT_RECV_END, NULL, recv, recv->room, command->options.user_tag,
                BASE_ERROR(KVF_CANCELLED, NULL, "the engine was closed"));
  } else if (transfer_recv_open(engine->transfer, &command->options, recv, &recv->transfer) != KVF_OK) {
    end_at_once(engine, KVF_EVENT_RECV_END, NULL, recv, recv->room, command->options.user_tag,
                BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a room"));
  } else {
    base_list_push_back(&engine->waiting, &recv->waiting_node);
    engine_waiting_check(engine);
  }
  free_recv_open(command);
}

static bool copy_lists(struct recv_open_command *command, const kvf_recv_options *options) {
  command->options = *options;
  command->options.page_lists = command->lists;
  for (uint32_t i = 0; i < options->page_list_count; i++) {
    size_t bytes = options->page_lists[i].page_count * sizeof(uint32_t);
    uint32_t *pages = base_alloc(bytes);
    command->lists[i] = options->page_lists[i];
    command->lists[i].pages = pages;
    if (!pages) return false;
    if (bytes) memcpy(pages, options->page_lists[i].pages, bytes);
  }
  return true;
}

kvf_status engine_recv_open(kvf_engine *engine, const kvf_recv_options *options, kvf_recv **recv_out, kvf_error **error_out) {
  kvf_recv *recv = base_calloc(1, sizeof *recv);
  struct recv_open_command *command = base_calloc(1, sizeof *command);
  kvf_peer **peers = base_alloc(options->peer_count * sizeof(kvf_peer *));
  kvf_error *error = NULL;
  if (!recv || !command || !peers || !copy_lists(command, options)) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a room");
  if (!error) error = enter_room(engine, &engine->recvs, options->room, recv);
  if (error) {
    free_recv_open(command);
    base_free(peers);
    base_free(recv);
    return base_error_give(error, error_out);
  }
  memcpy(peers, options->peers, options->peer_count * sizeof(kvf_peer *));
  recv->engine = engine;
  recv->room = options->room;
  recv->peers = peers;
  recv->peer_count = options->peer_count;
  base_list_init(&recv->waiting_node);
  command->base.run = run_recv_open;
  command->recv = recv;
  engine_post(engine, &command->base);
  *recv_out = recv;
  return KVF_OK;
}

/* ---- receives that wait for their peers ---- */

static bool all_are_up(const kvf_recv *recv) {
  for (uint32_t i = 0; i < recv->peer_count; i++) {
    if (!recv->peers[i]->up) return false;
  }
  return true;
}

static void bind_links(kvf_recv *recv) {
  struct transfer_link **links = base_alloc(recv->peer_count * sizeof *links);
  base_list_remove(&recv->waiting_node);
  if (!links) {
    transfer_recv_cancel(recv->transfer, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a room"));
    return;
  }
  for (uint32_t i = 0; i < recv->peer_count; i++) links[i] = recv->peers[i]->link;
  transfer_recv_bind(recv->transfer, links, recv->peer_count);
  base_free(links);
}

static const kvf_peer *find_refused(const kvf_recv *recv) {
  for (uint32_t i = 0; i < recv->peer_count; i++) {
    if (recv->peers[i]->refused) return recv->peers[i];
  }
  return NULL;
}

void engine_waiting_check(kvf_engine *engine) {
  BASE_LIST_EACH(&engine->waiting, node) {
    kvf_recv *recv = BASE_CONTAINER(node, kvf_recv, waiting_node);
    const kvf_peer *refused = find_refused(recv);
    if (refused) {
      base_list_remove(&recv->waiting_node);
      transfer_recv_cancel(recv->transfer, base_error_copy(refused->reason));
    } else if (all_are_up(recv)) {
      bind_links(recv);
    }
  }
}

/* ---- posting and ending ---- */

kvf_status engine_send_post(kvf_send *send, const kvf_chunk *chunk, kvf_error **error_out) {
  kvf_engine *engine = send->engine;
  struct engine_chunk *copy = NULL;
  kvf_status status = engine_chunk_create(send, chunk, &copy, error_out);
  if (status != KVF_OK) return status;
  pthread_mutex_lock(&engine->lock);
  bool closed = engine->closing, final = send->final;
  if (!closed && !final) send->final = chunk->final;
  pthread_mutex_unlock(&engine->lock);
  if (closed || final) {
    engine_chunk_free(copy);
    kvf_error *error = closed ? BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed") : BASE_ERROR(KVF_INVALID, NULL, "the final chunk was posted already");
    return base_error_give(base_error_add(error, "room", "%llu", (unsigned long long)send->room), error_out);
  }
  engine_post(engine, engine_chunk_command(copy));
  return KVF_OK;
}

kvf_engine *engine_send_engine(const kvf_send *send) { return send->engine; }

static void free_recv(kvf_recv *recv) {
  base_free(recv->aux);
  base_free(recv->peers);
  base_free(recv);
}

/* Mark a send's handle under the lock; true when it is to be freed. */
static bool note_send_event(kvf_engine *engine, kvf_send *send, kvf_event *event) {
  event->send = send->closed ? NULL : send;
  if (event->type != KVF_EVENT_SEND_END) return false;
  engine_chunks_drop(send);
  base_map_remove(&engine->sends, event->room);
  send->ended = true;
  send->transfer = NULL;
  return send->free_at_end;
}

static bool note_recv_event(kvf_engine *engine, kvf_recv *recv, kvf_event *event) {
  event->recv = recv->closed ? NULL : recv;
  if (event->type != KVF_EVENT_RECV_END) return false;
  if (recv->transfer && event->status == KVF_OK) recv->aux = transfer_recv_take_aux(recv->transfer, &recv->aux_bytes);
  base_map_remove(&engine->recvs, event->room);
  base_list_remove(&recv->waiting_node);
  recv->ended = true;
  recv->aux_ready = event->status == KVF_OK;
  recv->transfer = NULL;
  return recv->free_at_end;
}

/* Tells the caller that a room has ended or is failing; @p user is its handle. */
void engine_room_event(void *context, void *user, const kvf_event *event) {
  kvf_engine *engine = context;
  kvf_event told = *event;
  bool is_send = event->type == KVF_EVENT_SEND_END || event->type == KVF_EVENT_SEND_FAILING;
  pthread_mutex_lock(&engine->lock);
  bool is_freed = is_send ? note_send_event(engine, user, &told) : note_recv_event(engine, user, &told);
  engine_event_push(engine, &told);
  pthread_mutex_unlock(&engine->lock);
  if (!is_freed) return;
  if (is_send)
    base_free(user);
  else
    free_recv(user);
}

/* ---- cancel and close: one command each for both kinds of handle ---- */

struct end_command {
  struct engine_command base;
  kvf_send *send;
  kvf_recv *recv;
  bool closing;
};

static void run_end(kvf_engine *engine, struct engine_command *base) {
  struct end_command *command = BASE_CONTAINER(base, struct end_command, base);
  kvf_send *send = command->send;
  kvf_recv *recv = command->recv;
  bool live = send ? send->transfer != NULL : recv->transfer != NULL;
  if (live) {
    kvf_error *reason = BASE_ERROR(KVF_CANCELLED, NULL, command->closing ? "the handle was closed" : "the room was cancelled");
    base_error_add(reason, "origin", "%s", engine->config.label);
    if (command->closing && send) send->free_at_end = true;
    if (command->closing && recv) recv->free_at_end = true;
    if (send)
      transfer_send_cancel(send->transfer, reason);
    else
      transfer_recv_cancel(recv->transfer, reason);
  } else if (command->closing) {
    base_free(send);
    if (recv) free_recv(recv);
  }
  base_free(command);
}

static kvf_status post_end(kvf_engine *engine, kvf_send *send, kvf_recv *recv, bool closing, kvf_error **error_out) {
  struct end_command *command = base_calloc(1, sizeof *command);
  if (!command) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a command"), error_out);
  *command = (struct end_command){.base.run = run_end, .send = send, .recv = recv, .closing = closing};
  engine_post(engine, &command->base);
  return KVF_OK;
}

kvf_status engine_send_cancel(kvf_send *send, kvf_error **error_out) {
  if (engine_is_closed(send->engine)) return base_error_give(BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed"), error_out);
  return post_end(send->engine, send, NULL, false, error_out);
}

kvf_status engine_recv_cancel(kvf_recv *recv, kvf_error **error_out) {
  if (engine_is_closed(recv->engine)) return base_error_give(BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed"), error_out);
  return post_end(recv->engine, NULL, recv, false, error_out);
}

/* True when the engine is closed: then no thread but the caller's knows the handle any more. */
static bool leave(kvf_engine *engine, kvf_send *send, kvf_recv *recv) {
  pthread_mutex_lock(&engine->lock);
  bool dead = engine->closed;
  if (send) send->closed = true;
  if (recv) recv->closed = true;
  engine_events_forget(engine, send, recv);
  pthread_mutex_unlock(&engine->lock);
  return dead;
}

void engine_send_close(kvf_send *send) {
  kvf_engine *engine = send->engine;
  if (leave(engine, send, NULL))
    base_free(send);
  else
    post_end(engine, send, NULL, true, NULL);
  engine_release(engine);
}

void engine_recv_close(kvf_recv *recv) {
  kvf_engine *engine = recv->engine;
  if (leave(engine, NULL, recv))
    free_recv(recv);
  else
    post_end(engine, NULL, recv, true, NULL);
  engine_release(engine);
}

kvf_status engine_recv_aux(const kvf_recv *recv, const void **aux_out, uint64_t *aux_bytes_out, kvf_error **error_out) {
  pthread_mutex_lock(&recv->engine->lock);
  bool ready = recv->aux_ready;
  pthread_mutex_unlock(&recv->engine->lock);
  if (!ready) return base_error_give(BASE_ERROR(KVF_NOT_READY, NULL, "the room has not ended well"), error_out);
  *aux_out = recv->aux;
  *aux_bytes_out = recv->aux_bytes;
  return KVF_OK;
}
