/* Copies by the GPU's backend against the CPU's, bit for bit, over random plans: pages on the device, packed bytes on the device, in
 * pinned and in ordinary host memory, several under way side by side. Over the stub driver an emulation; run.sh runs it on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copy/copy.h"
#include "copy/device.h"
#include "driver.h"
#include "seed.h"

enum { LAYERS = 3, HEADS = 4, PAGES = 24, POOL_BYTES = 2 << 20, TOKENS = 90, PIECE_BYTES = 1 << 20, SIDE_BY_SIDE = 5 };

static struct memory_device *held, *device;
static struct copy_device *copies;
static const struct memory_device_ops *ops;

static uint64_t alloc(uint64_t bytes) {
  struct memory_device_failure failure;
  uint64_t address = 0;
  if (!ops->memory_alloc(device, bytes, &address, &failure)) fail_msg("%s: %s", failure.call, failure.text);
  return address;
}

static void copy(uint64_t target, uint64_t source, uint64_t bytes) {
  struct memory_device_failure failure;
  if (!ops->memory_copy(device, target, source, bytes, &failure)) fail_msg("%s: %s", failure.call, failure.text);
}

/* One rank's pool, on the host and on the device. */
struct rank {
  uint8_t *image;
  uint64_t pool;
  kvf_plane planes[LAYERS], device_planes[LAYERS];
  uint32_t pages[PAGES];
  struct layout_pages lists;
};

static void make_rank(struct rank *rank, uint64_t *random, uint32_t head_first, uint32_t head_bytes, uint32_t page_tokens) {
  const uint32_t head_count = HEADS - head_first;
  const bool head_major = random_below(random, 2);
  const uint64_t page_bytes = (uint64_t)head_count * page_tokens * head_bytes + random_below(random, 2) * 48;
  rank->image = malloc(POOL_BYTES);
  rank->pool = alloc(POOL_BYTES);
  assert_true(page_bytes * PAGES * LAYERS <= POOL_BYTES);
  for (size_t i = 0; i < POOL_BYTES; i++) rank->image[i] = (uint8_t)base_random_next(random);
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    rank->planes[layer] = (kvf_plane){.layer = layer,
                                      .role = KVF_ROLE_K,
                                      .dtype = KVF_DTYPE_UINT8,
                                      .heads_total = HEADS,
                                      .head_first = head_first,
                                      .head_count = head_count,
                                      .head_bytes = head_bytes,
                                      .page_tokens = page_tokens,
                                      .page_count = PAGES,
                                      .page_stride_bytes = page_bytes,
                                      .token_stride_bytes = head_major ? head_bytes : (uint64_t)head_count * head_bytes,
                                      .head_stride_bytes = head_major ? (uint64_t)page_tokens * head_bytes : head_bytes,
                                      .address = (uintptr_t)rank->image + layer * page_bytes * PAGES};
    rank->device_planes[layer] = rank->planes[layer];
    rank->device_planes[layer].address = rank->pool + layer * page_bytes * PAGES;
  }
  for (uint32_t i = 0; i < PAGES; i++) {
    uint32_t j = (uint32_t)random_below(random, i + 1);
    rank->pages[i] = rank->pages[j];
    rank->pages[j] = i;
  }
  rank->lists = (struct layout_pages){0};
  rank->lists.lists[0] = (kvf_page_list){.page_count = PAGES, .pages = rank->pages};
  copy(rank->pool, (uintptr_t)rank->image, POOL_BYTES);
}

static void free_rank(struct rank *rank) {
  free(rank->image);
  ops->memory_free(device, rank->pool);
}

static void finish(uint32_t lane) {
  kvf_error *error = NULL;
  enum copy_state state;
  while ((state = copy_device_poll(copies, lane, &error)) == COPY_BUSY) {}
  if (state != COPY_DONE) fail_msg("%s", kvf_error_message(error));
}

static void run(const struct copy_order *order) {
  uint32_t lane;
  kvf_error *error = NULL;
  if (copy_device_begin(copies, order, &lane, &error) != KVF_OK) fail_msg("%s", kvf_error_message(error));
  finish(lane);
}

static void expect(uint64_t address, const uint8_t *expected, uint64_t bytes) {
  uint8_t *found = malloc(bytes);
  copy((uintptr_t)found, address, bytes);
  assert_memory_equal(found, expected, bytes);
  free(found);
}

static const struct layout_cut cuts[LAYERS] = {
    {0, 0, HEADS / 2, HEADS / 2}, {1, 1, HEADS / 2, HEADS / 2}, {2, 2, HEADS / 2, HEADS / 2}};

static struct layout_piece make_piece(uint64_t *random) {
  struct layout_piece piece = {.cut_first = (uint32_t)random_below(random, LAYERS)};
  piece.cut_count = 1 + (uint32_t)random_below(random, LAYERS - piece.cut_first);
  piece.token_first = random_below(random, TOKENS);
  piece.token_count = 1 + (uint32_t)random_below(random, TOKENS - piece.token_first);
  return piece;
}

static void check_piece(uint64_t *random, uint64_t packed) {
  static const uint32_t sizes[] = {1, 12, 64, 72, 128, 256}, page_sizes[] = {4, 8, 16};
  const uint32_t head_bytes = sizes[random_below(random, 6)];
  const struct copy_backend *reference = copy_host_backend();
  struct rank source, target;
  uint64_t bytes;
  make_rank(&source, random, 0, head_bytes, page_sizes[random_below(random, 3)]);
  make_rank(&target, random, HEADS / 2, head_bytes, page_sizes[random_below(random, 3)]);
  const struct layout_piece piece = make_piece(random);
  const struct layout_link link = {source.planes, target.planes, cuts, LAYERS};
  const struct layout_link device_link = {source.device_planes, target.device_planes, cuts, LAYERS};
  assert_true(layout_piece_bytes(&link, &piece, &bytes));
  uint8_t *expected = malloc(bytes), *before = malloc(POOL_BYTES);
  memcpy(before, target.image, POOL_BYTES);
  copy_piece_gather(reference, expected, &link, &source.lists, &piece);
  copy_piece_scatter(reference, expected, &link, &target.lists, &piece);

  struct copy_order order = {.kind = COPY_GATHER, .link = &device_link, .source_pages = &source.lists, .target_pages = &target.lists,
                             .piece = piece, .packed = packed};
  run(&order);
  expect(packed, expected, bytes);
  order.kind = COPY_SCATTER;
  run(&order);
  expect(target.pool, target.image, POOL_BYTES);
  copy(target.pool, (uintptr_t)before, POOL_BYTES);
  order.kind = COPY_PAIRS;
  run(&order);
  expect(target.pool, target.image, POOL_BYTES);
  free(expected);
  free(before);
  free_rank(&source);
  free_rank(&target);
}

static void random_pieces_match_the_cpu(void **state) {
  uint64_t random = seed_get(), on_device = alloc(PIECE_BYTES);
  void *pinned = aligned_alloc(4096, PIECE_BYTES), *ordinary = malloc(PIECE_BYTES);
  assert_true(memory_device_pin(pinned, PIECE_BYTES));
  const int rounds = getenv("KVF_LONG") ? 500 : 12;
  for (int i = 0; i < rounds; i++) {
    check_piece(&random, on_device);
    check_piece(&random, (uintptr_t)pinned);
    check_piece(&random, (uintptr_t)ordinary);
  }
  memory_device_unpin(pinned);
  free(pinned);
  free(ordinary);
  ops->memory_free(device, on_device);
}

static void copies_run_side_by_side_until_the_lanes_are_out(void **state) {
  uint64_t random = seed_get();
  struct rank source;
  uint8_t *packed[SIDE_BY_SIDE], *expected = malloc(PIECE_BYTES);
  struct copy_order orders[SIDE_BY_SIDE];
  uint32_t lanes[MEMORY_DEVICE_LANES], lane;
  make_rank(&source, &random, HEADS / 2, 64, 8);
  const struct layout_link link = {source.planes, source.planes, cuts, LAYERS};
  const struct layout_link device_link = {source.device_planes, source.device_planes, cuts, LAYERS};
  for (int i = 0; i < SIDE_BY_SIDE; i++) {
    packed[i] = malloc(PIECE_BYTES);
    orders[i] = (struct copy_order){.kind = COPY_GATHER, .link = &device_link, .source_pages = &source.lists, .piece = make_piece(&random),
                                    .packed = (uintptr_t)packed[i]};
    assert_int_equal(copy_device_begin(copies, &orders[i], &lanes[i], NULL), KVF_OK);
  }
  for (int i = SIDE_BY_SIDE; i < MEMORY_DEVICE_LANES; i++)
    assert_int_equal(copy_device_begin(copies, &orders[0], &lanes[i], NULL), KVF_OK);
  assert_int_equal(copy_device_begin(copies, &orders[0], &lane, NULL), KVF_BACKPRESSURE);
  for (int i = MEMORY_DEVICE_LANES; i-- > 0;) finish(lanes[i]);
  for (int i = 0; i < SIDE_BY_SIDE; i++) {
    uint64_t bytes;
    assert_true(layout_piece_bytes(&link, &orders[i].piece, &bytes));
    copy_piece_gather(copy_host_backend(), expected, &link, &source.lists, &orders[i].piece);
    assert_memory_equal(packed[i], expected, bytes);
    free(packed[i]);
  }
  free(expected);
  free_rank(&source);
}

/* C90: the moment comes when the caller's work is done, not before, and the caller's stream is not held up. */
static void a_moment_in_a_caller_s_stream_is_waited_for(void **state) {
  struct memory_device_failure failure;
  struct memory_device_order *order;
  CUevent event;
  if (!driver_is_stub()) skip();
  assert_true(driver_begin());
  assert_int_equal(DRIVER(cuEventCreate)(&event, 0), CUDA_SUCCESS);
  DRIVER(stub_event_hold)(event);
  assert_true(ops->order_open(device, NULL, event, &order, &failure));
  for (int i = 0; i < 1000; i++) assert_int_equal(ops->order_poll(order, &failure), MEMORY_DEVICE_BUSY);
  DRIVER(stub_event_fire)(event);
  while (ops->order_poll(order, &failure) == MEMORY_DEVICE_BUSY) {}
  assert_int_equal(ops->order_poll(order, &failure), MEMORY_DEVICE_DONE);
  setenv("KVF_STUB", "broken", 1);
  assert_int_equal(ops->order_poll(order, &failure), MEMORY_DEVICE_FAILED);
  assert_int_equal(failure.fault, MEMORY_FAULT_BROKEN);
  unsetenv("KVF_STUB");
  ops->order_close(order);
}

static int open_device(void **state) {
  kvf_error *error = NULL;
  if (memory_device_take(0, &held, &error) != KVF_OK || memory_device_open(0, &device, &error) != KVF_OK) {
    printf("skipped: %s\n", kvf_error_message(error));
    exit(77);
  }
  ops = memory_device_ops();
  return copy_device_create(device, PIECE_BYTES, &copies, NULL) != KVF_OK;
}

static int close_device(void **state) {
  copy_device_destroy(copies);
  memory_device_close(device);
  memory_device_give(held);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_pieces_match_the_cpu),
                                     cmocka_unit_test(copies_run_side_by_side_until_the_lanes_are_out),
                                     cmocka_unit_test(a_moment_in_a_caller_s_stream_is_waited_for)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
