/* The public summary of a plan: cuts as the handshake builds them, pieces as the cursor yields them, and the writes that other
 * methods would need, counted over made-up pages of which no two are neighbours. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <kvferry/engine.h>
#include <kvferry/plan.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "layout/entry.h"
#include "plan/plan.h"

enum { DEFAULT_PIECE_BYTES = 256 << 10, CLASS_LIMIT = 32, PAIR_BATCH = 64 };

/* What the number of runs of a cut depends on; cuts of many layers are alike. */
struct class_key {
  uint64_t token_first, token_end;
  struct {
    uint64_t token_stride, head_stride, page_tokens, parts, part, block;
  } sides[2];
  uint64_t head_count, head_bytes, entry_tokens, per_request;
};

struct class {
  struct class_key key;
  uint64_t runs;
};

/* Heads of one array of one layer that follow each other. */
struct heads_run {
  const kvf_plane *plane; /* NULL: none yet */
  uint32_t first, end;
};

struct summary {
  const kvf_plan_options *options;
  struct layout_link link;
  kvf_plan_flow *flow;
  struct heads_run heads;
  struct class classes[CLASS_LIMIT];
  uint32_t class_count;
  uint32_t *pages; /* 0, 2, 4 … */
};

static const kvf_plane *plane_of(const struct layout_link *link, uint32_t cut, enum layout_side side) {
  return side == LAYOUT_SOURCE ? &link->source_planes[link->cuts[cut].source_plane]
                               : &link->target_planes[link->cuts[cut].target_plane];
}

static struct class_key describe_class(const struct layout_link *link, uint32_t cut, uint64_t token_first, uint64_t token_end) {
  const kvf_plane *target = plane_of(link, cut, LAYOUT_TARGET);
  struct class_key key;
  memset(&key, 0, sizeof key); /* compared whole */
  key.token_first = token_first;
  key.token_end = token_end;
  for (int side = 0; side < 2; side++) {
    const kvf_plane *plane = plane_of(link, cut, (enum layout_side)side);
    key.sides[side].token_stride = plane->token_stride_bytes;
    key.sides[side].head_stride = plane->head_stride_bytes;
    key.sides[side].page_tokens = plane->page_tokens;
    key.sides[side].parts = plane->token_parts;
    key.sides[side].part = plane->token_part;
    key.sides[side].block = plane->token_block;
  }
  key.head_count = link->cuts[cut].head_count;
  key.head_bytes = target->head_bytes;
  key.entry_tokens = layout_entry_tokens(target);
  key.per_request = target->per_request;
  return key;
}

/* Walks one cut over made-up pages. Addresses are only compared, so it does not matter that a pool would have to be larger. */
static uint64_t count_runs(const struct summary *summary, uint32_t cut, uint64_t token_first, uint64_t token_end) {
  struct layout_pages pages[2];
  struct layout_pair pairs[PAIR_BATCH];
  struct layout_pair_walk walk;
  struct layout_piece piece = {.cut_first = cut, .cut_count = 1, .token_first = token_first};
  uint64_t runs = 0;
  memset(pages, 0, sizeof pages);
  piece.token_count = (uint32_t)(token_end - token_first);
  for (int side = 0; side < 2; side++) {
    const kvf_plane *plane = plane_of(&summary->link, cut, (enum layout_side)side);
    pages[side].lists[plane->page_list] =
        (kvf_page_list){.page_list = plane->page_list, .page_count = (uint32_t)token_end + 1, .pages = summary->pages};
  }
  layout_pair_walk_init(&walk, &summary->link, &pages[LAYOUT_SOURCE], &pages[LAYOUT_TARGET], &piece);
  for (size_t count; (count = layout_pair_walk_next(&walk, pairs, PAIR_BATCH)) > 0;)
    for (size_t i = 0; i < count; i++) runs += pairs[i].row_count;
  return runs;
}

static uint64_t find_runs(struct summary *summary, uint32_t cut, uint64_t token_first, uint64_t token_end) {
  const struct class_key key = describe_class(&summary->link, cut, token_first, token_end);
  for (uint32_t i = 0; i < summary->class_count; i++)
    if (!memcmp(&summary->classes[i].key, &key, sizeof key)) return summary->classes[i].runs;
  uint64_t runs = count_runs(summary, cut, token_first, token_end);
  if (summary->class_count < CLASS_LIMIT) {
    struct class *made = &summary->classes[summary->class_count++];
    memcpy(&made->key, &key, sizeof key);
    made->runs = runs;
  }
  return runs;
}

/* Runs of one entry: its heads together where they touch on both sides. */
static uint64_t count_entry_runs(const struct layout_link *link, uint32_t cut) {
  for (int side = 0; side < 2; side++) {
    const kvf_plane *plane = plane_of(link, cut, (enum layout_side)side);
    if (plane->head_stride_bytes != plane->head_bytes) return link->cuts[cut].head_count;
  }
  return 1;
}

/* The heads of one array of one layer, whole: its cuts may be in parts. */
static void add_heads(kvf_plan_flow *flow, const struct heads_run *run) {
  if (!run->plane) return;
  for (uint32_t i = 0; i < flow->heads_count; i++) {
    kvf_plan_heads *heads = &flow->heads[i];
    if (heads->role != run->plane->role || heads->part != run->plane->part || heads->head_first != run->first ||
        heads->head_count != run->end - run->first || heads->heads_total != run->plane->heads_total)
      continue;
    heads->layer_count++;
    return;
  }
  if (flow->heads_count == KVF_PLAN_HEADS_LIMIT) return;
  flow->heads[flow->heads_count++] = (kvf_plan_heads){.role = run->plane->role,
                                                      .part = run->plane->part,
                                                      .head_first = run->first,
                                                      .head_count = run->end - run->first,
                                                      .heads_total = run->plane->heads_total,
                                                      .layer_count = 1};
}

/* Takes the next cut into the run, or adds the run and begins another. */
static void extend_heads(struct summary *summary, const kvf_plane *plane, const struct layout_cut *cut) {
  struct heads_run *run = &summary->heads;
  bool same = run->plane && run->plane->layer == plane->layer && run->plane->role == plane->role && run->plane->part == plane->part;
  if (same && run->end == cut->head_first) {
    run->end += cut->head_count;
    return;
  }
  if (same && run->first == cut->head_first && run->end == cut->head_first + cut->head_count) return; /* other entries of it */
  add_heads(summary->flow, run);
  *run = (struct heads_run){plane, cut->head_first, cut->head_first + cut->head_count};
}

static void add_layer(kvf_plan_flow *flow, uint32_t layer) {
  bool first = flow->layer_first == flow->layer_end;
  if (first || layer < flow->layer_first) flow->layer_first = layer;
  if (first || layer >= flow->layer_end) flow->layer_end = layer + 1;
}

static void add_cut(struct summary *summary, uint32_t cut) {
  uint64_t token_first, token_end;
  kvf_plan_flow *flow = summary->flow;
  const kvf_plane *plane = plane_of(&summary->link, cut, LAYOUT_TARGET);
  layout_cut_range(&summary->link, cut, summary->options->token_first, summary->options->token_end, &token_first, &token_end);
  uint64_t entries = layout_cut_entries(&summary->link, cut, token_first, token_end);
  if (entries == 0) return;
  extend_heads(summary, plane, &summary->link.cuts[cut]);
  add_layer(flow, plane->layer);
  flow->slices += entries * count_entry_runs(&summary->link, cut);
  flow->direct_writes += find_runs(summary, cut, token_first, token_end);
  flow->component_bytes[plane->component % KVF_COMPONENT_LIMIT] += entries * layout_cut_token_bytes(&summary->link, cut);
}

/* Cuts stand by windows first, so that a layer may come up twice. */
static uint32_t count_layers(const struct layout_link *link, uint32_t first, uint32_t end, uint8_t *seen) {
  uint32_t count = 0;
  memset(seen, 0, (size_t)(end - first) + 1);
  for (uint32_t cut = 0; cut < link->cut_count; cut++) {
    uint32_t layer = plane_of(link, cut, LAYOUT_TARGET)->layer;
    if (layer < first || layer >= end || seen[layer - first]) continue;
    seen[layer - first] = 1;
    count++;
  }
  return count;
}

static kvf_error *choose_way(struct summary *summary) {
  struct plan_way_facts facts = {.demanded = summary->options->way,
                                 .can_direct = !summary->options->cannot_direct,
                                 .why_not_direct = summary->options->cannot_direct ? "the fabric cannot write into pages" : NULL,
                                 .row_bytes = plan_row_bytes(&summary->link),
                                 .direct_min_row_bytes = summary->options->direct_min_row_bytes};
  struct plan_way_choice choice;
  kvf_error *error = NULL;
  if (plan_way_choose(&facts, &choice, &error) != KVF_OK) return error;
  summary->flow->way = choice.way;
  summary->flow->row_bytes = facts.row_bytes == UINT64_MAX ? 0 : facts.row_bytes;
  memcpy(summary->flow->reason, choice.reason, sizeof choice.reason);
  return NULL;
}

static kvf_error *count_pieces(struct summary *summary) {
  const struct plan_range range = {.token_first = summary->options->token_first,
                                   .token_end = summary->options->token_end,
                                   .layer_end = UINT32_MAX,
                                   .room_first = summary->options->token_first,
                                   .room_end = summary->options->token_end,
                                   .per_request = true};
  const struct plan_limits limits = {.piece_bytes = summary->options->piece_bytes};
  struct plan_cursor cursor;
  struct plan_totals totals;
  kvf_error *error = NULL;
  if (plan_cursor_init(&cursor, &summary->link, &range, &limits, &error) != KVF_OK) return error;
  plan_totals_get(&cursor, &totals);
  summary->flow->pieces = totals.pieces;
  summary->flow->bytes = totals.bytes;
  return NULL;
}

static kvf_error *summarise_source(struct summary *summary) {
  kvf_error *error = count_pieces(summary);
  if (!error) error = choose_way(summary);
  if (error) return error;
  summary->heads = (struct heads_run){.plane = NULL};
  for (uint32_t cut = 0; cut < summary->link.cut_count; cut++) add_cut(summary, cut);
  add_heads(summary->flow, &summary->heads);
  uint32_t span = summary->flow->layer_end - summary->flow->layer_first;
  uint8_t *seen = base_alloc((size_t)span + 1);
  if (!seen) return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a plan over %u layers", span);
  summary->flow->layer_count = count_layers(&summary->link, summary->flow->layer_first, summary->flow->layer_end, seen);
  base_free(seen);
  return NULL;
}

/* An older caller's shorter options end in zeros; a newer one's longer ones must. */
static kvf_error *read_options(const kvf_plan_options *given, kvf_plan_options *options) {
  *options = (kvf_plan_options){0};
  if (!given || given->struct_bytes < offsetof(kvf_plan_options, piece_bytes))
    return BASE_ERROR(KVF_INVALID, NULL, "options is NULL or has no struct_bytes");
  for (size_t i = sizeof *given; i < given->struct_bytes; i++)
    if (((const unsigned char *)given)[i] != 0)
      return BASE_ERROR(KVF_INVALID, NULL, "options has fields that this library does not know");
  memcpy(options, given, base_min_u64(given->struct_bytes, sizeof *options));
  if (options->piece_bytes == 0) options->piece_bytes = DEFAULT_PIECE_BYTES;
  if (options->flow_bytes == 0) options->flow_bytes = sizeof(kvf_plan_flow);
  if (options->flow_bytes < sizeof(kvf_plan_flow)) return BASE_ERROR(KVF_INVALID, NULL, "flow_bytes is less than a flow has");
  if (options->token_end < options->token_first) return BASE_ERROR(KVF_INVALID, NULL, "token_end is below token_first");
  if (options->token_end > KVF_PLAN_TOKEN_LIMIT)
    return base_error_add(BASE_ERROR(KVF_TOO_LARGE, NULL, "the request is too long to be planned"), "limit", "%d",
                          KVF_PLAN_TOKEN_LIMIT);
  return NULL;
}

static kvf_error *check_planes(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                               uint32_t target_rank) {
  kvf_error *error = NULL;
  kvf_layout_compare(sources, source_count, target, target_rank, &error);
  return error;
}

static uint32_t *make_pages(uint64_t count) {
  uint32_t *pages = base_alloc((size_t)count * sizeof *pages);
  for (uint64_t i = 0; pages && i < count; i++) pages[i] = (uint32_t)(2 * i);
  return pages;
}

static kvf_error *summarise_all(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                                const struct layout_cuts *cuts, struct summary *summary, char *flows) {
  kvf_error *error = NULL;
  for (uint32_t i = 0; i < source_count && !error; i++) {
    summary->flow = (kvf_plan_flow *)(void *)(flows + (size_t)i * summary->options->flow_bytes);
    memset(summary->flow, 0, summary->options->flow_bytes);
    summary->flow->source = i;
    summary->link = (struct layout_link){sources[i].planes, target->planes, cuts[i].cuts, cuts[i].count};
    summary->class_count = 0;
    error = summarise_source(summary);
    if (error) base_error_add(error, "source", "%u", i);
  }
  return error;
}

kvf_status kvf_plan_summarise(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                              uint32_t target_rank, const kvf_plan_options *options, kvf_plan_flow *flows_out,
                              kvf_error **error_out) {
  kvf_plan_options own;
  kvf_error *error = read_options(options, &own);
  if (!error && !flows_out && source_count > 0) error = BASE_ERROR(KVF_INVALID, NULL, "flows_out is NULL");
  if (!error) error = check_planes(sources, source_count, target, target_rank);
  if (error) return base_error_give(error, error_out);

  struct layout_cuts *cuts = base_calloc((size_t)source_count + 1, sizeof *cuts);
  struct summary *summary = base_calloc(1, sizeof *summary);
  char *flows = base_alloc((size_t)source_count * own.flow_bytes + 1); /* nothing is written on error */
  uint32_t *pages = make_pages(own.token_end + 1);
  if (!cuts || !summary || !flows || !pages)
    error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to plan for %u ranks", source_count);
  else
    layout_cuts_build(sources, source_count, target, target_rank, cuts, &error);
  if (!error) {
    summary->options = &own;
    summary->pages = pages;
    error = summarise_all(sources, source_count, target, cuts, summary, flows);
  }
  if (!error && source_count > 0) memcpy(flows_out, flows, (size_t)source_count * own.flow_bytes);
  for (uint32_t i = 0; cuts && i < source_count; i++) layout_cuts_fini(&cuts[i]);
  base_free(cuts);
  base_free(summary);
  base_free(flows);
  base_free(pages);
  return error ? base_error_give(error, error_out) : KVF_OK;
}
