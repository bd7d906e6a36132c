/* The workload: which rooms a replay opens, in order. A pure function of trace and settings, so that every rank
 * derives the same one and no coordinator is needed. */
#ifndef TOOLS_WORKLOAD_H
#define TOOLS_WORKLOAD_H

#include "trace.h"

struct workload_request {
  uint64_t room;
  uint64_t arrival_ns;    /* from the start of the replay */
  uint64_t tokens;        /* of the prompt */
  uint64_t prefix_tokens; /* leading tokens that the decode side already holds; up to all of them */
};

struct workload {
  struct workload_request *requests;
  size_t count;
  size_t cut_count;       /* prompts that max_tokens made shorter */
  uint64_t tokens;        /* of all prompts */
  uint64_t prefix_tokens; /* of all prompts */
  uint64_t blocks, hit_blocks, full_hits;
};

struct workload_options {
  uint64_t seed;
  uint64_t max_tokens; /* longer prompts are cut; 0 = never */
  double time_scale;   /* 0 = everything arrives at once */
};

bool workload_create(const struct trace *trace, const struct workload_options *options, struct workload *workload_out,
                     struct complaint *complaint);
void workload_fini(struct workload *workload);

/** Prefill computes and posts from the first chunk that is not all prefix. */
uint64_t workload_post_start(const struct workload_request *request, uint64_t chunk_tokens);

#endif
