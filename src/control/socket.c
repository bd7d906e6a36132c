/* See socket.h: every system call on a control socket but send and recv. */
#include "control/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void set_flag(int fd, int level, int name, int value) {
  /* Tuning only: a socket without it still works. */
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

static int open_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void tune(int fd) {
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* NULL, or the call that failed; errno says why. */
static const char *bind_and_listen(int fd, const struct addrinfo *address) {
  /* A restarted process takes its port back while old connections are in TIME_WAIT; two live listeners still collide. */
  set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->ai_family == AF_INET6) set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, address->ai_addr, address->ai_addrlen) != 0) return "bind";
  if (listen(fd, CONTROL_BACKLOG) != 0) return "listen";
  return NULL;
}

int control_socket_listen(const struct addrinfo *addresses, const char *text, kvf_error **error_out) {
  kvf_error *error = NULL;
  for (const struct addrinfo *address = addresses; address; address = address->ai_next) {
    int fd = open_socket(address->ai_family);
    const char *failed = fd < 0 ? "socket" : bind_and_listen(fd, address);
    if (!failed) {
      kvf_error_free(error);
      return fd;
    }
    int number = errno;
    if (fd >= 0) close(fd);
    kvf_error_free(error);
    error = base_error_add(BASE_ERROR_ERRNO(failed, number), "address", "%s", text);
  }
  base_error_give(error ? error : BASE_ERROR(KVF_BAD_ADDRESS, NULL, "%s resolves to nothing", text), error_out);
  return -1;
}

int control_socket_connect(const struct addrinfo *address, kvf_error **error_out) {
  int fd = open_socket(address->ai_family);
  if (fd < 0) {
    base_error_give(BASE_ERROR_ERRNO("socket", errno), error_out);
    return -1;
  }
  tune(fd);
  if (connect(fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS) return fd;
  int number = errno;
  close(fd);
  base_error_give(BASE_ERROR_ERRNO("connect", number), error_out);
  return -1;
}

int control_socket_accept(int listener_fd) {
  int fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) tune(fd);
  return fd;
}

int control_socket_take_error(int fd) {
  int number = 0;
  socklen_t length = sizeof number;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &length) == 0 ? number : errno;
}

void control_socket_hints(struct addrinfo *hints_out) {
  *hints_out = (struct addrinfo){.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
}

static int resolve(const struct control_host_port *address, int flags, struct addrinfo **results_out) {
  char port[8];
  snprintf(port, sizeof port, "%u", (unsigned)address->port);
  struct addrinfo hints;
  control_socket_hints(&hints);
  hints.ai_flags |= flags;
  return getaddrinfo(address->host, port, &hints, results_out);
}

void control_socket_resolve_numeric(const struct control_host_port *address, struct addrinfo **results_out) {
  *results_out = NULL;
  if (resolve(address, AI_NUMERICHOST, results_out) != 0) *results_out = NULL;
}

kvf_status control_socket_resolve(const struct control_host_port *address, struct addrinfo **results_out, kvf_error **error_out) {
  int code = resolve(address, AI_PASSIVE, results_out);
  if (code == 0) return KVF_OK;
  kvf_error *error = BASE_ERROR(KVF_BAD_ADDRESS, NULL, "the name cannot be resolved: %s", gai_strerror(code));
  return base_error_give(base_error_add(error, "host", "%s", address->host), error_out);
}

void control_socket_text(const struct sockaddr *address, socklen_t length, char text[CONTROL_TEXT_BYTES]) {
  char host[CONTROL_TEXT_BYTES], port[8];
  if (getnameinfo(address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    snprintf(text, CONTROL_TEXT_BYTES, "unknown");
    return;
  }
  /* An IPv4 peer of an IPv6 listener is shown as what it is. */
  const char mapped[] = "::ffff:";
  const char *shown = strncmp(host, mapped, strlen(mapped)) == 0 && strchr(host, '.') ? host + strlen(mapped) : host;
  snprintf(text, CONTROL_TEXT_BYTES, strchr(shown, ':') ? "[%s]:%s" : "%s:%s", shown, port);
}

void control_socket_local_text(int fd, char text[CONTROL_TEXT_BYTES]) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) length = 0;
  control_socket_text((struct sockaddr *)&address, length, text);
}

void control_socket_remote_text(int fd, char text[CONTROL_TEXT_BYTES]) {
  struct sockaddr_storage address = {0};
  socklen_t length = sizeof address;
  if (getpeername(fd, (struct sockaddr *)&address, &length) != 0) length = 0;
  control_socket_text((struct sockaddr *)&address, length, text);
}
