/* Do page lists cover what will be moved? Planes that share a list and a page size are checked together, so that the cost is that
 * of the pages and not of pages times layers. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "layout/block.h"

struct span {
  const kvf_plane *plane; /* the one with the fewest pages */
  const kvf_page_list *list;
  uint64_t first, end; /* entries of the list */
};

enum { SMALL_SET = 512 };

static kvf_error *describe(kvf_error *error, const kvf_plane *plane, const kvf_page_list *list) {
  base_error_add(error, "layer", "%u", plane->layer);
  base_error_add(error, "page_list", "%u", plane->page_list);
  return base_error_add(error, "pages", "%u", list->pages ? list->page_count : 0);
}

static kvf_error *find_span(const struct layout_pages *pages, const kvf_plane *plane, uint64_t token_first, uint64_t token_end,
                            struct span *span_out) {
  const kvf_page_list *list = &pages->lists[plane->page_list];
  uint64_t tokens = (uint64_t)list->page_count * plane->page_tokens;
  if (!list->pages || list->first_token > token_first || token_end - list->first_token > tokens) {
    kvf_error *error = describe(BASE_ERROR(KVF_INVALID, NULL, "a page list does not cover the tokens"), plane, list);
    base_error_add(error, "page_tokens", "%u", plane->page_tokens);
    base_error_add(error, "list_first_token", "%llu", (unsigned long long)list->first_token);
    base_error_add(error, "token_first", "%llu", (unsigned long long)token_first);
    return base_error_add(error, "token_end", "%llu", (unsigned long long)token_end);
  }
  *span_out = (struct span){.plane = plane,
                            .list = list,
                            .first = (token_first - list->first_token) / plane->page_tokens,
                            .end = base_ceil_div_u64(token_end - list->first_token, plane->page_tokens)};
  return NULL;
}

static kvf_error *check_numbers(const struct span *span, bool *ascending_out) {
  bool ascending = true;
  for (uint64_t i = span->first; i < span->end; i++) {
    uint32_t page = span->list->pages[i];
    if (page >= span->plane->page_count) {
      kvf_error *error =
          BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "a page list names page %u of a pool of %u", page, span->plane->page_count);
      describe(error, span->plane, span->list);
      base_error_add(error, "page", "%u", page);
      base_error_add(error, "index", "%llu", (unsigned long long)i);
      return base_error_add(error, "pool_pages", "%u", span->plane->page_count);
    }
    if (i > span->first && page <= span->list->pages[i - 1]) ascending = false;
  }
  *ascending_out = ascending;
  return NULL;
}

/* An open-addressed set; no page is UINT32_MAX, since page_count is 32 bits wide and pages are below it. */
static kvf_error *find_repeat(const struct span *span, uint32_t *slots, uint64_t slot_count) {
  memset(slots, 0xff, slot_count * sizeof *slots);
  for (uint64_t i = span->first; i < span->end; i++) {
    uint32_t page = span->list->pages[i];
    uint64_t slot = (page * 0x9e3779b97f4a7c15ull) >> 32 & (slot_count - 1);
    while (slots[slot] != UINT32_MAX && slots[slot] != page) slot = (slot + 1) & (slot_count - 1);
    if (slots[slot] == page) {
      kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "a page list names page %u twice", page);
      describe(error, span->plane, span->list);
      base_error_add(error, "page", "%u", page);
      return base_error_add(error, "index", "%llu", (unsigned long long)i);
    }
    slots[slot] = page;
  }
  return NULL;
}

static kvf_error *check_span(const struct span *span) {
  bool ascending = false;
  kvf_error *error = check_numbers(span, &ascending);
  if (error || ascending) return error;
  uint32_t small[SMALL_SET];
  uint64_t slot_count = base_ceil_pow2(2 * (span->end - span->first));
  uint32_t *slots = slot_count <= SMALL_SET ? small : base_alloc((size_t)slot_count * sizeof *slots);
  if (!slots)
    return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to check %llu pages", (unsigned long long)(span->end - span->first));
  error = find_repeat(span, slots, slot_count);
  if (slots != small) base_free(slots);
  return error;
}

static bool in_layers(const kvf_plane *plane, uint32_t layer_first, uint32_t layer_end) {
  return plane->layer >= layer_first && plane->layer < layer_end;
}

static bool share_span(const kvf_plane *a, const kvf_plane *b) {
  return a->page_list == b->page_list && a->page_tokens == b->page_tokens;
}

kvf_status layout_pages_check(const struct layout_pages *pages, const kvf_plane *planes, uint32_t plane_count, uint64_t token_first,
                              uint64_t token_end, uint32_t layer_first, uint32_t layer_end, kvf_error **error_out) {
  if (token_first > token_end) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "a token range ends before it begins");
    base_error_add(error, "token_first", "%llu", (unsigned long long)token_first);
    return base_error_give(base_error_add(error, "token_end", "%llu", (unsigned long long)token_end), error_out);
  }
  for (uint32_t i = 0; i < plane_count && token_first < token_end; i++) {
    const kvf_plane *fewest = &planes[i];
    uint32_t before = 0;
    if (!in_layers(fewest, layer_first, layer_end)) continue;
    while (before < i && !(share_span(&planes[before], fewest) && in_layers(&planes[before], layer_first, layer_end))) before++;
    if (before < i) continue;
    for (uint32_t j = i + 1; j < plane_count; j++)
      if (share_span(&planes[j], &planes[i]) && in_layers(&planes[j], layer_first, layer_end) &&
          planes[j].page_count < fewest->page_count)
        fewest = &planes[j];
    struct span span;
    kvf_error *error = find_span(pages, fewest, token_first, token_end, &span);
    if (!error) error = check_span(&span);
    if (error) return base_error_give(error, error_out);
  }
  return KVF_OK;
}
