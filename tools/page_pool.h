/* The page pool: which pages of a rank's cache are free. Hands them out in random order, as a server that has run for
 * a while does, because contiguous pages hide faults; in order only to measure what the disorder costs. */
#ifndef TOOLS_PAGE_POOL_H
#define TOOLS_PAGE_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct page_pool {
  uint32_t *free;
  uint32_t free_count, page_count;
  uint64_t random;
  bool in_order; /* hand out those that came back last, ascending: runs, as long as all take the same count */
  uint32_t run_pages; /* in order, but in random order runs of so many pages; 0 = one run */
};

bool page_pool_init(struct page_pool *pool, uint32_t page_count, uint64_t seed);
void page_pool_fini(struct page_pool *pool);

/** Take @p count pages, or none and false when fewer are free. */
bool page_pool_take(struct page_pool *pool, uint32_t count, uint32_t *pages_out);
void page_pool_give(struct page_pool *pool, const uint32_t *pages, uint32_t count);

#endif
