/* The owner's side of a connection: admission, what is exposed, and taking headers out of the ring. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric_shm/inside.h"
#include "memory/shared.h"

enum { ACCEPT_BATCH = 16 };

void shm_receiver_close(struct shm_receiver *receiver) {
  if (receiver->fd < 0) return;
  close(receiver->fd);
  receiver->fd = -1;
  if (receiver->token)
    receiver->token->receiver = NULL;
  else
    receiver->fabric->stranger_count--;
  receiver->token = NULL;
  base_list_remove(&receiver->busy_node);
  base_list_remove(&receiver->node);
  base_list_push_back(&receiver->fabric->dead_receivers, &receiver->node);
}

void shm_receiver_bury(struct shm_fabric *fabric) {
  struct base_list *node;
  while ((node = base_list_pop_front(&fabric->dead_receivers))) {
    struct shm_receiver *receiver = BASE_CONTAINER(node, struct shm_receiver, node);
    memory_shared_free(receiver->ring);
    base_free(receiver);
  }
}

static void lose(struct shm_receiver *receiver) {
  struct shm_fabric *fabric = receiver->fabric;
  bool admitted = receiver->token != NULL;
  uint64_t token = admitted ? receiver->token->token : 0;
  shm_receiver_close(receiver);
  if (admitted) fabric->callbacks.token_lost(fabric->callbacks.context, token);
}

static void add_stranger(struct shm_fabric *fabric, int fd) {
  if (fabric->stranger_count == SHM_STRANGER_LIMIT)
    shm_receiver_close(BASE_CONTAINER(fabric->strangers.next, struct shm_receiver, node));
  struct shm_receiver *receiver = base_calloc(1, sizeof *receiver);
  if (receiver) {
    receiver->watch = SHM_WATCH_RECEIVER;
    if (shm_fabric_watch(fabric, fd, EPOLLIN | EPOLLRDHUP, &receiver->watch)) {
      receiver->fabric = fabric;
      receiver->fd = fd;
      receiver->deadline_ns = base_clock_ns() + SHM_CONNECT_NS;
      base_list_init(&receiver->busy_node);
      fabric->stranger_count++;
      base_list_push_back(&fabric->strangers, &receiver->node);
      shm_fabric_tick(fabric, true);
      return;
    }
  }
  base_free(receiver);
  close(fd);
}

void shm_receiver_accept(struct shm_fabric *fabric) {
  for (int i = 0; i < ACCEPT_BATCH; i++) {
    int fd = accept4(fabric->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add_stranger(fabric, fd);
      continue;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
    base_log_write(&fabric->log, KVF_LOG_WARNING, "shm: accept: %s", strerror(errno));
    fabric->listener_paused = true;
    shm_fabric_rewatch(fabric, fabric->listen_fd, 0, &fabric->listener_watch);
    shm_fabric_tick(fabric, true);
    return;
  }
}

bool shm_receiver_tick(struct shm_fabric *fabric, uint64_t now_ns) {
  bool waiting = false;
  BASE_LIST_EACH(&fabric->strangers, node) {
    struct shm_receiver *receiver = BASE_CONTAINER(node, struct shm_receiver, node);
    if (receiver->deadline_ns <= now_ns) shm_receiver_close(receiver);
  }
  BASE_LIST_EACH(&fabric->receivers, node) {
    struct shm_receiver *receiver = BASE_CONTAINER(node, struct shm_receiver, node);
    if (!receiver->retry) continue;
    receiver->retry = false;
    shm_receiver_announce(receiver);
    waiting |= receiver->retry;
  }
  return waiting || fabric->stranger_count > 0;
}

static const struct shm_region *next_region(const struct shm_receiver *receiver) {
  const struct base_list *list = &receiver->fabric->regions, *node = list;
  /* From the end: what is new is there. */
  while (node->prev != list && BASE_CONTAINER(node->prev, struct shm_region, node)->sequence > receiver->announced)
    node = node->prev;
  return node == list ? NULL : BASE_CONTAINER(node, struct shm_region, node);
}

static bool announce_region(struct shm_receiver *receiver, const struct shm_region *region) {
  const struct shm_message message = {.magic = SHM_MAGIC,
                                      .kind = SHM_REGION,
                                      .slot = region->slot,
                                      .region = region->number,
                                      .generation = region->generation,
                                      .nonce = region->nonce,
                                      .offset = region->offset,
                                      .length = region->length};
  int number = shm_message_send(receiver->fd, &message, &region->fd, 1);
  if (number == 0) {
    receiver->announced = region->sequence;
    return true;
  }
  if (number == EAGAIN) {
    receiver->blocked = true;
    shm_fabric_rewatch(receiver->fabric, receiver->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, &receiver->watch);
  } else if (number == ETOOMANYREFS || number == ENOBUFS || number == ENOMEM) {
    receiver->retry = true;
    shm_fabric_tick(receiver->fabric, true);
  }
  return false; /* any other error means that the peer has gone, which epoll will say */
}

void shm_receiver_announce(struct shm_receiver *receiver) {
  if (receiver->fd < 0 || receiver->blocked || receiver->retry) return;
  const struct shm_region *region = next_region(receiver);
  const struct base_list *end = &receiver->fabric->regions;
  while (region && announce_region(receiver, region))
    region = region->node.next == end ? NULL : BASE_CONTAINER(region->node.next, struct shm_region, node);
}

static bool welcome(struct shm_receiver *receiver, enum shm_answer answer) {
  struct shm_fabric *fabric = receiver->fabric;
  struct shm_message message = {.magic = SHM_MAGIC, .kind = SHM_WELCOME, .answer = answer};
  memcpy(message.incarnation, fabric->address.incarnation, sizeof message.incarnation);
  if (answer != SHM_ANSWER_WELCOME) {
    shm_message_send(receiver->fd, &message, NULL, 0);
    return false;
  }
  uint64_t offset;
  int fds[SHM_MESSAGE_FDS] = {-1, fabric->control_fd};
  kvf_error *error = NULL;
  if (memory_shared_alloc(sizeof *receiver->ring, (void **)&receiver->ring, &error) != KVF_OK) {
    base_log_write(&fabric->log, KVF_LOG_WARNING, "shm: a peer is turned away: %s", kvf_error_message(error));
    kvf_error_free(error);
    return false;
  }
  memory_shared_find(receiver->ring, sizeof *receiver->ring, &fds[0], &offset);
  atomic_store(&receiver->ring->receiver_sleeps, 1);
  return shm_message_send(receiver->fd, &message, fds, SHM_MESSAGE_FDS) == 0;
}

static bool has_ended(const struct shm_receiver *receiver) {
  struct pollfd polled = {.fd = receiver->fd, .events = POLLRDHUP};
  return poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* Whatever was published before the end still counts. */
static void end(struct shm_receiver *receiver) {
  for (int i = 0; receiver->fd >= 0 && i < SHM_RING_ENTRIES / SHM_BUDGET_PIECES; i++) shm_receiver_drain(receiver);
  if (receiver->fd >= 0) lose(receiver);
}

static void greet(struct shm_receiver *receiver, const struct shm_message *hello) {
  struct shm_fabric *fabric = receiver->fabric;
  struct shm_token *token = base_map_get(&fabric->tokens, hello->token);
  /* A second connection is welcome only when the first can write no more. */
  if (token && token->receiver && has_ended(token->receiver)) {
    end(token->receiver);
    if (receiver->fd < 0) return;
    token = base_map_get(&fabric->tokens, hello->token);
  }
  enum shm_answer answer = SHM_ANSWER_WELCOME;
  if (memcmp(hello->incarnation, fabric->address.incarnation, sizeof hello->incarnation) != 0)
    answer = SHM_ANSWER_WRONG_INCARNATION;
  else if (!token)
    answer = SHM_ANSWER_UNKNOWN_TOKEN;
  else if (token->receiver)
    answer = SHM_ANSWER_BUSY;
  if (!welcome(receiver, answer)) return shm_receiver_close(receiver);
  fabric->stranger_count--;
  base_list_remove(&receiver->node);
  base_list_push_back(&fabric->receivers, &receiver->node);
  receiver->token = token;
  token->receiver = receiver;
  shm_receiver_announce(receiver);
}

static void wake_writer(struct shm_receiver *receiver) {
  if (!atomic_load(&receiver->ring->writer_waits)) return;
  atomic_store(&receiver->ring->writer_waits, 0);
  /* A full socket holds messages that will wake it just as well. */
  const struct shm_message wake = {.magic = SHM_MAGIC, .kind = SHM_WAKE};
  shm_message_send(receiver->fd, &wake, NULL, 0);
}

/* True when the ring is empty and the writer knows that it has to wake us. */
static bool fall_asleep(struct shm_receiver *receiver) {
  atomic_store(&receiver->ring->receiver_sleeps, 1);
  if (atomic_load(&receiver->ring->published) == receiver->taken) return true;
  atomic_store(&receiver->ring->receiver_sleeps, 0);
  return false;
}

void shm_receiver_drain(struct shm_receiver *receiver) {
  struct shm_fabric *fabric = receiver->fabric;
  if (receiver->fd < 0 || !receiver->token) return;
  uint64_t published = atomic_load(&receiver->ring->published);
  if (published - receiver->taken > SHM_RING_ENTRIES) {
    base_log_write(&fabric->log, KVF_LOG_WARNING, "shm: a connection is closed because its ring holds impossible indexes");
    return lose(receiver);
  }
  uint64_t until = published - receiver->taken > SHM_BUDGET_PIECES ? receiver->taken + SHM_BUDGET_PIECES : published;
  bool took = until != receiver->taken;
  while (receiver->taken != until) {
    /* Copied, because the writer could change it while it is looked at. */
    struct shm_entry entry;
    memcpy(&entry, &receiver->ring->entries[receiver->taken % SHM_RING_ENTRIES], sizeof entry);
    receiver->taken++;
    fabric->callbacks.landed(fabric->callbacks.context, receiver->token->token, entry.header, entry.payload_bytes);
    if (receiver->fd < 0) return;
  }
  if (took) {
    atomic_store(&receiver->ring->taken, receiver->taken);
    wake_writer(receiver);
  }
  if (!fall_asleep(receiver) && base_list_empty(&receiver->busy_node))
    base_list_push_back(&fabric->busy_receivers, &receiver->busy_node);
}

void shm_receiver_event(struct shm_receiver *receiver, uint32_t events) {
  if (receiver->fd >= 0 && (events & EPOLLOUT) && receiver->blocked) {
    receiver->blocked = false;
    shm_fabric_rewatch(receiver->fabric, receiver->fd, EPOLLIN | EPOLLRDHUP, &receiver->watch);
    shm_receiver_announce(receiver);
  }
  for (int i = 0; receiver->fd >= 0 && i < SHM_BUDGET_MESSAGES; i++) {
    struct shm_message message;
    int fds[SHM_MESSAGE_FDS];
    size_t fd_count;
    enum shm_receipt receipt = shm_message_receive(receiver->fd, &message, fds, &fd_count);
    if (receipt == SHM_RECEIPT_NONE) break;
    if (receipt == SHM_RECEIPT_ENDED) return end(receiver);
    bool stray = receipt == SHM_RECEIPT_MESSAGE && fd_count > 0;
    while (receipt == SHM_RECEIPT_MESSAGE && fd_count > 0) close(fds[--fd_count]);
    bool expected = receipt == SHM_RECEIPT_MESSAGE && !stray && message.kind == (receiver->token ? SHM_WAKE : SHM_HELLO);
    if (!expected) return lose(receiver);
    if (!receiver->token) greet(receiver, &message);
  }
  shm_receiver_drain(receiver);
}
