/* How fast gather, scatter and pairs are against a large memcpy of the same run: the ratio is what carries over to other machines.
 * A slice is one row; 16 of them make a page of a rank that keeps `heads` times as much per token; pages are taken at random. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/random.h"
#include "copy/copy.h"

enum { RUNS = 5, PAGE_TOKENS = 16, SPREAD = 4 /* row stride over row bytes */, PIECE_BYTES = 256 << 10, BLOCKS_AT_ONCE = 64 };
static const size_t total_bytes = (size_t)96 << 20;

struct bench {
  const struct copy_backend *backend;
  uint8_t *source_pool, *target_pool; /* SPREAD * total_bytes */
  uint8_t *plain;                     /* total_bytes, for memcpy and as a large packed buffer */
  uint8_t *piece;                     /* PIECE_BYTES */
  struct layout_block *source_blocks, *target_blocks;
  struct layout_pair *pairs;
  size_t block_count, slice_bytes;
};

static void *map(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  memset(memory, 1, bytes);
  return memory;
}

static uint32_t *shuffle(size_t count, uint64_t *random) {
  uint32_t *order = malloc(count * sizeof *order);
  if (!order) exit(1);
  for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  for (size_t i = count; i > 1; i--) {
    size_t j = base_random_next(random) % i;
    uint32_t swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
  }
  return order;
}

static void fill_blocks(struct bench *bench, size_t slice_bytes, uint64_t *random) {
  size_t page_bytes = slice_bytes * SPREAD * PAGE_TOKENS, rows_bytes = slice_bytes * PAGE_TOKENS;
  bench->slice_bytes = slice_bytes;
  bench->block_count = total_bytes / rows_bytes;
  uint32_t *sources = shuffle(bench->block_count, random), *targets = shuffle(bench->block_count, random);
  for (size_t i = 0; i < bench->block_count; i++) {
    uint64_t source = (uintptr_t)bench->source_pool + sources[i] * page_bytes;
    uint64_t target = (uintptr_t)bench->target_pool + targets[i] * page_bytes;
    bench->source_blocks[i] =
        (struct layout_block){source, i * rows_bytes, slice_bytes, slice_bytes * SPREAD, slice_bytes, PAGE_TOKENS};
    bench->target_blocks[i] = bench->source_blocks[i];
    bench->target_blocks[i].address = target;
    bench->pairs[i] = (struct layout_pair){source, target, slice_bytes, slice_bytes * SPREAD, slice_bytes * SPREAD, PAGE_TOKENS};
  }
  free(sources);
  free(targets);
}

static void run_memcpy(struct bench *bench) {
  memcpy(bench->plain, bench->source_pool, total_bytes);
}

/* Into and out of a packed buffer too large for any cache. */
static void run_gather(struct bench *bench) {
  bench->backend->gather(bench->plain, bench->source_blocks, bench->block_count);
}
static void run_scatter(struct bench *bench) {
  bench->backend->scatter(bench->plain, bench->target_blocks, bench->block_count);
}
static void run_pairs(struct bench *bench) {
  bench->backend->pairs(bench->pairs, bench->block_count);
}

/* The blocks of one piece, at most BLOCKS_AT_ONCE at a time; their offsets are brought back into the piece. */
static void run_piece(struct bench *bench, bool with_gather, bool with_scatter) {
  size_t blocks_per_piece = PIECE_BYTES / (bench->slice_bytes * PAGE_TOKENS);
  if (!blocks_per_piece) blocks_per_piece = 1;
  for (size_t first = 0; first < bench->block_count; first += blocks_per_piece) {
    size_t end = first + blocks_per_piece < bench->block_count ? first + blocks_per_piece : bench->block_count;
    uint8_t *base = bench->piece - bench->source_blocks[first].packed_offset;
    for (size_t i = first; with_gather && i < end; i += BLOCKS_AT_ONCE) {
      bench->backend->gather(base, bench->source_blocks + i, end - i < BLOCKS_AT_ONCE ? end - i : BLOCKS_AT_ONCE);
    }
    for (size_t i = first; with_scatter && i < end; i += BLOCKS_AT_ONCE) {
      bench->backend->scatter(base, bench->target_blocks + i, end - i < BLOCKS_AT_ONCE ? end - i : BLOCKS_AT_ONCE);
    }
  }
}
static void run_gather_piece(struct bench *bench) {
  run_piece(bench, true, false);
}
static void run_scatter_piece(struct bench *bench) {
  run_piece(bench, false, true);
}
static void run_both_piece(struct bench *bench) {
  run_piece(bench, true, true);
}

typedef void (*run_one)(struct bench *);
static const struct {
  const char *name;
  run_one run;
} runs[] = {
    {"memcpy", run_memcpy},         {"gather", run_gather},           {"scatter", run_scatter},   {"pairs", run_pairs},
    {"gather/p", run_gather_piece}, {"scatter/p", run_scatter_piece}, {"both/p", run_both_piece},
};
enum { RUN_KINDS = sizeof runs / sizeof runs[0] };

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Each kind once a round, so that a slow spell of the machine falls on all of them. */
static void measure(struct bench *bench) {
  double ratios[RUN_KINDS][RUNS];
  double memcpy_rates[RUNS];
  for (int round = 0; round < RUNS; round++) {
    double memcpy_ns = 0;
    for (int kind = 0; kind < RUN_KINDS; kind++) {
      uint64_t start_ns = base_clock_ns();
      runs[kind].run(bench);
      double elapsed_ns = (double)(base_clock_ns() - start_ns);
      if (kind == 0) memcpy_ns = elapsed_ns;
      ratios[kind][round] = memcpy_ns / elapsed_ns;
    }
    memcpy_rates[round] = (double)total_bytes / memcpy_ns;
  }
  qsort(memcpy_rates, RUNS, sizeof(double), compare);
  printf("%-9s %6zu  %6.1f", bench->backend->name, bench->slice_bytes, memcpy_rates[RUNS / 2]);
  for (int kind = 1; kind < RUN_KINDS; kind++) {
    qsort(ratios[kind], RUNS, sizeof(double), compare);
    printf("  %4.2f (%4.2f-%4.2f)", ratios[kind][RUNS / 2], ratios[kind][0], ratios[kind][RUNS - 1]);
  }
  printf("\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"avx512", "avx2", "neon", "portable"};
  struct bench bench = {.source_pool = map(total_bytes * SPREAD), .target_pool = map(total_bytes * SPREAD)};
  bench.plain = map(total_bytes);
  bench.piece = map(PIECE_BYTES * 2);
  size_t blocks_most = total_bytes / (128 * PAGE_TOKENS);
  bench.source_blocks = map(blocks_most * sizeof *bench.source_blocks);
  bench.target_blocks = map(blocks_most * sizeof *bench.target_blocks);
  bench.pairs = map(blocks_most * sizeof *bench.pairs);
  uint64_t random = 1;
  printf("ratio to memcpy of %zu MiB, median of %d (least-most); /p: through a packed piece of %d KiB\n", total_bytes >> 20, RUNS,
         PIECE_BYTES >> 10);
  printf("backend    slice    GB/s");
  for (int kind = 1; kind < RUN_KINDS; kind++) printf("  %-16s", runs[kind].name);
  printf("\n");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    bench.backend = copy_host_backend_find(names[i]);
    if (!bench.backend || (argc > 1 && strcmp(argv[1], names[i]))) continue;
    for (size_t slice_bytes = 128; slice_bytes <= 8192; slice_bytes *= 2) {
      fill_blocks(&bench, slice_bytes, &random);
      measure(&bench);
    }
  }
  return 0;
}
