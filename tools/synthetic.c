/* Synthetic traces. A new prompt either opens with the system prompt that all share (one block), or goes on from an
 * earlier prompt and repeats part of its blocks; the two shares are chosen so that some 36 % of all blocks are repeats. */
#include "synthetic.h"

#include <math.h>
#include <string.h>

#include "mix.h"

enum { BURST_REQUESTS = 10, BURST_MS = 3000, PICK_TRIES = 6 };

static const double continue_share = 0.63; /* prompts that go on from an earlier one */
static const double repeat_least = 0.30;   /* the least share of its blocks that such a prompt repeats; the most is all */
static const double full_share = 0.01;     /* prompts that are known whole */

uint64_t synthetic_length(double unit) {
  static const struct {
    double unit, tokens;
  } points[] = {{0, 891}, {0.10, 964}, {0.50, 6909}, {0.90, 27367}, {0.99, 85401}, {1, 126195}};
  size_t i = 1;
  while (i + 1 < sizeof points / sizeof *points && unit > points[i].unit) i++;
  double share = (unit - points[i - 1].unit) / (points[i].unit - points[i - 1].unit);
  double low = log(points[i - 1].tokens), high = log(points[i].tokens);
  return (uint64_t)llround(exp(low + share * (high - low)));
}

/* How many leading blocks a prompt of @p blocks would like to repeat. */
static size_t draw_repeats(size_t blocks, uint64_t *random) {
  double kind = mix_next_unit(random), share = mix_next_unit(random);
  if (kind < full_share) return blocks;
  if (kind > continue_share) return 1;
  return (size_t)((repeat_least + share * (1 - repeat_least)) * (double)blocks);
}

/* An earlier request with at least @p blocks blocks, or the longest of those looked at. */
static const struct trace_request *pick_earlier(const struct trace *trace, size_t blocks, uint64_t *random) {
  const struct trace_request *best = &trace->requests[0];
  for (int i = 0; i < PICK_TRIES; i++) {
    const struct trace_request *candidate = &trace->requests[mix_next(random) % trace->count];
    if (candidate->block_count >= blocks) return candidate;
    if (candidate->block_count > best->block_count) best = candidate;
  }
  return best;
}

static bool add_request(struct trace *trace, uint64_t *random, uint64_t *next_id) {
  uint64_t tokens = synthetic_length(mix_next_unit(random));
  size_t blocks = (size_t)((tokens + TRACE_BLOCK_TOKENS - 1) / TRACE_BLOCK_TOKENS);
  size_t index = trace->count, repeats = 0;
  const uint64_t *repeated = NULL;
  size_t wanted = draw_repeats(blocks, random);
  if (index > 0 && wanted > 0) {
    const struct trace_request *earlier = pick_earlier(trace, wanted, random);
    repeats = wanted < earlier->block_count ? wanted : earlier->block_count;
    repeated = earlier->block_ids;
  }
  struct trace_request *request = trace_add(trace, blocks);
  if (!request) return false;
  request->timestamp_ms = index / BURST_REQUESTS * BURST_MS;
  request->input_tokens = tokens;
  request->output_tokens = 1 + mix_next(random) % 700;
  if (repeated) memcpy(request->block_ids, repeated, repeats * sizeof *repeated);
  for (size_t i = repeats; i < blocks; i++) request->block_ids[i] = (*next_id)++;
  return true;
}

bool synthetic_generate(size_t count, uint64_t seed, struct trace *trace_out, struct complaint *complaint) {
  struct trace trace = {0};
  uint64_t random = mix_word(seed + 0x5eedull), next_id = 0;
  for (size_t i = 0; i < count; i++) {
    if (add_request(&trace, &random, &next_id)) continue;
    trace_fini(&trace);
    return complain(complaint, "out of memory");
  }
  *trace_out = trace;
  return true;
}
