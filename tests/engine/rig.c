#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"

void rig_print_error(const kvf_error *error) {
  char text[4096];
  kvf_error_format(error, text, sizeof text);
  fprintf(stderr, "%s\n", text);
}

static void must(kvf_status status, kvf_error *error) {
  if (status != KVF_OK) rig_print_error(error);
  assert_int_equal(status, KVF_OK);
}

static void set_defaults(struct rig_side *side) {
  if (!side->tp) side->tp = 1;
  if (!side->pp) side->pp = 1;
  if (!side->page_tokens) side->page_tokens = 16;
  if (!side->page_count) side->page_count = 64;
  if (!side->layout) side->layout = KVF_LAYOUT_NHD;
}

/* What to add to an address of the image for the one on the device; 0 without a device. */
static uint64_t put_on_device(const struct rig *rig, struct rig_rank *rank, const struct rig_side *side) {
  if (!side->on_device) return 0;
  rank->device = rig->options.device;
  rank->device_pool = rank->device->alloc(rank->pool_bytes);
  rank->device->copy(rank->device_pool, (uintptr_t)rank->pool, rank->pool_bytes);
  return rank->device_pool - (uintptr_t)rank->pool;
}

static void upload(const struct rig_rank *rank) {
  if (rank->device) rank->device->copy(rank->device_pool, (uintptr_t)rank->pool, rank->pool_bytes);
}
static void download(const struct rig_rank *rank) {
  if (rank->device) rank->device->copy((uintptr_t)rank->pool, rank->device_pool, rank->pool_bytes);
}

static void open_pool(struct rig *rig, struct rig_rank *rank, const struct rig_side *side, uint32_t index) {
  kvf_error *error = NULL;
  uint32_t stage = index / side->tp, layers = rig->options.layers;
  uint32_t first = stage * (layers / side->pp) + (stage < layers % side->pp ? stage : layers % side->pp);
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  options.layer_first = first;
  options.layer_count = layers / side->pp + (stage < layers % side->pp);
  options.heads_total = rig->options.heads;
  options.rank = index % side->tp;
  options.rank_count = side->tp;
  options.head_bytes = rig->options.head_bytes;
  options.layout = side->layout;
  options.page_tokens = side->page_tokens;
  options.page_count = side->page_count;
  must(kvf_planes_fill(&options, NULL, 0, &rank->plane_count, &rank->pool_bytes, &error), error);
  if (rig->options.plain_pools)
    assert_non_null(rank->pool = calloc(1, rank->pool_bytes));
  else
    must(kvf_memory_alloc(rank->pool_bytes, (void **)&rank->pool, &error), error);
  options.address = (uintptr_t)rank->pool;
  rank->planes = calloc(rank->plane_count, sizeof *rank->planes);
  must(kvf_planes_fill(&options, rank->planes, rank->plane_count, &rank->plane_count, &rank->pool_bytes, &error), error);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    bool last = rank->planes[i].layer == layers - 1;
    if (last && side->draft == 2) continue;
    if (last && side->draft) rank->planes[i].component = KVF_COMPONENT_DRAFT;
    rank->planes[kept++] = rank->planes[i];
  }
  rank->plane_count = kept;
  kvf_region_options region = KVF_REGION_OPTIONS_INIT;
  const uint64_t shift = put_on_device(rig, rank, side);
  region.address = (void *)((uintptr_t)rank->pool + shift);
  region.length_bytes = rank->pool_bytes;
  region.label = "pool";
  must(kvf_region_open(rank->engine, &region, 1, &rank->region, &error), error);
  kvf_cache_options cache = KVF_CACHE_OPTIONS_INIT;
  cache.planes = rank->planes;
  cache.plane_count = rank->plane_count;
  cache.rank = index;
  cache.rank_count = side->tp * side->pp;
  cache.stage = stage;
  cache.ignore_components = side->ignore_components;
  for (uint32_t i = 0; i < rank->plane_count; i++) rank->planes[i].address += shift;
  must(kvf_cache_open(rank->engine, &cache, &rank->cache, &error), error);
  for (uint32_t i = 0; i < rank->plane_count; i++) rank->planes[i].address -= shift;
}

static void log_line(void *context, int32_t level, const char *line) {
  if (getenv("KVF_TEST_LOG")) fprintf(stderr, "[%d] %s\n", (int)level, line);
}

static void open_rank(struct rig *rig, struct rig_rank *rank, const struct rig_side *side, uint32_t index, bool is_prefill) {
  kvf_error *error = NULL;
  kvf_engine_options options = rig->options.engine;
  char label[32];
  snprintf(label, sizeof label, "%s-%u", is_prefill ? "prefill" : "decode", index);
  options.struct_bytes = sizeof options;
  options.label = label;
  options.log_sink = log_line;
  options.log_level = KVF_LOG_DEBUG;
  if (is_prefill && rig->options.prefill_fabrics) options.fabrics = rig->options.prefill_fabrics;
  const char *fault = is_prefill ? rig->options.prefill_control_fault : rig->options.decode_control_fault;
  if (fault) options.control_fault = fault;
  if (!is_prefill && rig->options.decode_arena_bytes) options.arena_bytes = rig->options.decode_arena_bytes;
  must(kvf_engine_open(&options, &rank->engine, &error), error);
  open_pool(rig, rank, side, index);
}

void rig_open(struct rig *rig, const struct rig_options *options) {
  memset(rig, 0, sizeof *rig);
  rig->options = *options;
  rig->random = 1;
  set_defaults(&rig->options.prefill);
  set_defaults(&rig->options.decode);
  if (!rig->options.layers) rig->options.layers = 2;
  if (!rig->options.heads) rig->options.heads = 4;
  if (!rig->options.head_bytes) rig->options.head_bytes = 64;
  rig->prefill_count = rig->options.prefill.tp * rig->options.prefill.pp;
  rig->decode_count = rig->options.decode.tp * rig->options.decode.pp;
  for (uint32_t i = 0; i < rig->prefill_count; i++) open_rank(rig, &rig->prefill[i], &rig->options.prefill, i, true);
  for (uint32_t i = 0; i < rig->decode_count; i++) open_rank(rig, &rig->decode[i], &rig->options.decode, i, false);
}

void rig_connect(struct rig *rig) {
  kvf_error *error = NULL;
  for (uint32_t i = 0; i < rig->decode_count; i++) {
    const char *addresses[RIG_RANKS];
    for (uint32_t k = 0; k < rig->prefill_count; k++) addresses[k] = kvf_engine_address(rig->prefill[k].engine);
    must(kvf_peer_connect(rig->decode[i].engine, addresses, rig->prefill_count, rig->decode[i].peers, &error), error);
  }
  for (uint32_t i = 0; i < rig->decode_count; i++) {
    for (uint32_t k = 0; k < rig->prefill_count; k++) rig_wait(rig->decode[i].engine, KVF_EVENT_PEER_UP);
  }
}

static void close_rank(struct rig *rig, struct rig_rank *rank, uint32_t peer_count) {
  for (uint32_t i = 0; i < peer_count; i++) kvf_peer_close(rank->peers[i]);
  kvf_engine_close(rank->engine);
  kvf_cache_close(rank->cache);
  kvf_region_close(rank->region);
  if (rank->device) rank->device->free(rank->device_pool);
  if (rig->options.plain_pools)
    free(rank->pool);
  else
    kvf_memory_free(rank->pool);
  free(rank->planes);
}

void rig_restart_prefill(struct rig *rig, uint32_t index) {
  char address[128];
  struct rig_rank *rank = &rig->prefill[index];
  snprintf(address, sizeof address, "%s", kvf_engine_address(rank->engine));
  close_rank(rig, rank, 0);
  memset(rank, 0, sizeof *rank);
  rig->options.engine.listen = address;
  open_rank(rig, rank, &rig->options.prefill, index, true);
  rig->options.engine.listen = NULL;
}

void rig_close(struct rig *rig) {
  for (uint32_t i = 0; i < rig->decode_count; i++) close_rank(rig, &rig->decode[i], rig->prefill_count);
  for (uint32_t i = 0; i < rig->prefill_count; i++) close_rank(rig, &rig->prefill[i], 0);
}

void rig_pages_draw(struct rig *rig, const struct rig_side *side, uint64_t token_first, uint64_t token_end, struct rig_pages *out) {
  static uint32_t deck[1 << 20];
  uint64_t start = token_first / side->page_tokens * side->page_tokens;
  uint32_t count = (uint32_t)((token_end - start + side->page_tokens - 1) / side->page_tokens);
  assert_true(count <= side->page_count && count <= RIG_ROOM_PAGES && side->page_count <= sizeof deck / sizeof *deck);
  for (uint32_t i = 0; i < side->page_count; i++) deck[i] = i;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = i + (uint32_t)(base_random_next(&rig->random) % (side->page_count - i));
    uint32_t page = deck[k];
    deck[k] = deck[i];
    out->pages[i] = deck[i] = page;
  }
  out->list = (kvf_page_list){.page_count = count, .pages = out->pages, .first_token = start};
}

static unsigned char *locate(const kvf_plane *plane, const struct rig_pages *pages, uint64_t token, uint32_t head) {
  uint64_t slot = token - pages->list.first_token;
  return (unsigned char *)(uintptr_t)(plane->address + pages->pages[slot / plane->page_tokens] * plane->page_stride_bytes +
                                      slot % plane->page_tokens * plane->token_stride_bytes +
                                      (head - plane->head_first) * plane->head_stride_bytes);
}

static unsigned char pattern(uint64_t room, const kvf_plane *plane, uint32_t head, uint64_t token, uint32_t byte) {
  uint64_t where = room * 1000003 + plane->layer * 8191 + plane->role * 131 + head * 17;
  unsigned char value = (unsigned char)base_mix_u64(base_mix_u64(where) ^ (token << 16) ^ byte);
  return value ? value : 1;
}

void rig_fill(const struct rig_rank *rank, uint64_t room, const struct rig_pages *pages, uint64_t token_first, uint64_t token_end) {
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    for (uint64_t token = token_first; token < token_end; token++) {
      for (uint32_t head = plane->head_first; head < plane->head_first + plane->head_count; head++) {
        unsigned char *at = locate(plane, pages, token, head);
        for (uint32_t byte = 0; byte < plane->head_bytes; byte++) at[byte] = pattern(room, plane, head, token, byte);
      }
    }
  }
  upload(rank);
}

uint64_t rig_check(const struct rig_rank *rank, uint64_t room, const struct rig_pages *pages, uint64_t token_first, uint64_t token_end) {
  uint64_t wrong = 0;
  download(rank);
  for (uint32_t i = 0; i < rank->plane_count; i++) {
    const kvf_plane *plane = &rank->planes[i];
    for (uint64_t token = token_first; token < token_end; token++) {
      for (uint32_t head = plane->head_first; head < plane->head_first + plane->head_count; head++) {
        unsigned char *at = locate(plane, pages, token, head);
        for (uint32_t byte = 0; byte < plane->head_bytes; byte++) {
          wrong += at[byte] != pattern(room, plane, head, token, byte);
          at[byte] = 0;
        }
      }
    }
  }
  for (uint64_t i = 0; i < rank->pool_bytes; i++) wrong += rank->pool[i] != 0;
  memset(rank->pool, 0, rank->pool_bytes);
  upload(rank);
  return wrong;
}

kvf_send *rig_send_open(struct rig_rank *rank, uint64_t room) {
  kvf_send_options options = KVF_SEND_OPTIONS_INIT;
  kvf_send *send = NULL;
  kvf_error *error = NULL;
  options.room = room;
  options.user_tag = room + 1;
  must(kvf_send_open(rank->engine, &options, &send, &error), error);
  return send;
}

void rig_send_post(kvf_send *send, const struct rig_pages *pages, uint64_t token_first, uint64_t token_count, bool final) {
  kvf_chunk chunk = KVF_CHUNK_INIT;
  kvf_error *error = NULL;
  chunk.token_first = token_first;
  chunk.token_count = token_count;
  chunk.page_lists = &pages->list;
  chunk.page_list_count = 1;
  chunk.final = final;
  if (final) {
    chunk.aux = "aux";
    chunk.aux_bytes = 4;
  }
  must(kvf_send_post(send, &chunk, &error), error);
}

kvf_recv *rig_recv_open(struct rig *rig, struct rig_rank *rank, uint64_t room, const struct rig_pages *pages, uint64_t token_first, uint64_t token_end) {
  kvf_recv_options options = KVF_RECV_OPTIONS_INIT;
  kvf_recv *recv = NULL;
  kvf_error *error = NULL;
  options.room = room;
  options.user_tag = room + 2;
  options.peers = rank->peers;
  options.peer_count = rig->prefill_count;
  options.page_lists = &pages->list;
  options.page_list_count = 1;
  options.token_first = token_first;
  options.token_end = token_end;
  must(kvf_recv_open(rank->engine, &options, &recv, &error), error);
  return recv;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

kvf_event rig_wait(kvf_engine *engine, uint32_t type) {
  uint64_t deadline_ns = now_ns() + 20ull * 1000000000ull;
  while (now_ns() < deadline_ns) {
    kvf_event event;
    size_t count = 0;
    kvf_engine_wait(engine, 100ull * 1000000, NULL);
    assert_int_equal(kvf_engine_poll(engine, &event, 1, &count, NULL), KVF_OK);
    if (count && event.type == type) return event;
    if (count) kvf_error_free(event.error);
  }
  fail_msg("no event of type %u came on %s", type, kvf_engine_address(engine));
  return (kvf_event){0};
}

static void end_well(kvf_engine *engine, uint32_t type, uint64_t room) {
  kvf_event event = rig_wait(engine, type);
  if (event.status != KVF_OK) rig_print_error(event.error);
  kvf_error_free(event.error);
  assert_int_equal(event.status, KVF_OK);
  assert_int_equal(event.room, room);
}

void rig_run_room(struct rig *rig, uint64_t room, uint64_t tokens, uint64_t prefix, uint64_t chunk_tokens) {
  struct rig_pages *pages = calloc(RIG_RANKS * 2, sizeof *pages);
  kvf_send *sends[RIG_RANKS];
  kvf_recv *recvs[RIG_RANKS];
  bool receiver_first = base_random_next(&rig->random) % 2;
  for (int step = 0; step < 2; step++) {
    bool receivers = receiver_first == (step == 0);
    for (uint32_t i = 0; receivers && i < rig->decode_count; i++) {
      rig_pages_draw(rig, &rig->options.decode, prefix, tokens, &pages[RIG_RANKS + i]);
      recvs[i] = rig_recv_open(rig, &rig->decode[i], room, &pages[RIG_RANKS + i], prefix, tokens);
    }
    for (uint32_t i = 0; !receivers && i < rig->prefill_count; i++) {
      rig_pages_draw(rig, &rig->options.prefill, 0, tokens, &pages[i]);
      sends[i] = rig_send_open(&rig->prefill[i], room);
      uint64_t at = 0;
      do {
        uint64_t count = tokens - at < chunk_tokens ? tokens - at : chunk_tokens;
        rig_fill(&rig->prefill[i], room, &pages[i], at, at + count);
        rig_send_post(sends[i], &pages[i], at, count, at + count == tokens);
        at += count;
      } while (at < tokens);
    }
  }
  for (uint32_t i = 0; i < rig->prefill_count; i++) {
    end_well(rig->prefill[i].engine, KVF_EVENT_SEND_END, room);
    kvf_send_close(sends[i]);
    memset(rig->prefill[i].pool, 0, rig->prefill[i].pool_bytes);
  }
  for (uint32_t i = 0; i < rig->decode_count; i++) {
    const void *aux = NULL;
    uint64_t aux_bytes = 0;
    end_well(rig->decode[i].engine, KVF_EVENT_RECV_END, room);
    assert_int_equal(kvf_recv_aux(recvs[i], &aux, &aux_bytes, NULL), KVF_OK);
    assert_int_equal(aux_bytes, 4);
    assert_string_equal(aux, "aux");
    assert_int_equal(rig_check(&rig->decode[i], room, &pages[RIG_RANKS + i], prefix, tokens), 0);
    kvf_recv_close(recvs[i]);
  }
  free(pages);
}

uint64_t rig_arena_used(const struct rig_rank *rank) {
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  assert_int_equal(kvf_engine_stats_query(rank->engine, &stats, NULL), KVF_OK);
  return stats.arena_used_bytes;
}
