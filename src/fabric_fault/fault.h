/* A provider that wraps another one and breaks it on purpose, for tests. It answers to the wrapped provider's name and traits once
 * open, so that a peer may use that provider as it is.
 *
 * Settings: inner=NAME, then any of these points (n counts from 1; each for `count` occurrences, 1 unless said), in any order:
 *   fail_send=n          the n-th piece is accepted, and its `sent` brings a FABRIC error
 *   refuse_send=n        the n-th call of send fails at once with FABRIC
 *   fail_import=n        the n-th key_import fails with FABRIC
 *   fail_map=n           the n-th map fails with KEY_REVOKED
 *   fail_connect=n       the n-th connect fails with UNREACHABLE
 *   drop_landed=n        the n-th `landed` is swallowed
 *   duplicate_landed=n   the n-th `landed` is told twice
 *   corrupt=n            one bit of the n-th piece's payload is changed on its way
 *   count=k              occurrences in a row that each point hits
 *   chance=p,seed=s      a point hits with p in 1000 from its n-th on instead, drawn from s
 * Everything else is passed on to the wrapped provider. */
#ifndef FABRIC_FAULT_FAULT_H
#define FABRIC_FAULT_FAULT_H

#include "fabric/fabric.h"

extern const struct fabric_ops fabric_fault_ops;

/* The providers that `inner` can name. Process-wide and borrowed; before the first open. */
void fabric_fault_offer(const struct fabric_ops *const *inners, size_t count);

#endif
