/* What it costs to plan one very long room: 100,000 pages, 64 layers, K and V. The page list is checked once, the cuts are made
 * once, and the cursor goes over every piece; the walks, which belong to the copying, are not counted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "plan/plan.h"

enum { LAYERS = 64, PLANES = 2 * LAYERS, PAGES = 100000, PAGE_TOKENS = 16, RUNS = 5 };

struct rank {
  kvf_plane planes[PLANES];
  kvf_rank_planes list;
};

static struct rank source, target;
static uint32_t numbers[PAGES];

static void make_rank(struct rank *rank, uint32_t ranks) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  options.layer_count = LAYERS;
  options.heads_total = 8;
  options.head_bytes = 256;
  options.page_tokens = PAGE_TOKENS;
  options.page_count = PAGES;
  options.rank_count = ranks;
  rank->list = (kvf_rank_planes){.planes = rank->planes};
  if (kvf_planes_fill(&options, rank->planes, PLANES, &rank->list.plane_count, NULL, NULL) != KVF_OK) exit(1);
}

/* Under context parallelism: this rank holds every second page. */
static void split_rank(struct rank *rank) {
  for (uint32_t i = 0; i < PLANES; i++) {
    rank->planes[i].token_parts = 2;
    rank->planes[i].token_block = PAGE_TOKENS;
  }
}

struct figures {
  uint64_t check_ns, cuts_ns, pieces_ns, pieces;
};

static struct figures measure(uint64_t piece_bytes) {
  struct figures least = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
  const struct layout_pages pages = {.lists = {{.page_count = PAGES, .pages = numbers}}};
  const struct plan_range range = {.token_end = (uint64_t)PAGES * PAGE_TOKENS, .layer_end = LAYERS};
  const struct layout_demand demand = {.token_end = range.token_end, .layer_end = LAYERS, .whole = true, .slots = true};
  for (int run = 0; run < RUNS; run++) {
    struct layout_cuts cuts[2];
    const kvf_rank_planes sources[2] = {source.list, source.list};
    kvf_plane other[PLANES];
    kvf_rank_planes both[2] = {sources[0], {.planes = other, .plane_count = PLANES}};
    for (uint32_t i = 0; i < PLANES; i++) {
      other[i] = source.planes[i];
      other[i].token_part = other[i].token_parts > 1;
    }
    uint64_t start_ns = base_clock_ns();
    if (layout_pages_check(&pages, target.planes, PLANES, &demand, NULL) != KVF_OK) exit(1);
    uint64_t checked_ns = base_clock_ns();
    if (layout_cuts_build(both, 2, &target.list, 0, cuts, NULL) != KVF_OK) exit(1);
    uint64_t cut_ns = base_clock_ns();
    const struct layout_link link = {source.planes, target.planes, cuts[0].cuts, cuts[0].count};
    struct plan_cursor cursor;
    struct layout_piece piece;
    uint64_t bytes, pieces = 0;
    if (plan_cursor_init(&cursor, &link, &range, &(struct plan_limits){.piece_bytes = piece_bytes}, NULL) != KVF_OK) exit(1);
    while (plan_cursor_next(&cursor, &piece, &bytes)) pieces++;
    uint64_t planned_ns = base_clock_ns();
    if (checked_ns - start_ns < least.check_ns) least.check_ns = checked_ns - start_ns;
    if (cut_ns - checked_ns < least.cuts_ns) least.cuts_ns = cut_ns - checked_ns;
    if (planned_ns - cut_ns < least.pieces_ns) least.pieces_ns = planned_ns - cut_ns;
    least.pieces = pieces;
    layout_cuts_fini(&cuts[0]);
    layout_cuts_fini(&cuts[1]);
  }
  return least;
}

static void report(const char *name, uint64_t piece_bytes) {
  struct figures figures = measure(piece_bytes);
  uint64_t total_ns = figures.check_ns + figures.cuts_ns + figures.pieces_ns;
  printf("%-28s %7" PRIu64 " KiB %9" PRIu64 " %9.2f %9.2f %9.2f %9.2f\n", name, piece_bytes >> 10, figures.pieces,
         (double)figures.check_ns / 1e6, (double)figures.cuts_ns / 1e6, (double)figures.pieces_ns / 1e6, (double)total_ns / 1e6);
}

int main(void) {
  for (uint32_t i = 0; i < PAGES; i++) numbers[i] = (uint32_t)((uint64_t)i * 61807 % PAGES);
  printf("%d pages of %d tokens, %d layers, K and V; least of %d runs, in ms\n", PAGES, PAGE_TOKENS, LAYERS, RUNS);
  printf("%-28s %11s %9s %9s %9s %9s %9s\n", "", "piece", "pieces", "pages", "cuts", "cursor", "all");
  make_rank(&source, 1);
  make_rank(&target, 1);
  report("equal ranks", 1 << 20);
  report("equal ranks", 256 << 10);
  make_rank(&target, 4);
  report("tensor parallel 1 to 4", 1 << 20);
  make_rank(&target, 1);
  split_rank(&source);
  report("context parallel 2 to 1", 1 << 20);
  return 0;
}
