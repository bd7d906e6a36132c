/* Page by page and plane by plane, by copies that are done on return: a check of bytes, not of speed. */
#include "rank_device.h"

#include "rank.h"

static bool must(struct rank *rank, kvf_status status, kvf_error *error) {
  return status == KVF_OK || rank_fail(rank, "the GPU's memory could not be used", error);
}

bool rank_device_open(struct rank *rank) {
  kvf_error *error = NULL;
  const uint64_t bytes = rank->geometry.pool_bytes;
  kvf_status status = kvf_cuda_memory_alloc(0, bytes, &rank->device_pool, &error);
  if (status == KVF_OK) status = kvf_cuda_memory_copy(rank->device_pool, rank->pool, bytes, &error);
  return must(rank, status, error);
}

void rank_device_close(struct rank *rank) { kvf_cuda_memory_free(rank->device_pool); }

uint64_t rank_device_shift(const struct rank *rank) {
  return rank->device_pool ? (uintptr_t)rank->device_pool - (uintptr_t)rank->pool : 0;
}

static uint64_t count_page_bytes(const kvf_plane *plane) {
  return (plane->page_tokens - 1) * plane->token_stride_bytes + (plane->head_count - 1) * plane->head_stride_bytes + plane->head_bytes;
}

static void carry(struct rank *rank, const struct pages *pages, bool up) {
  const uint64_t shift = rank_device_shift(rank);
  for (uint32_t i = 0; rank->device_pool && i < pages->plane_count; i++) {
    const kvf_plane *plane = &pages->planes[i];
    const struct pages_list *list = &pages->lists[plane->page_list];
    for (uint32_t k = 0; k < list->page_count; k++) {
      const uint64_t image = plane->address + list->pages[k] * plane->page_stride_bytes, device = image + shift;
      kvf_error *error = NULL;
      kvf_status status = kvf_cuda_memory_copy((void *)(uintptr_t)(up ? device : image), (const void *)(uintptr_t)(up ? image : device),
                                               count_page_bytes(plane), &error);
      if (!must(rank, status, error)) return;
    }
  }
}

void rank_device_upload(struct rank *rank, const struct pages *pages) { carry(rank, pages, true); }
void rank_device_download(struct rank *rank, const struct pages *pages) { carry(rank, pages, false); }

void rank_device_download_all(struct rank *rank) {
  kvf_error *error = NULL;
  if (rank->device_pool) must(rank, kvf_cuda_memory_copy(rank->pool, rank->device_pool, rank->geometry.pool_bytes, &error), error);
}
