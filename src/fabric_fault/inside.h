/* The wrapper's own structures. Its table of operations is made per open provider, because name, traits and optional operations are
 * the wrapped provider's. Endpoints are wrapped too, since callers and callbacks name them; regions and memory are passed through.
 */
#ifndef FABRIC_FAULT_INSIDE_H
#define FABRIC_FAULT_INSIDE_H

#include "base/list.h"
#include "fabric_fault/fault.h"

/* The points where something can go wrong, in the order of fault.h. */
/* clang-format off */
#define FAULT_POINTS(X)                                                                                       \
  X(fail_send) X(refuse_send) X(fail_import) X(fail_map) X(fail_connect) X(drop_landed) X(duplicate_landed) X(corrupt)
/* clang-format on */

enum fault_point {
#define FAULT_POINT_ENUM(name) FAULT_POINT_##name,
  FAULT_POINTS(FAULT_POINT_ENUM)
#undef FAULT_POINT_ENUM
      FAULT_POINT_COUNT
};

struct fault_plan {
  uint64_t first[FAULT_POINT_COUNT]; /* the n of point=n; 0: never */
  uint64_t seen[FAULT_POINT_COUNT];
  uint64_t count;
  uint64_t chance; /* in 1000; 0: count decides */
  uint64_t random;
};

struct fault_fabric {
  struct fabric base;
  struct fabric_ops ops;
  struct fabric *inner;
  struct fabric_callbacks callbacks;
  struct fault_plan plan;
  struct base_list endpoints;
  struct base_list victims; /* accepted pieces that the inner provider never sees, oldest first */
  struct base_list damages; /* payloads that the inner provider is sending in place of the right ones */
};

struct fault_endpoint {
  struct fabric_endpoint base;
  struct fault_fabric *fabric;
  struct base_list node;
  struct fabric_endpoint *inner; /* NULL once disconnected */
  void *user;
};

struct fault_victim {
  struct base_list node;
  struct fault_endpoint *endpoint; /* NULL: its endpoint was disconnected */
  void *tag;
};

/* plan.c */
/* Splits @p settings: what is ours goes into the plan, the rest into rest[rest_bytes]. Errors: INVALID. */
kvf_status fault_plan_parse(struct fault_plan *plan, const char *settings, char *inner, size_t inner_bytes, char *rest,
                            size_t rest_bytes, kvf_error **error_out);
/* Counts one occurrence; true when it is to go wrong. */
bool fault_plan_hits(struct fault_plan *plan, enum fault_point point);
/* What an injected failure looks like: our line, and a provider's own code and text innermost. */
kvf_error *fault_plan_error(kvf_status status, const char *message);

/* damage.c */
/* Send @p piece with one bit of its payload changed. Errors as for send. */
kvf_status fault_damage_send(struct fault_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out);
/* A piece with this tag got its `sent`. */
void fault_damage_sent(struct fault_fabric *fabric, const void *tag);
void fault_damages_free(struct fault_fabric *fabric);

#endif
