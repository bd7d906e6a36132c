/* A stand-in for libucp on machines without an RDMA device: a provider opens on it and registers memory, and that is all. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "ucx_stub.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern struct ucx_stub_journal ucx_stub_journal;
struct ucx_stub_journal ucx_stub_journal;

/* Objects that nobody looks into. */
static char object;
static int event_fd = -1;

EXPORT ucs_status_t ucp_config_read(const char *prefix, const char *file, ucp_config_t **config) {
  *config = (ucp_config_t *)&object;
  return UCS_OK;
}
EXPORT void ucp_config_release(ucp_config_t *config) {}
EXPORT ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value) {
  return UCS_OK;
}
EXPORT ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
                                     ucp_context_h *context) {
  *context = (ucp_context_h)&object;
  return UCS_OK;
}
EXPORT void ucp_cleanup(ucp_context_h context) {}
EXPORT ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker) {
  *worker = (ucp_worker_h)&object;
  return UCS_OK;
}
EXPORT void ucp_worker_destroy(ucp_worker_h worker) {
  if (event_fd >= 0) close(event_fd);
  event_fd = -1;
}
EXPORT ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attributes) {
  attributes->max_am_header = 4096;
  attributes->address = (ucp_address_t *)&object;
  attributes->address_length = 1;
  return UCS_OK;
}
EXPORT void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address) {}
EXPORT unsigned ucp_worker_progress(ucp_worker_h worker) {
  return 0;
}
/* UCX gives each worker its own; a second one would do here too. */
EXPORT ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd) {
  *fd = event_fd < 0 ? (event_fd = eventfd(0, EFD_CLOEXEC)) : dup(event_fd);
  return *fd < 0 ? UCS_ERR_IO_ERROR : UCS_OK;
}
EXPORT ucs_status_t ucp_worker_arm(ucp_worker_h worker) {
  return UCS_OK;
}
EXPORT ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param) {
  return UCS_OK;
}

EXPORT ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *handle) {
  struct ucx_stub_journal *journal = &ucx_stub_journal;
  uint64_t index = journal->map_count++;
  if (journal->map_count == journal->fail_at || index >= UCX_STUB_MAP_LIMIT) return UCS_ERR_IO_ERROR;
  journal->mapped[index].address = params->address;
  journal->mapped[index].length = params->length;
  journal->live_count++;
  *handle = (ucp_mem_h)malloc(1);
  return UCS_OK;
}
EXPORT ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h handle) {
  free(handle);
  ucx_stub_journal.live_count--;
  return UCS_OK;
}
EXPORT ucs_status_t ucp_mem_query(const ucp_mem_h handle, ucp_mem_attr_t *attributes) {
  return UCS_ERR_UNSUPPORTED;
}
EXPORT ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h handle, void **packed, size_t *packed_bytes) {
  *packed_bytes = ucx_stub_journal.packed_bytes ? ucx_stub_journal.packed_bytes : 11;
  *packed = calloc(1, *packed_bytes);
  return UCS_OK;
}
EXPORT void ucp_rkey_buffer_release(void *packed) {
  free(packed);
}

/* Nobody is connected to. */
EXPORT ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep) {
  return UCS_ERR_UNREACHABLE;
}
EXPORT ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param) {
  return NULL;
}
EXPORT ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param) {
  return NULL;
}
EXPORT ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *packed, ucp_rkey_h *rkey) {
  return UCS_ERR_UNREACHABLE;
}
EXPORT void ucp_rkey_destroy(ucp_rkey_h rkey) {}
EXPORT ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *bytes, size_t count, uint64_t address, ucp_rkey_h rkey,
                                    const ucp_request_param_t *param) {
  return UCS_STATUS_PTR(UCS_ERR_UNREACHABLE);
}
EXPORT ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_bytes, const void *bytes,
                                        size_t count, const ucp_request_param_t *param) {
  return UCS_STATUS_PTR(UCS_ERR_UNREACHABLE);
}
EXPORT void ucp_request_free(void *request) {}
EXPORT const char *ucs_status_string(ucs_status_t status) {
  return status == UCS_OK ? "success" : "failure";
}
