/* Geometry: the splits of heads come from the library's own helper, the sizing of the pools from the workload. */
#include "geometry.h"

#include <stdlib.h>
#include <string.h>

#include "quantity.h"

enum { PLANE_ALIGN_BYTES = 256, LOOK_PAGES = 4, LOOK_ADDRESS = 1 << 28 };

static bool complain_error(struct complaint *complaint, const char *what, kvf_error *error) {
  char text[960];
  kvf_error_format(error, text, sizeof text);
  kvf_error_free(error);
  return complain(complaint, "%s: %s", what, text);
}

struct geometry_place geometry_place_of(const struct side *side, uint32_t rank) {
  uint32_t cp = settings_cp(side);
  return (struct geometry_place){.tp = rank % side->tp, .cp = rank / side->tp % cp, .stage = rank / side->tp / cp};
}

/* The main layers of a pipeline stage, as positions in the model's list: as given, or an even split whose first stages get one
 * more. */
static void split_layers(const struct side *side, uint32_t layers, uint32_t stage, uint32_t *first_out, uint32_t *count_out) {
  uint32_t base = layers / side->pp, extra = layers % side->pp;
  *first_out = stage * base + (stage < extra ? stage : extra);
  *count_out = base + (stage < extra);
  if (side->stage_layers[0] == 0) return;
  *first_out = 0;
  for (uint32_t i = 0; i < stage; i++) *first_out += side->stage_layers[i];
  *count_out = side->stage_layers[stage];
}

static bool holds_layer(const struct settings *settings, const struct side *side, uint32_t stage, uint32_t index) {
  uint32_t first, count;
  if (settings->model.list[index].draft) return stage + 1 == side->pp;
  split_layers(side, settings->model.layers, stage, &first, &count);
  return index >= first && index < first + count;
}

/* Which heads and entries of the array the rank holds, and how they lie in its pages; not yet where. */
static bool shape_plane(const struct side *side, struct geometry_place place, uint32_t layer, const struct model_array *array,
                        kvf_plane *plane, struct complaint *complaint) {
  kvf_error *error = NULL;
  uint32_t page = side->page_tokens / array->entry_tokens;
  *plane = (kvf_plane){.layer = layer,
                       .role = array->role,
                       .dtype = array->dtype,
                       .page_list = array->page_list,
                       .heads_total = array->heads,
                       .head_count = array->heads,
                       .head_bytes = model_head_bytes(array),
                       .page_tokens = array->per_request || page == 0 ? 1 : page,
                       .part = array->part,
                       .component = array->component,
                       .entry_tokens = array->entry_tokens > 1 ? array->entry_tokens : 0,
                       .window_tokens = array->window_tokens,
                       .per_request = array->per_request};
  if (!array->replicated &&
      kvf_heads_split(array->heads, place.tp, side->tp, &plane->head_first, &plane->head_count, &error) != KVF_OK)
    return complain_error(complaint, model_role_name(array->role), error);
  if (!array->per_request && settings_cp(side) > 1) {
    plane->token_parts = settings_cp(side);
    plane->token_part = place.cp;
    plane->token_block = side->cp_block;
  }
  uint64_t row = (uint64_t)plane->head_count * plane->head_bytes;
  bool head_major = side->layout == KVF_LAYOUT_HND;
  plane->token_stride_bytes = head_major ? plane->head_bytes : row;
  plane->head_stride_bytes = head_major ? (uint64_t)plane->page_tokens * plane->head_bytes : plane->head_bytes;
  plane->page_stride_bytes = plane->page_tokens * row;
  return true;
}

static bool add_planes(struct geometry *geometry, const struct side *side, struct geometry_place place, uint32_t layer,
                       const struct model_kind *kind, const struct geometry_pages *pages, struct complaint *complaint) {
  for (uint32_t a = 0; a < kind->array_count; a++) {
    kvf_plane *plane = &geometry->planes[geometry->plane_count];
    if (!shape_plane(side, place, layer, &kind->arrays[a], plane, complaint)) return false;
    plane->page_count = pages->counts[plane->page_list];
    plane->address = geometry->pool_bytes;
    geometry->pool_bytes +=
        (plane->page_count * plane->page_stride_bytes + PLANE_ALIGN_BYTES - 1) / PLANE_ALIGN_BYTES * PLANE_ALIGN_BYTES;
    geometry->lists[plane->page_list] = plane;
    geometry->plane_count++;
  }
  return true;
}

bool geometry_init(struct geometry *geometry, const struct settings *settings, enum role role, uint32_t rank,
                   const struct geometry_pages *pages, uint64_t address, struct complaint *complaint) {
  const struct side *side = &settings->sides[role];
  const struct model *model = &settings->model;
  struct geometry_place place = geometry_place_of(side, rank);
  uint32_t total = model->layers + model->draft_layers;
  bool good = true;
  *geometry = (struct geometry){.stage = place.stage};
  geometry->planes = calloc((size_t)total * MODEL_ARRAY_LIMIT, sizeof *geometry->planes);
  if (!geometry->planes) return complain(complaint, "out of memory");
  for (uint32_t i = 0; i < total && good; i++)
    if (holds_layer(settings, side, place.stage, i))
      good = add_planes(geometry, side, place, model->list[i].id, model_layer_kind(model, i), pages, complaint);
  if (geometry->pool_bytes == 0) geometry->pool_bytes = PLANE_ALIGN_BYTES; /* a stage may hold no layer with a cache */
  if (good)
    geometry_move(geometry, 0, address);
  else
    geometry_fini(geometry);
  return good;
}

void geometry_fini(struct geometry *geometry) {
  free(geometry->planes);
  *geometry = (struct geometry){0};
}

void geometry_move(struct geometry *geometry, uint64_t from, uint64_t to) {
  for (uint32_t i = 0; i < geometry->plane_count; i++) geometry->planes[i].address += to - from;
}

struct geometry *geometry_init_side(const struct settings *settings, enum role role, struct complaint *complaint) {
  uint32_t ranks = settings_rank_count(settings, role), made = 0;
  struct geometry *all = calloc(ranks, sizeof *all);
  struct geometry_pages pages;
  uint64_t address = LOOK_ADDRESS;
  for (size_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) pages.counts[i] = LOOK_PAGES;
  for (; all && made < ranks; made++) {
    if (!geometry_init(&all[made], settings, role, made, &pages, address, complaint)) break;
    address += all[made].pool_bytes + LOOK_ADDRESS;
  }
  if (all && made == ranks) return all;
  if (!all) complain(complaint, "out of memory");
  geometry_fini_side(all, made);
  return NULL;
}

void geometry_fini_side(struct geometry *all, uint32_t ranks) {
  for (uint32_t i = 0; all && i < ranks; i++) geometry_fini(&all[i]);
  free(all);
}

kvf_rank_planes geometry_view(const struct geometry *geometry) {
  return (kvf_rank_planes){geometry->planes, geometry->plane_count, geometry->stage};
}

bool geometry_check(const struct settings *settings, struct complaint *complaint) {
  uint32_t prefill_ranks = settings_rank_count(settings, ROLE_PREFILL), decode_ranks = settings_rank_count(settings, ROLE_DECODE);
  kvf_rank_planes sources[SETTINGS_RANK_LIMIT];
  struct geometry *prefill = geometry_init_side(settings, ROLE_PREFILL, complaint);
  struct geometry *decode = prefill ? geometry_init_side(settings, ROLE_DECODE, complaint) : NULL;
  bool good = decode != NULL;
  for (uint32_t i = 0; good && i < prefill_ranks; i++) sources[i] = geometry_view(&prefill[i]);
  for (uint32_t i = 0; good && i < decode_ranks; i++) {
    kvf_rank_planes target = geometry_view(&decode[i]);
    kvf_error *error = NULL;
    if (kvf_layout_compare(sources, prefill_ranks, &target, i, &error) != KVF_OK)
      good = complain_error(complaint, "the two sides do not fit", error);
  }
  geometry_fini_side(prefill, prefill_ranks);
  geometry_fini_side(decode, decode_ranks);
  return good;
}

uint64_t geometry_room_bytes(const struct geometry *geometry, uint64_t token_first, uint64_t token_end) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < geometry->plane_count; i++) {
    const kvf_plane *plane = &geometry->planes[i];
    struct span span = span_of(plane, token_first, token_end, token_end);
    bytes += (span.end - span.first) * plane->head_count * plane->head_bytes;
  }
  return bytes;
}

struct span geometry_request_pages(const struct settings *settings, enum role role, const kvf_plane *plane,
                                   const struct workload_request *request) {
  const uint64_t tokens = request->tokens;
  if (role == ROLE_PREFILL)
    return span_pages(plane, span_of(plane, workload_post_start(request, settings->chunk_tokens), tokens, tokens));
  struct span held = span_of(plane, request->prefix_tokens, tokens, tokens);
  if (!plane->per_request) held.end = span_of(plane, tokens, tokens + 1, tokens).end;
  return span_pages(plane, held);
}

static int compare_counts(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

/* What the pages of one list must do on a side. */
struct need {
  uint64_t page_bytes;       /* of one page on all ranks together */
  uint64_t largest, typical; /* pages of the largest request, and of one that nine of ten are not above */
};

/* The need of the ranks that hold @p plane's list; parts of context parallelism differ by a page. */
static bool measure_need(const struct settings *settings, const struct workload *workload, enum role role, const kvf_plane *plane,
                         struct need *need) {
  uint64_t *counts = calloc(workload->count, sizeof *counts);
  if (!counts) return false;
  for (size_t i = 0; i < workload->count; i++) {
    struct span pages = geometry_request_pages(settings, role, plane, &workload->requests[i]);
    counts[i] = pages.end - pages.first;
  }
  qsort(counts, workload->count, sizeof *counts, compare_counts);
  if (counts[workload->count - 1] > need->largest) need->largest = counts[workload->count - 1];
  if (counts[(workload->count - 1) * 9 / 10] > need->typical) need->typical = counts[(workload->count - 1) * 9 / 10];
  free(counts);
  return true;
}

static bool measure_needs(const struct settings *settings, const struct workload *workload, enum role role, struct need *needs,
                          struct complaint *complaint) {
  uint32_t ranks = settings_rank_count(settings, role);
  struct geometry *all = geometry_init_side(settings, role, complaint);
  bool good = all != NULL;
  for (uint32_t rank = 0; good && rank < ranks; rank++) {
    for (uint32_t i = 0; i < all[rank].plane_count; i++)
      needs[all[rank].planes[i].page_list].page_bytes += all[rank].planes[i].page_stride_bytes;
    for (uint32_t list = 0; good && list < KVF_PAGE_LIST_LIMIT; list++)
      if (all[rank].lists[list] && !measure_need(settings, workload, role, all[rank].lists[list], &needs[list]))
        good = complain(complaint, "out of memory");
  }
  geometry_fini_side(all, ranks);
  return good;
}

bool geometry_count_pages(const struct settings *settings, const struct workload *workload, enum role role,
                          struct geometry_pages *pages_out, struct complaint *complaint) {
  struct need needs[KVF_PAGE_LIST_LIMIT] = {{0}};
  double least = 0, extra = 0, limit = (double)settings->pool_bytes;
  if (!measure_needs(settings, workload, role, needs, complaint)) return false;
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) {
    least += (double)needs[i].largest * (double)needs[i].page_bytes;
    extra += (double)(settings->concurrency - 1) * (double)needs[i].typical * (double)needs[i].page_bytes;
  }
  if (least > limit) {
    char need[QUANTITY_TEXT_BYTES], most[QUANTITY_TEXT_BYTES];
    return complain(complaint,
                    "the largest request needs %s of cache on the %s side and --pool allows %s: raise --pool, or lower --layers or "
                    "--max-tokens",
                    quantity_format_bytes(least, need), settings_role_name(role), quantity_format_bytes(limit, most));
  }
  double share = extra > limit - least ? (limit - least) / extra : 1; /* of the pages beside the largest request's */
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) {
    double count = (double)needs[i].largest + share * (double)(settings->concurrency - 1) * (double)needs[i].typical;
    pages_out->counts[i] = count < 1 ? 1 : count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
  }
  return true;
}
