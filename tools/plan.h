/* A plan: what every rank of two instances holds, and what each would send to each for one request. */
#ifndef TOOLS_PLAN_H
#define TOOLS_PLAN_H

#include <kvferry/plan.h>

#include "geometry.h"

struct plan {
  const struct settings *settings;
  const char *fabric;
  uint64_t tokens;
  struct geometry *sides[2]; /* by role */
  uint32_t counts[2];
  kvf_plan_flow *flows; /* of decode rank d from prefill rank p at d * counts[ROLE_PREFILL] + p */
  uint64_t piece_bytes;
};

/** What a rank holds. */
struct plan_holding {
  char layers[512], heads[256];
  double token_bytes;                 /* of arrays that grow with all tokens */
  uint64_t window_bytes, state_bytes; /* of one request, the windows full */
};

/** What one decode rank needs to stage. */
struct plan_arena {
  uint32_t senders;
  uint64_t least_bytes, recommended_bytes;
};

struct plan_totals {
  uint64_t bytes, pieces, slices, direct_writes;
};

const kvf_plan_flow *plan_flow(const struct plan *plan, uint32_t prefill, uint32_t decode);
void plan_describe_rank(const struct plan *plan, enum role role, uint32_t rank, struct plan_holding *holding_out);
/** "K V 0-3 of 8; latent": heads of what a flow carries. */
const char *plan_describe_heads(const kvf_plan_flow *flow, char *text, size_t capacity_bytes);
struct plan_arena plan_size_arena(const struct plan *plan, uint32_t decode);
struct plan_totals plan_sum(const struct plan *plan);

void plan_print_text(const struct plan *plan, FILE *out);
void plan_print_dot(const struct plan *plan, FILE *out);
/** False when it could not be written. */
bool plan_print_json(const struct plan *plan, FILE *out);

#endif
