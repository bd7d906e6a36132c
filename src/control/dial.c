/* Dials: resolve, try each address in order, and after a failure or a lost session try again with doubling, jittered backoff.
 *
 *   due ──→ [lookup] ──→ connect address 1, 2, … ──→ handshake ──→ up ──→ lost ─┐
 *    ↑          └───────────────┴─────────────────────────┴── dial_failed ──────┤
 *    └───────────────────────────────── backoff ────────────────────────────────┘
 *
 * A name lookup runs in libuv's thread pool and may outlive its attempt and its dial. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/random.h"
#include "control/state.h"

#define BACKOFF_FIRST_NS (50 * BASE_NS_PER_MS)
#define BACKOFF_MOST_NS BASE_NS_PER_S

struct control_lookup {
  uv_getaddrinfo_t request;
  struct control *control;
  struct control_dial *dial; /* NULL: closed meanwhile */
};

static void forget_attempt(struct control_dial *dial) {
  if (dial->results) freeaddrinfo(dial->results);
  dial->results = dial->next_result = NULL;
  kvf_error_free(dial->last_error);
  dial->last_error = NULL;
  dial->deadline_ns = 0;
}

/* Half fixed, half random: a crowd that lost the same peer does not come back in step. */
static void plan_next(struct control_dial *dial) {
  if (dial->stopped || dial->closed) return;
  uint64_t half_ns = dial->backoff_ns / 2;
  dial->due_ns = base_clock_ns() + half_ns + base_random_next(&dial->control->random_state) % half_ns;
  dial->backoff_ns = base_min_u64(2 * dial->backoff_ns, BACKOFF_MOST_NS);
  control_arm(dial->control, dial->due_ns);
}

static bool is_final(kvf_status status) {
  return status == KVF_AUTH_FAILED || status == KVF_INCOMPATIBLE || status == KVF_WRONG_PEER;
}

void control_dial_attempt_failed(struct control_dial *dial, kvf_error *error) {
  struct control *control = dial->control;
  dial->session = NULL;
  forget_attempt(dial);
  dial->stopped = dial->stopped || is_final(kvf_error_status(error));
  base_error_add(error, "attempt", "%u", dial->attempt);
  plan_next(dial);
  if (!dial->closed && !control->closing)
    control->options.callbacks.dial_failed(control->options.callbacks.context, dial, error, dial->stopped);
  kvf_error_free(error);
}

static kvf_error *name_unreachable(const struct control_dial *dial, kvf_error *cause) {
  kvf_error *error = BASE_ERROR(KVF_UNREACHABLE, cause, "no connection to %s", dial->text);
  base_error_add(error, "local", "%s", *dial->last_local ? dial->last_local : dial->control->address);
  return base_error_add(error, "remote", "%s", dial->text);
}

/* Each address gets its share of what is left, so that a silent first one does not use up the attempt. */
static uint64_t share_deadline(const struct control_dial *dial, uint64_t now_ns) {
  uint64_t left_ns = dial->deadline_ns > now_ns ? dial->deadline_ns - now_ns : 0, count = 1;
  for (const struct addrinfo *result = dial->next_result; result; result = result->ai_next) count++;
  return now_ns + left_ns / count;
}

static void try_next_result(struct control_dial *dial) {
  while (dial->next_result) {
    const struct addrinfo *result = dial->next_result;
    dial->next_result = result->ai_next;
    kvf_error *error = NULL;
    if (control_session_connect(dial, result, share_deadline(dial, base_clock_ns()), &dial->session, &error) == KVF_OK) return;
    kvf_error_free(dial->last_error);
    dial->last_error = error;
  }
  kvf_error *cause = dial->last_error;
  dial->last_error = NULL;
  control_dial_attempt_failed(dial, name_unreachable(dial, cause));
}

void control_dial_connect_failed(struct control_dial *dial, kvf_error *error) {
  snprintf(dial->last_local, sizeof dial->last_local, "%s", dial->session->local);
  dial->session = NULL;
  kvf_error_free(dial->last_error);
  dial->last_error = error;
  try_next_result(dial);
}

static void finish_lookup(uv_getaddrinfo_t *request, int status, struct addrinfo *results) {
  struct control_lookup *lookup = BASE_CONTAINER(request, struct control_lookup, request);
  struct control_dial *dial = lookup->dial;
  struct control *control = lookup->control;
  base_free(lookup);
  control->lookup_count--;
  bool wanted = dial && dial->deadline_ns && !dial->closed;
  if (dial) dial->lookup = NULL;
  if (!wanted) {
    if (results) uv_freeaddrinfo(results);
    control_finish_close(control);
    return;
  }
  if (status == 0) {
    dial->results = dial->next_result = results;
    try_next_result(dial);
    return;
  }
  kvf_error *cause = BASE_ERROR(KVF_SYSTEM, NULL, "getaddrinfo: %s", uv_strerror(status));
  base_error_add(cause, "host", "%s", dial->address.host);
  control_dial_attempt_failed(dial, name_unreachable(dial, base_error_add(cause, "uv_status", "%d", status)));
}

static int start_lookup(struct control_dial *dial) {
  if (dial->lookup) return 0; /* the one an earlier attempt gave up on will do */
  struct control_lookup *lookup = base_calloc(1, sizeof *lookup);
  if (!lookup) return UV_ENOMEM;
  lookup->control = dial->control;
  lookup->dial = dial;
  char port[8];
  snprintf(port, sizeof port, "%u", (unsigned)dial->address.port);
  struct addrinfo hints;
  control_socket_hints(&hints);
  int code = uv_getaddrinfo(dial->control->loop, &lookup->request, finish_lookup, dial->address.host, port, &hints);
  if (code != 0) {
    base_free(lookup);
    return code;
  }
  dial->lookup = lookup;
  dial->control->lookup_count++;
  return 0;
}

static void start_attempt(struct control_dial *dial, uint64_t now_ns) {
  dial->due_ns = 0;
  dial->attempt++;
  dial->deadline_ns = now_ns + dial->control->options.handshake_ns;
  dial->last_local[0] = '\0';
  control_socket_resolve_numeric(&dial->address, &dial->results);
  dial->next_result = dial->results;
  if (dial->results) {
    try_next_result(dial);
    return;
  }
  int code = start_lookup(dial);
  if (code != 0) {
    kvf_error *cause = BASE_ERROR(KVF_SYSTEM, NULL, "uv_getaddrinfo: %s", uv_strerror(code));
    control_dial_attempt_failed(dial, name_unreachable(dial, cause));
    return;
  }
  control_arm_coarse(dial->control, dial->deadline_ns);
}

static bool is_looking_up(const struct control_dial *dial) {
  return dial->lookup && dial->deadline_ns && !dial->session;
}

void control_dial_tick(struct control_dial *dial, uint64_t now_ns) {
  if (dial->closed) return;
  if (dial->due_ns && now_ns >= dial->due_ns) {
    start_attempt(dial, now_ns);
  } else if (is_looking_up(dial) && now_ns >= dial->deadline_ns) {
    kvf_error *cause = BASE_ERROR(KVF_TIMEOUT, NULL, "the name was not resolved in time");
    control_dial_attempt_failed(dial, name_unreachable(dial, base_error_add(cause, "waiting_for", "name lookup")));
  }
}

uint64_t control_dial_due(const struct control_dial *dial) {
  if (dial->closed) return 0;
  return is_looking_up(dial) ? dial->deadline_ns : dial->due_ns;
}

void control_dial_succeeded(struct control_dial *dial) {
  forget_attempt(dial);
  dial->attempt = 0;
}

void control_dial_settled(struct control_dial *dial) {
  dial->backoff_ns = BACKOFF_FIRST_NS;
}

void control_dial_lost(struct control_dial *dial) {
  dial->session = NULL;
  plan_next(dial);
}

kvf_status control_dial_open(struct control *control, const char *address, void *tag, struct control_dial **dial_out,
                             kvf_error **error_out) {
  struct control_host_port parsed;
  kvf_status status = control_address_parse(address, false, &parsed, error_out);
  if (status != KVF_OK) return status;
  struct control_dial *dial = base_calloc(1, sizeof *dial);
  if (!dial) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a dial"), error_out);
  dial->control = control;
  dial->tag = tag;
  dial->address = parsed;
  control_address_format(&parsed, dial->text, sizeof dial->text);
  dial->backoff_ns = BACKOFF_FIRST_NS;
  base_list_push_back(&control->dials, &dial->node);
  dial->due_ns = base_clock_ns();
  control_arm(control, dial->due_ns);
  *dial_out = dial;
  return KVF_OK;
}

void *control_dial_tag(const struct control_dial *dial) {
  return dial->tag;
}

void control_dial_stop(struct control_dial *dial) {
  dial->stopped = true;
  dial->due_ns = 0;
}

void control_dial_close(struct control_dial *dial) {
  if (!dial || dial->closed) return;
  dial->closed = true;
  dial->due_ns = 0;
  if (dial->lookup) {
    dial->lookup->dial = NULL;
    uv_cancel((uv_req_t *)&dial->lookup->request);
  }
  dial->lookup = NULL;
  struct control_session *session = dial->session;
  dial->session = NULL;
  if (session) control_session_release(session);
  control_wake(dial->control);
}

void control_dial_free(struct control_dial *dial) {
  forget_attempt(dial);
  base_list_remove(&dial->node);
  base_free(dial);
}
