/* The page pool: an array of the free pages; a random one is swapped with the last and taken. */
#include "page_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "mix.h"

bool page_pool_init(struct page_pool *pool, uint32_t page_count, uint64_t seed) {
  *pool = (struct page_pool){.free = calloc(page_count ? page_count : 1, sizeof *pool->free),
                             .free_count = page_count,
                             .page_count = page_count,
                             .random = mix_word(seed)};
  if (!pool->free) return false;
  for (uint32_t i = 0; i < page_count; i++) pool->free[i] = i;
  return true;
}

void page_pool_fini(struct page_pool *pool) {
  free(pool->free);
  *pool = (struct page_pool){0};
}

static int compare_pages(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return (a > b) - (a < b);
}

/* Runs that lay one after the other change places at random; the short one at the end stays. */
static void shuffle_runs(struct page_pool *pool, uint32_t count, uint32_t *pages) {
  uint32_t length = pool->run_pages;
  for (uint32_t left = length ? count / length : 0; left > 1; left--) {
    uint32_t *last = pages + (size_t)(left - 1) * length, *pick = pages + (size_t)(mix_next(&pool->random) % left) * length;
    for (uint32_t i = 0; i < length; i++) {
      uint32_t swap = last[i];
      last[i] = pick[i];
      pick[i] = swap;
    }
  }
}

bool page_pool_take(struct page_pool *pool, uint32_t count, uint32_t *pages_out) {
  if (pool->free_count < count) return false;
  if (count == 0) return true; /* and pages_out may be NULL */
  if (pool->in_order) {
    pool->free_count -= count;
    memcpy(pages_out, pool->free + pool->free_count, count * sizeof *pages_out);
    qsort(pages_out, count, sizeof *pages_out, compare_pages);
    shuffle_runs(pool, count, pages_out);
    return true;
  }
  for (uint32_t i = 0; i < count; i++) {
    uint32_t pick = (uint32_t)(mix_next(&pool->random) % pool->free_count);
    pages_out[i] = pool->free[pick];
    pool->free[pick] = pool->free[--pool->free_count];
  }
  return true;
}

void page_pool_give(struct page_pool *pool, const uint32_t *pages, uint32_t count) {
  assert(pool->page_count - pool->free_count >= count);
  for (uint32_t i = 0; i < count; i++) pool->free[pool->free_count++] = pages[i];
}
