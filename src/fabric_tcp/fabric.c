/* Opening, closing and the turn: events first, then whatever endpoints have due. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric/settings.h"
#include "fabric_tcp/inside.h"

enum { EVENT_BATCH = 64 };

/* The receiver chooses where payloads go, so there is nothing to expose: a region is only remembered, to be freed. */
struct tcp_region {
  struct fabric_region base;
  struct base_list node;
};

static kvf_status apply_settings(struct tcp_fabric *fabric, const char *settings, kvf_error **error_out) {
  struct fabric_setting setting;
  kvf_error *error = NULL;
  fabric->user_timeout_ms = 10000;
  while (fabric_settings_next(&settings, &setting, &error)) {
    if (strcmp(setting.key, "user_timeout_ms") != 0) return base_error_give(fabric_setting_unknown(&setting, "tcp"), error_out);
    kvf_status status = fabric_setting_number(&setting, INT32_MAX, &fabric->user_timeout_ms, error_out);
    if (status != KVF_OK) return status;
  }
  return error ? base_error_give(error, error_out) : KVF_OK;
}

static kvf_status open_descriptors(struct tcp_fabric *fabric, const char *host, kvf_error **error_out) {
  kvf_status status = tcp_address_listen(host ? host : "127.0.0.1", fabric->incarnation, &fabric->listen_fd, fabric->address,
                                         &fabric->address_bytes, error_out);
  if (status != KVF_OK) return status;
  fabric->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  fabric->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fabric->epoll_fd >= 0 && fabric->timer_fd >= 0 &&
      tcp_socket_watch(fabric, fabric->listen_fd, EPOLLIN, &fabric->listener_watch) &&
      tcp_socket_watch(fabric, fabric->timer_fd, EPOLLIN, &fabric->timer_watch))
    return KVF_OK;
  return base_error_give(BASE_ERROR(KVF_SYSTEM, BASE_ERROR_ERRNO("epoll", errno), "tcp cannot be opened"), error_out);
}

static void close_fabric(struct fabric *base) {
  struct tcp_fabric *fabric = (struct tcp_fabric *)base;
  while (!base_list_empty(&fabric->regions))
    base_free(BASE_CONTAINER(base_list_pop_front(&fabric->regions), struct tcp_region, node));
  while (!base_list_empty(&fabric->endpoints)) tcp_endpoint_free(BASE_CONTAINER(fabric->endpoints.next, struct tcp_endpoint, node));
  while (!base_list_empty(&fabric->strangers))
    tcp_receiver_close(BASE_CONTAINER(fabric->strangers.next, struct tcp_receiver, node));
  while (!base_list_empty(&fabric->receivers))
    tcp_receiver_close(BASE_CONTAINER(fabric->receivers.next, struct tcp_receiver, node));
  tcp_receiver_bury(fabric);
  size_t cursor = 0;
  struct tcp_token *token;
  while ((token = base_map_next(&fabric->tokens, &cursor))) base_free(token);
  base_map_fini(&fabric->tokens);
  if (fabric->listen_fd >= 0) close(fabric->listen_fd);
  if (fabric->timer_fd >= 0) close(fabric->timer_fd);
  if (fabric->epoll_fd >= 0) close(fabric->epoll_fd);
  base_free(fabric);
}

static kvf_status open_fabric(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out) {
  struct tcp_fabric *fabric = base_calloc(1, sizeof *fabric);
  if (!fabric) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for tcp"), error_out);
  fabric->base.ops = &fabric_tcp_ops;
  fabric->callbacks = options->callbacks;
  fabric->log = options->log;
  memcpy(fabric->incarnation, options->incarnation, sizeof fabric->incarnation);
  fabric->epoll_fd = fabric->listen_fd = fabric->timer_fd = -1;
  fabric->listener_watch = TCP_WATCH_LISTENER;
  fabric->timer_watch = TCP_WATCH_TIMER;
  base_list_init(&fabric->regions);
  base_list_init(&fabric->endpoints);
  base_list_init(&fabric->due_endpoints);
  base_list_init(&fabric->strangers);
  base_list_init(&fabric->receivers);
  base_list_init(&fabric->dead_receivers);
  kvf_status status = apply_settings(fabric, options->settings, error_out);
  if (status == KVF_OK) status = open_descriptors(fabric, options->host, error_out);
  if (status != KVF_OK) {
    close_fabric(&fabric->base);
    return status;
  }
  *fabric_out = &fabric->base;
  return KVF_OK;
}

static int event_fd(struct fabric *base) {
  return ((struct tcp_fabric *)base)->epoll_fd;
}

static void tick(struct tcp_fabric *fabric) {
  uint64_t expirations, now_ns = base_clock_ns();
  if (read(fabric->timer_fd, &expirations, sizeof expirations) < 0) return;
  if (fabric->listener_paused) {
    fabric->listener_paused = false;
    tcp_socket_rewatch(fabric, fabric->listen_fd, EPOLLIN, &fabric->listener_watch);
  }
  tcp_receiver_tick(fabric, now_ns);
  bool waiting = fabric->stranger_count > 0;
  BASE_LIST_EACH(&fabric->endpoints, node)
  waiting = tcp_endpoint_tick(BASE_CONTAINER(node, struct tcp_endpoint, node), now_ns) || waiting;
  tcp_socket_tick(fabric, waiting);
}

static void dispatch(struct tcp_fabric *fabric, const struct epoll_event *event) {
  enum tcp_watch *watch = event->data.ptr;
  switch (*watch) {
    case TCP_WATCH_LISTENER:
      tcp_receiver_accept(fabric);
      break;
    case TCP_WATCH_TIMER:
      tick(fabric);
      break;
    case TCP_WATCH_ENDPOINT:
      tcp_endpoint_event(BASE_CONTAINER(watch, struct tcp_endpoint, watch), event->events);
      break;
    case TCP_WATCH_RECEIVER:
      tcp_receiver_event(BASE_CONTAINER(watch, struct tcp_receiver, watch));
      break;
  }
}

static bool progress(struct fabric *base) {
  struct tcp_fabric *fabric = (struct tcp_fabric *)base;
  struct epoll_event events[EVENT_BATCH];
  int count = epoll_wait(fabric->epoll_fd, events, EVENT_BATCH, 0);
  for (int i = 0; i < count; i++) dispatch(fabric, &events[i]);
  tcp_receiver_bury(fabric);
  struct base_list due;
  base_list_init(&due);
  base_list_splice(&due, &fabric->due_endpoints);
  bool did = count > 0 || !base_list_empty(&due);
  struct base_list *node;
  while ((node = base_list_pop_front(&due))) tcp_endpoint_turn(BASE_CONTAINER(node, struct tcp_endpoint, due_node));
  return did;
}

static bool arm(struct fabric *base) {
  return base_list_empty(&((struct tcp_fabric *)base)->due_endpoints);
}

static size_t copy_address(const struct fabric *base, uint8_t *address) {
  const struct tcp_fabric *fabric = (const struct tcp_fabric *)base;
  memcpy(address, fabric->address, fabric->address_bytes);
  return fabric->address_bytes;
}

static kvf_status admit_token(struct fabric *base, uint64_t number, kvf_error **error_out) {
  struct tcp_fabric *fabric = (struct tcp_fabric *)base;
  if (base_map_get(&fabric->tokens, number)) return KVF_OK;
  struct tcp_token *token = base_calloc(1, sizeof *token);
  if (token) token->token = number;
  if (token && base_map_put(&fabric->tokens, number, token)) return KVF_OK;
  base_free(token);
  return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a token"), error_out);
}

static void drop_token(struct fabric *base, uint64_t number) {
  struct tcp_fabric *fabric = (struct tcp_fabric *)base;
  struct tcp_token *token = base_map_remove(&fabric->tokens, number);
  if (!token) return;
  if (token->receiver) tcp_receiver_close(token->receiver);
  base_free(token);
}

static kvf_status expose_region(struct fabric *base, const struct fabric_exposure *exposure, struct fabric_region **region_out,
                                kvf_error **error_out) {
  struct tcp_region *region = base_calloc(1, sizeof *region);
  if (!region) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a region"), error_out);
  region->base.ops = &fabric_tcp_ops;
  base_list_push_back(&((struct tcp_fabric *)base)->regions, &region->node);
  *region_out = &region->base;
  return KVF_OK;
}

static void revoke_region(struct fabric_region *base) {
  struct tcp_region *region = (struct tcp_region *)base;
  base_list_remove(&region->node);
  base_free(region);
}
static size_t region_key(const struct fabric_region *region, uint8_t *key) {
  return 0;
}

const struct fabric_ops fabric_tcp_ops = {
    .name = "tcp",
    .traits = FABRIC_DIRECT,
    .direct_min_row_bytes = 2048,
    .open = open_fabric,
    .close = close_fabric,
    .event_fd = event_fd,
    .progress = progress,
    .arm = arm,
    .region_expose = expose_region,
    .region_revoke = revoke_region,
    .region_key = region_key,
    .address = copy_address,
    .token_admit = admit_token,
    .token_drop = drop_token,
    .connect = tcp_endpoint_connect,
    .endpoint_user = tcp_endpoint_user,
    .disconnect = tcp_endpoint_disconnect,
    .send = tcp_endpoint_send,
};
