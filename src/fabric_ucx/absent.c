/* Stands in for the two providers where UCX's headers were missing at build time: they exist, and say why they cannot open. */
#include "fabric_ucx/ucx.h"

static kvf_status refuse_open(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out) {
  return base_error_give(BASE_ERROR(KVF_UNAVAILABLE, NULL, "kvferry was built without the UCX headers"), error_out);
}

const struct fabric_ops fabric_ucx_ops = {.name = "ucx", .traits = FABRIC_DIRECT, .open = refuse_open};
const struct fabric_ops fabric_rdma_ops = {.name = "rdma", .traits = FABRIC_ONE_SIDED | FABRIC_DEVICE, .open = refuse_open};
