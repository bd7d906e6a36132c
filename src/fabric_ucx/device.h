/* Which devices a context may use. */
#ifndef FABRIC_UCX_DEVICE_H
#define FABRIC_UCX_DEVICE_H

#include <net/if.h>
#include <stdbool.h>

#include "base/error.h"

/* The name of the interface that carries the local address @p host.
 * Errors: UNAVAILABLE (no interface has it, or it is no address), SYSTEM. */
kvf_status fabric_ucx_device_find(const char *host, char name_out[IF_NAMESIZE], kvf_error **error_out);

/* Where Linux lists RDMA devices. */
#define FABRIC_UCX_DEVICE_FOLDER "/sys/class/infiniband"
/* True when @p folder lists an RDMA device. */
bool fabric_ucx_device_exists(const char *folder);

#endif
