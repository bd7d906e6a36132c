/* Do page lists cover what will be moved? Planes that share a list and hold the same slots of it are checked together, so that the
 * cost is that of the pages and not of pages times layers. */
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "layout/lane.h"

struct span {
  const kvf_plane *plane; /* the one with the fewest pages */
  const kvf_page_list *list;
  uint64_t first, end; /* indices into the list's pages */
};

enum { SMALL_SET = 512 };

static kvf_error *describe(kvf_error *error, const kvf_plane *plane, const kvf_page_list *list) {
  base_error_add(error, "layer", "%u", plane->layer);
  base_error_add(error, "page_list", "%u", plane->page_list);
  return base_error_add(error, "pages", "%u", list->pages ? list->page_count : 0);
}

/* The slots that the plane itself holds of some entries, counted from the beginning of the list; false when that lies after them or
 * the list ends before. No entries need no list. */
static bool find_slots(const kvf_plane *plane, const kvf_page_list *list, struct layout_span entries,
                       struct layout_span *slots_out) {
  const struct layout_share share = layout_share_of(plane);
  uint64_t first = layout_share_count(&share, entries.first), end = layout_share_count(&share, entries.end);
  *slots_out = (struct layout_span){0};
  if (first >= end) return true;
  uint64_t before = plane->per_request ? 0 : layout_share_count(&share, layout_entry_at(plane, list->first_token));
  *slots_out = (struct layout_span){first - before, end - before};
  return list->pages && before <= first && end - before <= (uint64_t)list->page_count * plane->page_tokens;
}

static kvf_error *find_span(const struct layout_pages *pages, const kvf_plane *plane, uint64_t token_first, uint64_t token_end,
                            struct span *span_out) {
  const kvf_page_list *list = &pages->lists[plane->page_list];
  struct layout_span slots;
  if (!find_slots(plane, list, layout_span_of(plane, token_first, token_end), &slots)) {
    kvf_error *error = describe(BASE_ERROR(KVF_INVALID, NULL, "a page list does not cover the tokens"), plane, list);
    base_error_add(error, "page_tokens", "%u", plane->page_tokens);
    base_error_add(error, "list_first_token", "%llu", (unsigned long long)list->first_token);
    base_error_add(error, "token_first", "%llu", (unsigned long long)token_first);
    return base_error_add(error, "token_end", "%llu", (unsigned long long)token_end);
  }
  *span_out = (struct span){.plane = plane,
                            .list = list,
                            .first = slots.first / plane->page_tokens,
                            .end = base_ceil_div_u64(slots.end, plane->page_tokens)};
  return NULL;
}

static kvf_error *check_number(const struct span *span, uint64_t index) {
  uint32_t page = span->list->pages[index];
  if (page < span->plane->page_count) return NULL;
  kvf_error *error = BASE_ERROR(KVF_OUT_OF_RANGE, NULL, "a page list names page %u of a pool of %u", page, span->plane->page_count);
  describe(error, span->plane, span->list);
  base_error_add(error, "page", "%u", page);
  base_error_add(error, "index", "%llu", (unsigned long long)index);
  return base_error_add(error, "pool_pages", "%u", span->plane->page_count);
}

static kvf_error *check_numbers(const struct span *span, bool *ascending_out) {
  bool ascending = true;
  for (uint64_t i = span->first; i < span->end; i++) {
    kvf_error *error = check_number(span, i);
    if (error) return error;
    if (i > span->first && span->list->pages[i] <= span->list->pages[i - 1]) ascending = false;
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

static bool is_demanded(const kvf_plane *plane, const struct layout_demand *demand) {
  if (plane->per_request) return demand->slots;
  if (plane->window_tokens && !demand->whole) return false;
  return plane->layer >= demand->layer_first && plane->layer < demand->layer_end;
}

static bool share_span(const kvf_plane *a, const kvf_plane *b) {
  const struct layout_share left = layout_share_of(a), right = layout_share_of(b);
  return a->page_list == b->page_list && a->page_tokens == b->page_tokens && a->window_tokens == b->window_tokens &&
         a->per_request == b->per_request && layout_entry_tokens(a) == layout_entry_tokens(b) && layout_share_equal(&left, &right);
}

static kvf_error *check_slot(const struct layout_pages *pages, const kvf_plane *plane) {
  const kvf_page_list *list = &pages->lists[plane->page_list];
  if (list->pages && list->page_count == 1) return check_number(&(struct span){.plane = plane, .list = list}, 0);
  return describe(BASE_ERROR(KVF_INVALID, NULL, "a per-request slot needs a list of exactly one page"), plane, list);
}

/* All planes that are to be checked with @p plane, by the one that has the fewest pages. */
static kvf_error *check_plane(const struct layout_pages *pages, const kvf_plane *plane, const struct layout_demand *demand) {
  struct span span;
  if (plane->per_request) return check_slot(pages, plane);
  uint64_t first = layout_window_first(plane, demand->token_first, demand->token_end);
  kvf_error *error = find_span(pages, plane, first, demand->token_end, &span);
  return error ? error : check_span(&span);
}

kvf_status layout_pages_check(const struct layout_pages *pages, const kvf_plane *planes, uint32_t plane_count,
                              const struct layout_demand *demand, kvf_error **error_out) {
  if (demand->token_first > demand->token_end) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "a token range ends before it begins");
    base_error_add(error, "token_first", "%llu", (unsigned long long)demand->token_first);
    return base_error_give(base_error_add(error, "token_end", "%llu", (unsigned long long)demand->token_end), error_out);
  }
  for (uint32_t i = 0; i < plane_count; i++) {
    const kvf_plane *fewest = &planes[i];
    uint32_t before = 0;
    if (!is_demanded(fewest, demand)) continue;
    while (before < i && !(share_span(&planes[before], fewest) && is_demanded(&planes[before], demand))) before++;
    if (before < i) continue;
    for (uint32_t j = i + 1; j < plane_count; j++)
      if (share_span(&planes[j], &planes[i]) && is_demanded(&planes[j], demand) && planes[j].page_count < fewest->page_count)
        fewest = &planes[j];
    kvf_error *error = check_plane(pages, fewest, demand);
    if (error) return base_error_give(error, error_out);
  }
  return KVF_OK;
}

static kvf_error *check_cut(const struct layout_link *link, uint32_t cut, enum layout_side side, const struct layout_pages *pages,
                            const struct layout_piece *piece) {
  const kvf_plane *plane = side == LAYOUT_SOURCE ? layout_cut_source(link, cut) : layout_cut_target(link, cut);
  const uint64_t token_end = piece->token_first + piece->token_count;
  struct span span = {0};
  kvf_error *cause = find_span(pages, plane, piece->token_first, token_end, &span);
  for (uint64_t i = span.first; !cause && plane->window_tokens && i < span.end; i++) cause = check_number(&span, i);
  if (!cause) return NULL;
  kvf_error *error = BASE_ERROR(KVF_OUT_OF_RANGE, cause, "the page list of layer %u has no pages for tokens %llu-%llu",
                                plane->layer, (unsigned long long)piece->token_first, (unsigned long long)token_end);
  base_error_add(error, "layer", "%u", plane->layer);
  base_error_add(error, "page_list", "%u", plane->page_list);
  base_error_add(error, "token_first", "%llu", (unsigned long long)piece->token_first);
  return base_error_add(error, "token_end", "%llu", (unsigned long long)token_end);
}

kvf_status layout_piece_check_pages(const struct layout_link *link, enum layout_side side, const struct layout_pages *pages,
                                    const struct layout_piece *piece, kvf_error **error_out) {
  for (uint32_t i = 0; i < piece->cut_count; i++) {
    kvf_error *error = check_cut(link, piece->cut_first + i, side, pages, piece);
    if (error) return base_error_give(error, error_out);
  }
  return KVF_OK;
}
