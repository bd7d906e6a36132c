/* Gather and scatter by the GPU against a device-to-device copy of the same bytes, in turns in one run: `figures [MiB] [ROUNDS]`
 * prints one line "name value unit" a figure, the medians of 5. Every copy is compared with the CPU's first. For run.sh; over the
 * stub driver it only proves that it runs. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "copy/copy.h"
#include "copy/device.h"
#include "driver.h"

enum { LAYERS = 16, HEADS = 8, PAGE_TOKENS = 16, TURNS = 5, LANES = 2 };

static struct memory_device *held, *device;
static struct copy_device *copies;
static const struct memory_device_ops *ops;

static void must(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "figures: %s failed\n", what);
  exit(1);
}

/* K of LAYERS layers; two of the heads go, so that rows of 2*head_bytes lie 8*head_bytes apart, in random pages. */
struct plan {
  uint64_t pool, bytes, pool_bytes;
  kvf_plane planes[LAYERS];
  struct layout_cut cuts[LAYERS];
  struct layout_link link;
  struct layout_pages lists;
  struct layout_piece piece;
  uint32_t *pages;
};

static uint64_t alloc(uint64_t bytes) {
  struct memory_device_failure failure;
  uint64_t address = 0;
  must(ops->memory_alloc(device, bytes, &address, &failure), "cuMemAlloc");
  return address;
}

static void make_plan(struct plan *plan, uint64_t bytes, uint32_t row_bytes) {
  const uint32_t head_bytes = row_bytes / 2;
  const uint64_t token_bytes = (uint64_t)HEADS * head_bytes, tokens = bytes / LAYERS / row_bytes;
  const uint32_t page_count = (uint32_t)(tokens / PAGE_TOKENS);
  uint64_t random = 7;
  *plan = (struct plan){.bytes = (uint64_t)page_count * PAGE_TOKENS * row_bytes * LAYERS,
                        .pool_bytes = page_count * PAGE_TOKENS * token_bytes * LAYERS,
                        .pages = malloc(page_count * sizeof(uint32_t))};
  plan->pool = alloc(plan->pool_bytes);
  for (uint32_t i = 0; i < page_count; i++) {
    uint32_t j = (uint32_t)(base_random_next(&random) % (i + 1));
    plan->pages[i] = plan->pages[j];
    plan->pages[j] = i;
  }
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    plan->planes[layer] = (kvf_plane){.layer = layer,
                                      .role = KVF_ROLE_K,
                                      .heads_total = HEADS,
                                      .head_count = HEADS,
                                      .head_bytes = head_bytes,
                                      .page_tokens = PAGE_TOKENS,
                                      .page_count = page_count,
                                      .page_stride_bytes = PAGE_TOKENS * token_bytes,
                                      .token_stride_bytes = token_bytes,
                                      .head_stride_bytes = head_bytes,
                                      .address = plan->pool + layer * (plan->pool_bytes / LAYERS)};
    plan->cuts[layer] = (struct layout_cut){layer, layer, 2, 2};
  }
  plan->link = (struct layout_link){plan->planes, plan->planes, plan->cuts, LAYERS};
  plan->lists.lists[0] = (kvf_page_list){.page_count = page_count, .pages = plan->pages};
  plan->piece = (struct layout_piece){.cut_count = LAYERS, .token_count = page_count * PAGE_TOKENS};
}

static void run(const struct plan *plan, enum copy_kind kind, uint64_t packed, int rounds) {
  uint32_t lanes[LANES];
  int begun = 0, ended = 0;
  const struct copy_order order = {.kind = kind, .link = &plan->link, .source_pages = &plan->lists, .target_pages = &plan->lists,
                                   .piece = plan->piece, .packed = packed};
  while (ended < rounds) {
    while (begun < rounds && begun - ended < LANES) must(copy_device_begin(copies, &order, &lanes[begun++ % LANES], NULL) == KVF_OK, "begin");
    enum copy_state state;
    while ((state = copy_device_poll(copies, lanes[ended % LANES], NULL)) == COPY_BUSY) {}
    must(state == COPY_DONE, "a copy");
    ended++;
  }
}

static void run_plain(uint64_t target, uint64_t source, uint64_t bytes, int rounds) {
  CUstream stream = NULL;
  must(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "cuStreamCreate");
  for (int i = 0; i < rounds; i++) must(DRIVER(cuMemcpyDtoDAsync)(target, source, bytes, stream) == CUDA_SUCCESS, "cuMemcpyDtoDAsync");
  must(DRIVER(cuStreamSynchronize)(stream) == CUDA_SUCCESS, "cuStreamSynchronize");
  DRIVER(cuStreamDestroy)(stream);
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The gather on the device against the CPU's over an image of the pool. */
static void check(const struct plan *plan, uint64_t packed) {
  struct memory_device_failure failure;
  uint8_t *image = malloc(plan->pool_bytes), *expected = malloc(plan->bytes), *found = malloc(plan->bytes);
  struct plan host = *plan;
  uint64_t random = 11;
  must(image && expected && found, "malloc");
  for (uint64_t i = 0; i + 8 <= plan->pool_bytes; i += 8) *(uint64_t *)(image + i) = base_random_next(&random);
  must(ops->memory_copy(device, plan->pool, (uintptr_t)image, plan->pool_bytes, &failure), "cuMemcpy");
  for (uint32_t i = 0; i < LAYERS; i++) host.planes[i].address = (uintptr_t)image + i * (plan->pool_bytes / LAYERS);
  host.link.source_planes = host.link.target_planes = host.planes;
  copy_piece_gather(copy_host_backend(), expected, &host.link, &host.lists, &host.piece);
  run(plan, COPY_GATHER, packed, 1);
  must(ops->memory_copy(device, (uintptr_t)found, packed, plan->bytes, &failure), "cuMemcpy");
  must(memcmp(found, expected, plan->bytes) == 0, "the comparison of the gather with the CPU's");
  run(plan, COPY_SCATTER, packed, 1);
  must(ops->memory_copy(device, (uintptr_t)expected, packed, plan->bytes, &failure), "cuMemcpy");
  free(image);
  free(expected);
  free(found);
}

static void measure(uint64_t bytes, uint32_t row_bytes, int rounds) {
  struct plan plan;
  double ratios[2][TURNS], plain_rates[TURNS];
  make_plan(&plan, bytes, row_bytes);
  uint64_t packed = alloc(plan.bytes), other = alloc(plan.bytes);
  check(&plan, packed);
  run_plain(other, packed, plan.bytes, 2);
  for (int turn = 0; turn < TURNS; turn++) {
    uint64_t start_ns = base_clock_ns();
    run_plain(other, packed, plan.bytes, rounds);
    double plain_s = (double)(base_clock_ns() - start_ns) / 1e9;
    plain_rates[turn] = (double)plan.bytes * rounds / plain_s / 1e9;
    for (int kind = 0; kind < 2; kind++) {
      start_ns = base_clock_ns();
      run(&plan, kind ? COPY_SCATTER : COPY_GATHER, packed, rounds);
      ratios[kind][turn] = plain_s / ((double)(base_clock_ns() - start_ns) / 1e9);
    }
  }
  qsort(plain_rates, TURNS, sizeof(double), compare);
  printf("copy_%u %.2f GB/s\n", row_bytes, plain_rates[TURNS / 2]);
  for (int kind = 0; kind < 2; kind++) {
    qsort(ratios[kind], TURNS, sizeof(double), compare);
    printf("%s_%u %.3f of-copy\n", kind ? "scatter" : "gather", row_bytes, ratios[kind][TURNS / 2]);
  }
  ops->memory_free(device, plan.pool);
  ops->memory_free(device, packed);
  ops->memory_free(device, other);
  free(plan.pages);
}

int main(int argc, char **argv) {
  kvf_error *error = NULL;
  const uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
  const int rounds = argc > 2 ? atoi(argv[2]) : 100;
  if (memory_device_take(0, &held, &error) != KVF_OK || memory_device_open(0, &device, &error) != KVF_OK) {
    printf("skipped: %s\n", kvf_error_message(error));
    return 77;
  }
  must(driver_begin(), "the context");
  ops = memory_device_ops();
  must(copy_device_create(device, 1 << 20, &copies, NULL) == KVF_OK, "copy_device_create");
  for (uint32_t row_bytes = 128; row_bytes <= 2048; row_bytes *= 4) measure(bytes, row_bytes, rounds);
  copy_device_destroy(copies);
  memory_device_close(device);
  memory_device_give(held);
  return 0;
}
