/* The receiving side of a connection: greeting, then pieces. The head of the next piece is read in the same call as the rest of a
 * payload, so a piece costs one system call when its bytes are there. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric/piece.h"
#include "fabric_tcp/inside.h"

enum { ACCEPT_BATCH = 16 };

static uint32_t read_u32(const uint8_t *bytes) {
  uint32_t value;
  memcpy(&value, bytes, sizeof value);
  return le32toh(value);
}
static uint64_t read_u64(const uint8_t *bytes) {
  uint64_t value;
  memcpy(&value, bytes, sizeof value);
  return le64toh(value);
}

void tcp_receiver_close(struct tcp_receiver *receiver) {
  if (receiver->fd < 0) return;
  close(receiver->fd);
  receiver->fd = -1;
  if (receiver->token)
    receiver->token->receiver = NULL;
  else
    receiver->fabric->stranger_count--;
  receiver->token = NULL;
  base_list_remove(&receiver->node);
  base_list_push_back(&receiver->fabric->dead_receivers, &receiver->node);
}

void tcp_receiver_bury(struct tcp_fabric *fabric) {
  struct base_list *node;
  while ((node = base_list_pop_front(&fabric->dead_receivers))) base_free(BASE_CONTAINER(node, struct tcp_receiver, node));
}

/* The connection is over, by the peer's doing. */
static void lose(struct tcp_receiver *receiver) {
  struct tcp_fabric *fabric = receiver->fabric;
  bool admitted = receiver->token != NULL;
  uint64_t token = admitted ? receiver->token->token : 0;
  tcp_receiver_close(receiver);
  if (admitted) fabric->callbacks.token_lost(fabric->callbacks.context, token);
}

static void add_stranger(struct tcp_fabric *fabric, int fd) {
  /* The oldest has had its chance: who means well greets at once. */
  if (fabric->stranger_count == TCP_STRANGER_LIMIT)
    tcp_receiver_close(BASE_CONTAINER(fabric->strangers.next, struct tcp_receiver, node));
  struct tcp_receiver *receiver = base_calloc(1, sizeof *receiver);
  if (receiver) {
    receiver->watch = TCP_WATCH_RECEIVER;
    if (tcp_socket_watch(fabric, fd, EPOLLIN | EPOLLRDHUP, &receiver->watch)) {
      receiver->fabric = fabric;
      receiver->fd = fd;
      receiver->deadline_ns = base_clock_ns() + TCP_CONNECT_NS;
      tcp_socket_tune(fd, fabric->user_timeout_ms);
      fabric->stranger_count++;
      base_list_push_back(&fabric->strangers, &receiver->node);
      tcp_socket_tick(fabric, true);
      return;
    }
  }
  base_free(receiver);
  close(fd);
}

void tcp_receiver_accept(struct tcp_fabric *fabric) {
  for (int i = 0; i < ACCEPT_BATCH; i++) {
    int fd = accept4(fabric->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add_stranger(fabric, fd);
      continue;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
    /* The listener stays readable; without a pause the loop would spin. */
    base_log_write(&fabric->log, KVF_LOG_WARNING, "tcp: accept: %s", strerror(errno));
    fabric->listener_paused = true;
    tcp_socket_rewatch(fabric, fabric->listen_fd, 0, &fabric->listener_watch);
    tcp_socket_tick(fabric, true);
    return;
  }
}

void tcp_receiver_tick(struct tcp_fabric *fabric, uint64_t now_ns) {
  BASE_LIST_EACH(&fabric->strangers, node) {
    struct tcp_receiver *receiver = BASE_CONTAINER(node, struct tcp_receiver, node);
    if (receiver->deadline_ns <= now_ns) tcp_receiver_close(receiver);
  }
}

static bool answer(struct tcp_receiver *receiver, enum tcp_answer answer) {
  uint8_t bytes[TCP_WELCOME_BYTES];
  uint32_t words[2] = {htole32(TCP_WELCOME_MAGIC), htole32((uint32_t)answer)};
  memcpy(bytes, words, sizeof words);
  memcpy(bytes + sizeof words, receiver->fabric->incarnation, 16);
  return send(receiver->fd, bytes, sizeof bytes, MSG_NOSIGNAL) == sizeof bytes && answer == TCP_ANSWER_WELCOME;
}

static void greet(struct tcp_receiver *receiver) {
  struct tcp_fabric *fabric = receiver->fabric;
  const uint8_t *greeting = receiver->head;
  if (read_u32(greeting) != TCP_GREETING_MAGIC || read_u32(greeting + 4) != 1) return tcp_receiver_close(receiver);
  struct tcp_token *token = base_map_get(&fabric->tokens, read_u64(greeting + 8));
  enum tcp_answer verdict = TCP_ANSWER_WELCOME;
  if (memcmp(greeting + 16, fabric->incarnation, 16) != 0)
    verdict = TCP_ANSWER_WRONG_INCARNATION;
  else if (!token)
    verdict = TCP_ANSWER_UNKNOWN_TOKEN;
  if (!answer(receiver, verdict)) return tcp_receiver_close(receiver);
  /* A peer that connects again has given up its former connection, whether or not we have noticed its end. */
  struct tcp_receiver *former = token->receiver;
  fabric->stranger_count--;
  base_list_remove(&receiver->node);
  base_list_push_back(&fabric->receivers, &receiver->node);
  receiver->head_bytes = 0;
  if (former) {
    tcp_receiver_close(former);
    fabric->callbacks.token_lost(fabric->callbacks.context, read_u64(greeting + 8));
    token = base_map_get(&fabric->tokens, read_u64(greeting + 8));
  }
  receiver->token = token;
  if (!token || token->receiver) {
    /* The callback has dropped the token. */
    fabric->stranger_count++;
    receiver->token = NULL;
    return tcp_receiver_close(receiver);
  }
  token->receiver = receiver;
}

static void land(struct tcp_receiver *receiver) {
  struct tcp_fabric *fabric = receiver->fabric;
  bool dropped = receiver->dropping;
  receiver->dropping = false;
  if (!dropped)
    fabric->callbacks.landed(fabric->callbacks.context, receiver->token->token, receiver->header, receiver->payload_bytes);
}

/* A whole head is there: ask where its payload goes. */
static void begin_piece(struct tcp_receiver *receiver) {
  struct tcp_fabric *fabric = receiver->fabric;
  uint64_t payload_bytes = read_u64(receiver->head + 8);
  if (read_u32(receiver->head) != TCP_PIECE_MAGIC || read_u32(receiver->head + 4) != 0 || payload_bytes > INT64_MAX) {
    base_log_write(&fabric->log, KVF_LOG_WARNING, "tcp: a connection is closed because it sent something else than a piece");
    return lose(receiver);
  }
  receiver->head_bytes = 0;
  memcpy(receiver->header, receiver->head + 16, FABRIC_HEADER_BYTES);
  receiver->payload_bytes = receiver->payload_left = payload_bytes;
  receiver->iov_first = 0;
  receiver->iov_count = FABRIC_IOV_LIMIT;
  kvf_status status = fabric->callbacks.place(fabric->callbacks.context, receiver->token->token, receiver->header, payload_bytes,
                                              receiver->iov, &receiver->iov_count);
  if (receiver->fd < 0) return;
  receiver->dropping = status != KVF_OK;
  if (!receiver->dropping &&
      (receiver->iov_count > FABRIC_IOV_LIMIT || fabric_iov_bytes(receiver->iov, receiver->iov_count) != payload_bytes)) {
    base_log_write(&fabric->log, KVF_LOG_ERROR, "tcp: the place of a piece does not hold its payload; its connection is closed");
    return lose(receiver);
  }
  if (payload_bytes == 0) land(receiver);
}

/* @p got bytes were read into the vectors; true when the payload is complete. What is left over belongs to the next head. */
static bool take_payload(struct tcp_receiver *receiver, uint64_t *got) {
  uint64_t taken = *got < receiver->payload_left ? *got : receiver->payload_left;
  receiver->payload_left -= taken;
  *got -= taken;
  while (taken > 0 && !receiver->dropping) {
    struct iovec *iov = &receiver->iov[receiver->iov_first];
    uint64_t part = taken < iov->iov_len ? taken : iov->iov_len;
    iov->iov_base = (char *)iov->iov_base + part;
    iov->iov_len -= part;
    taken -= part;
    if (iov->iov_len == 0) receiver->iov_first++;
  }
  return receiver->payload_left == 0;
}

/* One system call's worth. Bytes read, 0 at the end of the stream, -1 with errno; *wanted_out is what was asked for. */
static ssize_t read_some(struct tcp_receiver *receiver, uint64_t *wanted_out) {
  if (receiver->dropping && receiver->payload_left > 0) {
    *wanted_out = receiver->payload_left < TCP_BUDGET_BYTES ? receiver->payload_left : TCP_BUDGET_BYTES;
    return recv(receiver->fd, NULL, *wanted_out, MSG_TRUNC);
  }
  size_t head_size = receiver->token ? (size_t)TCP_HEAD_BYTES : (size_t)TCP_GREETING_BYTES;
  size_t count = receiver->payload_left > 0 ? receiver->iov_count : 0;
  size_t first = receiver->payload_left > 0 ? receiver->iov_first : 0;
  *wanted_out = receiver->payload_left + head_size - receiver->head_bytes;
  receiver->iov[count] = (struct iovec){receiver->head + receiver->head_bytes, head_size - receiver->head_bytes};
  return readv(receiver->fd, receiver->iov + first, (int)(count + 1 - first));
}

/* Deal with @p got bytes; false when the connection is over. */
static bool take(struct tcp_receiver *receiver, uint64_t got) {
  if (receiver->payload_left > 0) {
    if (take_payload(receiver, &got)) land(receiver);
    if (receiver->fd < 0) return false;
  }
  receiver->head_bytes += got;
  if (!receiver->token) {
    if (receiver->head_bytes == TCP_GREETING_BYTES) greet(receiver);
  } else if (receiver->head_bytes == TCP_HEAD_BYTES) {
    begin_piece(receiver);
  }
  return receiver->fd >= 0;
}

void tcp_receiver_event(struct tcp_receiver *receiver) {
  uint64_t bytes = 0, wanted;
  for (int reads = 0; receiver->fd >= 0 && reads < TCP_BUDGET_PIECES && bytes < TCP_BUDGET_BYTES; reads++) {
    ssize_t got = read_some(receiver, &wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return lose(receiver);
    bytes += (uint64_t)got;
    /* Less than asked for: the socket is empty, epoll tells when there is more. */
    if (!take(receiver, (uint64_t)got) || (uint64_t)got < wanted) return;
  }
}
