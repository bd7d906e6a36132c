/* The life of one connection and its bytes. What the frames mean is in protocol.c.
 *
 *   CONNECTING → HELLO → AUTH → UP → LINGER → CLOSED
 *
 * Every end goes through control_session_end, which tells exactly one party: session_down, the dial, or the log. Nothing is freed
 * before the loop's close callback, so any callback may close any session, also the one that is being delivered. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "control/state.h"

/* One session may not keep the loop from the others. */
enum { READS_PER_EVENT = 4 };

static void handle_event(uv_poll_t *handle, int status, int events);

static bool is_live(const struct control_session *session) {
  return session->state < CONTROL_LINGER;
}

static void watch(struct control_session *session) {
  if (session->state == CONTROL_CLOSED) return;
  int events = UV_READABLE | (session->outbox.queued_bytes ? UV_WRITABLE : 0);
  if (session->state == CONTROL_CONNECTING) events = UV_WRITABLE;
  if (events == session->poll_events) return;
  session->poll_events = events;
  uv_poll_start(&session->poll, events, handle_event);
}

static void mark_dirty(struct control_session *session) {
  if (base_list_empty(&session->dirty_node)) base_list_push_back(&session->control->dirty, &session->dirty_node);
  control_wake(session->control);
}

kvf_error *control_session_name(const struct control_session *session, kvf_error *error) {
  if (*session->peer) base_error_add(error, "peer", "%s", session->peer);
  base_error_add(error, "local", "%s", session->local);
  return base_error_add(error, "remote", "%s", session->remote);
}

static void free_session(uv_handle_t *handle) {
  struct control_session *session = handle->data;
  struct control *control = session->control;
  if (session->accepted) control->accepted_count--;
  if (session->unproven) control->unproven_count--;
  control->session_count--;
  base_list_remove(&session->node);
  base_list_remove(&session->dirty_node);
  control_inbox_fini(&session->inbox);
  control_outbox_fini(&session->outbox);
  control_detour_fini(&session->detour);
  kvf_error_free(session->doom);
  base_free(session);
  control_finish_close(control);
}

void control_session_drop(struct control_session *session) {
  if (session->state == CONTROL_CLOSED) return;
  session->state = CONTROL_CLOSED;
  session->dial = NULL;
  uv_close((uv_handle_t *)&session->poll, free_session);
  close(session->fd);
}

/* Send the rest, then half-close and read until the peer has closed too: closing over unread bytes would reset the connection and
 * could take our last words with it. */
static void linger(struct control_session *session) {
  session->state = CONTROL_LINGER;
  session->dial = NULL;
  session->deadline_ns = base_clock_ns() + CONTROL_LINGER_MS * BASE_NS_PER_MS - session->control->tick_ns;
  control_arm_coarse(session->control, session->deadline_ns);
  mark_dirty(session);
}

static void tell_end(struct control_session *session, enum control_session_state was, struct control_dial *dial, kvf_error *error) {
  struct control *control = session->control;
  if (was == CONTROL_UP) {
    if (dial) control_dial_lost(dial);
    if (!control->closing) control->options.callbacks.session_down(control->options.callbacks.context, session, error);
  } else if (dial && was == CONTROL_CONNECTING) {
    control_dial_connect_failed(dial, error);
    return;
  } else if (dial) {
    control_dial_attempt_failed(dial, error);
    return;
  } else {
    control->totals.sessions_refused++;
    control_log(control, "session refused", session->remote, error);
  }
  kvf_error_free(error);
}

void control_session_end(struct control_session *session, kvf_error *error, enum control_session_farewell farewell) {
  enum control_session_state was = session->state;
  struct control_dial *dial = session->dial;
  if (farewell == CONTROL_FAREWELL_REFUSE) control_session_refuse(session, error);
  if (farewell == CONTROL_FAREWELL_NONE)
    control_session_drop(session);
  else
    linger(session);
  tell_end(session, was, dial, error);
}

void control_session_release(struct control_session *session) {
  if (session->state == CONTROL_UP)
    linger(session);
  else if (session->state != CONTROL_LINGER)
    control_session_drop(session);
}

void control_session_doom(struct control_session *session, kvf_error *error) {
  if (session->doom)
    kvf_error_free(error);
  else
    session->doom = control_session_name(session, error);
  mark_dirty(session);
}

static void append(struct control_session *session, const uint8_t *bytes, size_t length_bytes) {
  uint64_t queued_bytes;
  if (!base_add_u64(session->outbox.queued_bytes, length_bytes, &queued_bytes) || queued_bytes > CONTROL_OUTBOX_LIMIT_BYTES) {
    kvf_error *error = BASE_ERROR(KVF_BACKPRESSURE, NULL, "the peer takes control messages too slowly");
    base_error_add(error, "queued", "%zu", session->outbox.queued_bytes);
    control_session_doom(session, base_error_add(error, "limit", "%d", CONTROL_OUTBOX_LIMIT_BYTES));
  } else if (!control_outbox_append(&session->outbox, bytes, length_bytes)) {
    control_session_doom(session, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to queue %zu bytes", length_bytes));
  }
  mark_dirty(session);
}

void control_session_queue(struct control_session *session, const uint8_t *bytes, size_t length_bytes) {
  if (session->doom) return;
  if (session->control->fault.rule_count)
    control_detour_take(session, CONTROL_OUT, bytes, length_bytes);
  else
    append(session, bytes, length_bytes);
}

void control_session_pass(struct control_session *session, enum control_direction direction, const uint8_t *frame, size_t length_bytes) {
  if (session->state == CONTROL_CLOSED || session->doom) return;
  if (direction == CONTROL_OUT)
    append(session, frame, length_bytes);
  else if (is_live(session))
    control_session_frame(session, &(struct control_inbox_frame){frame[WIRE_FRAME_TYPE_OFFSET], frame + WIRE_FRAME_BYTES, length_bytes - WIRE_FRAME_BYTES});
}

/* Reading. */

static void note_heard(struct control_session *session) {
  session->heard_ns = base_clock_ns();
  session->pings_unanswered = 0;
  session->ping_due_ns = session->heard_ns + control_session_patience_ns(session);
}

static void end_by_reading(struct control_session *session, kvf_error *cause) {
  if (session->state == CONTROL_LINGER) {
    kvf_error_free(cause);
    control_session_drop(session);
    return;
  }
  if (!cause && session->write_error) cause = BASE_ERROR_ERRNO("sendmsg", session->write_error);
  bool was_up = session->state == CONTROL_UP;
  kvf_error *error = was_up ? BASE_ERROR(KVF_PEER_LOST, cause, "the connection was closed by the other side")
                            : BASE_ERROR(KVF_UNREACHABLE, cause, "the other side closed the connection during the handshake");
  if (!was_up) base_error_add(error, "waiting_for", "%s", control_session_waiting_for(session));
  if (session->inbox.partial_bytes) base_error_add(error, "unfinished_frame_bytes", "%zu", session->inbox.partial_bytes);
  control_session_end(session, control_session_name(session, error), CONTROL_FAREWELL_NONE);
}

static void take_frames(struct control_session *session, size_t length_bytes) {
  struct control_inbox_cursor cursor = {session->control->read_bytes, length_bytes};
  while (is_live(session)) {
    struct control_inbox_frame frame;
    bool found;
    kvf_error *error = NULL;
    uint32_t limit_bytes = session->state == CONTROL_UP ? WIRE_PAYLOAD_LIMIT_BYTES : WIRE_PAYLOAD_UNPROVEN_BYTES;
    if (control_inbox_next(&session->inbox, &cursor, limit_bytes, &frame, &found, &error) != KVF_OK) {
      control_session_end(session, control_session_name(session, error), CONTROL_FAREWELL_REFUSE);
      return;
    }
    if (!found) return;
    /* A frame's head lies before its payload, wherever that is. */
    if (session->control->fault.rule_count)
      control_detour_take(session, CONTROL_IN, frame.payload - WIRE_FRAME_BYTES, WIRE_FRAME_BYTES + frame.payload_bytes);
    else
      control_session_frame(session, &frame);
  }
}

void control_session_read(struct control_session *session) {
  struct control *control = session->control;
  for (int i = 0; i < READS_PER_EVENT && session->state != CONTROL_CLOSED; i++) {
    ssize_t length = recv(session->fd, control->read_bytes, CONTROL_READ_BYTES, MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (length <= 0) {
      end_by_reading(session, length < 0 ? BASE_ERROR_ERRNO("recv", errno) : NULL);
      return;
    }
    control->totals.bytes_received += (uint64_t)length;
    note_heard(session);
    take_frames(session, (size_t)length);
    if (length < CONTROL_READ_BYTES) return;
  }
}

/* Writing. */

static void flush(struct control_session *session) {
  int number = control_outbox_flush(&session->outbox, session->fd, &session->control->totals.bytes_sent);
  if (number != 0) {
    /* The other side is gone, but its reason may lie unread before us. */
    session->write_error = number;
    control_session_read(session);
    if (session->state != CONTROL_CLOSED) end_by_reading(session, NULL);
    return;
  }
  if (session->state == CONTROL_LINGER && !session->outbox.queued_bytes && !session->write_shut) {
    session->write_shut = true;
    shutdown(session->fd, SHUT_WR);
  }
  watch(session);
}

void control_session_work(struct control_session *session) {
  if (session->doom && is_live(session)) {
    kvf_error *error = session->doom;
    session->doom = NULL;
    control_session_end(session, error, CONTROL_FAREWELL_NONE);
  } else if (session->state != CONTROL_CLOSED) {
    flush(session);
  }
}

/* Connecting and events. */

static void finish_connect(struct control_session *session) {
  int number = control_socket_take_error(session->fd);
  if (number != 0) {
    control_session_end(session, control_session_name(session, BASE_ERROR_ERRNO("connect", number)), CONTROL_FAREWELL_NONE);
    return;
  }
  control_socket_local_text(session->fd, session->local);
  session->state = CONTROL_HELLO;
  session->deadline_ns = session->dial->deadline_ns;
  control_session_greet(session);
}

static void handle_event(uv_poll_t *handle, int status, int events) {
  struct control_session *session = handle->data;
  if (session->state == CONTROL_CLOSED) return;
  if (status < 0) {
    /* libuv stops a handle whose socket has an error; what the error is, reading will tell. */
    session->poll_events = 0;
    events = UV_READABLE;
  }
  if (session->state == CONTROL_CONNECTING)
    finish_connect(session);
  else if (events & UV_READABLE)
    control_session_read(session);
  if (session->state > CONTROL_CONNECTING && session->state < CONTROL_CLOSED && (events & UV_WRITABLE)) flush(session);
  watch(session);
}

/* Takes @p fd over. */
static struct control_session *create(struct control *control, int fd, enum control_session_state state, kvf_error **error_out) {
  struct control_session *session = base_calloc(1, sizeof *session);
  int code = session ? uv_poll_init(control->loop, &session->poll, fd) : UV_ENOMEM;
  if (code != 0) {
    base_free(session);
    close(fd);
    base_error_give(BASE_ERROR_ERRNO("uv_poll_init", -code), error_out);
    return NULL;
  }
  session->control = control;
  session->fd = fd;
  session->state = state;
  session->poll.data = session;
  base_list_init(&session->dirty_node);
  control_outbox_init(&session->outbox);
  control_detour_init(&session->detour);
  base_list_push_back(&control->sessions, &session->node);
  control->session_count++;
  return session;
}

kvf_status control_session_connect(struct control_dial *dial, const struct addrinfo *address, uint64_t deadline_ns,
                                   struct control_session **session_out, kvf_error **error_out) {
  kvf_error *error = NULL;
  int fd = control_socket_connect(address, &error);
  struct control_session *session = fd >= 0 ? create(dial->control, fd, CONTROL_CONNECTING, &error) : NULL;
  if (!session) {
    char remote[CONTROL_TEXT_BYTES];
    control_socket_text(address->ai_addr, address->ai_addrlen, remote);
    return base_error_give(base_error_add(error, "remote", "%s", remote), error_out);
  }
  session->dial = dial;
  control_socket_text(address->ai_addr, address->ai_addrlen, session->remote);
  control_socket_local_text(fd, session->local);
  session->deadline_ns = deadline_ns;
  control_arm_coarse(dial->control, deadline_ns);
  watch(session);
  *session_out = session;
  return KVF_OK;
}

kvf_status control_session_accept(struct control *control, int fd, kvf_error **error_out) {
  struct control_session *session = create(control, fd, CONTROL_HELLO, error_out);
  if (!session) return KVF_SYSTEM;
  session->accepted = session->unproven = true;
  control->accepted_count++;
  control->unproven_count++;
  control_socket_local_text(fd, session->local);
  control_socket_remote_text(fd, session->remote);
  session->deadline_ns = base_clock_ns() + control->options.handshake_ns;
  control_arm_coarse(control, session->deadline_ns);
  control_session_greet(session);
  watch(session);
  return KVF_OK;
}

/* Time. */

static void expire(struct control_session *session) {
  if (session->state == CONTROL_LINGER) {
    control_session_drop(session);
    return;
  }
  kvf_error *error = BASE_ERROR(KVF_TIMEOUT, NULL, "the handshake was not finished in time");
  base_error_add(error, "waiting_for", "%s", control_session_waiting_for(session));
  control_session_end(session, control_session_name(session, error),
                      session->state == CONTROL_CONNECTING ? CONTROL_FAREWELL_NONE : CONTROL_FAREWELL_REFUSE);
}

void control_session_tick(struct control_session *session, uint64_t now_ns) {
  if (session->state == CONTROL_CLOSED) return;
  control_detour_tick(session, now_ns);
  if (session->state == CONTROL_CLOSED) return;
  if (session->deadline_ns && now_ns >= session->deadline_ns)
    expire(session);
  else if (session->state == CONTROL_UP && now_ns >= session->ping_due_ns)
    control_session_heartbeat(session, now_ns);
}

uint64_t control_session_due(const struct control_session *session) {
  if (session->state == CONTROL_CLOSED) return 0;
  uint64_t held_ns = control_detour_due(&session->detour), due_ns = session->deadline_ns;
  if (session->state == CONTROL_UP) due_ns = due_ns ? base_min_u64(due_ns, session->ping_due_ns) : session->ping_due_ns;
  return held_ns && due_ns ? base_min_u64(held_ns, due_ns) : held_ns + due_ns;
}

/* The public calls. */

uint64_t control_session_silence_ns(const struct control_session *session) {
  bool asked_in_vain = session->state == CONTROL_UP && session->pings_unanswered >= CONTROL_PINGS_SUSPECT;
  return asked_in_vain ? base_clock_ns() - session->heard_ns : 0;
}

void control_session_send(struct control_session *session, const uint8_t *frames, size_t length_bytes) {
  if (session->state == CONTROL_UP && length_bytes) control_session_queue(session, frames, length_bytes);
}

void control_session_settled(struct control_session *session) {
  if (session->state != CONTROL_UP) return;
  session->deadline_ns = 0;
  if (session->dial) control_dial_settled(session->dial);
}

void control_session_close(struct control_session *session) {
  if (!session || !is_live(session)) return;
  struct control_dial *dial = session->dial;
  control_session_release(session);
  if (dial) control_dial_lost(dial);
}

void control_session_set_tag(struct control_session *session, void *tag) {
  session->tag = tag;
}
void *control_session_tag(const struct control_session *session) {
  return session->tag;
}
const char *control_session_address(const struct control_session *session) {
  return session->remote;
}
const char *control_session_local_address(const struct control_session *session) {
  return session->local;
}
