/* Spans: which entries of a plane a token range means, where a rank keeps them, and which pages hold them.
 *
 * Tokens of the request -> entries of the plane (several tokens each, when it compresses) -> the entries that this rank owns,
 * counted from 0 ("local": context parallelism takes them in turns) -> slots of pages. */
#ifndef TOOLS_SPAN_H
#define TOOLS_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/plane.h>

struct span {
  uint64_t first, end; /* local entries */
};

/** The local entries of tokens [token_first, token_end) of a request of @p request_tokens tokens. What lies before the plane's
 *  window is left out; a plane of per-request state has its one entry whatever the range. */
struct span span_of(const kvf_plane *plane, uint64_t token_first, uint64_t token_end, uint64_t request_tokens);

/** How many entries below @p entry this rank owns. */
uint64_t span_owned_below(const kvf_plane *plane, uint64_t entry);
/** The entry that local number @p local is. */
uint64_t span_entry(const kvf_plane *plane, uint64_t local);

/** The pages that hold a span, as positions in the request's own sequence of pages: [page_first, page_end). */
struct span span_pages(const kvf_plane *plane, struct span locals);
/** What kvf_page_list.first_token says of a list that begins with page number @p page of that sequence. */
uint64_t span_page_token(const kvf_plane *plane, uint64_t page);

#endif
