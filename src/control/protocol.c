/* What the frames of a session mean to this room: HELLO, AUTH, REFUSE before a session is up, PING and PONG while it is; all else
 * is for whoever is above.
 *
 *   dialer                         acceptor
 *     HELLO ───────────────────────→
 *     ←──────────────────────── HELLO     each checks versions, identities, whether both have a secret
 *     AUTH(proof) ─────────────────→      only with a secret
 *     ←────────────────── AUTH(proof)     only after the dialer's proof was right: no oracle for strangers */
#include <kvferry/version.h>

#include <string.h>

#include "base/checked.h"
#include "base/random.h"
#include "control/handshake.h"
#include "control/state.h"

#define TEXT_OF(value) #value
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

static const char library_version[] = VERSION_TEXT(KVF_VERSION_MAJOR, KVF_VERSION_MINOR, KVF_VERSION_PATCH);

static struct wire_buffer *start_frame(struct control_session *session) {
  struct wire_buffer *encoder = &session->control->encoder;
  encoder->length = 0;
  encoder->failed = false;
  return encoder;
}

static void queue_frame(struct control_session *session) {
  const struct wire_buffer *encoder = &session->control->encoder;
  if (encoder->failed)
    control_session_doom(session, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a control message"));
  else
    control_session_queue(session, encoder->bytes, encoder->length);
}

const char *control_session_waiting_for(const struct control_session *session) {
  static const char *const names[] = {"connect", "HELLO", "AUTH", "layouts", "", ""};
  return names[session->state];
}

void control_session_greet(struct control_session *session) {
  const struct control_options *options = &session->control->options;
  struct wire_hello *mine = &session->mine;
  *mine = (struct wire_hello){
      .version_min = WIRE_VERSION_MIN,
      .version_max = WIRE_VERSION_MAX,
      .capabilities = options->capabilities,
      .has_secret = options->secret != NULL,
      .heartbeat_ns = options->heartbeat_ns,
      .label = {options->label, (uint32_t)base_min_u64(strlen(options->label), WIRE_LABEL_LIMIT_BYTES)},
      .library = {library_version, sizeof library_version - 1},
  };
  memcpy(mine->incarnation, options->incarnation, sizeof mine->incarnation);
  int number = base_random_fill(mine->nonce, sizeof mine->nonce);
  if (number != 0) {
    control_session_doom(session, BASE_ERROR_ERRNO("getrandom", number));
    return;
  }
  wire_hello_encode(start_frame(session), mine);
  queue_frame(session);
}

void control_session_refuse(struct control_session *session, const kvf_error *error) {
  kvf_error *copy = base_error_copy(error);
  struct wire_refuse refuse = {.error = copy};
  wire_refuse_encode(start_frame(session), &refuse);
  queue_frame(session);
  kvf_error_free(copy);
}

static void end(struct control_session *session, kvf_error *error, enum control_session_farewell farewell) {
  control_session_end(session, control_session_name(session, error), farewell);
}

static void rise(struct control_session *session) {
  struct control *control = session->control;
  session->state = CONTROL_UP;
  if (session->unproven) control->unproven_count--;
  session->unproven = false;
  session->ping_due_ns = session->heard_ns + control_session_patience_ns(session);
  control_arm_coarse(control, session->ping_due_ns);
  if (session->dial) control_dial_succeeded(session->dial);
  control->options.callbacks.session_up(control->options.callbacks.context, session, session->dial, &session->yours);
}

static bool prove(const struct control_session *session, bool by_dialer, uint8_t mac_out[WIRE_MAC_BYTES]) {
  const struct wire_hello *dialer = session->accepted ? &session->yours : &session->mine;
  const struct wire_hello *acceptor = session->accepted ? &session->mine : &session->yours;
  return control_handshake_prove(session->control->options.secret, by_dialer, dialer, acceptor, mac_out);
}

static void send_proof(struct control_session *session) {
  struct wire_auth auth;
  if (!prove(session, !session->accepted, auth.mac)) {
    control_session_doom(session, BASE_ERROR(KVF_INTERNAL, NULL, "HMAC-SHA256 is not to be had from libcrypto"));
    return;
  }
  wire_auth_encode(start_frame(session), &auth);
  queue_frame(session);
}

/* The decoded texts borrow from the read: keep copies. */
static void keep_hello(struct control_session *session, const struct wire_hello *hello) {
  struct wire_hello *yours = &session->yours;
  *yours = *hello;
  yours->label.length = (uint32_t)base_min_u64(hello->label.length, sizeof session->label);
  yours->library.length = (uint32_t)base_min_u64(hello->library.length, sizeof session->library);
  if (yours->label.length) memcpy(session->label, hello->label.text, yours->label.length);
  if (yours->library.length) memcpy(session->library, hello->library.text, yours->library.length);
  yours->label.text = session->label;
  yours->library.text = session->library;
  control_handshake_clean(yours->label, session->peer, sizeof session->peer);
}

static void take_hello(struct control_session *session, const struct control_inbox_frame *frame) {
  struct wire_hello hello;
  kvf_error *error = NULL;
  if (wire_hello_decode(frame->payload, frame->payload_bytes, &session->control->scratch, &hello, &error) == KVF_OK) {
    keep_hello(session, &hello);
    error = control_handshake_check(&session->mine, &hello);
  }
  if (error) {
    end(session, error, CONTROL_FAREWELL_REFUSE);
  } else if (!session->mine.has_secret) {
    rise(session);
  } else {
    session->state = CONTROL_AUTH;
    if (!session->accepted) send_proof(session);
  }
}

static void take_auth(struct control_session *session, const struct control_inbox_frame *frame) {
  struct wire_auth auth;
  uint8_t right[WIRE_MAC_BYTES];
  kvf_error *error = NULL;
  if (wire_auth_decode(frame->payload, frame->payload_bytes, &session->control->scratch, &auth, &error) == KVF_OK) {
    if (!prove(session, session->accepted, right))
      error = BASE_ERROR(KVF_INTERNAL, NULL, "HMAC-SHA256 is not to be had from libcrypto");
    else if (!control_handshake_equal(right, auth.mac))
      error = BASE_ERROR(KVF_AUTH_FAILED, NULL, "the other side holds another secret");
  }
  if (error) {
    end(session, error, CONTROL_FAREWELL_REFUSE);
    return;
  }
  if (session->accepted) send_proof(session);
  rise(session);
}

/* The peer's reason becomes ours, under a line that says where it was said. */
static void take_refuse(struct control_session *session, const struct control_inbox_frame *frame) {
  struct wire_refuse refuse = {0};
  kvf_error *error = NULL;
  if (wire_refuse_decode(frame->payload, frame->payload_bytes, &session->control->scratch, &refuse, &error) == KVF_OK)
    error = BASE_ERROR(kvf_error_status(refuse.error), refuse.error, "refused by the other side");
  end(session, error, CONTROL_FAREWELL_FLUSH);
}

static void refuse_frame(struct control_session *session, uint8_t type) {
  kvf_error *error = BASE_ERROR(KVF_PROTOCOL, NULL, "%s is not allowed now", wire_type_name(type));
  end(session, base_error_add(error, "waiting_for", "%s", control_session_waiting_for(session)), CONTROL_FAREWELL_REFUSE);
}

static void answer_ping(struct control_session *session, const struct control_inbox_frame *frame) {
  struct wire_ping ping;
  kvf_error *error = NULL;
  if (wire_ping_decode(frame->payload, frame->payload_bytes, &session->control->scratch, &ping, &error) != KVF_OK) {
    end(session, error, CONTROL_FAREWELL_REFUSE);
    return;
  }
  wire_pong_encode(start_frame(session), &ping);
  queue_frame(session);
}

static void deliver(struct control_session *session, const struct control_inbox_frame *frame) {
  const struct control_callbacks *callbacks = &session->control->options.callbacks;
  kvf_error *error = callbacks->session_message(callbacks->context, session, frame->type, frame->payload, frame->payload_bytes);
  if (!error) return;
  if (session->state == CONTROL_UP)
    end(session, error, CONTROL_FAREWELL_FLUSH);
  else
    kvf_error_free(error); /* it also closed the session */
}

static void take_frame_when_up(struct control_session *session, const struct control_inbox_frame *frame) {
  if (frame->type == WIRE_PING)
    answer_ping(session, frame);
  else if (frame->type == WIRE_HELLO || frame->type == WIRE_AUTH)
    refuse_frame(session, frame->type);
  else if (frame->type != WIRE_PONG)
    deliver(session, frame);
}

void control_session_frame(struct control_session *session, const struct control_inbox_frame *frame) {
  if (session->state == CONTROL_UP)
    take_frame_when_up(session, frame);
  else if (frame->type == WIRE_REFUSE)
    take_refuse(session, frame);
  else if (frame->type == WIRE_HELLO && session->state == CONTROL_HELLO)
    take_hello(session, frame);
  else if (frame->type == WIRE_AUTH && session->state == CONTROL_AUTH)
    take_auth(session, frame);
  else
    refuse_frame(session, frame->type);
}

/* The accepting side waits a quarter longer for the first word. It then hears the dialer's PING, which is life too, so an idle pair
 * costs one PING and one PONG an interval and not two of each. */
uint64_t control_session_patience_ns(const struct control_session *session) {
  uint64_t heartbeat_ns = session->control->options.heartbeat_ns;
  return session->accepted ? heartbeat_ns + heartbeat_ns / 4 : heartbeat_ns;
}

/* Silence of one interval brings the first PING, the others follow after three fifths: five unanswered are four intervals, and below
 * a second by default with all rounding. Counting questions, not time, so that waking up from a stop of our own condemns nobody; and
 * since timers run before sockets are read, an answer that already lies in the socket is looked for before the verdict. */
void control_session_heartbeat(struct control_session *session, uint64_t now_ns) {
  if (session->pings_unanswered == CONTROL_PINGS_UNANSWERED) {
    control_session_read(session);
    if (session->state != CONTROL_UP || session->pings_unanswered == 0) return;
  }
  if (session->pings_unanswered) session->control->totals.heartbeats_missed++;
  if (session->pings_unanswered == CONTROL_PINGS_UNANSWERED) {
    kvf_error *error = BASE_ERROR(KVF_PEER_LOST, NULL, "the peer has stopped answering: %d heartbeats", CONTROL_PINGS_UNANSWERED);
    base_error_add(error, "silent_ms", "%llu", (unsigned long long)((now_ns - session->heard_ns) / BASE_NS_PER_MS));
    end(session, error, CONTROL_FAREWELL_NONE);
    return;
  }
  session->pings_unanswered++;
  session->ping_due_ns = now_ns + session->control->options.heartbeat_ns / 5 * 3;
  struct wire_ping ping = {.sequence = ++session->ping_sequence};
  wire_ping_encode(start_frame(session), &ping);
  queue_frame(session);
}
