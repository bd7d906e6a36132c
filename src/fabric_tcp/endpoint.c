/* The sending side of a connection: connect, greet, and a bounded queue of pieces written a budget at a time. */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "fabric/piece.h"
#include "fabric_tcp/inside.h"

enum { WRITE_IOV_LIMIT = 256 };

static void make_due(struct tcp_endpoint *endpoint) {
  if (base_list_empty(&endpoint->due_node)) base_list_push_back(&endpoint->fabric->due_endpoints, &endpoint->due_node);
}

static void close_socket(struct tcp_endpoint *endpoint) {
  if (endpoint->fd >= 0) close(endpoint->fd);
  endpoint->fd = -1;
}

/* The first failure counts; the callbacks follow in the turn. */
static void fail(struct tcp_endpoint *endpoint, kvf_error *error) {
  if (endpoint->state >= TCP_FAILED) {
    kvf_error_free(error);
    return;
  }
  char remote[80];
  tcp_address_render(&endpoint->peer.entries[endpoint->address_index], remote);
  base_error_add(error, "remote", "%s", remote);
  endpoint->error = base_error_add(error, "provider", "tcp");
  endpoint->state = TCP_FAILED;
  close_socket(endpoint);
  make_due(endpoint);
}

static void lose(struct tcp_endpoint *endpoint, const char *call, int number) {
  if (number == 0) return fail(endpoint, BASE_ERROR(KVF_PEER_LOST, NULL, "the peer closed its connection for pieces"));
  fail(endpoint, BASE_ERROR(KVF_PEER_LOST, BASE_ERROR_ERRNO(call, number), "the connection for pieces is broken"));
}

/* Start on address_index, or on the first one after it that can be started; NULL, or why the last one could not. */
static kvf_error *attempt(struct tcp_endpoint *endpoint) {
  struct tcp_fabric *fabric = endpoint->fabric;
  kvf_error *error = NULL;
  endpoint->state = TCP_CONNECTING;
  endpoint->welcome_bytes = 0;
  for (; endpoint->address_index < endpoint->peer.count; endpoint->address_index++) {
    const struct tcp_address *address = &endpoint->peer.entries[endpoint->address_index];
    kvf_error_free(error);
    const char *call = "socket";
    endpoint->fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (endpoint->fd >= 0) {
      tcp_socket_tune(endpoint->fd, fabric->user_timeout_ms);
      call = "connect";
      if ((connect(endpoint->fd, (const struct sockaddr *)&address->socket, address->length) == 0 || errno == EINPROGRESS) &&
          tcp_socket_watch(fabric, endpoint->fd, EPOLLOUT | EPOLLIN | EPOLLRDHUP, &endpoint->watch)) {
        endpoint->attempt_deadline_ns = base_clock_ns() + TCP_ATTEMPT_NS;
        return NULL;
      }
    }
    error = BASE_ERROR_ERRNO(call, errno);
    close_socket(endpoint);
  }
  endpoint->address_index = endpoint->peer.count - 1;
  return error;
}

static void try_next(struct tcp_endpoint *endpoint, kvf_error *error) {
  close_socket(endpoint);
  if (endpoint->address_index + 1 < endpoint->peer.count) {
    kvf_error_free(error);
    endpoint->address_index++;
    error = attempt(endpoint);
    if (!error) return;
  }
  fail(endpoint, BASE_ERROR(KVF_UNREACHABLE, error, "the peer cannot be connected to"));
}

kvf_status tcp_endpoint_connect(struct fabric *base, const uint8_t *address, size_t address_bytes, uint64_t token, void *user,
                                struct fabric_endpoint **endpoint_out, kvf_error **error_out) {
  struct tcp_fabric *fabric = (struct tcp_fabric *)base;
  struct tcp_endpoint *endpoint = base_calloc(1, sizeof *endpoint);
  if (!endpoint) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for an endpoint"), error_out);
  endpoint->base.ops = &fabric_tcp_ops;
  endpoint->watch = TCP_WATCH_ENDPOINT;
  endpoint->fabric = fabric;
  endpoint->user = user;
  endpoint->token = token;
  endpoint->fd = -1;
  endpoint->deadline_ns = base_clock_ns() + TCP_CONNECT_NS;
  base_list_init(&endpoint->node);
  base_list_init(&endpoint->due_node);
  kvf_status status = tcp_address_decode(address, address_bytes, &endpoint->peer, error_out);
  if (status == KVF_OK) {
    kvf_error *error = attempt(endpoint);
    if (error) status = base_error_give(BASE_ERROR(KVF_UNREACHABLE, error, "the peer cannot be connected to"), error_out);
  }
  if (status != KVF_OK) {
    base_free(endpoint);
    return status;
  }
  base_list_push_back(&fabric->endpoints, &endpoint->node);
  tcp_socket_tick(fabric, true);
  *endpoint_out = &endpoint->base;
  return KVF_OK;
}

void *tcp_endpoint_user(const struct fabric_endpoint *endpoint) {
  return ((const struct tcp_endpoint *)endpoint)->user;
}

void tcp_endpoint_free(struct tcp_endpoint *endpoint) {
  close_socket(endpoint);
  base_list_remove(&endpoint->node);
  base_list_remove(&endpoint->due_node);
  kvf_error_free(endpoint->error);
  base_free(endpoint);
}

void tcp_endpoint_disconnect(struct fabric_endpoint *base) {
  struct tcp_endpoint *endpoint = (struct tcp_endpoint *)base;
  endpoint->state = TCP_GONE;
  close_socket(endpoint);
  make_due(endpoint);
}

kvf_status tcp_endpoint_send(struct fabric_endpoint *base, const struct fabric_piece *piece, kvf_error **error_out) {
  struct tcp_endpoint *endpoint = (struct tcp_endpoint *)base;
  kvf_status status = fabric_piece_check(piece, error_out);
  if (status != KVF_OK) return status;
  if (piece->in_place) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "tcp has no memory to write in place"), error_out);
  if (endpoint->state >= TCP_FAILED) return base_error_give(BASE_ERROR(KVF_PEER_LOST, NULL, "the endpoint is down"), error_out);
  uint32_t iov_used = endpoint->iov_queued - endpoint->iov_told;
  if (endpoint->queued - endpoint->told == TCP_QUEUE_LIMIT || iov_used + piece->iov_count > TCP_IOV_LIMIT) {
    kvf_error *error = BASE_ERROR(KVF_BACKPRESSURE, NULL, "the peer's queue of pieces is full");
    return base_error_give(base_error_add(error, "limit", "%d", TCP_QUEUE_LIMIT), error_out);
  }
  struct tcp_piece *queued = &endpoint->pieces[endpoint->queued % TCP_QUEUE_LIMIT];
  uint32_t words[2] = {htole32(TCP_PIECE_MAGIC), 0};
  uint64_t payload_bytes = htole64(piece->payload_bytes);
  memcpy(queued->head, words, sizeof words);
  memcpy(queued->head + 8, &payload_bytes, sizeof payload_bytes);
  memcpy(queued->head + 16, piece->header, FABRIC_HEADER_BYTES);
  queued->payload_bytes = piece->payload_bytes;
  queued->tag = piece->tag;
  queued->iov_first = endpoint->iov_queued;
  queued->iov_count = (uint32_t)piece->iov_count;
  for (size_t i = 0; i < piece->iov_count; i++) endpoint->iov[endpoint->iov_queued++ % TCP_IOV_LIMIT] = piece->iov[i];
  endpoint->queued++;
  if (endpoint->state == TCP_READY && !endpoint->blocked) make_due(endpoint);
  return KVF_OK;
}

static struct iovec part_of(const struct tcp_endpoint *endpoint, const struct tcp_piece *piece, uint32_t part) {
  if (part == 0) return (struct iovec){(void *)piece->head, TCP_HEAD_BYTES};
  return endpoint->iov[(piece->iov_first + part - 1) % TCP_IOV_LIMIT];
}

/* The next bytes to write, across pieces. Returns how many vectors. */
static size_t collect(const struct tcp_endpoint *endpoint, uint64_t budget, struct iovec *iov, uint64_t *bytes_out) {
  size_t count = 0;
  uint64_t bytes = 0, skip = endpoint->part_bytes;
  uint32_t part = endpoint->part;
  for (uint64_t i = endpoint->written; i < endpoint->queued; i++, part = 0) {
    const struct tcp_piece *piece = &endpoint->pieces[i % TCP_QUEUE_LIMIT];
    for (; part <= piece->iov_count; part++, skip = 0) {
      if (count == WRITE_IOV_LIMIT || bytes >= budget) goto out;
      struct iovec whole = part_of(endpoint, piece, part);
      uint64_t length = base_min_u64(whole.iov_len - skip, budget - bytes);
      iov[count++] = (struct iovec){(char *)whole.iov_base + skip, length};
      bytes += length;
    }
  }
out:
  *bytes_out = bytes;
  return count;
}

/* Move the cursor over @p bytes that the socket took. Empty parts at its end are passed too, so that a piece is never left open. */
static void advance(struct tcp_endpoint *endpoint, uint64_t bytes) {
  while (endpoint->written < endpoint->queued) {
    const struct tcp_piece *piece = &endpoint->pieces[endpoint->written % TCP_QUEUE_LIMIT];
    uint64_t left = part_of(endpoint, piece, endpoint->part).iov_len - endpoint->part_bytes;
    if (bytes < left) {
      endpoint->part_bytes += bytes;
      return;
    }
    bytes -= left;
    endpoint->part_bytes = 0;
    if (endpoint->part++ < piece->iov_count) continue;
    endpoint->part = 0;
    endpoint->written++;
  }
}

static void write_pieces(struct tcp_endpoint *endpoint) {
  uint64_t budget = TCP_BUDGET_BYTES;
  struct iovec iov[WRITE_IOV_LIMIT];
  while (budget > 0 && endpoint->written < endpoint->queued) {
    uint64_t bytes;
    struct msghdr message = {.msg_iov = iov};
    message.msg_iovlen = collect(endpoint, budget, iov, &bytes);
    ssize_t sent = sendmsg(endpoint->fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) return lose(endpoint, "sendmsg", errno);
    if (sent > 0) {
      advance(endpoint, (uint64_t)sent);
      budget -= (uint64_t)sent;
    }
    if (sent > 0 && (uint64_t)sent == bytes) continue;
    endpoint->blocked = true;
    tcp_socket_rewatch(endpoint->fabric, endpoint->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, &endpoint->watch);
    return;
  }
  if (endpoint->written < endpoint->queued) make_due(endpoint);
}

static void tell_sent(struct tcp_endpoint *endpoint, uint64_t until, kvf_status status) {
  const struct fabric_callbacks *callbacks = &endpoint->fabric->callbacks;
  while (endpoint->told < until) {
    const struct tcp_piece *piece = &endpoint->pieces[endpoint->told % TCP_QUEUE_LIMIT];
    void *tag = piece->tag;
    endpoint->iov_told += piece->iov_count;
    endpoint->told++;
    kvf_error *error = NULL;
    if (endpoint->state == TCP_GONE && status != KVF_OK)
      error = BASE_ERROR(KVF_CANCELLED, NULL, "the connection was cut with pieces on their way");
    else if (status != KVF_OK)
      error = base_error_copy(endpoint->error);
    callbacks->sent(callbacks->context, tag, error);
  }
}

void tcp_endpoint_turn(struct tcp_endpoint *endpoint) {
  const struct fabric_callbacks *callbacks = &endpoint->fabric->callbacks;
  if (endpoint->state == TCP_READY && !endpoint->blocked) write_pieces(endpoint);
  /* What the socket took before a failure is no longer ours: those buffers are free without an error. */
  tell_sent(endpoint, endpoint->written, KVF_OK);
  if (endpoint->state == TCP_FAILED) {
    tell_sent(endpoint, endpoint->queued, KVF_PEER_LOST);
    if (endpoint->state == TCP_FAILED) {
      kvf_error *error = endpoint->error;
      endpoint->error = NULL;
      endpoint->state = TCP_DOWN;
      callbacks->endpoint_down(callbacks->context, &endpoint->base, error);
    }
  }
  if (endpoint->state != TCP_GONE) return;
  tell_sent(endpoint, endpoint->queued, KVF_CANCELLED);
  tcp_endpoint_free(endpoint);
}

static void greet(struct tcp_endpoint *endpoint) {
  int number = 0;
  socklen_t length = sizeof number;
  getsockopt(endpoint->fd, SOL_SOCKET, SO_ERROR, &number, &length);
  if (number != 0) return try_next(endpoint, BASE_ERROR_ERRNO("connect", number));
  uint8_t greeting[TCP_GREETING_BYTES];
  uint32_t words[2] = {htole32(TCP_GREETING_MAGIC), htole32(1)};
  uint64_t token = htole64(endpoint->token);
  memcpy(greeting, words, sizeof words);
  memcpy(greeting + 8, &token, sizeof token);
  memcpy(greeting + 16, endpoint->peer.incarnation, 16);
  if (send(endpoint->fd, greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting)
    return try_next(endpoint, BASE_ERROR_ERRNO("send", errno));
  endpoint->state = TCP_GREETED;
  tcp_socket_rewatch(endpoint->fabric, endpoint->fd, EPOLLIN | EPOLLRDHUP, &endpoint->watch);
}

static void take_welcome(struct tcp_endpoint *endpoint) {
  ssize_t got = recv(endpoint->fd, endpoint->welcome + endpoint->welcome_bytes, TCP_WELCOME_BYTES - endpoint->welcome_bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0)
    return try_next(endpoint, got < 0 ? BASE_ERROR_ERRNO("recv", errno)
                                      : BASE_ERROR(KVF_PEER_LOST, NULL, "the connection was closed before its welcome"));
  endpoint->welcome_bytes += (size_t)got;
  if (endpoint->welcome_bytes < TCP_WELCOME_BYTES) return;
  uint32_t words[2];
  memcpy(words, endpoint->welcome, sizeof words);
  if (le32toh(words[0]) != TCP_WELCOME_MAGIC)
    return fail(endpoint, BASE_ERROR(KVF_PROTOCOL, NULL, "something else than kvferry answers at the peer's address for pieces"));
  if (memcmp(endpoint->welcome + sizeof words, endpoint->peer.incarnation, 16) != 0)
    return fail(endpoint, BASE_ERROR(KVF_WRONG_PEER, NULL, "another process answers at the peer's address for pieces"));
  if (le32toh(words[1]) != TCP_ANSWER_WELCOME)
    return fail(endpoint, BASE_ERROR(KVF_UNREACHABLE, NULL, "the peer does not know our token (any more)"));
  endpoint->state = TCP_READY;
  if (endpoint->queued > endpoint->written) make_due(endpoint);
  endpoint->fabric->callbacks.endpoint_ready(endpoint->fabric->callbacks.context, &endpoint->base);
}

/* The receiver never says anything after its welcome, so a readable socket is one that has ended. */
static void check_end(struct tcp_endpoint *endpoint) {
  char byte;
  ssize_t got = recv(endpoint->fd, &byte, 1, 0);
  if (got > 0) return fail(endpoint, BASE_ERROR(KVF_PROTOCOL, NULL, "the peer sent bytes where none are due"));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  lose(endpoint, "recv", got < 0 ? errno : 0);
}

void tcp_endpoint_event(struct tcp_endpoint *endpoint, uint32_t events) {
  if (endpoint->state == TCP_CONNECTING) return greet(endpoint);
  if (endpoint->state == TCP_GREETED) return take_welcome(endpoint);
  if (endpoint->state != TCP_READY) return;
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) check_end(endpoint);
  if (endpoint->state != TCP_READY || !(events & EPOLLOUT) || !endpoint->blocked) return;
  endpoint->blocked = false;
  tcp_socket_rewatch(endpoint->fabric, endpoint->fd, EPOLLIN | EPOLLRDHUP, &endpoint->watch);
  make_due(endpoint);
}

bool tcp_endpoint_tick(struct tcp_endpoint *endpoint, uint64_t now_ns) {
  if (endpoint->state != TCP_CONNECTING && endpoint->state != TCP_GREETED) return false;
  if (now_ns >= endpoint->deadline_ns)
    fail(endpoint, BASE_ERROR(KVF_UNREACHABLE, NULL, "the peer did not answer in time"));
  else if (now_ns >= endpoint->attempt_deadline_ns && endpoint->state == TCP_CONNECTING &&
           endpoint->address_index + 1 < endpoint->peer.count)
    try_next(endpoint, BASE_ERROR(KVF_TIMEOUT, NULL, "the address did not answer in time"));
  return endpoint->state < TCP_READY;
}
