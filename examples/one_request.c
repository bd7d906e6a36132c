/* One request's KV cache from a prefill process to a decode process, from opening the engines to reading the result.
 * The model is a toy (2 layers, 4 KV heads, 16 bytes a head); the prefill rank holds all heads, the decode rank other pages. */
#include <kvferry/kvferry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAYERS = 2, HEADS = 4, HEAD_BYTES = 16, PAGE_TOKENS = 4, PAGES = 8, TOKENS = 10, ROOM = 42 };

static void check(kvf_status status, kvf_error *error) {
  if (status == KVF_OK) return;
  char text[2048];
  kvf_error_format(error, text, sizeof text);
  fprintf(stderr, "%s\n", text);
  exit(1);
}

/* Open an engine with one pool and declare what it holds: rank 0 of 1, all heads. */
static kvf_engine *open_rank(const char *label, unsigned char **pool_out) {
  kvf_engine_options engine_options = KVF_ENGINE_OPTIONS_INIT;
  kvf_planes_options planes_options = KVF_PLANES_OPTIONS_INIT;
  kvf_region_options region_options = KVF_REGION_OPTIONS_INIT;
  kvf_cache_options cache_options = KVF_CACHE_OPTIONS_INIT;
  kvf_plane planes[2 * LAYERS];
  kvf_engine *engine = NULL;
  kvf_region *region = NULL;
  kvf_cache *cache = NULL;
  kvf_error *error = NULL;
  uint32_t plane_count = 0;
  uint64_t pool_bytes = 0;
  void *pool = NULL;

  engine_options.label = label;
  check(kvf_engine_open(&engine_options, &engine, &error), error);

  planes_options.layer_count = LAYERS;
  planes_options.heads_total = HEADS;
  planes_options.head_bytes = HEAD_BYTES;
  planes_options.page_tokens = PAGE_TOKENS;
  planes_options.page_count = PAGES;
  check(kvf_planes_fill(&planes_options, NULL, 0, &plane_count, &pool_bytes, &error), error);
  check(kvf_memory_alloc(pool_bytes, &pool, &error), error);
  planes_options.address = (uintptr_t)pool;
  check(kvf_planes_fill(&planes_options, planes, 2 * LAYERS, &plane_count, &pool_bytes, &error), error);

  region_options.address = pool;
  region_options.length_bytes = pool_bytes;
  check(kvf_region_open(engine, &region_options, 1, &region, &error), error);
  cache_options.planes = planes;
  cache_options.plane_count = plane_count;
  check(kvf_cache_open(engine, &cache_options, &cache, &error), error);
  *pool_out = pool;
  return engine;
}

/* Poll until the room has ended. */
static void wait_for_end(kvf_engine *engine, uint32_t type) {
  for (;;) {
    kvf_event event;
    kvf_error *error = NULL;
    size_t count = 0;
    check(kvf_engine_wait(engine, 10ull * 1000 * 1000 * 1000, &error), error);
    check(kvf_engine_poll(engine, &event, 1, &count, &error), error);
    if (count && event.type == type) {
      check(event.status, event.error);
      printf("room %llu: %llu bytes in %u bulk writes\n", (unsigned long long)event.room, (unsigned long long)event.bytes, event.pieces);
      return;
    }
    if (count) kvf_error_free(event.error);
  }
}

static int prefill(int address_pipe) {
  static const uint32_t pages[] = {5, 0, 3}; /* tokens 0-3, 4-7, 8-9 */
  const kvf_page_list list = {.page_count = 3, .pages = pages};
  kvf_send_options options = KVF_SEND_OPTIONS_INIT;
  kvf_chunk chunk = KVF_CHUNK_INIT;
  kvf_send *send = NULL;
  kvf_error *error = NULL;
  unsigned char *pool = NULL;
  kvf_engine *engine = open_rank("prefill-0", &pool);
  dprintf(address_pipe, "%s\n", kvf_engine_address(engine));

  memset(pool, 'k', LAYERS * 2 * PAGES * PAGE_TOKENS * HEADS * HEAD_BYTES); /* "compute" */
  options.room = ROOM;
  check(kvf_send_open(engine, &options, &send, &error), error);
  chunk.token_count = TOKENS;
  chunk.page_lists = &list;
  chunk.page_list_count = 1;
  chunk.final = 1;
  chunk.aux = "first token";
  chunk.aux_bytes = 12;
  check(kvf_send_post(send, &chunk, &error), error);
  wait_for_end(engine, KVF_EVENT_SEND_END);
  kvf_send_close(send);
  kvf_engine_close(engine);
  return 0;
}

static int decode(const char *address) {
  static const uint32_t pages[] = {7, 1, 2};
  const kvf_page_list list = {.page_count = 3, .pages = pages};
  kvf_recv_options options = KVF_RECV_OPTIONS_INIT;
  kvf_peer *peer = NULL;
  kvf_recv *recv = NULL;
  kvf_error *error = NULL;
  const void *aux = NULL;
  uint64_t aux_bytes = 0;
  unsigned char *pool = NULL;
  kvf_engine *engine = open_rank("decode-0", &pool);

  check(kvf_peer_connect(engine, &address, 1, &peer, &error), error);
  options.room = ROOM;
  options.peers = &peer;
  options.peer_count = 1;
  options.token_end = TOKENS;
  options.page_lists = &list;
  options.page_list_count = 1;
  check(kvf_recv_open(engine, &options, &recv, &error), error);
  wait_for_end(engine, KVF_EVENT_RECV_END);
  check(kvf_recv_aux(recv, &aux, &aux_bytes, &error), error);
  printf("page 7 begins with '%c', page 0 was left alone: %s, aux: %s\n", pool[7 * PAGE_TOKENS * HEADS * HEAD_BYTES], pool[0] == 0 ? "yes" : "no",
         (const char *)aux);
  kvf_recv_close(recv);
  kvf_engine_close(engine);
  return 0;
}

int main(void) {
  char address[128] = "";
  int ends[2], status = 1;
  if (pipe(ends) != 0) return 1;
  pid_t child = fork();
  if (child == 0) return prefill(ends[1]);
  ssize_t got = read(ends[0], address, sizeof address - 1);
  if (got <= 0) return 1;
  address[strcspn(address, "\n")] = '\0';
  int failed = decode(address);
  waitpid(child, &status, 0);
  return failed || status;
}
