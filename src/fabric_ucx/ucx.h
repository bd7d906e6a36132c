/* The two providers over UCX. They share the code of this room and nothing else: each opens a UCX context of its own.
 *
 *   fabric_ucx_ops   "ucx"   UCX over TCP. Payloads travel in active messages; the receiver checks and places them.
 *   fabric_rdma_ops  "rdma"  RDMA devices only. Payloads are put, flushed, then announced by an active message.
 *
 * Settings (fabric_options.settings), mostly for tests:
 *   library=NAME    load this shared object instead of libucp.so.0
 *   devices=FOLDER  look here for RDMA devices instead of /sys/class/infiniband (rdma)
 *   emulate=1       run the one-sided code over UCX's shared memory, within one host (rdma); only memory that the provider
 *                   allocated can be exposed then
 *   fragment=N      bytes of a payload in one message (ucx)
 *   region_limit=N  register at most N bytes at once: larger regions are cut into parts with a key each (rdma). For devices with a
 *                   largest memory region. How many parts a region may have follows from FABRIC_KEY_LIMIT_BYTES
 *   page=N          take N, a power of two, for the size of the memory's pages instead of asking the kernel (rdma)
 *
 * Built without UCX's headers, or where its library cannot be loaded, open() gives UNAVAILABLE. */
#ifndef FABRIC_UCX_UCX_H
#define FABRIC_UCX_UCX_H

#include "fabric/fabric.h"

extern const struct fabric_ops fabric_ucx_ops;
extern const struct fabric_ops fabric_rdma_ops;

#endif
