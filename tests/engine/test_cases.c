/* Field cases that need whole engines: registration that fails, both directions, unadmitted receivers, prefix hits of the sender, odd sizes,
 * error classes, many rooms at once. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"

static struct rig rig;

static struct rig_options options_with(const char *fabrics) { return (struct rig_options){.engine = {.fabrics = fabrics}}; }

static void a_registration_that_fails_names_the_buffer(void **state) { /* C03 */
  rig_open(&rig, &(struct rig_options){0});
  kvf_region_options regions[8];
  kvf_region *opened[8];
  kvf_error *error = NULL;
  static char memory[8][4096];
  for (int i = 0; i < 8; i++) {
    regions[i] = (kvf_region_options)KVF_REGION_OPTIONS_INIT;
    regions[i].address = memory[i];
    regions[i].length_bytes = sizeof memory[i];
  }
  regions[5].kind = 77;
  kvf_engine_stats before = KVF_ENGINE_STATS_INIT, after = KVF_ENGINE_STATS_INIT;
  kvf_engine_stats_query(rig.decode[0].engine, &before, NULL);
  assert_int_equal(kvf_region_open(rig.decode[0].engine, regions, 8, opened, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "index"), "5");
  assert_non_null(kvf_error_find(error, "address"));
  kvf_error_free(error);
  kvf_engine_stats_query(rig.decode[0].engine, &after, NULL);
  assert_int_equal(after.regions, before.regions); /* all or none */
  rig_close(&rig);

  /* Planes over memory that is not registered: no cache, so no peer ever comes up. */
  kvf_engine_options engine_options = KVF_ENGINE_OPTIONS_INIT;
  kvf_engine *engine = NULL;
  kvf_plane planes[2];
  kvf_planes_options planes_options = KVF_PLANES_OPTIONS_INIT;
  kvf_cache_options cache_options = KVF_CACHE_OPTIONS_INIT;
  kvf_cache *cache = NULL;
  uint32_t count = 0;
  uint64_t bytes = 0;
  planes_options.layer_count = 1;
  planes_options.heads_total = 1;
  planes_options.head_bytes = 64;
  planes_options.page_count = 1;
  planes_options.address = (uintptr_t)memory;
  assert_int_equal(kvf_planes_fill(&planes_options, planes, 2, &count, &bytes, NULL), KVF_OK);
  assert_int_equal(kvf_engine_open(&engine_options, &engine, NULL), KVF_OK);
  cache_options.planes = planes;
  cache_options.plane_count = count;
  assert_int_equal(kvf_cache_open(engine, &cache_options, &cache, &error), KVF_NOT_REGISTERED);
  assert_string_equal(kvf_error_find(error, "plane"), "0");
  kvf_error_free(error);
  kvf_engine_close(engine);
}

static void the_way_back_uses_the_same_units(void **state) { /* C22: decode to prefill, over the connection that decode made */
  static struct rig_pages source, target;
  struct rig_options options = options_with("tcp");
  rig_open(&rig, &options);
  rig_connect(&rig);
  kvf_peer *back = rig_wait(rig.prefill[0].engine, KVF_EVENT_PEER_UP).peer;
  assert_non_null(back);
  rig_run_room(&rig, 1, 100, 0, 100);
  rig_pages_draw(&rig, &rig.options.decode, 0, 100, &source);
  rig_pages_draw(&rig, &rig.options.prefill, 0, 100, &target);
  kvf_send *send = rig_send_open(&rig.decode[0], 2);
  rig_fill(&rig.decode[0], 2, &source, 0, 100);
  rig_send_post(send, &source, 0, 100, true);
  kvf_recv_options recv_options = KVF_RECV_OPTIONS_INIT;
  kvf_recv *recv = NULL;
  recv_options.room = 2;
  recv_options.peers = &back;
  recv_options.peer_count = 1;
  recv_options.token_end = 100;
  recv_options.page_lists = &target.list;
  recv_options.page_list_count = 1;
  assert_int_equal(kvf_recv_open(rig.prefill[0].engine, &recv_options, &recv, NULL), KVF_OK);
  assert_int_equal(rig_wait(rig.decode[0].engine, KVF_EVENT_SEND_END).status, KVF_OK);
  assert_int_equal(rig_wait(rig.prefill[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&rig.prefill[0], 2, &target, 0, 100), 0);
  kvf_send_close(send);
  kvf_recv_close(recv);
  rig_close(&rig);
}

static void a_sender_far_ahead_of_its_receiver_neither_blocks_nor_fills_it(void **state) { /* C46 */
  static struct rig_pages source, target;
  struct rig_options options = options_with("tcp");
  options.engine.arena_bytes = 64 << 10;
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_run_room(&rig, 1, 100, 0, 100);
  /* All six chunks are posted before the receiver exists; each is larger than the arena holds of it. */
  rig_pages_draw(&rig, &rig.options.prefill, 0, 960, &source);
  kvf_send *send = rig_send_open(&rig.prefill[0], 2);
  rig_fill(&rig.prefill[0], 2, &source, 0, 960);
  for (int chunk = 0; chunk < 6; chunk++) rig_send_post(send, &source, (uint64_t)chunk * 160, 160, chunk == 5);
  usleep(100000);
  assert_true(rig_arena_used(&rig.decode[0]) <= 64 << 10);
  rig_pages_draw(&rig, &rig.options.decode, 0, 960, &target);
  kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], 2, &target, 0, 960);
  assert_int_equal(rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END).status, KVF_OK);
  assert_int_equal(rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&rig.decode[0], 2, &target, 0, 960), 0);
  kvf_send_close(send);
  kvf_recv_close(recv);
  rig_close(&rig);
}

static void chunks_of_the_sender_need_no_grid_of_the_receiver(void **state) { /* C52: chunk 2000, prompt 4000, 3000 cached at the sender */
  struct rig_options options = options_with("tcp");
  options.prefill.tp = 2;
  options.prefill.page_tokens = options.decode.page_tokens = 20;
  options.prefill.page_count = options.decode.page_count = 256;
  options.head_bytes = 16;
  options.decode_arena_bytes = 256 << 10;
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_run_room(&rig, 1, 4000, 0, 2000);
  rig_run_room(&rig, 2, 4000, 0, 4000);
  rig_close(&rig);
}

static void sizes_are_rounded_or_refused_with_the_nearest(void **state) { /* C64 */
  kvf_engine_options options = KVF_ENGINE_OPTIONS_INIT;
  kvf_engine *engine = NULL;
  kvf_error *error = NULL;
  uint64_t bad[] = {1, 65535};
  for (int i = 0; i < 2; i++) {
    options.arena_bytes = bad[i];
    assert_int_equal(kvf_engine_open(&options, &engine, &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "least"), "65536");
    kvf_error_free(error);
  }
  options.arena_bytes = 6500 * 32;
  assert_int_equal(kvf_engine_open(&options, &engine, NULL), KVF_OK);
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  kvf_engine_stats_query(engine, &stats, NULL);
  assert_int_equal(stats.arena_capacity_bytes, 131072);
  kvf_engine_close(engine);
}

static void each_class_of_failure_keeps_its_name(void **state) { /* C132 */
  kvf_engine_options options = KVF_ENGINE_OPTIONS_INIT;
  kvf_engine *engine = NULL, *other = NULL;
  kvf_error *error = NULL;
  /* The status is the same whether or not anybody wants the error. */
  for (uint64_t n = 1; n <= 4; n++) {
    base_alloc_fail_after(n);
    kvf_status wanted = kvf_engine_open(&options, &engine, &error);
    base_alloc_fail_after(n);
    kvf_status unwanted = kvf_engine_open(&options, &engine, NULL);
    base_alloc_fail_after(0);
    assert_int_equal(wanted, KVF_NO_MEMORY);
    assert_int_equal(unwanted, KVF_NO_MEMORY);
    kvf_error_free(error);
  }
  options.listen = "127.0.0.1";
  assert_int_equal(kvf_engine_open(&options, &engine, &error), KVF_BAD_ADDRESS);
  kvf_error_free(error);
  options.listen = NULL;
  options.fabrics = "quantum";
  assert_int_equal(kvf_engine_open(&options, &engine, &error), KVF_INVALID);
  kvf_error_free(error);
  options.fabrics = "tcp";
  assert_int_equal(kvf_engine_open(&options, &engine, NULL), KVF_OK);
  /* A port in use: the system's own code is innermost. */
  options.listen = kvf_engine_address(engine);
  assert_int_equal(kvf_engine_open(&options, &other, &error), KVF_SYSTEM);
  assert_string_equal(kvf_error_find(error, "errno"), "98");
  kvf_error_free(error);
  /* Nobody listens there: unreachable, with both addresses, and not "lost". */
  const char *nowhere = "127.0.0.1:1";
  kvf_peer *peer = NULL;
  assert_int_equal(kvf_peer_connect(engine, &nowhere, 1, &peer, NULL), KVF_OK);
  kvf_event down = rig_wait(engine, KVF_EVENT_PEER_DOWN);
  assert_int_equal(down.status, KVF_UNREACHABLE);
  assert_string_equal(kvf_error_find(down.error, "remote"), "127.0.0.1:1");
  kvf_error_free(down.error);
  kvf_peer_close(peer);
  kvf_engine_close(engine);
}

static void many_rooms_at_once(void **state) { /* C94: 37 at once; C123: 128 at once */
  enum { ROOMS = 128, TOKENS = 40 };
  static struct rig_pages source[ROOMS], target[ROOMS];
  static kvf_send *sends[ROOMS];
  static kvf_recv *recvs[ROOMS];
  struct rig_options options = options_with("tcp");
  options.engine.arena_bytes = 1 << 20;
  options.prefill.page_count = options.decode.page_count = ROOMS * 3;
  rig_open(&rig, &options);
  rig_connect(&rig);
  for (int i = 0; i < ROOMS; i++) {
    /* Disjoint pages, in an order of their own. */
    for (uint32_t k = 0; k < 3; k++) {
      source[i].pages[k] = (uint32_t)(i * 3 + (int)k) * 5 % (ROOMS * 3);
      target[i].pages[k] = (uint32_t)(i * 3 + (int)k) * 7 % (ROOMS * 3);
    }
    source[i].list = (kvf_page_list){.page_count = 3, .pages = source[i].pages};
    target[i].list = (kvf_page_list){.page_count = 3, .pages = target[i].pages};
    rig_fill(&rig.prefill[0], (uint64_t)i, &source[i], 0, TOKENS);
  }
  for (int i = 0; i < ROOMS; i++) recvs[i] = rig_recv_open(&rig, &rig.decode[0], (uint64_t)i, &target[i], 0, TOKENS);
  for (int i = ROOMS; i-- > 0;) {
    sends[i] = rig_send_open(&rig.prefill[0], (uint64_t)i);
    rig_send_post(sends[i], &source[i], 0, TOKENS, true);
  }
  for (int i = 0; i < ROOMS; i++) {
    assert_int_equal(rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END).status, KVF_OK);
    assert_int_equal(rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  }
  /* Each room is right: compare with the source, page by page, through a check that knows one room at a time. */
  for (int i = 0; i < ROOMS; i++) {
    unsigned char *copy = malloc(rig.decode[0].pool_bytes);
    memcpy(copy, rig.decode[0].pool, rig.decode[0].pool_bytes);
    uint64_t others = 0;
    for (uint64_t byte = 0; byte < rig.decode[0].pool_bytes; byte++) others += copy[byte] != 0;
    uint64_t own = (uint64_t)TOKENS * 4 * 64 * 2 * 2;
    /* What is not this room's is counted as wrong: exactly the other rooms' bytes must be. */
    assert_int_equal(rig_check(&rig.decode[0], (uint64_t)i, &target[i], 0, TOKENS), others - own);
    memcpy(rig.decode[0].pool, copy, rig.decode[0].pool_bytes);
    for (uint32_t p = 0; p < rig.decode[0].plane_count; p++) {
      const kvf_plane *plane = &rig.decode[0].planes[p];
      for (int k = 0; k < 3; k++) memset((void *)(uintptr_t)(plane->address + target[i].pages[k] * plane->page_stride_bytes), 0, plane->page_stride_bytes);
    }
    free(copy);
    kvf_send_close(sends[i]);
    kvf_recv_close(recvs[i]);
  }
  rig_close(&rig);
}

static void layers_can_be_posted_as_they_are_computed(void **state) {
  static struct rig_pages source, target;
  struct rig_options options = options_with("tcp");
  options.layers = 5;
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_pages_draw(&rig, &rig.options.prefill, 0, 100, &source);
  rig_pages_draw(&rig, &rig.options.decode, 0, 100, &target);
  kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], 1, &target, 0, 100);
  kvf_send *send = rig_send_open(&rig.prefill[0], 1);
  rig_fill(&rig.prefill[0], 1, &source, 0, 100);
  kvf_chunk chunk = KVF_CHUNK_INIT;
  chunk.token_count = 100;
  chunk.page_lists = &source.list;
  chunk.page_list_count = 1;
  static const uint32_t ranges[][2] = {{0, 1}, {1, 3}, {4, 1}};
  for (int i = 0; i < 3; i++) {
    chunk.layer_first = ranges[i][0];
    chunk.layer_count = ranges[i][1];
    chunk.final = i == 2;
    assert_int_equal(kvf_send_post(send, &chunk, NULL), KVF_OK);
    usleep(20000);
  }
  assert_int_equal(rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END).status, KVF_OK);
  assert_int_equal(rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&rig.decode[0], 1, &target, 0, 100), 0);
  kvf_send_close(send);
  kvf_recv_close(recv);

  /* A layer that was never posted is missing, by bytes, on both sides. */
  recv = rig_recv_open(&rig, &rig.decode[0], 2, &target, 0, 100);
  send = rig_send_open(&rig.prefill[0], 2);
  chunk.layer_first = 0;
  chunk.layer_count = 4;
  assert_int_equal(kvf_send_post(send, &chunk, NULL), KVF_OK);
  kvf_event received = rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_equal(received.status, KVF_INCOMPLETE);
  kvf_error_free(received.error);
  kvf_error_free(rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END).error);
  kvf_send_close(send);
  kvf_recv_close(recv);
  rig_close(&rig);
}

static void a_component_that_one_side_lacks_is_refused_or_left_out_by_agreement(void **state) { /* C48, C83, C120 */
  struct rig_options options = options_with("tcp");
  options.layers = 3;
  options.prefill.draft = options.decode.draft = 1;
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_run_room(&rig, 1, 100, 0, 100); /* both have it: moved, or the check would fail */
  rig_close(&rig);

  for (int lacking = 0; lacking < 2; lacking++) {
    options.prefill.draft = lacking ? 1 : 2;
    options.decode.draft = lacking ? 2 : 1;
    options.decode.ignore_components = 0;
    rig_open(&rig, &options);
    const char *address = kvf_engine_address(rig.prefill[0].engine);
    assert_int_equal(kvf_peer_connect(rig.decode[0].engine, &address, 1, rig.decode[0].peers, NULL), KVF_OK);
    kvf_engine *engines[] = {rig.prefill[0].engine, rig.decode[0].engine};
    for (int i = 0; i < 2; i++) {
      kvf_event down = rig_wait(engines[i], KVF_EVENT_PEER_DOWN);
      assert_int_equal(down.status, KVF_INCOMPATIBLE);
      assert_string_equal(kvf_error_find(down.error, "component"), "DRAFT");
      assert_non_null(kvf_error_find(down.error, "mine"));
      kvf_error_free(down.error);
    }
    rig_close(&rig);

    options.decode.ignore_components = 1u << KVF_COMPONENT_DRAFT;
    rig_open(&rig, &options);
    rig_connect(&rig);
    kvf_peer_state peer = KVF_PEER_STATE_INIT;
    assert_int_equal(kvf_peer_query(rig.decode[0].peers[0], &peer, NULL), KVF_OK);
    assert_int_equal(peer.ignored_components, 1u << KVF_COMPONENT_DRAFT);
    kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
    kvf_engine_stats_query(rig.prefill[0].engine, &stats, NULL);
    assert_int_equal(stats.peers_partial, 1);
    /* The layers that both have arrive; the others are left alone. */
    uint32_t all = rig.decode[0].plane_count;
    if (!lacking) rig.decode[0].plane_count -= 2;
    rig_run_room(&rig, 1, 100, 0, 100);
    rig.decode[0].plane_count = all;
    rig_close(&rig);
  }
}

static bool is_available(const char *fabrics) {
  kvf_engine_options options = KVF_ENGINE_OPTIONS_INIT;
  kvf_engine *engine = NULL;
  options.fabrics = fabrics;
  kvf_status status = kvf_engine_open(&options, &engine, NULL);
  kvf_engine_close(engine);
  return status == KVF_OK;
}

static void no_page_is_read_before_its_fence(void **state) { /* C90 */
  static struct rig_pages source, target;
  static const char *const fabrics[] = {"tcp", "shm", "ucx"};
  for (int f = 0; f < 3; f++) {
    if (!is_available(fabrics[f])) continue;
    struct rig_options options = options_with(fabrics[f]);
    rig_open(&rig, &options);
    rig_connect(&rig);
    rig_pages_draw(&rig, &rig.options.prefill, 0, 100, &source);
    rig_pages_draw(&rig, &rig.options.decode, 0, 100, &target);
    for (uint64_t room = 1; room <= 2; room++) {
      int fence = eventfd(0, EFD_NONBLOCK);
      kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], room, &target, 0, 100);
      kvf_send *send = rig_send_open(&rig.prefill[0], room);
      kvf_chunk chunk = KVF_CHUNK_INIT;
      chunk.token_count = 60;
      chunk.page_lists = &source.list;
      chunk.page_list_count = 1;
      chunk.fenced = 1;
      chunk.fence_fd = fence;
      assert_int_equal(kvf_send_post(send, &chunk, NULL), KVF_OK);
      rig_send_post(send, &source, 60, 40, true); /* waits behind it */
      usleep(50000);
      rig_fill(&rig.prefill[0], room, &source, 0, 100);
      /* The thread sanitizer does not follow an eventfd through a duplicate: any call to the engine orders the fill for it. */
      kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
      kvf_engine_stats_query(rig.prefill[0].engine, &stats, NULL);
      /* Room 1 is computed; the computation of room 2 fails. */
      assert_int_equal(write(fence, &(uint64_t){room}, 8), 8);
      close(fence);
      kvf_event sent = rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END);
      kvf_event received = rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END);
      assert_int_equal(sent.status, room == 1 ? KVF_OK : KVF_INCOMPLETE);
      assert_int_equal(received.status, room == 1 ? KVF_OK : KVF_PEER_FAILED);
      kvf_error_free(sent.error);
      kvf_error_free(received.error);
      if (room == 1) assert_int_equal(rig_check(&rig.decode[0], room, &target, 0, 100), 0);
      kvf_send_close(send);
      kvf_recv_close(recv);
    }
    /* A room that ends while its fence is open. */
    int fence = eventfd(0, EFD_NONBLOCK);
    kvf_send *send = rig_send_open(&rig.prefill[0], 3);
    kvf_chunk chunk = KVF_CHUNK_INIT;
    chunk.final = chunk.fenced = 1;
    chunk.fence_fd = fence;
    assert_int_equal(kvf_send_post(send, &chunk, NULL), KVF_OK);
    kvf_send_close(send);
    kvf_error_free(rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END).error);
    close(fence);
    rig_close(&rig);
  }
}

static void old_bytes_in_the_pages_are_no_sign_of_an_end(void **state) { /* C92, C93: the slots of a room that ended are used again at once */
  static struct rig_pages source, target;
  struct rig_options options = options_with("tcp");
  options.prefill.pp = 2;
  options.layers = 4;
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_pages_draw(&rig, &rig.options.prefill, 0, 100, &source);
  rig_pages_draw(&rig, &rig.options.decode, 0, 100, &target);
  for (uint64_t room = 1; room <= 3; room++) {
    kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], room, &target, 0, 100);
    const void *aux = NULL;
    uint64_t aux_bytes = 0;
    /* The pages are full of the room before; that means nothing. */
    usleep(20000);
    kvf_event event;
    size_t count = 1;
    assert_int_equal(kvf_engine_poll(rig.decode[0].engine, &event, 1, &count, NULL), KVF_OK);
    assert_int_equal(count, 0);
    assert_int_equal(kvf_recv_aux(recv, &aux, &aux_bytes, NULL), KVF_NOT_READY);
    kvf_send *sends[2];
    for (int i = 0; i < 2; i++) {
      sends[i] = rig_send_open(&rig.prefill[i], room);
      rig_fill(&rig.prefill[i], room, &source, 0, 100);
      /* Both stages bring auxiliary bytes, the later one first: the lowest rank's count. */
      kvf_chunk chunk = KVF_CHUNK_INIT;
      char text[8];
      snprintf(text, sizeof text, "%d-%d", i, (int)room);
      chunk.token_count = 100;
      chunk.page_lists = &source.list;
      chunk.page_list_count = 1;
      chunk.final = 1;
      chunk.aux = text;
      chunk.aux_bytes = strlen(text) + 1;
      if (i == 0) usleep(20000);
      assert_int_equal(kvf_send_post(sends[i], &chunk, NULL), KVF_OK);
    }
    assert_int_equal(rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
    assert_int_equal(kvf_recv_aux(recv, &aux, &aux_bytes, NULL), KVF_OK);
    char expected[8];
    snprintf(expected, sizeof expected, "0-%d", (int)room);
    assert_string_equal(aux, expected);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(rig_wait(rig.prefill[i].engine, KVF_EVENT_SEND_END).status, KVF_OK);
      kvf_send_close(sends[i]);
    }
    kvf_recv_close(recv);
  }
  assert_int_equal(rig_check(&rig.decode[0], 3, &target, 0, 100), 0);
  rig_close(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_registration_that_fails_names_the_buffer),
      cmocka_unit_test(the_way_back_uses_the_same_units),
      cmocka_unit_test(a_sender_far_ahead_of_its_receiver_neither_blocks_nor_fills_it),
      cmocka_unit_test(chunks_of_the_sender_need_no_grid_of_the_receiver),
      cmocka_unit_test(sizes_are_rounded_or_refused_with_the_nearest),
      cmocka_unit_test(each_class_of_failure_keeps_its_name),
      cmocka_unit_test(many_rooms_at_once),
      cmocka_unit_test(layers_can_be_posted_as_they_are_computed),
      cmocka_unit_test(no_page_is_read_before_its_fence),
      cmocka_unit_test(old_bytes_in_the_pages_are_no_sign_of_an_end),
      cmocka_unit_test(a_component_that_one_side_lacks_is_refused_or_left_out_by_agreement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
