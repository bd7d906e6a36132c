/* Opening, closing and the turn: events first, then rings that had more than their share, then whatever endpoints have due. */
#include "fabric_shm/shm.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric/settings.h"
#include "fabric_shm/inside.h"

enum { EVENT_BATCH = 64 };

bool shm_fabric_watch(struct shm_fabric *fabric, int fd, uint32_t events, enum shm_watch *watch) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  return epoll_ctl(fabric->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void shm_fabric_rewatch(struct shm_fabric *fabric, int fd, uint32_t events, enum shm_watch *watch) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  epoll_ctl(fabric->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

/* Only while something has a deadline or waits for the kernel. */
void shm_fabric_tick(struct shm_fabric *fabric, bool ticking) {
  if (fabric->ticking == ticking) return;
  const struct timespec every = {.tv_nsec = ticking ? 50000000 : 0};
  const struct itimerspec timer = {.it_interval = every, .it_value = every};
  if (timerfd_settime(fabric->timer_fd, 0, &timer, NULL) == 0) fabric->ticking = ticking;
}

static kvf_status open_descriptors(struct shm_fabric *fabric, kvf_error **error_out) {
  const char *call = "epoll_create1";
  fabric->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (fabric->epoll_fd >= 0) {
    call = "timerfd_create";
    fabric->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  }
  if (fabric->timer_fd >= 0) {
    call = "bind";
    fabric->listen_fd = shm_address_socket(&fabric->address, true);
  }
  if (fabric->listen_fd >= 0) {
    call = "epoll_ctl";
    if (shm_fabric_watch(fabric, fabric->listen_fd, EPOLLIN, &fabric->listener_watch) &&
        shm_fabric_watch(fabric, fabric->timer_fd, EPOLLIN, &fabric->timer_watch))
      return shm_region_control_open(fabric, error_out);
  }
  return base_error_give(BASE_ERROR(KVF_SYSTEM, BASE_ERROR_ERRNO(call, errno), "shm cannot be opened"), error_out);
}

static void close_receivers(struct base_list *receivers) {
  while (!base_list_empty(receivers)) shm_receiver_close(BASE_CONTAINER(receivers->next, struct shm_receiver, node));
}

static void close_fabric(struct fabric *base) {
  struct shm_fabric *fabric = (struct shm_fabric *)base;
  while (!base_list_empty(&fabric->regions))
    shm_region_revoke(&BASE_CONTAINER(fabric->regions.next, struct shm_region, node)->base);
  while (!base_list_empty(&fabric->endpoints)) shm_endpoint_free(BASE_CONTAINER(fabric->endpoints.next, struct shm_endpoint, node));
  close_receivers(&fabric->strangers);
  close_receivers(&fabric->receivers);
  shm_receiver_bury(fabric);
  size_t cursor = 0;
  struct shm_token *token;
  while ((token = base_map_next(&fabric->tokens, &cursor))) base_free(token);
  base_map_fini(&fabric->tokens);
  base_map_fini(&fabric->regions_by_number);
  if (fabric->control) munmap(fabric->control, sizeof *fabric->control);
  const int fds[] = {fabric->control_fd, fabric->listen_fd, fabric->timer_fd, fabric->epoll_fd};
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
    if (fds[i] >= 0) close(fds[i]);
  }
  base_free(fabric);
}

static kvf_status check_settings(const char *settings, kvf_error **error_out) {
  struct fabric_setting setting;
  kvf_error *error = NULL;
  if (fabric_settings_next(&settings, &setting, &error)) error = fabric_setting_unknown(&setting, "shm");
  return error ? base_error_give(error, error_out) : KVF_OK;
}

static kvf_status open_fabric(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out) {
  kvf_status status = check_settings(options->settings, error_out);
  if (status != KVF_OK) return status;
  struct shm_fabric *fabric = base_calloc(1, sizeof *fabric);
  if (!fabric) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for shm"), error_out);
  fabric->base.ops = &fabric_shm_ops;
  fabric->callbacks = options->callbacks;
  fabric->log = options->log;
  fabric->listener_watch = SHM_WATCH_LISTENER;
  fabric->timer_watch = SHM_WATCH_TIMER;
  fabric->epoll_fd = fabric->listen_fd = fabric->timer_fd = fabric->control_fd = -1;
  struct base_list *lists[] = {&fabric->regions,   &fabric->endpoints,      &fabric->due_endpoints, &fabric->strangers,
                               &fabric->receivers, &fabric->busy_receivers, &fabric->dead_receivers};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) base_list_init(lists[i]);
  status = shm_address_make(options->incarnation, &fabric->address, error_out);
  if (status == KVF_OK) status = open_descriptors(fabric, error_out);
  if (status != KVF_OK) {
    close_fabric(&fabric->base);
    return status;
  }
  *fabric_out = &fabric->base;
  return KVF_OK;
}

static int event_fd(struct fabric *base) {
  return ((struct shm_fabric *)base)->epoll_fd;
}

static void tick(struct shm_fabric *fabric) {
  uint64_t expirations, now_ns = base_clock_ns();
  if (read(fabric->timer_fd, &expirations, sizeof expirations) < 0) return;
  if (fabric->listener_paused) {
    fabric->listener_paused = false;
    shm_fabric_rewatch(fabric, fabric->listen_fd, EPOLLIN, &fabric->listener_watch);
  }
  bool waiting = shm_receiver_tick(fabric, now_ns);
  BASE_LIST_EACH(&fabric->endpoints, node)
  waiting = shm_endpoint_tick(BASE_CONTAINER(node, struct shm_endpoint, node), now_ns) || waiting;
  shm_fabric_tick(fabric, waiting);
}

static void dispatch(struct shm_fabric *fabric, const struct epoll_event *event) {
  enum shm_watch *watch = event->data.ptr;
  switch (*watch) {
    case SHM_WATCH_LISTENER:
      shm_receiver_accept(fabric);
      break;
    case SHM_WATCH_TIMER:
      tick(fabric);
      break;
    case SHM_WATCH_ENDPOINT:
      shm_endpoint_event(BASE_CONTAINER(watch, struct shm_endpoint, watch));
      break;
    case SHM_WATCH_RECEIVER:
      shm_receiver_event(BASE_CONTAINER(watch, struct shm_receiver, watch), event->events);
      break;
  }
}

static bool progress(struct fabric *base) {
  struct shm_fabric *fabric = (struct shm_fabric *)base;
  struct epoll_event events[EVENT_BATCH];
  struct base_list busy, due, *node;
  base_list_init(&busy);
  base_list_init(&due);
  base_list_splice(&busy, &fabric->busy_receivers);
  bool did = !base_list_empty(&busy);
  while ((node = base_list_pop_front(&busy))) shm_receiver_drain(BASE_CONTAINER(node, struct shm_receiver, busy_node));
  int count = epoll_wait(fabric->epoll_fd, events, EVENT_BATCH, 0);
  for (int i = 0; i < count; i++) dispatch(fabric, &events[i]);
  shm_receiver_bury(fabric);
  base_list_splice(&due, &fabric->due_endpoints);
  did |= count > 0 || !base_list_empty(&due);
  while ((node = base_list_pop_front(&due))) shm_endpoint_turn(BASE_CONTAINER(node, struct shm_endpoint, due_node));
  return did;
}

static bool arm(struct fabric *base) {
  const struct shm_fabric *fabric = (struct shm_fabric *)base;
  return base_list_empty(&fabric->due_endpoints) && base_list_empty(&fabric->busy_receivers);
}

static size_t copy_address(const struct fabric *base, uint8_t *address) {
  const struct shm_fabric *fabric = (const struct shm_fabric *)base;
  memcpy(address, &fabric->address, sizeof fabric->address);
  return sizeof fabric->address;
}

static kvf_status admit_token(struct fabric *base, uint64_t number, kvf_error **error_out) {
  struct shm_fabric *fabric = (struct shm_fabric *)base;
  if (base_map_get(&fabric->tokens, number)) return KVF_OK;
  struct shm_token *token = base_calloc(1, sizeof *token);
  if (token) token->token = number;
  if (token && base_map_put(&fabric->tokens, number, token)) return KVF_OK;
  base_free(token);
  return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a token"), error_out);
}

static void drop_token(struct fabric *base, uint64_t number) {
  struct shm_fabric *fabric = (struct shm_fabric *)base;
  struct shm_token *token = base_map_remove(&fabric->tokens, number);
  if (!token) return;
  if (token->receiver) shm_receiver_close(token->receiver);
  base_free(token);
}

static bool is_token_live(struct fabric *base, uint64_t number) {
  const struct shm_token *token = base_map_get(&((struct shm_fabric *)base)->tokens, number);
  return token && token->receiver;
}

const struct fabric_ops fabric_shm_ops = {
    .name = "shm",
    .traits = FABRIC_ONE_SIDED | FABRIC_MAPPABLE | FABRIC_SAME_HOST | FABRIC_DIRECT | FABRIC_MIGHT_WRITE_LATE,
    .direct_min_row_bytes = 0,
    .open = open_fabric,
    .close = close_fabric,
    .event_fd = event_fd,
    .progress = progress,
    .arm = arm,
    .region_expose = shm_region_expose,
    .region_revoke = shm_region_revoke,
    .region_key = shm_region_key,
    .address = copy_address,
    .token_admit = admit_token,
    .token_drop = drop_token,
    .token_live = is_token_live,
    .connect = shm_endpoint_connect,
    .endpoint_user = shm_endpoint_user,
    .disconnect = shm_endpoint_disconnect,
    .key_import = shm_remote_import,
    .key_drop = shm_remote_drop,
    .map = shm_remote_map,
    .send = shm_endpoint_send,
};
