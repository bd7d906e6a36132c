/* Spans: the arithmetic, each step one function. */
#include "span.h"

static uint64_t parts_of(const kvf_plane *plane) {
  return plane->token_parts ? plane->token_parts : 1;
}
static uint64_t block_of(const kvf_plane *plane) {
  return plane->token_block ? plane->token_block : 1;
}
static uint64_t entry_tokens_of(const kvf_plane *plane) {
  return plane->entry_tokens ? plane->entry_tokens : 1;
}

uint64_t span_owned_below(const kvf_plane *plane, uint64_t entry) {
  uint64_t block = block_of(plane), turn = block * parts_of(plane), begin = plane->token_part * block, rest = entry % turn;
  uint64_t within = rest <= begin ? 0 : rest - begin;
  return entry / turn * block + (within < block ? within : block);
}

uint64_t span_entry(const kvf_plane *plane, uint64_t local) {
  uint64_t block = block_of(plane);
  return (local / block * parts_of(plane) + plane->token_part) * block + local % block;
}

struct span span_of(const kvf_plane *plane, uint64_t token_first, uint64_t token_end, uint64_t request_tokens) {
  uint64_t window = plane->window_tokens;
  if (plane->per_request) return (struct span){0, 1};
  if (window && request_tokens > window && token_first < request_tokens - window) token_first = request_tokens - window;
  if (token_first > token_end) token_first = token_end;
  return (struct span){span_owned_below(plane, token_first / entry_tokens_of(plane)),
                       span_owned_below(plane, token_end / entry_tokens_of(plane))};
}

struct span span_pages(const kvf_plane *plane, struct span locals) {
  uint64_t first = locals.first / plane->page_tokens;
  if (locals.first >= locals.end) return (struct span){first, first};
  return (struct span){first, (locals.end - 1) / plane->page_tokens + 1};
}

uint64_t span_page_token(const kvf_plane *plane, uint64_t page) {
  if (plane->per_request) return 0;
  return span_entry(plane, page * plane->page_tokens) * entry_tokens_of(plane);
}
