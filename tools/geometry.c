/* Geometry: the splits come from the library's own helper, the sizing of the pools from the workload. */
#include "geometry.h"

#include <stdlib.h>
#include <string.h>

#include "quantity.h"

static bool complain_error(struct complaint *complaint, const char *what, kvf_error *error) {
  char text[768];
  kvf_error_format(error, text, sizeof text);
  kvf_error_free(error);
  return complain(complaint, "%s: %s", what, text);
}

/* The layers of a pipeline stage: an even split, the first stages get one more. */
static void split_layers(uint32_t layers, uint32_t stage, uint32_t stages, uint32_t *first_out, uint32_t *count_out) {
  uint32_t base = layers / stages, extra = layers % stages;
  *first_out = stage * base + (stage < extra ? stage : extra);
  *count_out = base + (stage < extra);
}

static kvf_planes_options make_options(const struct settings *settings, enum role role, uint32_t rank, uint32_t page_count,
                                       uint64_t address) {
  const struct side *side = &settings->sides[role];
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  split_layers(settings->model.layers, rank / side->tp, side->pp, &options.layer_first, &options.layer_count);
  options.heads_total = settings->model.kv_heads;
  options.rank = rank % side->tp;
  options.rank_count = side->tp;
  options.head_bytes = model_head_bytes(&settings->model);
  options.dtype = settings->model.dtype;
  options.layout = side->layout;
  options.page_tokens = side->page_tokens;
  options.page_count = page_count;
  options.mla = settings->model.mla;
  options.address = address;
  return options;
}

bool geometry_init(struct geometry *geometry, const struct settings *settings, enum role role, uint32_t rank, uint32_t page_count,
                   uint64_t address, struct complaint *complaint) {
  kvf_planes_options options = make_options(settings, role, rank, page_count, address);
  kvf_error *error = NULL;
  uint32_t count;
  *geometry = (struct geometry){.stage = rank / settings->sides[role].tp};
  if (kvf_planes_fill(&options, NULL, 0, &count, &geometry->pool_bytes, &error) != KVF_OK)
    return complain_error(complaint, settings_role_name(role), error);
  geometry->planes = calloc(count, sizeof *geometry->planes);
  if (!geometry->planes) return complain(complaint, "out of memory");
  if (kvf_planes_fill(&options, geometry->planes, count, &geometry->plane_count, &geometry->pool_bytes, &error) != KVF_OK) {
    geometry_fini(geometry);
    return complain_error(complaint, settings_role_name(role), error);
  }
  for (uint32_t i = 0; i < count; i++)
    geometry->token_bytes += (uint64_t)geometry->planes[i].head_count * geometry->planes[i].head_bytes;
  return true;
}

void geometry_fini(struct geometry *geometry) {
  free(geometry->planes);
  geometry->planes = NULL;
}

/* All ranks of a side with one page each; the caller ends them with finish_side. */
static struct geometry *init_side(const struct settings *settings, enum role role, struct complaint *complaint) {
  uint32_t ranks = settings_rank_count(settings, role), made = 0;
  struct geometry *all = calloc(ranks, sizeof *all);
  uint64_t address = 0x10000000;
  for (; all && made < ranks; made++, address += 0x10000000)
    if (!geometry_init(&all[made], settings, role, made, 1, address, complaint)) break;
  if (all && made == ranks) return all;
  if (!all) complain(complaint, "out of memory");
  for (uint32_t i = 0; all && i < made; i++) geometry_fini(&all[i]);
  free(all);
  return NULL;
}

static void finish_side(struct geometry *all, uint32_t ranks) {
  for (uint32_t i = 0; all && i < ranks; i++) geometry_fini(&all[i]);
  free(all);
}

static kvf_rank_planes view_planes(const struct geometry *geometry) {
  return (kvf_rank_planes){geometry->planes, geometry->plane_count, geometry->stage};
}

bool geometry_check(const struct settings *settings, struct complaint *complaint) {
  enum { RANK_LIMIT = 64 };
  uint32_t prefill_ranks = settings_rank_count(settings, ROLE_PREFILL), decode_ranks = settings_rank_count(settings, ROLE_DECODE);
  kvf_rank_planes sources[RANK_LIMIT];
  struct geometry *prefill = init_side(settings, ROLE_PREFILL, complaint);
  struct geometry *decode = prefill ? init_side(settings, ROLE_DECODE, complaint) : NULL;
  bool good = decode != NULL;
  for (uint32_t i = 0; good && i < prefill_ranks; i++) sources[i] = view_planes(&prefill[i]);
  for (uint32_t i = 0; good && i < decode_ranks; i++) {
    kvf_rank_planes target = view_planes(&decode[i]);
    kvf_error *error = NULL;
    if (kvf_layout_compare(sources, prefill_ranks, &target, i, &error) != KVF_OK)
      good = complain_error(complaint, "the two sides do not fit", error);
  }
  finish_side(prefill, prefill_ranks);
  finish_side(decode, decode_ranks);
  return good;
}

static int compare_counts(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

/* The pages of the largest request, and of one that nine of ten are not above. */
static bool measure_needs(const struct settings *settings, const struct workload *workload, enum role role, uint64_t *largest_out,
                          uint64_t *typical_out) {
  uint64_t *needs = calloc(workload->count, sizeof *needs);
  uint32_t page_tokens = settings->sides[role].page_tokens;
  if (!needs) return false;
  for (size_t i = 0; i < workload->count; i++)
    needs[i] = role == ROLE_PREFILL ? workload_prefill_span(&workload->requests[i], settings->chunk_tokens, page_tokens).page_count
                                    : workload_decode_span(&workload->requests[i], page_tokens).page_count;
  qsort(needs, workload->count, sizeof *needs, compare_counts);
  *largest_out = needs[workload->count - 1];
  *typical_out = needs[(workload->count - 1) * 9 / 10];
  free(needs);
  return true;
}

bool geometry_count_pages(const struct settings *settings, const struct workload *workload, enum role role,
                          uint32_t *page_count_out, struct complaint *complaint) {
  struct geometry *all = init_side(settings, role, complaint);
  uint64_t page_bytes = 0, largest, typical;
  if (!all) return false;
  for (uint32_t i = 0; i < settings_rank_count(settings, role); i++) page_bytes += all[i].pool_bytes;
  finish_side(all, settings_rank_count(settings, role));
  if (!measure_needs(settings, workload, role, &largest, &typical)) return complain(complaint, "out of memory");
  uint64_t limit = settings->pool_bytes / page_bytes;
  if (limit > UINT32_MAX) limit = UINT32_MAX;
  if (largest > limit) {
    char need[QUANTITY_TEXT_BYTES], most[QUANTITY_TEXT_BYTES];
    return complain(complaint,
                    "the largest request needs %s of cache on the %s side and --pool allows %s: raise --pool, or lower --layers or "
                    "--max-tokens",
                    quantity_format_bytes((double)largest * (double)page_bytes, need), settings_role_name(role),
                    quantity_format_bytes((double)settings->pool_bytes, most));
  }
  uint64_t wanted = largest + (settings->concurrency - 1) * typical;
  if (wanted == 0) wanted = 1;
  *page_count_out = (uint32_t)(wanted < limit || limit == 0 ? wanted : limit);
  return true;
}
