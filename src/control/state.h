/* The room's own view of its objects. Lifetime: sessions leave control's list only in their close callback and dials only in
 * control_sweep, both run by the loop with nothing of this room on the stack, so every callback may close anything. */
#ifndef CONTROL_STATE_H
#define CONTROL_STATE_H

#include "base/clock.h"
#include "base/list.h"
#include "control/control.h"
#include "control/detour.h"
#include "control/inbox.h"
#include "control/outbox.h"
#include "control/socket.h"

enum { CONTROL_LINGER_MS = 100, CONTROL_PINGS_UNANSWERED = 5, CONTROL_PINGS_SUSPECT = 2, CONTROL_READ_BYTES = 256 << 10, CONTROL_LIBRARY_LIMIT_BYTES = 31 };

struct control {
  uv_loop_t *loop;
  struct control_options options; /* listen, label and secret are owned copies */
  char address[CONTROL_TEXT_BYTES];
  uv_poll_t listener;
  int listener_fd;
  uint64_t accept_again_ns; /* when out of descriptors: not before then; 0 = accepting */
  uv_timer_t timer;         /* one for all deadlines, heartbeats and dials */
  uint64_t timer_due_ns;    /* 0: not running */
  uint64_t tick_ns;         /* deadlines of sessions are rounded up to it, so that many share a wake-up */
  uv_idle_t work;           /* runs once before the loop sleeps when something was queued, failed or closed */
  struct base_list sessions, dials, dirty;
  uint32_t accepted_count, unproven_count, session_count, lookup_count, core_handles;
  bool closing, core_closing;
  void (*closed)(void *context);
  void *closed_context;
  struct control_totals totals;
  uint64_t random_state;
  uint64_t log_again_ns;
  uint32_t log_suppressed;
  struct control_fault fault;
  struct wire_buffer encoder; /* reused for the frames this room makes itself */
  struct wire_scratch scratch;
  uint8_t *read_bytes; /* CONTROL_READ_BYTES, shared by all sessions */
};

enum control_session_state {
  CONTROL_CONNECTING,
  CONTROL_HELLO, /* ours is sent, theirs is awaited */
  CONTROL_AUTH,  /* their HELLO is fine, their proof is awaited */
  CONTROL_UP,
  CONTROL_LINGER, /* over for everyone above; sending the rest */
  CONTROL_CLOSED  /* waits for the loop to let go of it */
};

/* What is still said to a peer when its session ends. */
enum control_session_farewell {
  CONTROL_FAREWELL_NONE,  /* it cannot hear us */
  CONTROL_FAREWELL_FLUSH, /* what is queued */
  CONTROL_FAREWELL_REFUSE /* that, and why */
};

struct control_session {
  struct base_list node, dirty_node;
  struct control *control;
  struct control_dial *dial; /* NULL: accepted, or let go by its dial */
  void *tag;
  uv_poll_t poll;
  int fd, poll_events;
  int write_error; /* errno of a failed send, until reading finds the end */
  enum control_session_state state;
  bool accepted, unproven, settled, write_shut;
  kvf_error *doom;      /* why it ends as soon as the loop comes by */
  uint64_t deadline_ns; /* of connect, handshake, settling, or lingering; 0: none */
  uint64_t heard_ns, ping_due_ns, ping_sequence;
  uint32_t pings_unanswered;
  struct wire_hello mine, yours;
  char library[CONTROL_LIBRARY_LIMIT_BYTES + 1], label[WIRE_LABEL_LIMIT_BYTES + 1]; /* what `yours` points at */
  char peer[WIRE_LABEL_LIMIT_BYTES + 1];                                            /* the label, printable */
  struct control_inbox inbox;
  struct control_outbox outbox;
  struct control_detour detour;
  char local[CONTROL_TEXT_BYTES], remote[CONTROL_TEXT_BYTES];
};

struct control_lookup;

struct control_dial {
  struct base_list node;
  struct control *control;
  void *tag;
  struct control_host_port address;
  char text[CONTROL_HOST_LIMIT_BYTES + 9];
  struct control_session *session; /* being connected or up */
  struct control_lookup *lookup;   /* under way; outlives an attempt that gave up on it */
  struct addrinfo *results, *next_result;
  kvf_error *last_error; /* of the result tried before */
  char last_local[CONTROL_TEXT_BYTES];
  uint64_t due_ns;      /* next attempt; 0: none planned */
  uint64_t deadline_ns; /* of the attempt; 0: none under way */
  uint64_t backoff_ns;
  uint32_t attempt;
  bool stopped, closed;
};

/* control.c */
void control_arm(struct control *control, uint64_t due_ns);
/* Like control_arm, rounded up to the tick. */
void control_arm_coarse(struct control *control, uint64_t due_ns);
/* Have control_run_work called before the loop sleeps. */
void control_wake(struct control *control);
void control_sweep(struct control *control);
/* Frees @p control when it is closing and nothing is left: return at once after it. */
void control_finish_close(struct control *control);
/* At most one line a second, with the number of those left out. */
void control_log(struct control *control, const char *what, const char *remote, const kvf_error *error);

/* listener.c */
kvf_status control_listener_open(struct control *control, kvf_error **error_out);
void control_listener_resume(struct control *control, uint64_t now_ns);

/* session.c */
kvf_status control_session_connect(struct control_dial *dial, const struct addrinfo *address, uint64_t deadline_ns,
                                   struct control_session **session_out, kvf_error **error_out);
/* Takes @p fd over, also when it fails. */
kvf_status control_session_accept(struct control *control, int fd, kvf_error **error_out);
/* Close without a word: nothing is flushed and nobody is told. */
void control_session_drop(struct control_session *session);
/* Let go by its dial or by control: flush, no callbacks. */
void control_session_release(struct control_session *session);
void control_session_tick(struct control_session *session, uint64_t now_ns);
/* When control_session_tick wants to be called; 0: never. */
uint64_t control_session_due(const struct control_session *session);
/* Read and deal with what has come. */
void control_session_read(struct control_session *session);
/* Doomed sessions end, queued bytes go out. */
void control_session_work(struct control_session *session);
/* @p error is consumed. */
void control_session_end(struct control_session *session, kvf_error *error, enum control_session_farewell farewell);
/* End it with @p error, which is consumed, as soon as nothing of the caller is on the stack. */
void control_session_doom(struct control_session *session, kvf_error *error);
/* Like control_session_send, in any state that has a socket. */
void control_session_queue(struct control_session *session, const uint8_t *bytes, size_t length_bytes);
/* What came through the injected faults: a frame in is dealt with, a frame out joins the queue. */
void control_session_pass(struct control_session *session, enum control_direction direction, const uint8_t *frame, size_t length_bytes);
/* Add who it was about: fields peer, local, remote. Returns @p error. */
kvf_error *control_session_name(const struct control_session *session, kvf_error *error);

/* protocol.c */
void control_session_greet(struct control_session *session);
void control_session_frame(struct control_session *session, const struct control_inbox_frame *frame);
void control_session_refuse(struct control_session *session, const kvf_error *error);
void control_session_heartbeat(struct control_session *session, uint64_t now_ns);
/* Silence before the first PING. */
uint64_t control_session_patience_ns(const struct control_session *session);
const char *control_session_waiting_for(const struct control_session *session);

/* dial.c */
void control_dial_tick(struct control_dial *dial, uint64_t now_ns);
uint64_t control_dial_due(const struct control_dial *dial);
/* The session could not be connected: the next address is tried. @p error is consumed. */
void control_dial_connect_failed(struct control_dial *dial, kvf_error *error);
/* The attempt is over. @p error is consumed. */
void control_dial_attempt_failed(struct control_dial *dial, kvf_error *error);
/* Its session came up. */
void control_dial_succeeded(struct control_dial *dial);
/* Its session is of use: the next loss starts with a short backoff again. */
void control_dial_settled(struct control_dial *dial);
/* Its session was up and is gone. */
void control_dial_lost(struct control_dial *dial);
void control_dial_free(struct control_dial *dial);

#endif
