/* The control plane: authenticated sessions over TCP, one per pair of ranks, on the engine's libuv loop.
 *
 *   connect ─┐
 *            ├─ HELLO ⇄ ─ version ─ AUTH ⇄ (when a secret is set) ─→ session_up … messages … session_down
 *   accept ──┘  before that, nothing larger than WIRE_PAYLOAD_UNPROVEN_BYTES is read and the number of sessions is bounded
 *
 * Above it, the engine agrees on layouts and calls control_session_settled; until then the handshake deadline runs. A session that
 * hears nothing for heartbeat_ns sends PING; after five unanswered, four intervals, it is down. A dial keeps one session to an address alive: it
 * reconnects with doubling, jittered backoff (first 50 ms, at most 1 s) until closed or stopped. All calls and callbacks on the
 * loop's thread. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <uv.h>

#include "base/log.h"
#include "wire/message.h"

struct control;
struct control_session;
struct control_dial;

struct control_callbacks {
  void *context;
  /* Version agreed and, with a secret, both sides proven. @p dial is NULL for an accepted session. @p hello borrows. */
  void (*session_up)(void *context, struct control_session *session, struct control_dial *dial, const struct wire_hello *hello);
  /* Every message but HELLO, AUTH, PING and PONG; also a REFUSE, which a peer sends before it closes (the handshake deadline of an
   * unsettled session, a malformed frame, or its own engine). Returning an error closes the session with it (the callee gives it
   * away) after sending what is queued, but sends no REFUSE of its own. */
  kvf_error *(*session_message)(void *context, struct control_session *session, uint8_t type, const uint8_t *payload,
                                size_t payload_bytes);
  /* Once for each session that was up; the session is freed after the call. @p error is borrowed and never NULL. */
  void (*session_down)(void *context, struct control_session *session, const kvf_error *error);
  /* An attempt of a dial ended before session_up. @p error is borrowed. The dial goes on by itself, unless it was refused for
   * AUTH_FAILED, INCOMPATIBLE (no common version) or WRONG_PEER: then @p stopped is true. */
  void (*dial_failed)(void *context, struct control_dial *dial, const kvf_error *error, bool stopped);
};

struct control_options {
  const char *listen; /* "host:port" */
  const char *label;
  const char *secret; /* NULL: none; an empty one is refused */
  uint8_t incarnation[WIRE_INCARNATION_BYTES];
  uint64_t capabilities;
  uint64_t handshake_ns;   /* 0 = 5 s */
  uint64_t heartbeat_ns;   /* 0 = 200 ms */
  uint32_t session_limit;  /* accepted sessions in all; 0 = 4096 */
  uint32_t unproven_limit; /* accepted sessions that are not up yet; 0 = 512 */
  const char *fault;       /* faults to inject, see fault.h; NULL: none */
  struct base_log log;
  struct control_callbacks callbacks;
};

/* Binds and listens at once; blocks while a name is resolved. Errors: BAD_ADDRESS, INVALID (empty secret, faults), SYSTEM (bind: fields
 * address, errno), NO_MEMORY. */
kvf_status control_open(uv_loop_t *loop, const struct control_options *options, struct control **control_out,
                        kvf_error **error_out);
/* Close everything; no callbacks any more. What is queued is sent for at most 100 ms. The loop must run until its handles are
 * closed (a name lookup under way can delay that, it cannot be interrupted); then @p closed is called and control is freed. */
void control_close(struct control *control, void (*closed)(void *context), void *context);
/* As bound, "127.0.0.1:40123" or "[::1]:40123". */
const char *control_address(const struct control *control);
/* Bytes sent and received, sessions refused, messages refused. */
struct control_totals {
  uint64_t bytes_sent, bytes_received, sessions_accepted, sessions_refused, heartbeats_missed;
};
void control_totals_get(const struct control *control, struct control_totals *totals_out);

/* Names are resolved asynchronously; @p tag comes back by control_dial_tag. Errors: BAD_ADDRESS, NO_MEMORY. */
kvf_status control_dial_open(struct control *control, const char *address, void *tag, struct control_dial **dial_out,
                             kvf_error **error_out);
void *control_dial_tag(const struct control_dial *dial);
/* Closes its session too, without session_down. */
void control_dial_close(struct control_dial *dial);
/* No further attempts after the current session. */
void control_dial_stop(struct control_dial *dial);

/* Queue whole frames, as wire_…_encode made them; they are copied. Never blocks. A session whose queue grows over 64 MiB goes down
 * with BACKPRESSURE. */
void control_session_send(struct control_session *session, const uint8_t *frames, size_t length_bytes);
/* The layouts agree: the handshake deadline ends. */
void control_session_settled(struct control_session *session);
/* Flush what is queued for at most 100 ms, then close. No session_down follows. */
void control_session_close(struct control_session *session);
void control_session_set_tag(struct control_session *session, void *tag);
void *control_session_tag(const struct control_session *session);
/* How long nothing was heard of a peer that has left a PING unanswered; 0: it answers. */
uint64_t control_session_silence_ns(const struct control_session *session);
/* The remote address as text. */
const char *control_session_address(const struct control_session *session);
/* The local address of this connection as text (the route towards that peer). */
const char *control_session_local_address(const struct control_session *session);

#endif
