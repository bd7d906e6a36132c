/* The workload: the prefix logic is a set of block ids that have been seen, open addressing, never shrinking. */
#include "workload.h"

#include <stdlib.h>

#include "mix.h"

struct block_set {
  uint64_t *slots; /* id + 1; 0 = free */
  size_t mask;
};

static bool set_init(struct block_set *set, uint64_t most) {
  size_t capacity = 16;
  while (capacity < most * 2) capacity *= 2;
  set->slots = calloc(capacity, sizeof *set->slots);
  set->mask = capacity - 1;
  return set->slots;
}

/* True when it was there already. */
static bool set_add(struct block_set *set, uint64_t id) {
  for (size_t i = mix_word(id) & set->mask;; i = (i + 1) & set->mask) {
    if (set->slots[i] == id + 1) return true;
    if (set->slots[i] != 0) continue;
    set->slots[i] = id + 1;
    return false;
  }
}

/* The leading blocks that were there, after which the rest is there too. */
static size_t count_hits(struct block_set *set, const struct trace_request *request, size_t blocks) {
  size_t hits = 0;
  bool leading = true;
  for (size_t i = 0; i < blocks; i++) {
    leading = set_add(set, request->block_ids[i]) && leading;
    hits += leading;
  }
  return hits;
}

static void add_request(struct workload *workload, const struct trace_request *source, const struct workload_options *options,
                        struct block_set *set) {
  size_t index = workload->count++;
  struct workload_request *request = &workload->requests[index];
  request->room = mix_word(options->seed ^ 0x600d5eedull) + index;
  request->arrival_ns = (uint64_t)((double)source->timestamp_ms * 1e6 * options->time_scale);
  request->tokens = source->input_tokens;
  if (options->max_tokens && request->tokens > options->max_tokens) {
    request->tokens = options->max_tokens;
    workload->cut_count++;
  }
  size_t blocks = (size_t)((request->tokens + TRACE_BLOCK_TOKENS - 1) / TRACE_BLOCK_TOKENS);
  size_t hits = count_hits(set, source, blocks);
  uint64_t prefix = (uint64_t)hits * TRACE_BLOCK_TOKENS;
  request->prefix_tokens = prefix < request->tokens ? prefix : request->tokens;
  workload->tokens += request->tokens;
  workload->prefix_tokens += request->prefix_tokens;
  workload->blocks += blocks;
  workload->hit_blocks += hits;
  workload->full_hits += hits == blocks;
}

bool workload_create(const struct trace *trace, const struct workload_options *options, struct workload *workload_out,
                     struct complaint *complaint) {
  struct workload workload = {0};
  struct block_set set = {0};
  uint64_t most = 0;
  for (size_t i = 0; i < trace->count; i++) most += trace->requests[i].block_count;
  workload.requests = calloc(trace->count, sizeof *workload.requests);
  if (!workload.requests || !set_init(&set, most)) {
    workload_fini(&workload);
    return complain(complaint, "out of memory");
  }
  for (size_t i = 0; i < trace->count; i++) add_request(&workload, &trace->requests[i], options, &set);
  free(set.slots);
  *workload_out = workload;
  return true;
}

void workload_fini(struct workload *workload) {
  free(workload->requests);
  *workload = (struct workload){0};
}

uint64_t workload_post_start(const struct workload_request *request, uint64_t chunk_tokens) {
  if (request->prefix_tokens == request->tokens) return request->tokens;
  return request->prefix_tokens / chunk_tokens * chunk_tokens;
}
