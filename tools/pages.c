/* Pages: every visit goes plane, page, head, token, so that the stem of the pattern is mixed once per head and page. */
#include "pages.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLE_TOKENS = 16 };

static char *find_row(const kvf_plane *plane, uint32_t page, uint32_t head, uint32_t slot) {
  uint64_t offset = page * plane->page_stride_bytes + slot * plane->token_stride_bytes + head * plane->head_stride_bytes;
  return (char *)(uintptr_t)(plane->address + offset);
}

static void fill_page(const struct pages *pages, const kvf_plane *plane, uint32_t index, uint64_t token_first, uint64_t token_end) {
  uint64_t start = pages->first_token + (uint64_t)index * plane->page_tokens;
  uint64_t from = token_first > start ? token_first - start : 0;
  uint64_t to = token_end - start < plane->page_tokens ? token_end - start : plane->page_tokens;
  for (uint32_t head = 0; head < plane->head_count; head++) {
    uint64_t stem = pattern_stem(pages->room, plane->layer, plane->role, plane->head_first + head);
    for (uint32_t slot = (uint32_t)from; slot < to; slot++)
      pattern_fill(pattern_base(stem, start + slot), find_row(plane, pages->pages[index], head, slot), plane->head_bytes);
  }
}

void pages_fill(const struct pages *pages, uint64_t token_first, uint64_t token_end) {
  if (token_first >= token_end) return;
  for (uint32_t p = 0; p < pages->plane_count; p++) {
    const kvf_plane *plane = &pages->planes[p];
    uint64_t index_first = (token_first - pages->first_token) / plane->page_tokens;
    uint64_t index_last = (token_end - 1 - pages->first_token) / plane->page_tokens;
    for (uint64_t index = index_first; index <= index_last; index++)
      fill_page(pages, plane, (uint32_t)index, token_first, token_end);
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

struct check {
  uint64_t token_first, token_end;
  bool sample;
};

static bool check_page(const struct pages *pages, const kvf_plane *plane, uint32_t index, const struct check *check,
                       struct pages_fault *fault) {
  uint64_t start = pages->first_token + (uint64_t)index * plane->page_tokens;
  for (uint32_t head = 0; head < plane->head_count; head++) {
    uint64_t stem = pattern_stem(pages->room, plane->layer, plane->role, plane->head_first + head);
    for (uint32_t slot = 0; slot < plane->page_tokens; slot++) {
      uint64_t token = start + slot;
      if (check->sample && token % SAMPLE_TOKENS && slot && slot + 1 != plane->page_tokens) continue;
      bool wanted = token >= check->token_first && token < check->token_end;
      const char *row = find_row(plane, pages->pages[index], head, slot);
      if (check_row(row, plane->head_bytes, wanted, pattern_base(stem, token), fault)) continue;
      fault->layer = plane->layer;
      fault->role = plane->role;
      fault->head = plane->head_first + head;
      fault->page = pages->pages[index];
      fault->token = token;
      return false;
    }
  }
  return true;
}

bool pages_check(const struct pages *pages, uint64_t token_first, uint64_t token_end, bool sample, struct pages_fault *fault_out) {
  const struct check check = {token_first, token_end, sample};
  for (uint32_t p = 0; p < pages->plane_count; p++)
    for (uint32_t index = 0; index < pages->page_count; index++)
      if (!check_page(pages, &pages->planes[p], index, &check, fault_out)) return false;
  return true;
}

void pages_reset(const struct pages *pages) {
  for (uint32_t p = 0; p < pages->plane_count; p++) {
    const kvf_plane *plane = &pages->planes[p];
    for (uint32_t index = 0; index < pages->page_count; index++)
      for (uint32_t slot = 0; slot < plane->page_tokens; slot++)
        for (uint32_t head = 0; head < plane->head_count; head++)
          memset(find_row(plane, pages->pages[index], head, slot), PATTERN_CANARY, plane->head_bytes);
  }
}

static const char *name_role(uint32_t role) {
  return role == KVF_ROLE_K ? "K" : role == KVF_ROLE_V ? "V" : "latent";
}

static bool holds(const struct pages *pages, const struct pages_fault *fault, uint32_t layer, uint32_t role, uint32_t head,
                  uint64_t token) {
  return pattern_matches(pattern_base(pattern_stem(pages->room, layer, role, head), token), fault->row, fault->row_bytes);
}

/* Looks for the coordinate whose bytes lie there: same token of another head, layer or role, then another token. */
static bool identify_row(const struct pages *pages, const struct pages_fault *fault, uint64_t token_end, char *text,
                         size_t capacity_bytes) {
  uint32_t heads_total = pages->planes[0].heads_total;
  for (uint32_t p = 0; p < pages->plane_count; p++)
    for (uint32_t head = 0; head < heads_total; head++)
      if (holds(pages, fault, pages->planes[p].layer, pages->planes[p].role, head, fault->token)) {
        snprintf(text, capacity_bytes, "; it holds layer %u %s head %u of the same token", pages->planes[p].layer,
                 name_role(pages->planes[p].role), head);
        return true;
      }
  for (uint32_t head = 0; head < heads_total; head++)
    for (uint64_t token = 0; token < token_end; token++)
      if (holds(pages, fault, fault->layer, fault->role, head, token)) {
        snprintf(text, capacity_bytes, "; it holds token %llu of head %u", (unsigned long long)token, head);
        return true;
      }
  return false;
}

void pages_describe(const struct pages *pages, const struct pages_fault *fault, uint64_t token_end, char *text,
                    size_t capacity_bytes) {
  char guess[128] = "";
  if (pattern_is_canary(fault->row, fault->row_bytes))
    snprintf(guess, sizeof guess, "; it was never written");
  else
    identify_row(pages, fault, token_end, guess, sizeof guess);
  snprintf(text, capacity_bytes, "wrong data: layer %u %s head %u token %llu (page %u): byte %u is 0x%02x, expected 0x%02x%s",
           fault->layer, name_role(fault->role), fault->head, (unsigned long long)fault->token, fault->page, fault->byte,
           fault->found, fault->expected, guess);
}
