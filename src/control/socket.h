/* Sockets as the control plane wants them: close-on-exec, non-blocking, without delay, and never raising SIGPIPE. libuv's own
 * streams write without MSG_NOSIGNAL, and a library must not change the signals of its host, so sessions watch plain sockets with
 * uv_poll instead. */
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

#include <netdb.h>
#include <sys/socket.h>

#include "control/address.h"

enum { CONTROL_TEXT_BYTES = 96, CONTROL_BACKLOG = 1024 };

/* Bind and listen on the first of @p addresses that takes it. The descriptor, or -1 with an error. */
int control_socket_listen(const struct addrinfo *addresses, const char *text, kvf_error **error_out);
/* Begin to connect; the socket gets writable at its end. The descriptor, or -1 with an error. */
int control_socket_connect(const struct addrinfo *address, kvf_error **error_out);
/* The next waiting connection, or -1 and errno. */
int control_socket_accept(int listener_fd);
/* What became of a connect: 0 or the errno; takes the pending error away. */
int control_socket_take_error(int fd);

/* A numeric address without asking any resolver: *results_out stays NULL for a name. Free with freeaddrinfo. */
void control_socket_resolve_numeric(const struct control_host_port *address, struct addrinfo **results_out);
/* Blocks. */
kvf_status control_socket_resolve(const struct control_host_port *address, struct addrinfo **results_out, kvf_error **error_out);
void control_socket_hints(struct addrinfo *hints_out);

void control_socket_local_text(int fd, char text[CONTROL_TEXT_BYTES]);
void control_socket_remote_text(int fd, char text[CONTROL_TEXT_BYTES]);
void control_socket_text(const struct sockaddr *address, socklen_t length, char text[CONTROL_TEXT_BYTES]);

#endif
