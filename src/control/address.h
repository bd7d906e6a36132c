/* Host and port as text (field case C108). Pure. */
#ifndef CONTROL_ADDRESS_H
#define CONTROL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { CONTROL_HOST_LIMIT_BYTES = 255 };

struct control_host_port {
  char host[CONTROL_HOST_LIMIT_BYTES + 1]; /* without brackets; a zone id stays: "fe80::1%eth0" */
  uint16_t port;
};

/* "1.2.3.4:80", "[::1]:80", "host:80". A bare IPv6 address with a port, a missing host or port, and a port out of range are refused
 * with the reason; port 0 only when @p allow_zero. Errors: BAD_ADDRESS. */
kvf_status control_address_parse(const char *text, bool allow_zero, struct control_host_port *out, kvf_error **error_out);
/* Back to text, with brackets where needed; returns what snprintf would. */
int control_address_format(const struct control_host_port *address, char *text, size_t capacity_bytes);

#endif
