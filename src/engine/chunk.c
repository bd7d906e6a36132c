/* Chunks on their way from the caller to the transfers, and the fences that hold them up.
 * A send's chunks keep their order: behind one that waits for its fence all later ones wait too. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/inside.h"

struct engine_chunk {
  struct engine_command command;
  struct base_list node; /* in send->held */
  kvf_send *send;
  kvf_chunk chunk;
  kvf_page_list lists[KVF_PAGE_LIST_LIMIT];
  int fence_fd; /* ours, or -1 */
  uv_poll_t poll;
  bool polled;
};

void engine_chunk_free(struct engine_chunk *chunk) {
  for (int i = 0; i < KVF_PAGE_LIST_LIMIT; i++) base_free((void *)chunk->lists[i].pages);
  base_free((void *)chunk->chunk.aux);
  if (chunk->fence_fd >= 0) close(chunk->fence_fd);
  base_free(chunk);
}

static void poll_is_closed(uv_handle_t *handle) { engine_chunk_free(handle->data); }

/* A poll handle lives until its loop has closed it. */
static void discard(struct engine_chunk *chunk) {
  base_list_remove(&chunk->node);
  if (chunk->polled)
    uv_close((uv_handle_t *)&chunk->poll, poll_is_closed);
  else
    engine_chunk_free(chunk);
}

void engine_chunks_drop(kvf_send *send) {
  BASE_LIST_EACH(&send->held, node) discard(BASE_CONTAINER(node, struct engine_chunk, node));
}

static void release_held(kvf_send *send);

static void fail_send(kvf_send *send, kvf_error *error) {
  base_error_add(error, "room", "%llu", (unsigned long long)send->room);
  transfer_send_cancel(send->transfer, error);
}

static void fence_came(uv_poll_t *poll, int status, int events) {
  struct engine_chunk *chunk = poll->data;
  kvf_send *send = chunk->send;
  uint64_t count = 0;
  ssize_t got = status < 0 ? -1 : read(chunk->fence_fd, &count, sizeof count);
  if (got < 0 && status >= 0 && errno == EAGAIN) return;
  uv_poll_stop(poll);
  if (!send->transfer) return;
  if (got == (ssize_t)sizeof count && count == 1) {
    transfer_send_post(send->transfer, &chunk->chunk);
    discard(chunk);
    release_held(send);
    return;
  }
  kvf_error *error = BASE_ERROR(KVF_INCOMPLETE, NULL, "the computation of a chunk failed: its fence says so");
  base_error_add(error, "token_first", "%llu", (unsigned long long)chunk->chunk.token_first);
  fail_send(send, base_error_add(error, "fence", "%llu", (unsigned long long)count));
}

static bool watch_fence(struct engine_chunk *chunk) {
  kvf_engine *engine = chunk->send->engine;
  if (uv_poll_init(&engine->loop, &chunk->poll, chunk->fence_fd) != 0) return false;
  chunk->polled = true;
  chunk->poll.data = chunk;
  return uv_poll_start(&chunk->poll, UV_READABLE, fence_came) == 0;
}

/* Hand over what waits for nothing any more, and watch the first fence in the way. */
static void release_held(kvf_send *send) {
  while (send->transfer && !base_list_empty(&send->held)) {
    struct engine_chunk *chunk = BASE_CONTAINER(send->held.next, struct engine_chunk, node);
    if (chunk->fence_fd >= 0) {
      if (!chunk->polled && !watch_fence(chunk)) fail_send(send, BASE_ERROR(KVF_SYSTEM, NULL, "the fence cannot be waited for"));
      return;
    }
    transfer_send_post(send->transfer, &chunk->chunk);
    discard(chunk);
  }
}

static void run_chunk(kvf_engine *engine, struct engine_command *command) {
  struct engine_chunk *chunk = BASE_CONTAINER(command, struct engine_chunk, command);
  if (!chunk->send->transfer) {
    engine_chunk_free(chunk);
    return;
  }
  base_list_push_back(&chunk->send->held, &chunk->node);
  release_held(chunk->send);
}

static bool copy_lists(struct engine_chunk *copy, const kvf_chunk *chunk) {
  for (uint32_t i = 0; i < chunk->page_list_count; i++) {
    size_t bytes = chunk->page_lists[i].page_count * sizeof(uint32_t);
    uint32_t *pages = base_alloc(bytes);
    copy->lists[i] = chunk->page_lists[i];
    copy->lists[i].pages = pages;
    if (!pages) return false;
    if (bytes) memcpy(pages, chunk->page_lists[i].pages, bytes);
  }
  return true;
}

static bool copy_aux(struct engine_chunk *copy, const kvf_chunk *chunk) {
  if (!chunk->aux_bytes) return true;
  void *aux = base_alloc(chunk->aux_bytes);
  if (aux) memcpy(aux, chunk->aux, chunk->aux_bytes);
  copy->chunk.aux = aux;
  return aux != NULL;
}

/* The GPU's thread watches the caller's stream or event, and tells as a caller with a fence would. */
static kvf_error *make_fence(struct engine_chunk *copy, const kvf_chunk *chunk) {
  kvf_engine *engine = copy->send->engine;
  kvf_error *error = NULL;
  pthread_mutex_lock(&engine->lock);
  struct engine_device *device = engine->device;
  pthread_mutex_unlock(&engine->lock);
  if (!device) return BASE_ERROR(KVF_INVALID, NULL, "after_cuda says something only of an engine that has registered CUDA memory");
  bool is_stream = chunk->after_cuda == KVF_CUDA_STREAM;
  engine_device_fence(device, is_stream ? chunk->cuda_handle : NULL, is_stream ? NULL : chunk->cuda_handle, &copy->fence_fd, &error);
  return error;
}

kvf_status engine_chunk_create(kvf_send *send, const kvf_chunk *chunk, struct engine_chunk **chunk_out, kvf_error **error_out) {
  struct engine_chunk *copy = base_calloc(1, sizeof *copy);
  if (!copy) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a chunk"), error_out);
  copy->command.run = run_chunk;
  copy->send = send;
  copy->chunk = *chunk;
  copy->chunk.page_lists = copy->lists;
  copy->chunk.aux = NULL;
  copy->fence_fd = -1;
  base_list_init(&copy->node);
  kvf_error *error = NULL;
  if (!copy_lists(copy, chunk) || !copy_aux(copy, chunk)) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a chunk");
  if (!error && chunk->after_cuda) error = make_fence(copy, chunk);
  if (!error && chunk->fenced) copy->fence_fd = fcntl(chunk->fence_fd, F_DUPFD_CLOEXEC, 0);
  if (!error && chunk->fenced && copy->fence_fd < 0) error = BASE_ERROR_ERRNO("fcntl(F_DUPFD_CLOEXEC) of the fence", errno);
  if (!error) {
    *chunk_out = copy;
    return KVF_OK;
  }
  engine_chunk_free(copy);
  return base_error_give(error, error_out);
}

struct engine_command *engine_chunk_command(struct engine_chunk *chunk) { return &chunk->command; }
