/* Within one host: the writer maps the peer's sealed memfds, copies straight in, and announces pieces through a ring in shared
 * memory. Takes no settings. Only memory with a sealed memfd behind it (memory/shared.h) can be exposed. */
#ifndef FABRIC_SHM_SHM_H
#define FABRIC_SHM_SHM_H

#include "fabric/fabric.h"

extern const struct fabric_ops fabric_shm_ops;

#endif
