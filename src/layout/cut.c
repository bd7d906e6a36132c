/* Building and checking cuts. A sweep over the heads of each (layer, role): at every place it knows which sources hold it,
 * so that replicas, uneven splits and gaps are all the same case. */
#include "layout/cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "layout/complaint.h"
#include "layout/order.h"

/* One plane of one source. */
struct holding {
  const kvf_plane *plane;
  uint32_t source;
};

struct assigned {
  uint32_t source;
  struct layout_cut cut;
};

struct sweep {
  const kvf_rank_planes *sources;
  const kvf_rank_planes *target;
  uint32_t target_rank;
  struct holding *holdings; /* of all sources in canonical order, then by source */
  uint64_t holding_count, group_end;
  uint64_t next;                 /* the first holding that has not begun yet */
  const struct holding **active; /* those that hold the place where the sweep stands, by source */
  uint64_t active_count;
  struct assigned *assigned;
  uint64_t assigned_count, assigned_capacity;
  struct layout_complaints complaints;
};

static int compare_holdings(const void *a, const void *b) {
  const struct holding *left = a, *right = b;
  int order = layout_order_compare(left->plane, right->plane);
  return order ? order : (left->source > right->source) - (left->source < right->source);
}

static bool collect_holdings(struct sweep *sweep, uint32_t source_count) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < source_count; i++) count += sweep->sources[i].plane_count;
  sweep->holdings = base_alloc((size_t)(count + 1) * sizeof *sweep->holdings);
  sweep->active = base_alloc((size_t)(count + 1) * sizeof *sweep->active);
  if (!sweep->holdings || !sweep->active) return false;
  for (uint32_t i = 0; i < source_count; i++)
    for (uint32_t plane = 0; plane < sweep->sources[i].plane_count; plane++)
      sweep->holdings[sweep->holding_count++] = (struct holding){.plane = &sweep->sources[i].planes[plane], .source = i};
  qsort(sweep->holdings, sweep->holding_count, sizeof *sweep->holdings, compare_holdings);
  return true;
}

static bool same_group(const kvf_plane *a, const kvf_plane *b) {
  return a->layer == b->layer && a->role == b->role;
}

/* The first source that differs is named; one line a field is enough. */
static void compare_group(struct sweep *sweep, const kvf_plane *mine) {
  bool dtype = false, head_bytes = false, heads_total = false;
  for (uint64_t i = sweep->next; i < sweep->group_end; i++) {
    const kvf_plane *yours = sweep->holdings[i].plane;
    uint32_t source = sweep->holdings[i].source;
    if (!dtype && (dtype = mine->dtype != yours->dtype)) layout_mismatch_add(&sweep->complaints, "dtype", mine, yours, source);
    if (!head_bytes && (head_bytes = mine->head_bytes != yours->head_bytes))
      layout_mismatch_add(&sweep->complaints, "head_bytes", mine, yours, source);
    if (!heads_total && (heads_total = mine->heads_total != yours->heads_total))
      layout_mismatch_add(&sweep->complaints, "heads_total", mine, yours, source);
  }
}

/* Go to the holdings of the layer and role of @p mine. */
static void enter_group(struct sweep *sweep, const kvf_plane *mine) {
  sweep->next = sweep->group_end;
  while (sweep->next < sweep->holding_count) {
    const kvf_plane *plane = sweep->holdings[sweep->next].plane;
    if (plane->layer > mine->layer || (plane->layer == mine->layer && plane->role >= mine->role)) break;
    sweep->next++;
  }
  sweep->group_end = sweep->next;
  while (sweep->group_end < sweep->holding_count && same_group(sweep->holdings[sweep->group_end].plane, mine)) sweep->group_end++;
  sweep->active_count = 0;
  compare_group(sweep, mine);
}

static uint64_t head_end(const kvf_plane *plane) {
  return (uint64_t)plane->head_first + plane->head_count;
}

/* Bring the active holdings to the place @p head. Returns where they change next. */
static uint64_t move_to(struct sweep *sweep, uint64_t head) {
  uint64_t kept = 0, change = UINT64_MAX;
  for (uint64_t i = 0; i < sweep->active_count; i++)
    if (head_end(sweep->active[i]->plane) > head) sweep->active[kept++] = sweep->active[i];
  for (; sweep->next < sweep->group_end && sweep->holdings[sweep->next].plane->head_first <= head; sweep->next++) {
    const struct holding *holding = &sweep->holdings[sweep->next];
    if (head_end(holding->plane) <= head) continue;
    uint64_t place = kept++;
    for (; place > 0 && sweep->active[place - 1]->source > holding->source; place--)
      sweep->active[place] = sweep->active[place - 1];
    sweep->active[place] = holding;
  }
  sweep->active_count = kept;
  for (uint64_t i = 0; i < kept; i++) change = base_min_u64(change, head_end(sweep->active[i]->plane));
  if (sweep->next < sweep->group_end) change = base_min_u64(change, sweep->holdings[sweep->next].plane->head_first);
  return change;
}

static bool assign(struct sweep *sweep, uint32_t source, const struct layout_cut *cut) {
  struct assigned *last = sweep->assigned_count > 0 ? &sweep->assigned[sweep->assigned_count - 1] : NULL;
  if (last && last->source == source && last->cut.source_plane == cut->source_plane &&
      last->cut.target_plane == cut->target_plane && last->cut.head_first + last->cut.head_count == cut->head_first) {
    last->cut.head_count += cut->head_count;
    return true;
  }
  if (sweep->assigned_count == sweep->assigned_capacity) {
    uint64_t capacity = sweep->assigned_capacity ? 2 * sweep->assigned_capacity : 256;
    struct assigned *grown = base_realloc(sweep->assigned, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    sweep->assigned = grown;
    sweep->assigned_capacity = capacity;
  }
  sweep->assigned[sweep->assigned_count++] = (struct assigned){.source = source, .cut = *cut};
  return true;
}

/* One head interval over which the active holdings do not change. */
static bool settle_interval(struct sweep *sweep, const kvf_plane *mine, uint32_t first, uint32_t end) {
  struct layout_interval interval = {.layer = mine->layer, .role = mine->role, .head_first = first, .head_end = end};
  if (sweep->active_count == 0) {
    layout_intervals_add(&sweep->complaints.gaps, &interval);
    return true;
  }
  interval.stages[0] = sweep->sources[sweep->active[0]->source].stage;
  for (uint64_t i = 1; i < sweep->active_count; i++) {
    interval.stages[1] = sweep->sources[sweep->active[i]->source].stage;
    if (interval.stages[1] == interval.stages[0]) continue;
    layout_intervals_add(&sweep->complaints.doubles, &interval);
    return true;
  }
  const struct holding *writer = sweep->active[sweep->target_rank % sweep->active_count];
  const struct layout_cut cut = {.source_plane = (uint32_t)(writer->plane - sweep->sources[writer->source].planes),
                                 .target_plane = (uint32_t)(mine - sweep->target->planes),
                                 .head_first = first,
                                 .head_count = end - first};
  return assign(sweep, writer->source, &cut);
}

static bool sweep_target(struct sweep *sweep) {
  const kvf_plane **order = layout_order_create(sweep->target->planes, sweep->target->plane_count);
  bool done = order != NULL;
  for (uint32_t i = 0; done && i < sweep->target->plane_count; i++) {
    if (i == 0 || !same_group(order[i - 1], order[i])) enter_group(sweep, order[i]);
    uint64_t head = order[i]->head_first, end = head_end(order[i]);
    while (done && head < end) {
      uint64_t change = base_min_u64(end, move_to(sweep, head));
      done = settle_interval(sweep, order[i], (uint32_t)head, (uint32_t)change);
      head = change;
    }
  }
  base_free(order);
  return done;
}

static bool hand_out(const struct sweep *sweep, uint32_t source_count, struct layout_cuts *cuts_out) {
  struct layout_cuts *built = base_calloc((size_t)source_count + 1, sizeof *built);
  if (!built) return false;
  for (uint64_t i = 0; i < sweep->assigned_count; i++) built[sweep->assigned[i].source].count++;
  bool done = true;
  for (uint32_t i = 0; i < source_count && done; i++) {
    if (built[i].count > 0) built[i].cuts = base_alloc((size_t)built[i].count * sizeof *built[i].cuts);
    done = built[i].count == 0 || built[i].cuts;
    built[i].count = 0;
  }
  if (done) {
    for (uint64_t i = 0; i < sweep->assigned_count; i++) {
      struct layout_cuts *cuts = &built[sweep->assigned[i].source];
      cuts->cuts[cuts->count++] = sweep->assigned[i].cut;
    }
    memcpy(cuts_out, built, (size_t)source_count * sizeof *built);
  } else {
    for (uint32_t i = 0; i < source_count; i++) layout_cuts_fini(&built[i]);
  }
  base_free(built);
  return done;
}

kvf_status layout_cuts_build(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                             uint32_t target_rank, struct layout_cuts *cuts_out, kvf_error **error_out) {
  struct sweep sweep = {.sources = sources, .target = target, .target_rank = target_rank};
  bool done = collect_holdings(&sweep, source_count) && sweep_target(&sweep);
  kvf_error *error = done ? layout_complaints_error(&sweep.complaints) : NULL;
  if (done && !error) done = hand_out(&sweep, source_count, cuts_out);
  if (!done) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to compare the planes of %u ranks", source_count);
  base_free(sweep.holdings);
  base_free(sweep.active);
  base_free(sweep.assigned);
  return error ? base_error_give(error, error_out) : KVF_OK;
}

static const char *find_wrong_cut(const struct layout_cut *cut, const kvf_rank_planes *source, const kvf_rank_planes *target) {
  if (cut->source_plane >= source->plane_count) return "source_plane";
  if (cut->target_plane >= target->plane_count) return "target_plane";
  const kvf_plane *from = &source->planes[cut->source_plane], *to = &target->planes[cut->target_plane];
  uint64_t end = (uint64_t)cut->head_first + cut->head_count;
  if (!same_group(from, to)) return "layer or role";
  if (from->dtype != to->dtype) return "dtype";
  if (from->head_bytes != to->head_bytes) return "head_bytes";
  if (from->heads_total != to->heads_total) return "heads_total";
  if (cut->head_count == 0) return "head_count";
  if (cut->head_first < from->head_first || end > head_end(from)) return "source heads";
  if (cut->head_first < to->head_first || end > head_end(to)) return "target heads";
  return NULL;
}

/* Both cuts have passed find_wrong_cut. */
static bool cuts_ordered(const struct layout_cut *a, const struct layout_cut *b, const kvf_rank_planes *target) {
  const kvf_plane *before = &target->planes[a->target_plane], *after = &target->planes[b->target_plane];
  if (same_group(before, after)) return (uint64_t)a->head_first + a->head_count <= b->head_first;
  return before->layer < after->layer || (before->layer == after->layer && before->role < after->role);
}

kvf_status layout_cuts_check(const struct layout_cuts *cuts, const kvf_rank_planes *source, const kvf_rank_planes *target,
                             kvf_error **error_out) {
  for (uint32_t i = 0; i < cuts->count; i++) {
    const struct layout_cut *cut = &cuts->cuts[i];
    const char *wrong = find_wrong_cut(cut, source, target);
    if (!wrong && i > 0 && !cuts_ordered(&cuts->cuts[i - 1], cut, target)) wrong = "order";
    if (!wrong) continue;
    kvf_error *error =
        BASE_ERROR(KVF_INVALID, NULL, "cut %u of %u does not fit the planes of both sides: %s", i, cuts->count, wrong);
    base_error_add(error, "cut", "%u", i);
    base_error_add(error, "wrong", "%s", wrong);
    base_error_add(error, "source_plane", "%u", cut->source_plane);
    base_error_add(error, "target_plane", "%u", cut->target_plane);
    base_error_add(error, "head_first", "%u", cut->head_first);
    return base_error_give(base_error_add(error, "head_count", "%u", cut->head_count), error_out);
  }
  return KVF_OK;
}

void layout_cuts_fini(struct layout_cuts *cuts) {
  if (!cuts) return;
  base_free(cuts->cuts);
  *cuts = (struct layout_cuts){0};
}
