/* The room's own structures. A connection carries pieces one way: the side that connected is the `endpoint`, the other the
 * `receiver`.
 *
 *   greeting   magic 4 | version 4 | token 8 | incarnation expected 16      endpoint → receiver, once
 *   welcome    magic 4 | answer 4 | incarnation 16                          receiver → endpoint, once
 *   piece      magic 4 | zero 4 | payload_bytes 8 | header 96 | payload …   endpoint → receiver
 *
 * All numbers little endian. Callbacks may call back into the room, so nothing is freed while events are handled: what has ended
 * waits in a list until nothing on the stack can still hold it. */
#ifndef FABRIC_TCP_INSIDE_H
#define FABRIC_TCP_INSIDE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/map.h"
#include "fabric_tcp/tcp.h"

enum {
  TCP_GREETING_BYTES = 32,
  TCP_WELCOME_BYTES = 24,
  TCP_HEAD_BYTES = 16 + FABRIC_HEADER_BYTES,
  TCP_QUEUE_LIMIT = 256,      /* accepted pieces of one endpoint; a power of two */
  TCP_IOV_LIMIT = 4096,       /* vectors of all of them; a power of two */
  TCP_STRANGER_LIMIT = 64,    /* connections that have not sent a valid greeting */
  TCP_ADDRESS_LIMIT = 8,      /* of one peer */
  TCP_BUDGET_BYTES = 1 << 20, /* moved for one connection in one turn, so that the others get theirs */
  TCP_BUDGET_PIECES = 64
};

#define TCP_GREETING_MAGIC 0x4754564bu /* "KVTG" */
#define TCP_WELCOME_MAGIC 0x5754564bu  /* "KVTW" */
#define TCP_PIECE_MAGIC 0x5054564bu    /* "KVTP" */
#define TCP_CONNECT_NS 5000000000ull   /* for connect and welcome together, and for a stranger's greeting */
#define TCP_ATTEMPT_NS 2000000000ull   /* for one of several addresses */

enum tcp_answer { TCP_ANSWER_WELCOME = 0, TCP_ANSWER_UNKNOWN_TOKEN = 1, TCP_ANSWER_WRONG_INCARNATION = 2 };

/* What epoll's pointer points to; the first member of whatever owns the descriptor. */
enum tcp_watch { TCP_WATCH_LISTENER, TCP_WATCH_TIMER, TCP_WATCH_ENDPOINT, TCP_WATCH_RECEIVER };

struct tcp_address {
  struct sockaddr_storage socket;
  socklen_t length;
};

struct tcp_addresses {
  struct tcp_address entries[TCP_ADDRESS_LIMIT];
  uint32_t count;
  uint8_t incarnation[16];
};

struct tcp_fabric {
  struct fabric base;
  struct fabric_callbacks callbacks;
  struct base_log log;
  uint64_t user_timeout_ms;
  enum tcp_watch listener_watch, timer_watch;
  int epoll_fd, listen_fd, timer_fd;
  bool ticking;
  bool listener_paused; /* out of descriptors: accept again at the next tick */
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES];
  size_t address_bytes;
  uint8_t incarnation[16];

  struct base_list regions;
  struct base_list endpoints;     /* all of them, by node */
  struct base_list due_endpoints; /* those with something to do, by due_node */
  struct base_map tokens;         /* token → struct tcp_token */
  struct base_list strangers;     /* receivers that have not been admitted, oldest first */
  uint32_t stranger_count;
  struct base_list receivers;      /* admitted */
  struct base_list dead_receivers; /* closed; freed when nothing can hold them */
};

struct tcp_token {
  uint64_t token;
  struct tcp_receiver *receiver; /* or NULL */
};

struct tcp_receiver {
  enum tcp_watch watch;
  struct tcp_fabric *fabric;
  struct base_list node;
  int fd;                  /* -1: dead */
  struct tcp_token *token; /* NULL: a stranger */
  uint64_t deadline_ns;
  uint8_t head[TCP_HEAD_BYTES]; /* of the next piece; the greeting before that */
  size_t head_bytes;
  uint8_t header[FABRIC_HEADER_BYTES]; /* of the piece whose payload is being read */
  uint64_t payload_bytes, payload_left;
  bool dropping;
  struct iovec iov[FABRIC_IOV_LIMIT + 1]; /* room for the next head behind the payload */
  size_t iov_first, iov_count;
};

struct tcp_piece {
  uint8_t head[TCP_HEAD_BYTES];
  uint64_t payload_bytes;
  void *tag;
  uint32_t iov_first; /* free-running index into the endpoint's vectors */
  uint32_t iov_count;
};

enum tcp_state {
  TCP_CONNECTING,
  TCP_GREETED, /* the welcome is awaited */
  TCP_READY,
  TCP_FAILED, /* endpoint_down is due */
  TCP_DOWN,
  TCP_GONE /* disconnected; freed in the next turn */
};

struct tcp_endpoint {
  struct fabric_endpoint base;
  enum tcp_watch watch;
  struct tcp_fabric *fabric;
  void *user;
  struct base_list node, due_node;
  enum tcp_state state;
  int fd;
  bool blocked; /* the socket takes no more: epoll tells */
  uint64_t token;
  struct tcp_addresses peer;
  uint32_t address_index;
  uint64_t deadline_ns, attempt_deadline_ns;
  uint8_t welcome[TCP_WELCOME_BYTES];
  size_t welcome_bytes;
  kvf_error *error; /* FAILED: why */

  /* Free-running indexes: pieces [told, written) wait for their `sent`, [written, queued) for the socket. */
  uint64_t told, written, queued;
  uint32_t iov_told, iov_queued;
  /* What of piece `written` has left: part 0 is its head, part i its vector i - 1. */
  uint32_t part;
  uint64_t part_bytes;
  struct tcp_piece pieces[TCP_QUEUE_LIMIT];
  struct iovec iov[TCP_IOV_LIMIT];
};

/* address.c */
/* Bind and listen on @p host, and encode what peers need to connect. */
kvf_status tcp_address_listen(const char *host, const uint8_t incarnation[16], int *fd_out, uint8_t *address,
                              size_t *address_bytes_out, kvf_error **error_out);
kvf_status tcp_address_decode(const uint8_t *address, size_t address_bytes, struct tcp_addresses *addresses_out,
                              kvf_error **error_out);
/* "10.0.0.1:4000", into text[80]. */
void tcp_address_render(const struct tcp_address *address, char *text);

/* socket.c */
void tcp_socket_tune(int fd, uint64_t user_timeout_ms);
/* False with errno. @p events are EPOLL…. */
bool tcp_socket_watch(struct tcp_fabric *fabric, int fd, uint32_t events, enum tcp_watch *watch);
void tcp_socket_rewatch(struct tcp_fabric *fabric, int fd, uint32_t events, enum tcp_watch *watch);
/* Tick while anything has a deadline. */
void tcp_socket_tick(struct tcp_fabric *fabric, bool ticking);

/* endpoint.c */
kvf_status tcp_endpoint_connect(struct fabric *fabric, const uint8_t *address, size_t address_bytes, uint64_t token, void *user,
                                struct fabric_endpoint **endpoint_out, kvf_error **error_out);
void *tcp_endpoint_user(const struct fabric_endpoint *endpoint);
void tcp_endpoint_disconnect(struct fabric_endpoint *endpoint);
kvf_status tcp_endpoint_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out);
void tcp_endpoint_event(struct tcp_endpoint *endpoint, uint32_t events);
/* True when it was waiting and still is. */
bool tcp_endpoint_tick(struct tcp_endpoint *endpoint, uint64_t now_ns);
/* Write, tell, fail, free: whatever is due. */
void tcp_endpoint_turn(struct tcp_endpoint *endpoint);
void tcp_endpoint_free(struct tcp_endpoint *endpoint);

/* receiver.c */
void tcp_receiver_accept(struct tcp_fabric *fabric);
void tcp_receiver_event(struct tcp_receiver *receiver);
/* Close; its token, if any, is free again. No callback. */
void tcp_receiver_close(struct tcp_receiver *receiver);
void tcp_receiver_tick(struct tcp_fabric *fabric, uint64_t now_ns);
void tcp_receiver_bury(struct tcp_fabric *fabric);

#endif
