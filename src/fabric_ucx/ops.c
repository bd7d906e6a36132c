/* The two providers, and the face of the second one while it emulates. */
#include <string.h>

#include "fabric_ucx/memory.h"
#include "fabric_ucx/receiver.h"
#include "fabric_ucx/region.h"
#include "fabric_ucx/sender.h"
#include "fabric_ucx/ucx.h"

static size_t copy_address(const struct fabric *base, uint8_t *address) {
  const struct fabric_ucx *fabric = fabric_ucx_of(base);
  memcpy(address, fabric->address, fabric->address_bytes);
  return fabric->address_bytes;
}

/* clang-format off */
#define COMMON_OPS \
  .close = fabric_ucx_close, \
  .event_fd = fabric_ucx_event_fd, \
  .progress = fabric_ucx_progress, \
  .arm = fabric_ucx_arm, \
  .region_expose = fabric_ucx_region_expose, \
  .region_revoke = fabric_ucx_region_revoke, \
  .region_key = fabric_ucx_region_key, \
  .address = copy_address, \
  .token_admit = fabric_ucx_token_admit, \
  .token_drop = fabric_ucx_token_drop, \
  .connect = fabric_ucx_endpoint_connect, \
  .endpoint_user = fabric_ucx_endpoint_user, \
  .disconnect = fabric_ucx_endpoint_disconnect, \
  .send = fabric_ucx_piece_send

#define ONE_SIDED_OPS \
  COMMON_OPS, \
  .name = "rdma", \
  .open = fabric_ucx_open_one_sided, \
  .memory_alloc = fabric_ucx_memory_alloc, \
  .memory_free = fabric_ucx_memory_free, \
  .key_import = fabric_ucx_key_import, \
  .key_drop = fabric_ucx_key_drop, \
  .token_live = fabric_ucx_token_live
/* clang-format on */

const struct fabric_ops fabric_ucx_ops = {COMMON_OPS, .name = "ucx", .traits = FABRIC_DIRECT, .direct_min_row_bytes = 2048,
                                          .open = fabric_ucx_open_message};

/* Unmapping does not prove that a device has forgotten a key (UCX may cache the registration), so a live peer might write late. */
const struct fabric_ops fabric_rdma_ops = {ONE_SIDED_OPS, .traits = FABRIC_ONE_SIDED | FABRIC_DEVICE | FABRIC_MIGHT_WRITE_LATE};

const struct fabric_ops fabric_ucx_emulated_ops = {ONE_SIDED_OPS,
                                                   .traits = FABRIC_ONE_SIDED | FABRIC_SAME_HOST | FABRIC_MIGHT_WRITE_LATE};
