/* The writer's side of a connection: copy into the peer's memory, then put the header into its ring. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric/piece.h"
#include "fabric_shm/inside.h"
#include "memory/shared.h"

static void make_due(struct shm_endpoint *endpoint) {
  if (base_list_empty(&endpoint->due_node)) base_list_push_back(&endpoint->fabric->due_endpoints, &endpoint->due_node);
}

/* The socket stays open as long as we could write: its end is what tells the peer that we cannot. */
static void fail(struct shm_endpoint *endpoint, kvf_error *error) {
  if (endpoint->state >= SHM_FAILED) {
    kvf_error_free(error);
    return;
  }
  endpoint->error = base_error_add(error, "provider", "shm");
  endpoint->state = SHM_FAILED;
  epoll_ctl(endpoint->fabric->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
  make_due(endpoint);
}

static kvf_error *hello(struct shm_endpoint *endpoint, const struct shm_address *peer, uint64_t token) {
  endpoint->fd = shm_address_socket(peer, false);
  if (endpoint->fd < 0) return BASE_ERROR(KVF_UNREACHABLE, BASE_ERROR_ERRNO("connect", errno), "the peer cannot be connected to");
  struct shm_message message = {.magic = SHM_MAGIC, .kind = SHM_HELLO, .token = token};
  memcpy(message.incarnation, peer->incarnation, sizeof message.incarnation);
  int number = shm_message_send(endpoint->fd, &message, NULL, 0);
  if (number != 0) return BASE_ERROR(KVF_UNREACHABLE, BASE_ERROR_ERRNO("sendmsg", number), "the peer cannot be connected to");
  if (shm_fabric_watch(endpoint->fabric, endpoint->fd, EPOLLIN | EPOLLRDHUP, &endpoint->watch)) return NULL;
  return BASE_ERROR(KVF_SYSTEM, BASE_ERROR_ERRNO("epoll_ctl", errno), "the peer cannot be connected to");
}

kvf_status shm_endpoint_connect(struct fabric *base, const uint8_t *address, size_t address_bytes, uint64_t token, void *user,
                                struct fabric_endpoint **endpoint_out, kvf_error **error_out) {
  struct shm_fabric *fabric = (struct shm_fabric *)base;
  struct shm_address peer;
  kvf_status status = shm_address_decode(address, address_bytes, &fabric->address, &peer, error_out);
  if (status != KVF_OK) return status;
  struct shm_endpoint *endpoint = base_calloc(1, sizeof *endpoint);
  if (!endpoint) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for an endpoint"), error_out);
  endpoint->base.ops = &fabric_shm_ops;
  endpoint->watch = SHM_WATCH_ENDPOINT;
  endpoint->fabric = fabric;
  endpoint->user = user;
  endpoint->deadline_ns = base_clock_ns() + SHM_CONNECT_NS;
  memcpy(endpoint->incarnation, peer.incarnation, sizeof endpoint->incarnation);
  base_list_init(&endpoint->node);
  base_list_init(&endpoint->due_node);
  kvf_error *error = hello(endpoint, &peer, token);
  if (error) {
    shm_endpoint_free(endpoint);
    return base_error_give(error, error_out);
  }
  base_list_push_back(&fabric->endpoints, &endpoint->node);
  shm_fabric_tick(fabric, true);
  *endpoint_out = &endpoint->base;
  return KVF_OK;
}

void *shm_endpoint_user(const struct fabric_endpoint *endpoint) {
  return ((const struct shm_endpoint *)endpoint)->user;
}

void shm_endpoint_free(struct shm_endpoint *endpoint) {
  base_list_remove(&endpoint->node);
  base_list_remove(&endpoint->due_node);
  shm_remote_free_all(endpoint);
  if (endpoint->ring) munmap(endpoint->ring, sizeof *endpoint->ring);
  if (endpoint->control) munmap((void *)endpoint->control, sizeof *endpoint->control);
  /* After everything is unmapped: see inside.h. */
  if (endpoint->fd >= 0) close(endpoint->fd);
  kvf_error_free(endpoint->error);
  base_free(endpoint);
}

void shm_endpoint_disconnect(struct fabric_endpoint *base) {
  struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
  if (endpoint->state < SHM_FAILED) epoll_ctl(endpoint->fabric->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
  endpoint->state = SHM_GONE;
  make_due(endpoint);
}

/* Falling asleep and waking (here, and in the receiver for the writer) is "raise my flag, then look at your index" against "move my index,
 * then look at your flag". Sequential consistency of these four accesses is what makes one of the two see the other. */
static void wake_receiver(struct shm_endpoint *endpoint) {
  if (!atomic_load(&endpoint->ring->receiver_sleeps)) return;
  atomic_store(&endpoint->ring->receiver_sleeps, 0);
  /* A full socket holds messages that will wake it just as well; a broken one is found by epoll. */
  const struct shm_message wake = {.magic = SHM_MAGIC, .kind = SHM_WAKE};
  shm_message_send(endpoint->fd, &wake, NULL, 0);
}

/* Into the ring as far as there is room; false when the peer's index is impossible. */
static bool publish_some(struct shm_endpoint *endpoint) {
  uint64_t taken = atomic_load(&endpoint->ring->taken);
  if (endpoint->published - taken > SHM_RING_ENTRIES) return false;
  while (endpoint->published < endpoint->queued && endpoint->published - taken < SHM_RING_ENTRIES) {
    const struct shm_piece *piece = &endpoint->pieces[endpoint->published % SHM_QUEUE_LIMIT];
    struct shm_entry *entry = &endpoint->ring->entries[endpoint->published % SHM_RING_ENTRIES];
    memcpy(entry->header, piece->header, sizeof entry->header);
    entry->payload_bytes = piece->payload_bytes;
    endpoint->published++;
  }
  atomic_store(&endpoint->ring->published, endpoint->published);
  return true;
}

static void publish(struct shm_endpoint *endpoint) {
  uint64_t before = endpoint->published;
  bool sane = publish_some(endpoint);
  if (sane && endpoint->published < endpoint->queued) {
    /* Ask to be woken, then look again: room may have come in between. */
    atomic_store(&endpoint->ring->writer_waits, 1);
    sane = publish_some(endpoint);
  }
  if (!sane) return fail(endpoint, BASE_ERROR(KVF_PROTOCOL, NULL, "the peer's ring holds impossible indexes"));
  if (endpoint->published != before) wake_receiver(endpoint);
}

static void copy_payload(uint8_t *address, const struct fabric_piece *piece) {
  for (size_t i = 0; i < piece->iov_count; i++) {
    if (piece->iov[i].iov_len == 0) continue;
    memcpy(address, piece->iov[i].iov_base, piece->iov[i].iov_len);
    address += piece->iov[i].iov_len;
  }
}

kvf_status shm_endpoint_send(struct fabric_endpoint *base, const struct fabric_piece *piece, kvf_error **error_out) {
  struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
  void *address;
  kvf_status status = fabric_piece_check(piece, error_out);
  if (status == KVF_OK) status = shm_remote_map(base, &piece->target, &address, error_out);
  if (status != KVF_OK) return status;
  if (piece->payload_bytes > piece->target.length)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the payload is longer than its target"), error_out);
  if (endpoint->queued - endpoint->told == SHM_QUEUE_LIMIT) {
    kvf_error *error = BASE_ERROR(KVF_BACKPRESSURE, NULL, "the peer's queue of pieces is full");
    return base_error_give(base_error_add(error, "limit", "%d", SHM_QUEUE_LIMIT), error_out);
  }
  if (!piece->in_place) copy_payload(address, piece);
  struct shm_piece *queued = &endpoint->pieces[endpoint->queued++ % SHM_QUEUE_LIMIT];
  memcpy(queued->header, piece->header, sizeof queued->header);
  queued->payload_bytes = piece->payload_bytes;
  queued->tag = piece->tag;
  if (endpoint->published + 1 == endpoint->queued) publish(endpoint);
  if (endpoint->told < endpoint->published) make_due(endpoint);
  return KVF_OK;
}

static void tell_sent(struct shm_endpoint *endpoint, uint64_t until, bool delivered) {
  const struct fabric_callbacks *callbacks = &endpoint->fabric->callbacks;
  while (endpoint->told < until) {
    void *tag = endpoint->pieces[endpoint->told++ % SHM_QUEUE_LIMIT].tag;
    kvf_error *error = NULL;
    if (!delivered && endpoint->state == SHM_GONE)
      error = BASE_ERROR(KVF_CANCELLED, NULL, "the connection was cut with pieces on their way");
    else if (!delivered)
      error = base_error_copy(endpoint->error);
    callbacks->sent(callbacks->context, tag, error);
  }
}

void shm_endpoint_turn(struct shm_endpoint *endpoint) {
  const struct fabric_callbacks *callbacks = &endpoint->fabric->callbacks;
  if (endpoint->state == SHM_READY && endpoint->published < endpoint->queued) publish(endpoint);
  tell_sent(endpoint, endpoint->published, true);
  if (endpoint->state == SHM_FAILED) {
    tell_sent(endpoint, endpoint->queued, false);
    if (endpoint->state == SHM_FAILED) {
      kvf_error *error = endpoint->error;
      endpoint->error = NULL;
      endpoint->state = SHM_DOWN;
      callbacks->endpoint_down(callbacks->context, &endpoint->base, error);
    }
  }
  if (endpoint->state != SHM_GONE) return;
  tell_sent(endpoint, endpoint->queued, false);
  shm_endpoint_free(endpoint);
}

/* Maps what the receiver owns: its ring, and its control page for reading. */
static bool map_shared(struct shm_endpoint *endpoint, const int fds[SHM_MESSAGE_FDS]) {
  if (!memory_shared_is_sealed(fds[0], sizeof *endpoint->ring) || !memory_shared_is_sealed(fds[1], sizeof *endpoint->control))
    return false;
  void *ring = mmap(NULL, sizeof *endpoint->ring, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
  if (ring == MAP_FAILED) return false;
  endpoint->ring = ring;
  void *control = mmap(NULL, sizeof *endpoint->control, PROT_READ, MAP_SHARED, fds[1], 0);
  if (control == MAP_FAILED) return false;
  endpoint->control = control;
  return true;
}

static const char *const refusals[] = {
    [SHM_ANSWER_UNKNOWN_TOKEN] = "the peer does not know our token (any more)",
    [SHM_ANSWER_WRONG_INCARNATION] = "another process answers at the peer's address",
    [SHM_ANSWER_BUSY] = "the peer still holds a former connection of ours",
};

static void take_welcome(struct shm_endpoint *endpoint, const struct shm_message *message, const int *fds, size_t fd_count) {
  if (memcmp(message->incarnation, endpoint->incarnation, sizeof endpoint->incarnation) != 0)
    return fail(endpoint, BASE_ERROR(KVF_WRONG_PEER, NULL, "another process answers at the peer's address"));
  if (message->answer > SHM_ANSWER_BUSY) return fail(endpoint, BASE_ERROR(KVF_PROTOCOL, NULL, "the peer gave an unknown answer"));
  if (message->answer != SHM_ANSWER_WELCOME)
    return fail(endpoint, BASE_ERROR(KVF_UNREACHABLE, NULL, "%s", refusals[message->answer]));
  if (fd_count != SHM_MESSAGE_FDS || !map_shared(endpoint, fds))
    return fail(endpoint, BASE_ERROR(KVF_PROTOCOL, NULL, "the peer's ring cannot be used"));
  endpoint->state = SHM_READY;
  endpoint->fabric->callbacks.endpoint_ready(endpoint->fabric->callbacks.context, &endpoint->base);
}

static void take_region(struct shm_endpoint *endpoint, const struct shm_message *message, int fd) {
  bool ready = false;
  kvf_error *error = shm_remote_offer(endpoint, message, fd, &ready);
  if (error) return fail(endpoint, error);
  if (ready) endpoint->fabric->callbacks.endpoint_ready(endpoint->fabric->callbacks.context, &endpoint->base);
}

static void take_message(struct shm_endpoint *endpoint, const struct shm_message *message, int *fds, size_t fd_count) {
  if (endpoint->state == SHM_GREETED && message->kind == SHM_WELCOME) {
    take_welcome(endpoint, message, fds, fd_count);
  } else if (endpoint->state == SHM_READY && message->kind == SHM_REGION && fd_count == 1) {
    fd_count = 0;
    take_region(endpoint, message, fds[0]);
  } else if (endpoint->state == SHM_READY && message->kind == SHM_WAKE && fd_count == 0) {
    make_due(endpoint);
  } else {
    fail(endpoint, BASE_ERROR(KVF_PROTOCOL, NULL, "the peer sent a message that is not due"));
  }
  while (fd_count > 0) close(fds[--fd_count]);
}

static void take_end(struct shm_endpoint *endpoint) {
  kvf_error *cause = errno ? BASE_ERROR_ERRNO("recvmsg", errno) : NULL;
  if (endpoint->state == SHM_GREETED)
    fail(endpoint, BASE_ERROR(KVF_UNREACHABLE, cause, "the connection was closed before its welcome"));
  else
    fail(endpoint, BASE_ERROR(KVF_PEER_LOST, cause, "the peer closed its connection"));
}

void shm_endpoint_event(struct shm_endpoint *endpoint) {
  for (int i = 0; endpoint->state < SHM_FAILED && i < SHM_BUDGET_MESSAGES; i++) {
    struct shm_message message;
    int fds[SHM_MESSAGE_FDS];
    size_t fd_count;
    switch (shm_message_receive(endpoint->fd, &message, fds, &fd_count)) {
      case SHM_RECEIPT_NONE:
        return;
      case SHM_RECEIPT_MESSAGE:
        take_message(endpoint, &message, fds, fd_count);
        break;
      case SHM_RECEIPT_ENDED:
        return take_end(endpoint);
      case SHM_RECEIPT_MALFORMED:
        return fail(endpoint,
                    BASE_ERROR(KVF_PROTOCOL, NULL, "a message of the peer is malformed, or its descriptors could not be taken"));
    }
  }
}

bool shm_endpoint_tick(struct shm_endpoint *endpoint, uint64_t now_ns) {
  if (endpoint->state != SHM_GREETED) return false;
  if (now_ns >= endpoint->deadline_ns) fail(endpoint, BASE_ERROR(KVF_UNREACHABLE, NULL, "the peer did not answer in time"));
  return endpoint->state == SHM_GREETED;
}
