/* Opens and closes a provider: library, context, workers, address.
 *
 * Each mode has a context of its own, restricted to the transports whose behaviour is known. Message mode takes TCP and asks for no
 * remote memory access, so that UCX has no code at hand that would write where a packet says. One-sided mode takes what RDMA
 * devices do in hardware ("rc" brings datagrams along for making connections only). UCX's software `put` checks neither key nor
 * bounds; it is met only under emulate=1. The transport "self" is left out everywhere: it would call back from inside a send. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fabric_ucx/blob.h"
#include "fabric_ucx/device.h"
#include "fabric_ucx/instance.h"
#include "fabric_ucx/message.h"
#include "fabric_ucx/receiver.h"
#include "fabric_ucx/region.h"
#include "fabric_ucx/sender.h"
#include "fabric_ucx/ucx.h"

kvf_error *fabric_ucx_instance_error(const struct fabric_ucx *fabric, kvf_status status, const char *message, const char *call,
                                     ucs_status_t ucs_status) {
  return BASE_ERROR(status, fabric_ucx_library_error(&fabric->library, fabric->base.ops->name, call, ucs_status), "%s", message);
}

static kvf_status give_open_error(const struct fabric_ucx *fabric, const char *call, ucs_status_t status, kvf_error **error_out) {
  kvf_status outer = status == UCS_ERR_NO_MEMORY ? KVF_NO_MEMORY : KVF_UNAVAILABLE;
  return base_error_give(fabric_ucx_instance_error(fabric, outer, "UCX cannot be used here", call, status), error_out);
}

static ucs_status_t configure(struct fabric_ucx *fabric, ucp_config_t *config, const char *device) {
  const struct fabric_ucx_library *library = &fabric->library;
  const char *transports = fabric->settings.emulate ? "posix" : "rc,dc";
  ucs_status_t status = library->ucp_config_modify(config, "TLS", fabric->one_sided ? transports : "tcp");
  if (status == UCS_OK && device) status = library->ucp_config_modify(config, "NET_DEVICES", device);
  if (status != UCS_OK || getenv("UCX_KEEPALIVE_INTERVAL")) return status;
  /* TCP: slower than the kernel's own keepalive, which it would suspend. Shared memory has no other. */
  const char *interval = fabric->settings.emulate ? "1s" : "10s";
  return library->ucp_config_modify(config, "KEEPALIVE_INTERVAL", interval);
}

static kvf_status open_context(struct fabric_ucx *fabric, const char *device, kvf_error **error_out) {
  const struct fabric_ucx_library *library = &fabric->library;
  ucp_config_t *config;
  ucs_status_t status = library->ucp_config_read(NULL, NULL, &config);
  if (status != UCS_OK) return give_open_error(fabric, "ucp_config_read", status, error_out);
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                         .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP | (fabric->one_sided ? UCP_FEATURE_RMA : 0)};
  status = configure(fabric, config, device);
  if (status == UCS_OK) status = library->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &fabric->context);
  library->ucp_config_release(config);
  return status == UCS_OK ? KVF_OK : give_open_error(fabric, "ucp_init", status, error_out);
}

static kvf_status watch(struct fabric_ucx *fabric, int fd, kvf_error **error_out) {
  struct epoll_event event = {.events = EPOLLIN};
  if (!epoll_ctl(fabric->event_fd, EPOLL_CTL_ADD, fd, &event)) return KVF_OK;
  return base_error_give(BASE_ERROR_ERRNO("epoll_ctl", errno), error_out);
}

static kvf_status open_events(struct fabric_ucx *fabric, kvf_error **error_out) {
  fabric->event_fd = epoll_create1(EPOLL_CLOEXEC);
  if (fabric->event_fd < 0) return base_error_give(BASE_ERROR_ERRNO("epoll_create1", errno), error_out);
  fabric->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fabric->timer_fd < 0) return base_error_give(BASE_ERROR_ERRNO("timerfd_create", errno), error_out);
  return watch(fabric, fabric->timer_fd, error_out);
}

static kvf_status open_worker(struct fabric_ucx *fabric, kvf_error **error_out) {
  const struct fabric_ucx_library *library = &fabric->library;
  ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
                                .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK};
  ucp_worker_h worker;
  ucs_status_t status = library->ucp_worker_create(fabric->context, &params, &worker);
  if (status != UCS_OK) return give_open_error(fabric, "ucp_worker_create", status, error_out);
  fabric->workers[fabric->worker_count++] = worker;
  ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
  status = library->ucp_worker_query(worker, &attributes);
  if (status == UCS_OK && attributes.max_am_header < sizeof(struct fabric_ucx_message)) status = UCS_ERR_EXCEEDS_LIMIT;
  if (status != UCS_OK) return give_open_error(fabric, "ucp_worker_query", status, error_out);
  status = fabric_ucx_message_listen(fabric, worker);
  if (status != UCS_OK) return give_open_error(fabric, "ucp_worker_set_am_recv_handler", status, error_out);
  int fd;
  status = library->ucp_worker_get_efd(worker, &fd);
  if (status != UCS_OK) return give_open_error(fabric, "ucp_worker_get_efd", status, error_out);
  return watch(fabric, fd, error_out);
}

size_t fabric_ucx_open_address(struct fabric_ucx *fabric, ucp_worker_h worker, uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES]) {
  ucp_worker_attr_t attributes = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
  if (fabric->library.ucp_worker_query(worker, &attributes) != UCS_OK) return 0;
  bool fits = attributes.address_length <= FABRIC_ADDRESS_LIMIT_BYTES - FABRIC_UCX_BLOB_HEAD_BYTES;
  if (fits) memcpy(address + FABRIC_UCX_BLOB_HEAD_BYTES, attributes.address, attributes.address_length);
  fabric->library.ucp_worker_release_address(worker, attributes.address);
  return fits ? fabric_ucx_blob_seal(address, fabric_ucx_address_kind(fabric), fabric->incarnation, attributes.address_length) : 0;
}

static kvf_status publish_address(struct fabric_ucx *fabric, kvf_error **error_out) {
  fabric->address_bytes = fabric_ucx_open_address(fabric, fabric_ucx_connected_worker(fabric), fabric->address);
  if (fabric->address_bytes) return KVF_OK;
  kvf_error *error = BASE_ERROR(KVF_UNAVAILABLE, NULL, "UCX's address is too long; name fewer devices in UCX_NET_DEVICES");
  return base_error_give(base_error_add(error, "limit", "%d", FABRIC_ADDRESS_LIMIT_BYTES), error_out);
}

static void init_lists(struct fabric_ucx *fabric) {
  struct base_list *lists[] = {&fabric->steady_endpoints,   &fabric->unsettled_endpoints,
                               &fabric->orphan_endpoints,   &fabric->finished_pieces,
                               &fabric->free_pieces,        &fabric->orphan_pieces,
                               &fabric->steady_connections, &fabric->unsettled_connections,
                               &fabric->orphan_connections, &fabric->memories};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) base_list_init(lists[i]);
}

static kvf_status start(struct fabric_ucx *fabric, const struct fabric_options *options, kvf_error **error_out) {
  char device[IF_NAMESIZE];
  kvf_status status =
      fabric_ucx_library_load(fabric->settings.library[0] ? fabric->settings.library : NULL, &fabric->library, error_out);
  if (!status && !fabric->one_sided) status = fabric_ucx_device_find(options->host ? options->host : "", device, error_out);
  if (!status) status = open_events(fabric, error_out);
  if (!status) status = open_context(fabric, fabric->one_sided ? NULL : device, error_out);
  if (!status) status = open_worker(fabric, error_out);
  if (!status) status = open_worker(fabric, error_out);
  return status ? status : publish_address(fabric, error_out);
}

static kvf_status open_with(const struct fabric_options *options, const struct fabric_ucx_settings *settings,
                            const struct fabric_ops *ops, struct fabric **fabric_out, kvf_error **error_out) {
  struct fabric_ucx *fabric = base_calloc(1, sizeof *fabric);
  if (!fabric) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a provider"), error_out);
  *fabric = (struct fabric_ucx){.base.ops = ops,
                                .settings = *settings,
                                .callbacks = options->callbacks,
                                .log = options->log,
                                .one_sided = ops->traits & FABRIC_ONE_SIDED,
                                .event_fd = -1,
                                .timer_fd = -1};
  memcpy(fabric->incarnation, options->incarnation, sizeof fabric->incarnation);
  init_lists(fabric);
  kvf_status status = start(fabric, options, error_out);
  if (status) {
    fabric_ucx_close(&fabric->base);
    return status;
  }
  *fabric_out = &fabric->base;
  return KVF_OK;
}

kvf_status fabric_ucx_open_message(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out) {
  struct fabric_ucx_settings settings;
  kvf_status status = fabric_ucx_settings_decode(options->settings, &settings, error_out);
  if (status) return status;
  if (settings.emulate)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "emulate is a setting of the provider rdma"), error_out);
  return open_with(options, &settings, &fabric_ucx_ops, fabric_out, error_out);
}

kvf_status fabric_ucx_open_one_sided(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out) {
  struct fabric_ucx_settings settings;
  kvf_status status = fabric_ucx_settings_decode(options->settings, &settings, error_out);
  if (status) return status;
  if (settings.emulate) return open_with(options, &settings, &fabric_ucx_emulated_ops, fabric_out, error_out);
  if (fabric_ucx_device_exists(settings.devices)) return open_with(options, &settings, &fabric_rdma_ops, fabric_out, error_out);
  kvf_error *error = BASE_ERROR(KVF_UNAVAILABLE, NULL, "there is no RDMA device: %s is missing or empty", settings.devices);
  return base_error_give(base_error_add(error, "provider", "rdma"), error_out);
}

/* Everything is closed by force; UCX needs a moment to let go, which is bounded. */
static void shut(struct fabric_ucx *fabric) {
  uint64_t deadline_ns = base_clock_ns() + FABRIC_UCX_QUIET_NS;
  for (;;) {
    bool done = fabric_ucx_sender_shut(fabric);
    done &= fabric_ucx_receiver_shut(fabric);
    if (done || base_clock_ns() > deadline_ns) return;
    for (size_t i = 0; i < fabric->worker_count; i++) fabric->library.ucp_worker_progress(fabric->workers[i]);
  }
}

void fabric_ucx_close(struct fabric *base) {
  if (!base) return;
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  const struct fabric_ucx_library *library = &fabric->library;
  fabric->silent = true;
  shut(fabric);
  fabric_ucx_sender_drop_keys(fabric);
  fabric_ucx_region_fini(fabric);
  while (fabric->worker_count) library->ucp_worker_destroy(fabric->workers[--fabric->worker_count]);
  if (fabric->context) library->ucp_cleanup(fabric->context);
  fabric_ucx_sender_fini(fabric);
  fabric_ucx_receiver_fini(fabric);
  if (fabric->timer_fd >= 0) close(fabric->timer_fd);
  if (fabric->event_fd >= 0) close(fabric->event_fd);
  base_free(fabric);
}
