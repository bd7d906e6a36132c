/* Owned copies of page lists, indexed by list number. */
#include <string.h>

#include "transfer/inside.h"

bool transfer_pages_copy(struct layout_pages *pages_out, const kvf_page_list *lists, uint32_t list_count) {
  struct layout_pages copy = {0};
  for (uint32_t i = 0; i < list_count; i++) {
    const kvf_page_list *list = &lists[i];
    uint32_t *pages = base_alloc((size_t)list->page_count * sizeof *pages);
    if (!pages) {
      transfer_pages_fini(&copy);
      return false;
    }
    if (list->page_count) memcpy(pages, list->pages, (size_t)list->page_count * sizeof *pages);
    copy.lists[list->page_list] = *list;
    copy.lists[list->page_list].pages = pages;
  }
  *pages_out = copy;
  return true;
}

void transfer_pages_fini(struct layout_pages *pages) {
  for (int i = 0; i < KVF_PAGE_LIST_LIMIT; i++) base_free((void *)pages->lists[i].pages);
  *pages = (struct layout_pages){0};
}
