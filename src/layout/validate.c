/* Is a plane list sound? Nothing else in the room defends itself against a plane that has not passed here. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "layout/cut.h"
#include "layout/field.h"
#include "layout/name.h"
#include "layout/order.h"

enum { PLANES_PER_HEAD_LIMIT = 64 };

static kvf_error *describe_plane(const kvf_plane *plane, uint32_t index, const char *wrong) {
  kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "%s", wrong);
  base_error_add(error, "plane", "%u", index);
  base_error_add(error, "layer", "%u", plane->layer);
  base_error_add(error, "role", "%s", layout_role_name(plane->role));
  return plane->part ? base_error_add(error, "part", "%u", plane->part) : error;
}

static kvf_error *check_numbers(const kvf_plane *plane, uint32_t index) {
  kvf_error *error = NULL;
  const bool slot = plane->per_request; /* one entry, which is not a token's */
  const uint32_t parts = plane->token_parts ? plane->token_parts : 1;
  const struct {
    const char *name;
    uint32_t value;
    bool sound;
  } rules[] = {
      {"layer", plane->layer, plane->layer < UINT32_MAX},
      {"role", plane->role, plane->role >= KVF_ROLE_K && plane->role <= KVF_ROLE_STATE},
      {"dtype", plane->dtype, plane->dtype >= KVF_DTYPE_BF16 && plane->dtype <= KVF_DTYPE_UINT8},
      {"page_list", plane->page_list, plane->page_list < KVF_PAGE_LIST_LIMIT},
      {"head_count", plane->head_count, plane->head_count > 0},
      {"head_first", plane->head_first, (uint64_t)plane->head_first + plane->head_count <= plane->heads_total},
      {"head_bytes", plane->head_bytes, plane->head_bytes > 0},
      {"page_tokens", plane->page_tokens, slot ? plane->page_tokens == 1 : plane->page_tokens > 0},
      {"page_count", plane->page_count, plane->page_count > 0},
      {"component", plane->component, plane->component < KVF_COMPONENT_LIMIT},
      {"entry_tokens", plane->entry_tokens, plane->entry_tokens <= (slot ? 1 : LAYOUT_ENTRY_TOKENS_LIMIT)},
      {"window_tokens", plane->window_tokens, !slot || plane->window_tokens == 0},
      {"per_request", plane->per_request, plane->per_request <= 1},
      {"token_parts", plane->token_parts, !slot || plane->token_parts <= 1},
      {"token_part", plane->token_part, plane->token_part < parts},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    if (rules[i].sound) continue;
    if (!error) error = describe_plane(plane, index, "a number of a plane is out of range");
    base_error_add(error, rules[i].name, "%u", rules[i].value);
  }
  if (error) base_error_add(error, "heads_total", "%u", plane->heads_total);
  return error;
}

/* Sorted by stride, each dimension must step over everything that the smaller ones span. */
static bool strides_step_over(const kvf_plane *plane) {
  struct {
    uint64_t stride, count;
  } dimensions[3] = {{plane->page_stride_bytes, plane->page_count},
                     {plane->token_stride_bytes, plane->page_tokens},
                     {plane->head_stride_bytes, plane->head_count}};
  uint64_t span = plane->head_bytes;
  for (int done = 0; done < 3; done++) {
    int least = done;
    for (int i = done + 1; i < 3; i++)
      if (dimensions[i].stride < dimensions[least].stride) least = i;
    uint64_t stride = dimensions[least].stride, count = dimensions[least].count, reach;
    dimensions[least] = dimensions[done];
    if (count == 1) continue;
    if (stride < span || !base_mul_u64(stride, count - 1, &reach) || !base_add_u64(span, reach, &span)) return false;
  }
  return true;
}

bool layout_plane_extent(const kvf_plane *plane, uint64_t *bytes_out) {
  uint64_t pages, tokens, heads, bytes;
  if (!base_mul_u64(plane->page_stride_bytes, (uint64_t)plane->page_count - 1, &pages) ||
      !base_mul_u64(plane->token_stride_bytes, (uint64_t)plane->page_tokens - 1, &tokens) ||
      !base_mul_u64(plane->head_stride_bytes, (uint64_t)plane->head_count - 1, &heads))
    return false;
  if (!base_add_u64(pages, tokens, &bytes) || !base_add_u64(bytes, heads, &bytes)) return false;
  return base_add_u64(bytes, plane->head_bytes, bytes_out);
}

static kvf_error *check_memory(const kvf_plane *plane, uint32_t index) {
  const char *wrong = NULL;
  uint64_t bytes, end;
  if (!layout_plane_extent(plane, &bytes) || !base_add_u64(plane->address, bytes, &end))
    wrong = "the addresses of a plane leave 64 bits";
  else if (!strides_step_over(plane))
    wrong = "the strides of a plane make its elements overlap";
  if (!wrong) return NULL;
  kvf_error *error = describe_plane(plane, index, wrong);
  base_error_add(error, "address", "0x%llx", (unsigned long long)plane->address);
  base_error_add(error, "page_stride_bytes", "%llu", (unsigned long long)plane->page_stride_bytes);
  base_error_add(error, "token_stride_bytes", "%llu", (unsigned long long)plane->token_stride_bytes);
  base_error_add(error, "head_stride_bytes", "%llu", (unsigned long long)plane->head_stride_bytes);
  base_error_add(error, "page_tokens", "%u", plane->page_tokens);
  base_error_add(error, "page_count", "%u", plane->page_count);
  return base_error_add(error, "head_count", "%u", plane->head_count);
}

static bool same_make(const kvf_plane *a, const kvf_plane *b) {
  return layout_field_find_unequal(a, b) == LAYOUT_FIELDS && a->component == b->component;
}

/* Two planes of one array that have a head in common: do they at least hold other entries of it? */
static const char *check_common_head(const kvf_plane *a, const kvf_plane *b) {
  const struct layout_share left = layout_share_of(a), right = layout_share_of(b);
  struct layout_overlap overlap;
  if (!layout_overlap_open(&left, &right, &overlap)) return "the token parts of two planes repeat after too many entries";
  return overlap.period_entries ? "two planes hold the same head of one layer, role and part" : NULL;
}

/* The planes after number @p at of @p order that are of its array. */
static kvf_error *check_array(const kvf_plane *const *order, uint32_t plane_count, uint32_t at, const kvf_plane *planes) {
  const kvf_plane *a = order[at], *b = NULL;
  const char *wrong = NULL;
  for (uint32_t i = at + 1; !wrong && i < plane_count && layout_order_same_array(a, order[i]); i++) {
    b = order[i];
    if (i == at + 1 && !same_make(a, b)) wrong = "two planes of one layer, role and part differ in what must be equal";
    if (wrong || b->head_first - a->head_first >= a->head_count) break;
    wrong = i - at > PLANES_PER_HEAD_LIMIT ? "too many planes hold one head" : check_common_head(a, b);
  }
  if (!wrong) return NULL;
  kvf_error *error = describe_plane(b, (uint32_t)(b - planes), wrong);
  base_error_add(error, "heads", "%u-%u", a->head_first, a->head_first + a->head_count - 1);
  return base_error_add(error, "other_heads", "%u-%u", b->head_first, b->head_first + b->head_count - 1);
}

kvf_status layout_planes_validate(const kvf_plane *planes, uint32_t plane_count, kvf_error **error_out) {
  if (!planes && plane_count > 0) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "planes is NULL"), error_out);
  kvf_error *error = NULL;
  for (uint32_t i = 0; i < plane_count && !error; i++) {
    error = check_numbers(&planes[i], i);
    if (!error) error = check_memory(&planes[i], i);
  }
  if (error) return base_error_give(error, error_out);
  const kvf_plane **order = layout_order_create(planes, plane_count);
  if (!order) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to sort %u planes", plane_count), error_out);
  for (uint32_t i = 0; i < plane_count && !error; i++) error = check_array(order, plane_count, i, planes);
  base_free(order);
  return error ? base_error_give(error, error_out) : KVF_OK;
}
