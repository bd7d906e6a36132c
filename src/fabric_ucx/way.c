/* UCX reports one and the same loss as different codes, through the callback, a request, or both: the first one is kept. */
#include "fabric_ucx/way.h"

#include "fabric_ucx/instance.h"

static void note_failure(void *context, ucp_ep_h ep, ucs_status_t status) {
  fabric_ucx_way_fail(context, status);
}

void fabric_ucx_way_fail(struct fabric_ucx_way *way, ucs_status_t status) {
  if (way->failure == UCS_OK) way->failure = status;
  way->fabric->broken = way->fabric->kicked = true;
}

ucs_status_t fabric_ucx_way_open(struct fabric_ucx_way *way, struct fabric_ucx *fabric, ucp_worker_h worker,
                                 ucp_ep_params_t *params) {
  params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params->err_handler.cb = note_failure;
  params->err_handler.arg = way;
  way->fabric = fabric;
  ucs_status_t status = fabric->library.ucp_ep_create(worker, params, &way->ep);
  if (status == UCS_OK) way->state = FABRIC_UCX_WAY_OPEN;
  return status;
}

static void finish_close(void *request, ucs_status_t status, void *context) {
  struct fabric_ucx_way *way = context;
  way->state = FABRIC_UCX_WAY_CLOSED;
  way->fabric->kicked = true;
  way->fabric->library.ucp_request_free(request);
}

void fabric_ucx_way_close(struct fabric_ucx_way *way) {
  if (way->state != FABRIC_UCX_WAY_OPEN) return;
  way->state = FABRIC_UCX_WAY_CLOSING;
  ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                             .flags = UCP_EP_CLOSE_FLAG_FORCE,
                             .cb.send = finish_close,
                             .user_data = way};
  ucs_status_ptr_t request = way->fabric->library.ucp_ep_close_nbx(way->ep, &how);
  if (!UCS_PTR_IS_PTR(request)) way->state = FABRIC_UCX_WAY_CLOSED;
}
