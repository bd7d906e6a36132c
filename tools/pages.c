/* Pages: every visit goes plane, page, head, slot, so that the stem of the pattern is mixed once per head and page. */
#include "pages.h"

#include <stdio.h>
#include <string.h>

#include "span.h"

enum { SAMPLE_ENTRIES = 16 };

static char *find_row(const kvf_plane *plane, uint32_t page, uint32_t head, uint32_t slot) {
  uint64_t offset = page * plane->page_stride_bytes + slot * plane->token_stride_bytes + head * plane->head_stride_bytes;
  return (char *)(uintptr_t)(plane->address + offset);
}

static const struct pages_list *find_list(const struct pages *pages, const kvf_plane *plane) {
  return &pages->lists[plane->page_list];
}

/* Local number of slot 0 of the page at @p index. */
static uint64_t first_local(const kvf_plane *plane, const struct pages_list *list, uint32_t index) {
  return (list->first_page + index) * plane->page_tokens;
}

static uint64_t stem_of(const struct pages *pages, const kvf_plane *plane, uint32_t head) {
  return pattern_stem(pages->room, plane->layer, plane->role, plane->part, head);
}

static void fill_page(const struct pages *pages, const kvf_plane *plane, uint32_t index, struct span wanted) {
  const struct pages_list *list = find_list(pages, plane);
  uint64_t start = first_local(plane, list, index);
  uint64_t from = wanted.first > start ? wanted.first - start : 0;
  uint64_t to = wanted.end - start < plane->page_tokens ? wanted.end - start : plane->page_tokens;
  for (uint32_t head = 0; head < plane->head_count; head++) {
    uint64_t stem = stem_of(pages, plane, plane->head_first + head);
    for (uint32_t slot = (uint32_t)from; slot < to; slot++)
      pattern_fill(pattern_base(stem, span_entry(plane, start + slot)), find_row(plane, list->pages[index], head, slot),
                   plane->head_bytes);
  }
}

void pages_fill(const struct pages *pages, uint64_t token_first, uint64_t token_end) {
  for (uint32_t p = 0; p < pages->plane_count; p++) {
    const kvf_plane *plane = &pages->planes[p];
    if (plane->per_request && token_end != pages->tokens) continue;
    struct span wanted = span_of(plane, token_first, token_end, pages->tokens), where = span_pages(plane, wanted);
    for (uint64_t page = where.first; page < where.end; page++)
      fill_page(pages, plane, (uint32_t)(page - find_list(pages, plane)->first_page), wanted);
  }
}

static bool check_row(const char *row, uint32_t row_bytes, bool wanted, uint64_t base, struct pages_fault *fault) {
  if (wanted ? pattern_matches(base, row, row_bytes) : pattern_is_canary(row, row_bytes)) return true;
  size_t at = wanted ? pattern_find(base, row, row_bytes) : pattern_find_stain(row, row_bytes);
  fault->byte = (uint32_t)at;
  fault->expected = wanted ? pattern_byte(base, at) : PATTERN_CANARY;
  fault->found = (uint8_t)row[at];
  fault->row = row;
  fault->row_bytes = row_bytes;
  return false;
}

static bool check_page(const struct pages *pages, const kvf_plane *plane, uint32_t index, struct span expected, bool sample,
                       struct pages_fault *fault) {
  const struct pages_list *list = find_list(pages, plane);
  uint64_t start = first_local(plane, list, index);
  for (uint32_t head = 0; head < plane->head_count; head++) {
    uint64_t stem = stem_of(pages, plane, plane->head_first + head);
    for (uint32_t slot = 0; slot < plane->page_tokens; slot++) {
      uint64_t local = start + slot;
      if (sample && local % SAMPLE_ENTRIES && slot && slot + 1 != plane->page_tokens) continue;
      bool wanted = local >= expected.first && local < expected.end;
      const char *row = find_row(plane, list->pages[index], head, slot);
      if (check_row(row, plane->head_bytes, wanted, pattern_base(stem, span_entry(plane, local)), fault)) continue;
      fault->layer = plane->layer;
      fault->role = plane->role;
      fault->part = plane->part;
      fault->head = plane->head_first + head;
      fault->heads_total = plane->heads_total;
      fault->page = list->pages[index];
      fault->entry = span_entry(plane, local);
      return false;
    }
  }
  return true;
}

bool pages_check(const struct pages *pages, uint64_t token_first, bool sample, struct pages_fault *fault_out) {
  for (uint32_t p = 0; p < pages->plane_count; p++) {
    const kvf_plane *plane = &pages->planes[p];
    struct span expected = span_of(plane, token_first, pages->tokens, pages->tokens);
    for (uint32_t index = 0; index < find_list(pages, plane)->page_count; index++)
      if (!check_page(pages, plane, index, expected, sample, fault_out)) return false;
  }
  return true;
}

void pages_reset(const struct pages *pages) {
  for (uint32_t p = 0; p < pages->plane_count; p++) {
    const kvf_plane *plane = &pages->planes[p];
    const struct pages_list *list = find_list(pages, plane);
    for (uint32_t index = 0; index < list->page_count; index++)
      for (uint32_t slot = 0; slot < plane->page_tokens; slot++)
        for (uint32_t head = 0; head < plane->head_count; head++)
          memset(find_row(plane, list->pages[index], head, slot), PATTERN_CANARY, plane->head_bytes);
  }
}

/* "K", or "state part 2". */
static const char *name_array(uint32_t role, uint32_t part, char *text, size_t capacity_bytes) {
  static const char *const names[] = {"role 0", "K", "V", "latent", "index", "scale of K", "scale of V", "state"};
  const char *name = role < sizeof names / sizeof *names ? names[role] : "another role";
  if (part == 0) return name;
  snprintf(text, capacity_bytes, "%s part %u", name, part);
  return text;
}

static bool holds(const struct pages *pages, const struct pages_fault *fault, const kvf_plane *plane, uint32_t head,
                  uint64_t entry) {
  uint64_t stem = pattern_stem(pages->room, plane->layer, plane->role, plane->part, head);
  return pattern_matches(pattern_base(stem, entry), fault->row, fault->row_bytes);
}

/* Looks for the coordinate whose bytes lie there: same entry of another head, layer or role, then another entry. */
static bool identify_row(const struct pages *pages, const struct pages_fault *fault, char *text, size_t capacity_bytes) {
  char name[48];
  for (uint32_t p = 0; p < pages->plane_count; p++)
    for (uint32_t head = 0; head < pages->planes[p].heads_total; head++) {
      const kvf_plane *plane = &pages->planes[p];
      if (!holds(pages, fault, plane, head, fault->entry)) continue;
      snprintf(text, capacity_bytes, "; it holds layer %u %s head %u of the same token", plane->layer,
               name_array(plane->role, plane->part, name, sizeof name), head);
      return true;
    }
  const kvf_plane own = {.layer = fault->layer, .role = fault->role, .part = fault->part};
  for (uint32_t head = 0; head < fault->heads_total; head++)
    for (uint64_t entry = 0; entry < pages->tokens; entry++)
      if (holds(pages, fault, &own, head, entry)) {
        snprintf(text, capacity_bytes, "; it holds token %llu of head %u", (unsigned long long)entry, head);
        return true;
      }
  return false;
}

void pages_describe(const struct pages *pages, const struct pages_fault *fault, char *text, size_t capacity_bytes) {
  char guess[160] = "", name[48];
  if (pattern_is_canary(fault->row, fault->row_bytes))
    snprintf(guess, sizeof guess, "; it was never written");
  else
    identify_row(pages, fault, guess, sizeof guess);
  snprintf(text, capacity_bytes, "wrong data: layer %u %s head %u token %llu (page %u): byte %u is 0x%02x, expected 0x%02x%s",
           fault->layer, name_array(fault->role, fault->part, name, sizeof name), fault->head, (unsigned long long)fault->entry,
           fault->page, fault->byte, fault->found, fault->expected, guess);
}
