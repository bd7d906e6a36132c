/* The listening socket: accepts in batches, keeps to the limits, and pauses instead of spinning when descriptors run out. */
#include <errno.h>
#include <unistd.h>

#include "control/state.h"

enum { ACCEPT_BATCH = 128 };
#define ACCEPT_PAUSE_NS (100 * BASE_NS_PER_MS)

static bool is_over_limit(const struct control *control) {
  return control->accepted_count >= control->options.session_limit || control->unproven_count >= control->options.unproven_limit;
}

static void admit(struct control *control, int fd) {
  char remote[CONTROL_TEXT_BYTES];
  control_socket_remote_text(fd, remote);
  kvf_error *error = NULL;
  if (is_over_limit(control)) {
    close(fd);
    error = BASE_ERROR(KVF_RESOURCE_LIMIT, NULL, "too many sessions");
    base_error_add(error, "sessions", "%u", control->accepted_count);
    base_error_add(error, "unproven", "%u", control->unproven_count);
  } else if (control_session_accept(control, fd, &error) == KVF_OK) {
    control->totals.sessions_accepted++;
    return;
  }
  control->totals.sessions_refused++;
  control_log(control, "connection refused", remote, error);
  kvf_error_free(error);
}

static void pause_accepting(struct control *control, int number) {
  kvf_error *error = BASE_ERROR_ERRNO("accept", number);
  control_log(control, "not accepting for now", control->address, error);
  kvf_error_free(error);
  uv_poll_stop(&control->listener);
  control->accept_again_ns = base_clock_ns() + ACCEPT_PAUSE_NS;
  control_arm(control, control->accept_again_ns);
}

/* What accept reports about one connection that is already gone says nothing about the next. */
static bool is_out_of_resources(int number) {
  return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

static void accept_waiting(uv_poll_t *handle, int status, int events) {
  struct control *control = handle->data;
  for (int i = 0; i < ACCEPT_BATCH; i++) {
    int fd = control_socket_accept(control->listener_fd);
    if (fd >= 0) {
      admit(control, fd);
    } else if (is_out_of_resources(errno)) {
      pause_accepting(control, errno);
      return;
    } else if (errno == EAGAIN) {
      break;
    }
  }
  /* libuv stops a handle that it reports an error for. */
  if (status < 0) uv_poll_start(handle, UV_READABLE, accept_waiting);
}

void control_listener_resume(struct control *control, uint64_t now_ns) {
  if (!control->accept_again_ns || control->closing || now_ns < control->accept_again_ns) return;
  control->accept_again_ns = 0;
  uv_poll_start(&control->listener, UV_READABLE, accept_waiting);
}

kvf_status control_listener_open(struct control *control, kvf_error **error_out) {
  struct control_host_port address;
  kvf_status status = control_address_parse(control->options.listen, true, &address, error_out);
  if (status != KVF_OK) return status;
  struct addrinfo *results;
  status = control_socket_resolve(&address, &results, error_out);
  if (status != KVF_OK) return status;
  kvf_error *error = NULL;
  int fd = control_socket_listen(results, control->options.listen, &error);
  freeaddrinfo(results);
  if (fd < 0) return base_error_give(error, error_out);
  int code = uv_poll_init(control->loop, &control->listener, fd);
  if (code != 0) {
    close(fd);
    return base_error_give(BASE_ERROR_ERRNO("uv_poll_init", -code), error_out);
  }
  control->listener_fd = fd;
  control->listener.data = control;
  control_socket_local_text(fd, control->address);
  uv_poll_start(&control->listener, UV_READABLE, accept_waiting);
  return KVF_OK;
}
