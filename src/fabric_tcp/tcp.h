/* Plain sockets: no dependency, works everywhere. Header and payload leave in one vectored write; the receiver reads the header
 * first and then the payload straight into the places that `place` chose.
 *
 * Settings (fabric_options.settings), for tests:
 *   user_timeout_ms=N  how long sent bytes may stay unacknowledged before the kernel gives the connection up (10000) */
#ifndef FABRIC_TCP_TCP_H
#define FABRIC_TCP_TCP_H

#include "fabric/fabric.h"

extern const struct fabric_ops fabric_tcp_ops;

#endif
