/* kvf_send_… and kvf_recv_…: everything about a range or a page list is checked here, before it is queued. */
#include "api/arguments.h"
#include "base/checked.h"
#include "engine/engine.h"
#include "layout/block.h"

/* The caller's lists, indexed by number and checked against the cache. Errors: INVALID, OUT_OF_RANGE. */
static kvf_status check_lists(kvf_engine *engine, const kvf_page_list *lists, uint32_t count, const struct layout_demand *demand,
                              kvf_error **error_out) {
  const kvf_rank_planes *planes = engine_planes(engine);
  struct layout_pages pages = {0};
  if (!planes) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "no cache is open: kvf_cache_open comes first"), error_out);
  if (count && !lists) return api_null("page_lists", error_out);
  if (count > KVF_PAGE_LIST_LIMIT) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "%u page lists, at most %d", count, KVF_PAGE_LIST_LIMIT), error_out);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t number = lists[i].page_list;
    if (number >= KVF_PAGE_LIST_LIMIT || pages.lists[number].pages)
      return base_error_give(base_error_add(BASE_ERROR(KVF_INVALID, NULL, "a page list has a number that is out of range or used twice"), "page_list", "%u", number), error_out);
    if (!lists[i].pages && lists[i].page_count) return api_null("pages", error_out);
    pages.lists[number] = lists[i];
  }
  return layout_pages_check(&pages, planes->planes, planes->plane_count, demand, error_out);
}

kvf_status kvf_send_open(kvf_engine *engine, const kvf_send_options *options, kvf_send **send_out, kvf_error **error_out) {
  kvf_send_options checked;
  if (!engine || !send_out) return api_null("engine or send_out", error_out);
  kvf_status status = api_options_copy(options, sizeof checked, offsetof(kvf_send_options, user_tag), &checked, error_out);
  return status == KVF_OK ? engine_send_open(engine, &checked, send_out, error_out) : status;
}

static kvf_error *check_chunk(const kvf_chunk *chunk) {
  uint64_t end;
  if (!base_add_u64(chunk->token_first, chunk->token_count, &end))
    return BASE_ERROR(KVF_INVALID, NULL, "the token range leaves 64 bits");
  if (chunk->layer_count && chunk->layer_first > UINT32_MAX - chunk->layer_count)
    return BASE_ERROR(KVF_INVALID, NULL, "the layer range leaves 32 bits");
  if (chunk->aux_bytes > KVF_AUX_LIMIT_BYTES) {
    kvf_error *error = BASE_ERROR(KVF_TOO_LARGE, NULL, "more auxiliary bytes than a room takes");
    base_error_add(error, "need", "%llu", (unsigned long long)chunk->aux_bytes);
    return base_error_add(error, "limit", "%d", KVF_AUX_LIMIT_BYTES);
  }
  if (chunk->fenced > 1 || (chunk->fenced && chunk->fence_fd < 0)) return BASE_ERROR(KVF_INVALID, NULL, "a fence is an eventfd");
  if (chunk->after_cuda > KVF_CUDA_EVENT || (chunk->after_cuda && chunk->fenced) || (chunk->after_cuda == KVF_CUDA_EVENT && !chunk->cuda_handle))
    return BASE_ERROR(KVF_INVALID, NULL, "after_cuda names a stream or an event, and takes the place of a fence");
  if (chunk->aux_bytes && (!chunk->aux || !chunk->final)) return BASE_ERROR(KVF_INVALID, NULL, "auxiliary bytes come with the final chunk");
  return NULL;
}

kvf_status kvf_send_post(kvf_send *send, const kvf_chunk *chunk, kvf_error **error_out) {
  kvf_chunk checked;
  if (!send) return api_null("send", error_out);
  kvf_status status = api_options_copy(chunk, sizeof checked, offsetof(kvf_chunk, aux), &checked, error_out);
  if (status != KVF_OK) return status;
  kvf_error *error = check_chunk(&checked);
  if (error) return base_error_give(error, error_out);
  const struct layout_demand demand = {.token_first = checked.token_first,
                                       .token_end = checked.token_first + checked.token_count,
                                       .layer_first = checked.layer_first,
                                       .layer_end = checked.layer_count ? checked.layer_first + checked.layer_count : UINT32_MAX,
                                       .slots = checked.final};
  status = check_lists(engine_send_engine(send), checked.page_lists, checked.page_list_count, &demand, error_out);
  return status == KVF_OK ? engine_send_post(send, &checked, error_out) : status;
}

kvf_status kvf_send_cancel(kvf_send *send, kvf_error **error_out) {
  return send ? engine_send_cancel(send, error_out) : api_null("send", error_out);
}

void kvf_send_close(kvf_send *send) {
  if (send) engine_send_close(send);
}

static kvf_error *check_peers(const kvf_recv_options *options) {
  if (!options->peer_count || !options->peers) return BASE_ERROR(KVF_INVALID, NULL, "a receive needs the ranks that send to it");
  for (uint32_t i = 0; i < options->peer_count; i++) {
    if (!options->peers[i]) return base_error_add(BASE_ERROR(KVF_INVALID, NULL, "a peer is NULL"), "index", "%u", i);
    for (uint32_t k = 0; k < i; k++) {
      if (options->peers[i] == options->peers[k])
        return base_error_add(BASE_ERROR(KVF_INVALID, NULL, "a peer is given twice"), "index", "%u", i);
    }
  }
  return NULL;
}

kvf_status kvf_recv_open(kvf_engine *engine, const kvf_recv_options *options, kvf_recv **recv_out, kvf_error **error_out) {
  kvf_recv_options checked;
  if (!engine || !recv_out) return api_null("engine or recv_out", error_out);
  kvf_status status = api_options_copy(options, sizeof checked, offsetof(kvf_recv_options, progress_ns), &checked, error_out);
  if (status != KVF_OK) return status;
  kvf_error *error = check_peers(&checked);
  if (!error && checked.token_first > checked.token_end) error = BASE_ERROR(KVF_INVALID, NULL, "token_first is after token_end");
  if (error) return base_error_give(error, error_out);
  const struct layout_demand demand = {
      .token_first = checked.token_first, .token_end = checked.token_end, .layer_end = UINT32_MAX, .whole = true, .slots = true};
  status = check_lists(engine, checked.page_lists, checked.page_list_count, &demand, error_out);
  return status == KVF_OK ? engine_recv_open(engine, &checked, recv_out, error_out) : status;
}

kvf_status kvf_recv_aux(const kvf_recv *recv, const void **aux_out, uint64_t *aux_bytes_out, kvf_error **error_out) {
  if (!recv || !aux_out || !aux_bytes_out) return api_null("recv, aux_out or aux_bytes_out", error_out);
  return engine_recv_aux(recv, aux_out, aux_bytes_out, error_out);
}

kvf_status kvf_recv_cancel(kvf_recv *recv, kvf_error **error_out) {
  return recv ? engine_recv_cancel(recv, error_out) : api_null("recv", error_out);
}

void kvf_recv_close(kvf_recv *recv) {
  if (recv) engine_recv_close(recv);
}
