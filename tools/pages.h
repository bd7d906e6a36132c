/* Pages: the pages of one room in this rank's planes, filled with the pattern or checked against it. */
#ifndef TOOLS_PAGES_H
#define TOOLS_PAGES_H

#include <kvferry/plane.h>

#include "pattern.h"

struct pages {
  uint64_t room;
  const kvf_plane *planes;
  uint32_t plane_count;
  uint32_t page_count;
  const uint32_t *pages;
  uint64_t first_token; /* the position of the first slot of pages[0] */
};

/** What is wrong first. */
struct pages_fault {
  uint32_t layer, role, head, page;
  uint64_t token;
  uint32_t byte; /* within the head */
  uint8_t expected, found;
  const void *row; /* the whole head, in the pool */
  uint32_t row_bytes;
};

/** Write the pattern into tokens [token_first, token_end), which the pages must cover. */
void pages_fill(const struct pages *pages, uint64_t token_first, uint64_t token_end);

/** Tokens [token_first, token_end) must be the pattern, every other slot of the pages canary.
 *  @p sample looks at one token of 16 and the first and last slot of each page only. */
bool pages_check(const struct pages *pages, uint64_t token_first, uint64_t token_end, bool sample, struct pages_fault *fault_out);

/** Make every slot canary again. */
void pages_reset(const struct pages *pages);

/** One line on the fault: where, what, and whose bytes lie there when that can be told. */
void pages_describe(const struct pages *pages, const struct pages_fault *fault, uint64_t token_end, char *text,
                    size_t capacity_bytes);

#endif
