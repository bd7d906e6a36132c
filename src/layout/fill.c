/* The usual splits, for callers: which heads a tensor-parallel rank holds, and the planes of one rank's pool.
 * The only place where a tensor-parallel size is calculated with; everything after this is intersections. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <kvferry/plane.h>

#include "base/checked.h"
#include "base/error.h"

kvf_status kvf_heads_split(uint32_t heads_total, uint32_t rank, uint32_t rank_count, uint32_t *head_first_out,
                           uint32_t *head_count_out, kvf_error **error_out) {
  const char *wrong = NULL;
  if (!head_first_out || !head_count_out)
    wrong = "an out-parameter is NULL";
  else if (heads_total == 0 || rank_count == 0)
    wrong = "heads_total and rank_count must be at least 1";
  else if (rank >= rank_count)
    wrong = "the rank is not below rank_count";
  else if (rank_count > heads_total && rank_count % heads_total != 0)
    wrong = "more ranks than heads need a rank_count that heads_total divides";
  if (wrong) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "%s", wrong);
    base_error_add(error, "heads_total", "%u", heads_total);
    base_error_add(error, "rank", "%u", rank);
    return base_error_give(base_error_add(error, "rank_count", "%u", rank_count), error_out);
  }
  if (rank_count > heads_total) {
    *head_first_out = rank / (rank_count / heads_total);
    *head_count_out = 1;
  } else {
    uint32_t each = heads_total / rank_count, larger_ranks = heads_total % rank_count;
    *head_first_out = rank * each + (rank < larger_ranks ? rank : larger_ranks);
    *head_count_out = each + (rank < larger_ranks);
  }
  return KVF_OK;
}

/* An older caller's shorter struct ends in zeros; a newer one's longer struct must. */
static bool read_options(const kvf_planes_options *given, kvf_planes_options *options_out) {
  if (given->struct_bytes < offsetof(kvf_planes_options, mla)) return false;
  for (size_t i = sizeof *given; i < given->struct_bytes; i++)
    if (((const unsigned char *)given)[i] != 0) return false;
  *options_out = (kvf_planes_options){0};
  memcpy(options_out, given, base_min_u64(given->struct_bytes, sizeof *given));
  if (options_out->layout == 0) options_out->layout = KVF_LAYOUT_NHD;
  return true;
}

static const char *find_wrong_option(const kvf_planes_options *options) {
  if (options->layer_count == 0) return "layer_count";
  if (options->layer_first > UINT32_MAX - options->layer_count) return "layer_first";
  if (options->layer_count > UINT32_MAX / 2) return "layer_count";
  if (options->head_bytes == 0) return "head_bytes";
  if (options->dtype < KVF_DTYPE_BF16 || options->dtype > KVF_DTYPE_UINT8) return "dtype";
  if (options->layout != KVF_LAYOUT_NHD && options->layout != KVF_LAYOUT_HND) return "layout";
  if (options->page_tokens == 0) return "page_tokens";
  if (options->page_count == 0) return "page_count";
  if (options->page_list >= KVF_PAGE_LIST_LIMIT) return "page_list";
  if (options->mla > 1) return "mla";
  if (options->rank >= options->rank_count) return "rank";
  return NULL;
}

/* A plane of @p heads heads without its layer and address, and the bytes of its pages. False when they do not fit. */
static bool shape_plane(const kvf_planes_options *options, uint32_t head_count, kvf_plane *plane, uint64_t *plane_bytes_out) {
  uint64_t row_bytes = (uint64_t)head_count * options->head_bytes, page_bytes;
  if (!base_mul_u64(row_bytes, options->page_tokens, &page_bytes)) return false;
  bool token_major = options->layout == KVF_LAYOUT_NHD;
  plane->head_count = head_count;
  plane->head_bytes = options->head_bytes;
  plane->page_tokens = options->page_tokens;
  plane->page_count = options->page_count;
  plane->page_stride_bytes = page_bytes;
  plane->token_stride_bytes = token_major ? row_bytes : options->head_bytes;
  plane->head_stride_bytes = token_major ? options->head_bytes : (uint64_t)options->head_bytes * options->page_tokens;
  return base_mul_u64(page_bytes, options->page_count, plane_bytes_out);
}

kvf_status kvf_planes_fill(const kvf_planes_options *given, kvf_plane *planes, uint32_t capacity, uint32_t *plane_count_out,
                           uint64_t *pool_bytes_out, kvf_error **error_out) {
  kvf_planes_options options;
  if (!given || !plane_count_out) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "a parameter is NULL"), error_out);
  if (!read_options(given, &options))
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "struct_bytes is not one of this library's"), error_out);
  const char *wrong = find_wrong_option(&options);
  if (wrong) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the option %s has no sound value", wrong), error_out);

  kvf_plane plane = {.dtype = options.dtype, .page_list = options.page_list};
  uint32_t head_count = 1, per_layer = options.mla ? 1 : 2;
  plane.heads_total = options.mla ? 1 : options.heads_total;
  if (!options.mla) {
    kvf_status status =
        kvf_heads_split(options.heads_total, options.rank, options.rank_count, &plane.head_first, &head_count, error_out);
    if (status != KVF_OK) return status;
  }
  uint32_t count = options.layer_count * per_layer;
  uint64_t plane_bytes, pool_bytes, end;
  if (!shape_plane(&options, head_count, &plane, &plane_bytes) || !base_mul_u64(plane_bytes, count, &pool_bytes) ||
      !base_add_u64(options.address, pool_bytes, &end))
    return base_error_give(BASE_ERROR(KVF_TOO_LARGE, NULL, "the pool does not fit 64 bits"), error_out);
  if (planes && capacity < count) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the array holds %u planes and %u are needed", capacity, count);
    return base_error_give(error, error_out);
  }
  for (uint32_t i = 0; planes && i < count; i++) {
    planes[i] = plane;
    planes[i].layer = options.layer_first + i / per_layer;
    planes[i].role = options.mla ? KVF_ROLE_LATENT : i % 2 ? KVF_ROLE_V : KVF_ROLE_K;
    planes[i].address = options.address + i * plane_bytes;
  }
  *plane_count_out = count;
  if (pool_bytes_out) *pool_bytes_out = pool_bytes;
  return KVF_OK;
}
