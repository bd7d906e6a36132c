/* Building and checking cuts. A sweep over the heads of each array: at every place it knows which sources hold it, so that
 * replicas, uneven splits and gaps are all the same case. Which of them gives which entries is for cover.c to say. */
#include "layout/cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "layout/cover.h"
#include "layout/order.h"

struct assigned {
  const kvf_plane *target;
  uint32_t source;
  struct layout_cut cut;
};

struct sweep {
  const kvf_rank_planes *sources;
  const kvf_rank_planes *target;
  uint32_t target_rank;
  struct layout_holding *holdings; /* of all sources in order, then by source */
  uint64_t holding_count;
  uint64_t group_first, group_end;      /* those of the array where the sweep stands */
  uint64_t next;                        /* the first of them that has not begun yet */
  const struct layout_holding **active; /* those that hold the place where the sweep stands, by source */
  uint64_t active_count;
  struct layout_cover cover;
  struct assigned *assigned;
  uint64_t assigned_count, assigned_capacity;
  uint64_t plane_first; /* the first assignment of the target plane where the sweep stands */
  struct layout_complaints complaints;
  kvf_error *error; /* beyond complaints */
};

static int compare_holdings(const void *a, const void *b) {
  const struct layout_holding *left = a, *right = b;
  int order = layout_order_compare(left->plane, right->plane);
  return order ? order : (left->source > right->source) - (left->source < right->source);
}

static bool collect_holdings(struct sweep *sweep, uint32_t source_count) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < source_count; i++) count += sweep->sources[i].plane_count;
  sweep->holdings = base_alloc((size_t)(count + 1) * sizeof *sweep->holdings);
  sweep->active = base_alloc((size_t)(count + 1) * sizeof *sweep->active);
  if (!sweep->holdings || !sweep->active || !layout_cover_init(&sweep->cover, count)) return false;
  for (uint32_t i = 0; i < source_count; i++)
    for (uint32_t plane = 0; plane < sweep->sources[i].plane_count; plane++)
      sweep->holdings[sweep->holding_count++] =
          (struct layout_holding){.plane = &sweep->sources[i].planes[plane], .source = i, .stage = sweep->sources[i].stage};
  qsort(sweep->holdings, sweep->holding_count, sizeof *sweep->holdings, compare_holdings);
  return true;
}

/* The first source that differs is named; one line a field is enough. */
static void compare_group(struct sweep *sweep, const kvf_plane *mine) {
  for (enum layout_field field = 0; field < LAYOUT_FIELDS; field++) {
    for (uint64_t i = sweep->group_first; i < sweep->group_end; i++) {
      const struct layout_holding *yours = &sweep->holdings[i];
      if (layout_field_value(mine, field) == layout_field_value(yours->plane, field)) continue;
      layout_mismatch_add(&sweep->complaints, field, mine, yours->plane, yours->source);
      break;
    }
  }
}

/* Go to the holdings of the array of @p mine. */
static void enter_group(struct sweep *sweep, const kvf_plane *mine) {
  uint64_t first = sweep->group_end, end;
  while (first < sweep->holding_count && layout_order_compare_arrays(sweep->holdings[first].plane, mine) < 0) first++;
  end = first;
  while (end < sweep->holding_count && layout_order_same_array(sweep->holdings[end].plane, mine)) end++;
  sweep->group_first = first;
  sweep->group_end = end;
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
    const struct layout_holding *holding = &sweep->holdings[sweep->next];
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

/* The assignment that @p cut continues, among those of its target plane. */
static struct assigned *find_continued(struct sweep *sweep, uint32_t source, const struct layout_cut *cut) {
  for (uint64_t i = sweep->assigned_count; i > sweep->plane_first; i--) {
    struct assigned *last = &sweep->assigned[i - 1];
    if (last->source == source && last->cut.source_plane == cut->source_plane &&
        last->cut.head_first + last->cut.head_count == cut->head_first)
      return last;
  }
  return NULL;
}

static bool add_assigned(struct sweep *sweep, const kvf_plane *mine, uint32_t source, const struct layout_cut *cut) {
  if (sweep->assigned_count == sweep->assigned_capacity) {
    uint64_t capacity = sweep->assigned_capacity ? 2 * sweep->assigned_capacity : 256;
    struct assigned *grown = base_realloc(sweep->assigned, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    sweep->assigned = grown;
    sweep->assigned_capacity = capacity;
  }
  sweep->assigned[sweep->assigned_count++] = (struct assigned){.target = mine, .source = source, .cut = *cut};
  return true;
}

/* A slot cannot be split by tokens, so it is split by heads, into cuts that fit any piece. */
static bool assign_slot(struct sweep *sweep, const kvf_plane *mine, uint32_t source, const struct layout_cut *cut) {
  const uint32_t most = mine->head_bytes < LAYOUT_SLOT_CUT_BYTES ? LAYOUT_SLOT_CUT_BYTES / mine->head_bytes : 1;
  for (uint32_t done = 0; done < cut->head_count;) {
    struct layout_cut part = *cut;
    part.head_first += done;
    part.head_count = (uint32_t)base_min_u64(most, cut->head_count - done);
    if (!add_assigned(sweep, mine, source, &part)) return false;
    done += part.head_count;
  }
  return true;
}

static bool assign(struct sweep *sweep, const kvf_plane *mine, const struct layout_holding *writer, uint32_t first, uint32_t end) {
  const struct layout_cut cut = {.source_plane = (uint32_t)(writer->plane - sweep->sources[writer->source].planes),
                                 .target_plane = (uint32_t)(mine - sweep->target->planes),
                                 .head_first = first,
                                 .head_count = end - first};
  if (mine->per_request) return assign_slot(sweep, mine, writer->source, &cut);
  struct assigned *continued = find_continued(sweep, writer->source, &cut);
  if (!continued) return add_assigned(sweep, mine, writer->source, &cut);
  continued->cut.head_count += cut.head_count;
  return true;
}

/* One head interval over which the active holdings do not change. */
static bool settle_interval(struct sweep *sweep, const kvf_plane *mine, uint32_t first, uint32_t end) {
  struct layout_interval interval = {.plane = mine, .head_first = first, .head_end = end};
  if (sweep->active_count == 0) {
    layout_intervals_add(&sweep->complaints.gaps, &interval);
    return true;
  }
  interval.stages[0] = sweep->active[0]->stage;
  for (uint64_t i = 1; i < sweep->active_count; i++) {
    interval.stages[1] = sweep->active[i]->stage;
    if (interval.stages[1] == interval.stages[0]) continue;
    layout_intervals_add(&sweep->complaints.doubles, &interval);
    return true;
  }
  interval.stages[1] = interval.stages[0];
  sweep->error = layout_cover_settle(&sweep->cover, mine, sweep->active, sweep->active_count, sweep->target_rank, &interval,
                                     &sweep->complaints);
  for (uint64_t i = 0; !sweep->error && i < sweep->cover.writer_count; i++)
    if (!assign(sweep, mine, sweep->cover.writers[i], first, end)) return false;
  return !sweep->error;
}

/* From the beginning of the array: planes with other entries of the same heads follow each other. */
static bool sweep_plane(struct sweep *sweep, const kvf_plane *mine) {
  uint64_t head = mine->head_first, end = head_end(mine);
  sweep->next = sweep->group_first;
  sweep->active_count = 0;
  sweep->plane_first = sweep->assigned_count;
  while (head < end) {
    uint64_t change = base_min_u64(end, move_to(sweep, head));
    if (!settle_interval(sweep, mine, (uint32_t)head, (uint32_t)change)) return false;
    head = change;
  }
  return true;
}

static bool sweep_target(struct sweep *sweep) {
  const kvf_plane **order = layout_order_create(sweep->target->planes, sweep->target->plane_count);
  bool done = order != NULL;
  for (uint32_t i = 0; done && i < sweep->target->plane_count; i++) {
    if (i == 0 || !layout_order_same_array(order[i - 1], order[i])) enter_group(sweep, order[i]);
    done = sweep_plane(sweep, order[i]);
  }
  base_free(order);
  return done;
}

/* The canonical order. */
static int compare_cuts(const kvf_plane *left, const struct layout_cut *a, const kvf_plane *right, const struct layout_cut *b) {
  if (left->per_request != right->per_request) return left->per_request < right->per_request ? -1 : 1;
  if (left->window_tokens != right->window_tokens) return left->window_tokens < right->window_tokens ? -1 : 1;
  int order = layout_order_compare_arrays(left, right);
  if (order) return order;
  if (a->head_first != b->head_first) return a->head_first < b->head_first ? -1 : 1;
  if (a->target_plane != b->target_plane) return a->target_plane < b->target_plane ? -1 : 1;
  return (a->source_plane > b->source_plane) - (a->source_plane < b->source_plane);
}

static int compare_assigned(const void *a, const void *b) {
  const struct assigned *left = a, *right = b;
  return compare_cuts(left->target, &left->cut, right->target, &right->cut);
}

static bool hand_out(struct sweep *sweep, uint32_t source_count, struct layout_cuts *cuts_out) {
  struct layout_cuts *built = base_calloc((size_t)source_count + 1, sizeof *built);
  if (!built) return false;
  if (sweep->assigned_count > 0) qsort(sweep->assigned, sweep->assigned_count, sizeof *sweep->assigned, compare_assigned);
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
  kvf_error *error = done ? layout_complaints_error(&sweep.complaints) : sweep.error;
  if (done && !error) done = hand_out(&sweep, source_count, cuts_out);
  if (!done && !error) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to compare the planes of %u ranks", source_count);
  base_free(sweep.holdings);
  base_free(sweep.active);
  layout_cover_fini(&sweep.cover);
  base_free(sweep.assigned);
  return error ? base_error_give(error, error_out) : KVF_OK;
}

static const char *find_wrong_cut(const struct layout_cut *cut, const kvf_rank_planes *source, const kvf_rank_planes *target) {
  if (cut->source_plane >= source->plane_count) return "source_plane";
  if (cut->target_plane >= target->plane_count) return "target_plane";
  const kvf_plane *from = &source->planes[cut->source_plane], *to = &target->planes[cut->target_plane];
  uint64_t end = (uint64_t)cut->head_first + cut->head_count;
  if (!layout_order_same_array(from, to)) return "layer, role or part";
  enum layout_field field = layout_field_find_unequal(from, to);
  if (field < LAYOUT_FIELDS) return layout_field_name(field);
  if (cut->head_count == 0) return "head_count";
  if (cut->head_first < from->head_first || end > head_end(from)) return "source heads";
  if (cut->head_first < to->head_first || end > head_end(to)) return "target heads";
  const struct layout_share source_share = layout_share_of(from), target_share = layout_share_of(to);
  struct layout_overlap overlap;
  if (!layout_overlap_open(&source_share, &target_share, &overlap)) return "token_parts";
  return NULL;
}

/* Both cuts have passed find_wrong_cut. Heads come twice only from, or to, planes with other entries of them. */
static bool cuts_ordered(const struct layout_cut *a, const struct layout_cut *b, const kvf_rank_planes *source,
                         const kvf_rank_planes *target) {
  const kvf_plane *before = &target->planes[a->target_plane], *after = &target->planes[b->target_plane];
  if (compare_cuts(before, a, after, b) >= 0) return false;
  if (!layout_order_same_array(before, after) || (uint64_t)a->head_first + a->head_count <= b->head_first) return true;
  if (a->target_plane != b->target_plane) return true;
  return a->source_plane != b->source_plane && layout_plane_is_split(&source->planes[b->source_plane]);
}

kvf_status layout_cuts_check(const struct layout_cuts *cuts, const kvf_rank_planes *source, const kvf_rank_planes *target,
                             kvf_error **error_out) {
  for (uint32_t i = 0; i < cuts->count; i++) {
    const struct layout_cut *cut = &cuts->cuts[i];
    const char *wrong = find_wrong_cut(cut, source, target);
    if (!wrong && i > 0 && !cuts_ordered(&cuts->cuts[i - 1], cut, source, target)) wrong = "order";
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
