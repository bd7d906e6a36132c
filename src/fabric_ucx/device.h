/* Which devices a context may use. */
#ifndef FABRIC_UCX_DEVICE_H
#define FABRIC_UCX_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

/* The local address @p host and the name of the interface that carries it.
 * Errors: UNAVAILABLE (no interface has it, or it is no address), SYSTEM. */
kvf_status fabric_ucx_device_find(const char *host, struct sockaddr_storage *address_out, char name_out[IF_NAMESIZE],
                                  kvf_error **error_out);

/* True when @p folder lists an RDMA device. */
bool fabric_ucx_device_exists(const char *folder);

/* Bytes of an address of this family, or 0 when it is neither IPv4 nor IPv6. */
socklen_t fabric_ucx_device_address_bytes(const struct sockaddr_storage *address);

#endif
