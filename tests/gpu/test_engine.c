/* Whole rooms between engines with pools in CUDA memory: both sides, one side, over each fabric, cancelled with kernels under way, and
 * after a GPU that breaks. The same rig and the same byte-by-byte check as for host memory. Over the stub driver an emulation; run.sh
 * runs it on a GPU. Argument: the fabrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "memory/device.h"
#include "rig.h"

static const char *fabrics;
static struct memory_device *held;

static uint64_t alloc(uint64_t bytes) {
  struct memory_device_failure failure;
  uint64_t address = 0;
  if (!memory_device_ops()->memory_alloc(held, bytes, &address, &failure)) fail_msg("%s: %s", failure.call, failure.text);
  return address;
}
static void free_memory(uint64_t address) { memory_device_ops()->memory_free(held, address); }
static void copy(uint64_t target, uint64_t source, uint64_t bytes) {
  struct memory_device_failure failure;
  if (!memory_device_ops()->memory_copy(held, target, source, bytes, &failure)) fail_msg("%s: %s", failure.call, failure.text);
}
static const struct rig_device device = {alloc, free_memory, copy};

static struct rig_options make_options(bool prefill_on_device, bool decode_on_device) {
  struct rig_options options = {.device = &device, .engine.fabrics = fabrics};
  options.prefill.on_device = prefill_on_device;
  options.decode.on_device = decode_on_device;
  return options;
}

static void run_rooms(struct rig_options options) {
  struct rig rig;
  options.prefill.tp = 2;
  options.prefill.layout = KVF_LAYOUT_HND;
  options.decode.page_tokens = 64;
  rig_open(&rig, &options);
  rig_connect(&rig);
  for (uint64_t room = 1; room <= 3; room++) rig_run_room(&rig, room, 137 + room * 31, room * 7, 64);
  rig_close(&rig);
}

static void device_to_device(void **state) { run_rooms(make_options(true, true)); }
static void device_to_host(void **state) { run_rooms(make_options(true, false)); }
static void host_to_device(void **state) { run_rooms(make_options(false, true)); }

static void small_pieces_and_a_small_arena(void **state) {
  struct rig_options options = make_options(true, true);
  options.engine.piece_bytes = 16384;
  options.engine.arena_bytes = 65536;
  options.engine.gather_bytes = 65536;
  run_rooms(options);
}

static void with_checksums(void **state) {
  struct rig_options options = make_options(true, true);
  options.engine.checksum = 1;
  run_rooms(options);
}

/* Gathers are under way when the room is cancelled: its end comes when they are over, and the engine goes on. */
static void a_room_is_cancelled_with_kernels_under_way(void **state) {
  struct rig_options options = make_options(true, true);
  struct rig rig;
  struct rig_pages from, to;
  options.engine.piece_bytes = 16384;
  if (driver_is_stub()) setenv("KVF_STUB", "slow", 1);
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_pages_draw(&rig, &rig.options.prefill, 0, 512, &from);
  rig_pages_draw(&rig, &rig.options.decode, 0, 512, &to);
  kvf_send *send = rig_send_open(&rig.prefill[0], 9);
  kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], 9, &to, 0, 512);
  rig_send_post(send, &from, 0, 512, true);
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  for (int i = 0; i < 2000 && stats.gather_ns == 0; i++) assert_int_equal(kvf_engine_stats_query(rig.prefill[0].engine, &stats, NULL), KVF_OK);
  assert_int_equal(kvf_send_cancel(send, NULL), KVF_OK);
  kvf_event ended = rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END);
  kvf_error_free(ended.error);
  ended = rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END);
  kvf_error_free(ended.error);
  kvf_send_close(send);
  kvf_recv_close(recv);
  unsetenv("KVF_STUB");
  rig_check(&rig.decode[0], 9, &to, 0, 512);
  rig_run_room(&rig, 10, 200, 0, 64);
  rig_close(&rig);
}

static void post_after(kvf_send *send, const struct rig_pages *pages, uint32_t after_cuda, void *handle, kvf_status expected) {
  kvf_chunk chunk = KVF_CHUNK_INIT;
  chunk.token_count = 64;
  chunk.final = 1;
  chunk.page_list_count = 1;
  chunk.page_lists = &pages->list;
  chunk.after_cuda = after_cuda;
  chunk.cuda_handle = handle;
  assert_int_equal(kvf_send_post(send, &chunk, NULL), expected);
}

/* C90: what is written after the post and before the event is what arrives. */
static void no_page_is_read_before_the_caller_s_event(void **state) {
  struct rig_options options = make_options(true, true);
  struct rig rig;
  struct rig_pages from, to;
  CUevent event;
  if (!driver_is_stub()) skip();
  assert_true(driver_begin());
  rig_open(&rig, &options);
  rig_connect(&rig);
  for (uint64_t room = 1; room <= 2; room++) {
    assert_int_equal(DRIVER(cuEventCreate)(&event, 0), CUDA_SUCCESS);
    DRIVER(stub_event_hold)(event);
    rig_pages_draw(&rig, &rig.options.prefill, 0, 64, &from);
    rig_pages_draw(&rig, &rig.options.decode, 0, 64, &to);
    kvf_send *send = rig_send_open(&rig.prefill[0], room);
    kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], room, &to, 0, 64);
    post_after(send, &from, 3, event, KVF_INVALID);
    post_after(send, &from, KVF_CUDA_EVENT, NULL, KVF_INVALID);
    post_after(send, &from, KVF_CUDA_EVENT, event, KVF_OK);
    usleep(30000);
    rig_fill(&rig.prefill[0], room, &from, 0, 64);
    if (room == 2) setenv("KVF_STUB", "broken", 1); /* the computation failed */
    DRIVER(stub_event_fire)(event);
    kvf_event sent = rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END), received = rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END);
    unsetenv("KVF_STUB");
    assert_int_equal(sent.status, room == 1 ? KVF_OK : KVF_INCOMPLETE);
    if (room == 1) assert_int_equal(rig_check(&rig.decode[0], room, &to, 0, 64), 0);
    kvf_error_free(sent.error);
    kvf_error_free(received.error);
    kvf_send_close(send);
    kvf_recv_close(recv);
  }
  rig_close(&rig);
}

static void a_gpu_that_breaks_fails_the_room_and_says_so(void **state) {
  struct rig_options options = make_options(true, true);
  struct rig rig;
  struct rig_pages from, to;
  char text[4000];
  if (!driver_is_stub()) skip();
  options.engine.retry_count = UINT32_MAX;
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_pages_draw(&rig, &rig.options.prefill, 0, 64, &from);
  rig_pages_draw(&rig, &rig.options.decode, 0, 64, &to);
  setenv("KVF_STUB", "broken", 1);
  kvf_send *send = rig_send_open(&rig.prefill[0], 9);
  kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], 9, &to, 0, 64);
  rig_send_post(send, &from, 0, 64, true);
  kvf_event ended = rig_wait(rig.prefill[0].engine, KVF_EVENT_SEND_END);
  assert_int_equal(ended.status, KVF_STAGED_WRITE_FAILED);
  kvf_error_format(ended.error, text, sizeof text);
  assert_non_null(strstr(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  kvf_error_free(ended.error);
  ended = rig_wait(rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_not_equal(ended.status, KVF_OK);
  kvf_error_free(ended.error);
  unsetenv("KVF_STUB");
  kvf_send_close(send);
  kvf_recv_close(recv);
  rig_close(&rig);
}

static void direct_into_device_memory_is_refused_at_the_cache(void **state) {
  kvf_engine_options options = KVF_ENGINE_OPTIONS_INIT;
  kvf_engine *engine;
  kvf_region *region;
  kvf_cache *cache;
  kvf_error *error = NULL;
  kvf_plane plane[2];
  uint32_t count;
  uint64_t bytes;
  options.way = KVF_WAY_DIRECT;
  assert_int_equal(kvf_engine_open(&options, &engine, NULL), KVF_OK);
  kvf_planes_options planes = KVF_PLANES_OPTIONS_INIT;
  planes.layer_count = 1, planes.heads_total = 1, planes.head_bytes = 64, planes.page_count = 4;
  planes.address = 4096;
  assert_int_equal(kvf_planes_fill(&planes, plane, 2, &count, &bytes, NULL), KVF_OK);
  uint64_t pool = planes.address = alloc(bytes);
  assert_int_equal(kvf_planes_fill(&planes, plane, 2, &count, &bytes, NULL), KVF_OK);
  kvf_region_options where = KVF_REGION_OPTIONS_INIT;
  where.address = (void *)(uintptr_t)pool;
  where.length_bytes = bytes;
  where.kind = KVF_MEMORY_CUDA;
  assert_int_equal(kvf_region_open(engine, &where, 1, &region, NULL), KVF_OK);
  kvf_cache_options what = KVF_CACHE_OPTIONS_INIT;
  what.planes = plane;
  what.plane_count = count;
  assert_int_equal(kvf_cache_open(engine, &what, &cache, &error), KVF_UNSUPPORTED);
  kvf_error_free(error);
  kvf_region_close(region);
  kvf_engine_close(engine);
  free_memory(pool);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(device_to_device),
                                     cmocka_unit_test(device_to_host),
                                     cmocka_unit_test(host_to_device),
                                     cmocka_unit_test(small_pieces_and_a_small_arena),
                                     cmocka_unit_test(with_checksums),
                                     cmocka_unit_test(no_page_is_read_before_the_caller_s_event),
                                     cmocka_unit_test(a_room_is_cancelled_with_kernels_under_way),
                                     cmocka_unit_test(a_gpu_that_breaks_fails_the_room_and_says_so),
                                     cmocka_unit_test(direct_into_device_memory_is_refused_at_the_cache)};
  kvf_error *error = NULL;
  fabrics = argc > 1 ? argv[1] : "auto";
  if (memory_device_take(0, &held, &error) != KVF_OK) {
    printf("skipped: %s\n", kvf_error_message(error));
    return 77;
  }
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  memory_device_give(held);
  return failed;
}
