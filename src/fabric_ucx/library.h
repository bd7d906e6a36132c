/* UCX as a table of functions, loaded at run time into its own symbol scope, so that nothing here is linked to it. */
#ifndef FABRIC_UCX_LIBRARY_H
#define FABRIC_UCX_LIBRARY_H

#include <ucp/api/ucp.h>

#include "base/error.h"

/* clang-format off */
#define FABRIC_UCX_FUNCTIONS(row) \
  row(ucp_config_read) row(ucp_config_release) row(ucp_config_modify) row(ucp_init_version) row(ucp_cleanup) \
  row(ucp_worker_create) row(ucp_worker_destroy) row(ucp_worker_query) row(ucp_worker_release_address) \
  row(ucp_worker_progress) row(ucp_worker_get_efd) row(ucp_worker_arm) row(ucp_worker_set_am_recv_handler) \
  row(ucp_ep_create) row(ucp_ep_close_nbx) row(ucp_ep_flush_nbx) row(ucp_mem_map) row(ucp_mem_unmap) \
  row(ucp_mem_query) row(ucp_rkey_pack) row(ucp_rkey_buffer_release) row(ucp_ep_rkey_unpack) \
  row(ucp_rkey_destroy) row(ucp_put_nbx) row(ucp_am_send_nbx) row(ucp_request_free) row(ucs_status_string)
/* clang-format on */

struct fabric_ucx_library {
#define FABRIC_UCX_DECLARE(name) __typeof__(&name) name;
  FABRIC_UCX_FUNCTIONS(FABRIC_UCX_DECLARE)
#undef FABRIC_UCX_DECLARE
};

/* Load @p soname (NULL: the usual one) and fill the table. UCX is never unloaded: it installs process-wide state.
 * Errors: UNAVAILABLE with the loader's text. */
kvf_status fabric_ucx_library_load(const char *soname, struct fabric_ucx_library *library_out, kvf_error **error_out);

/* The innermost link of a chain: what UCX said to @p call. */
kvf_error *fabric_ucx_library_error(const struct fabric_ucx_library *library, const char *provider, const char *call,
                                    ucs_status_t status);

#endif
