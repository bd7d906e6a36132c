/* Pages: the pages of one room in this rank's planes, filled with the pattern or checked against it. */
#ifndef TOOLS_PAGES_H
#define TOOLS_PAGES_H

#include <kvferry/plane.h>

#include "pattern.h"

/* The room's pages of one page list: positions [first_page, first_page + page_count) of its sequence of pages (span.h). */
struct pages_list {
  const uint32_t *pages;
  uint32_t page_count;
  uint64_t first_page;
};

struct pages {
  uint64_t room;
  uint64_t tokens; /* of the request */
  const kvf_plane *planes;
  uint32_t plane_count;
  struct pages_list lists[KVF_PAGE_LIST_LIMIT];
};

/** What is wrong first. */
struct pages_fault {
  uint32_t layer, role, part, head, page;
  uint32_t heads_total;
  uint64_t entry;
  uint32_t byte; /* within the head */
  uint8_t expected, found;
  const void *row; /* the whole head, in the pool */
  uint32_t row_bytes;
};

/** Write the pattern into tokens [token_first, token_end), which the pages must cover as far as they matter. State is written with
 *  the request's last token. */
void pages_fill(const struct pages *pages, uint64_t token_first, uint64_t token_end);

/** Tokens [token_first, end of the request) must be the pattern, every other slot of the pages canary.
 *  @p sample looks at one entry of 16 and the first and last slot of each page only. */
bool pages_check(const struct pages *pages, uint64_t token_first, bool sample, struct pages_fault *fault_out);

/** Make every slot canary again. */
void pages_reset(const struct pages *pages);

/** One line on the fault: where, what, and whose bytes lie there when that can be told. */
void pages_describe(const struct pages *pages, const struct pages_fault *fault, char *text, size_t capacity_bytes);

#endif
