/* Which way a plan takes, and the sentence that says why. */
#include <inttypes.h>
#include <stdio.h>

#include <kvferry/engine.h>

#include "base/checked.h"
#include "base/error.h"
#include "plan/plan.h"

static const char *why_not(const struct plan_way_facts *facts) {
  return facts->why_not_direct ? facts->why_not_direct : "the provider cannot write into the peer's pages";
}

kvf_status plan_way_choose(const struct plan_way_facts *facts, struct plan_way_choice *choice_out, kvf_error **error_out) {
  struct plan_way_choice choice = {.way = KVF_WAY_STAGED};
  if (facts->demanded > KVF_WAY_DIRECT)
    return base_error_give(BASE_ERROR(KVF_UNSUPPORTED, NULL, "there is no way number %u", facts->demanded), error_out);
  if (facts->demanded == KVF_WAY_DIRECT && !facts->can_direct)
    return base_error_give(BASE_ERROR(KVF_UNSUPPORTED, NULL, "direct was demanded: %s", why_not(facts)), error_out);

  if (facts->demanded == KVF_WAY_STAGED)
    snprintf(choice.reason, sizeof choice.reason, "staged: demanded");
  else if (facts->demanded == KVF_WAY_DIRECT) {
    choice.way = KVF_WAY_DIRECT;
    snprintf(choice.reason, sizeof choice.reason, "direct: demanded");
  } else if (!facts->can_direct)
    snprintf(choice.reason, sizeof choice.reason, "staged: not direct, since %s", why_not(facts));
  else if (facts->row_bytes < facts->direct_min_row_bytes)
    snprintf(choice.reason, sizeof choice.reason,
             "staged: not direct, since runs of %" PRIu64 " B are contiguous on both sides and direct pays from %" PRIu64 " B",
             facts->row_bytes, facts->direct_min_row_bytes);
  else {
    choice.way = KVF_WAY_DIRECT;
    if (facts->row_bytes == UINT64_MAX)
      snprintf(choice.reason, sizeof choice.reason, "direct: the two ranks have nothing in common, so nothing is sent");
    else
      snprintf(choice.reason, sizeof choice.reason,
               "direct: not staged, since runs of %" PRIu64 " B are contiguous on both sides and direct pays from %" PRIu64 " B",
               facts->row_bytes, facts->direct_min_row_bytes);
  }
  *choice_out = choice;
  return KVF_OK;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* How many entries of a cut lie one after the other in its pages on both sides: the ends of a request inside a page, or of a block
 * inside one, are the exception. */
static uint64_t count_touching(const kvf_plane *source, const kvf_plane *target) {
  uint64_t entries = common_divisor(source->page_tokens, target->page_tokens);
  const kvf_plane *planes[] = {source, target};
  for (int i = 0; i < 2; i++)
    if (planes[i]->token_parts > 1) entries = common_divisor(entries, planes[i]->token_block ? planes[i]->token_block : 1);
  return entries;
}

static uint64_t cut_row_bytes(const struct layout_link *link, uint32_t cut) {
  const kvf_plane *source = &link->source_planes[link->cuts[cut].source_plane];
  const kvf_plane *target = &link->target_planes[link->cuts[cut].target_plane];
  uint64_t head_bytes = source->head_bytes, token_bytes = layout_cut_token_bytes(link, cut), bytes;
  uint64_t tokens = count_touching(source, target);
  bool heads_touch =
      token_bytes == head_bytes || (source->head_stride_bytes == head_bytes && target->head_stride_bytes == head_bytes);
  if (heads_touch) {
    bool tokens_touch = source->token_stride_bytes == token_bytes && target->token_stride_bytes == token_bytes;
    if (!tokens_touch) return token_bytes;
    return base_mul_u64(token_bytes, tokens, &bytes) ? bytes : UINT64_MAX;
  }
  bool tokens_touch = source->token_stride_bytes == head_bytes && target->token_stride_bytes == head_bytes;
  return tokens_touch ? head_bytes * tokens : head_bytes;
}

uint64_t plan_row_bytes(const struct layout_link *link) {
  uint64_t least = UINT64_MAX;
  for (uint32_t cut = 0; cut < link->cut_count; cut++) least = base_min_u64(least, cut_row_bytes(link, cut));
  return least;
}
