/* The public summary against a naive count over single entries, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kvferry/kvferry.h>

#include "fabric/fabric.h"
#include "fabric_shm/shm.h"
#include "fabric_tcp/tcp.h"

enum { RANKS = 8, LAYERS = 3, HEAD_BYTES = 32, PLANES = 2 * LAYERS };

struct side {
  kvf_plane planes[RANKS][PLANES];
  kvf_rank_planes ranks[RANKS];
  uint32_t count;
};

static void fill_side(struct side *side, uint32_t ranks, uint32_t heads, uint32_t page_tokens, uint32_t layout) {
  side->count = ranks;
  for (uint32_t rank = 0; rank < ranks; rank++) {
    kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
    uint64_t pool_bytes;
    uint32_t count;
    options.layer_count = LAYERS;
    options.heads_total = heads;
    options.rank = rank;
    options.rank_count = ranks;
    options.head_bytes = HEAD_BYTES;
    options.layout = layout;
    options.page_tokens = page_tokens;
    options.page_count = 64;
    options.address = 1 << 20;
    assert_int_equal(kvf_planes_fill(&options, side->planes[rank], PLANES, &count, &pool_bytes, NULL), KVF_OK);
    side->ranks[rank] = (kvf_rank_planes){side->planes[rank], count, 0};
  }
}

static uint64_t find_row(const kvf_plane *plane, uint64_t token, uint32_t head) {
  return 2 * (token / plane->page_tokens) * plane->page_stride_bytes + token % plane->page_tokens * plane->token_stride_bytes +
         (head - plane->head_first) * plane->head_stride_bytes;
}

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(random_state >> 33) % below;
}

struct row {
  uint64_t source, target;
};

static int compare_rows(const void *a, const void *b) {
  const struct row *left = a, *right = b;
  return (left->source > right->source) - (left->source < right->source);
}

/* Runs that continue on both sides, of one plane pair and the heads [first, end). */
static uint64_t count_runs(const kvf_plane *source, const kvf_plane *target, uint32_t first, uint32_t end, uint64_t token_first,
                           uint64_t token_end) {
  static struct row rows[200 * 16];
  uint64_t count = 0, runs = 0;
  for (uint64_t token = token_first; token < token_end; token++)
    for (uint32_t head = first; head < end; head++)
      rows[count++] = (struct row){find_row(source, token, head), find_row(target, token, head)};
  qsort(rows, count, sizeof *rows, compare_rows);
  for (uint64_t i = 0; i < count; i++)
    runs += i == 0 || rows[i].source != rows[i - 1].source + HEAD_BYTES || rows[i].target != rows[i - 1].target + HEAD_BYTES;
  return runs;
}

static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}
static uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static void a_summary_matches_a_naive_count(void **state) {
  static const uint32_t page_sizes[] = {1, 4, 16, 7};
  const char *text = getenv("KVF_SEED");
  random_state = text ? strtoull(text, NULL, 0) : 3;
  printf("KVF_SEED=%llu\n", (unsigned long long)random_state);
  for (int round = 0; round < 300; round++) {
    static struct side sources, targets;
    kvf_plan_flow flows[RANKS];
    kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
    const uint32_t heads = 8; /* no replicas: each flow is a plain intersection */
    fill_side(&sources, 1 + draw(RANKS), heads, page_sizes[draw(4)], KVF_LAYOUT_NHD + draw(2));
    fill_side(&targets, 1 + draw(RANKS), heads, page_sizes[draw(4)], KVF_LAYOUT_NHD + draw(2));
    options.token_first = draw(50);
    options.token_end = options.token_first + draw(120);
    options.piece_bytes = 1 << 20;
    uint32_t rank = draw(targets.count);
    assert_int_equal(kvf_plan_summarise(sources.ranks, sources.count, &targets.ranks[rank], rank, &options, flows, NULL), KVF_OK);
    const kvf_plane *target = targets.planes[rank];
    const uint64_t tokens = options.token_end - options.token_first;
    for (uint32_t i = 0; i < sources.count; i++) {
      const kvf_plane *source = sources.planes[i];
      uint32_t first = larger(source->head_first, target->head_first);
      uint32_t end = smaller(source->head_first + source->head_count, target->head_first + target->head_count);
      bool sent = first < end && tokens > 0;
      uint64_t runs = sent ? PLANES * count_runs(source, target, first, end, options.token_first, options.token_end) : 0;
      assert_int_equal(flows[i].source, i);
      assert_int_equal(flows[i].bytes, sent ? PLANES * tokens * (end - first) * HEAD_BYTES : 0);
      assert_int_equal(flows[i].component_bytes[KVF_COMPONENT_MAIN], flows[i].bytes);
      assert_int_equal(flows[i].direct_writes, runs);
      assert_int_equal(flows[i].pieces, sent);
      assert_int_equal(flows[i].layer_count, sent ? LAYERS : 0);
      assert_int_equal(flows[i].layer_end - flows[i].layer_first, sent ? LAYERS : 0);
      bool touch = source->head_stride_bytes == HEAD_BYTES && target->head_stride_bytes == HEAD_BYTES;
      assert_int_equal(flows[i].slices, sent ? PLANES * tokens * (touch ? 1 : end - first) : 0);
      if (!sent) continue;
      assert_int_equal(flows[i].heads_count, 2); /* K and V */
      assert_int_equal(flows[i].heads[1].role, KVF_ROLE_V);
      assert_int_equal(flows[i].heads[1].head_first, first);
      assert_int_equal(flows[i].heads[1].head_count, end - first);
      assert_int_equal(flows[i].heads[1].layer_count, LAYERS);
    }
  }
}

static void the_way_follows_the_runs(void **state) {
  static struct side sources, targets;
  kvf_plan_flow flows[RANKS];
  kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
  kvf_error *error = NULL;
  fill_side(&sources, 2, 8, 16, KVF_LAYOUT_NHD);
  fill_side(&targets, 2, 8, 16, KVF_LAYOUT_NHD);
  options.token_end = 64;
  options.direct_min_row_bytes = 4 * HEAD_BYTES * 16;
  assert_int_equal(kvf_plan_summarise(sources.ranks, 2, &targets.ranks[0], 0, &options, flows, NULL), KVF_OK);
  assert_int_equal(flows[0].row_bytes, 4 * HEAD_BYTES * 16);
  assert_int_equal(flows[0].way, KVF_WAY_DIRECT);
  assert_non_null(strstr(flows[1].reason, "nothing in common"));
  assert_int_equal(flows[1].row_bytes, 0);
  options.direct_min_row_bytes++;
  assert_int_equal(kvf_plan_summarise(sources.ranks, 2, &targets.ranks[0], 0, &options, flows, NULL), KVF_OK);
  assert_int_equal(flows[0].way, KVF_WAY_STAGED);
  options.way = KVF_WAY_DIRECT;
  options.cannot_direct = 1;
  assert_int_equal(kvf_plan_summarise(sources.ranks, 2, &targets.ranks[0], 0, &options, flows, &error), KVF_UNSUPPORTED);
  kvf_error_free(error);
}

/* Windows and per-request slots, beside a plane of entries of four tokens. */
static void windows_slots_and_entries_are_counted(void **state) {
  kvf_plane planes[3];
  kvf_plan_flow flow;
  kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
  for (uint32_t i = 0; i < 3; i++)
    planes[i] = (kvf_plane){.layer = 5 + 2 * i,
                            .role = KVF_ROLE_K,
                            .dtype = KVF_DTYPE_BF16,
                            .page_list = i,
                            .heads_total = 1,
                            .head_count = 1,
                            .head_bytes = HEAD_BYTES,
                            .page_tokens = 1,
                            .page_count = 8,
                            .page_stride_bytes = HEAD_BYTES,
                            .token_stride_bytes = HEAD_BYTES,
                            .head_stride_bytes = HEAD_BYTES,
                            .address = (i + 1) << 20};
  planes[0].window_tokens = 10;
  planes[0].component = KVF_COMPONENT_WINDOW;
  planes[1].role = KVF_ROLE_STATE;
  planes[1].per_request = 1;
  planes[1].component = KVF_COMPONENT_STATE;
  planes[2].entry_tokens = 4;
  const kvf_rank_planes rank = {planes, 3, 0};
  options.token_end = 103;
  assert_int_equal(kvf_plan_summarise(&rank, 1, &rank, 0, &options, &flow, NULL), KVF_OK);
  assert_int_equal(flow.component_bytes[KVF_COMPONENT_WINDOW], 10 * HEAD_BYTES);
  assert_int_equal(flow.component_bytes[KVF_COMPONENT_STATE], HEAD_BYTES);
  assert_int_equal(flow.component_bytes[KVF_COMPONENT_MAIN], 103 / 4 * HEAD_BYTES);
  assert_int_equal(flow.bytes, (10 + 1 + 25) * HEAD_BYTES);
  assert_int_equal(flow.layer_first, 5);
  assert_int_equal(flow.layer_end, 10);
  assert_int_equal(flow.layer_count, 3);
  options.token_first = 103; /* a full hit: the slot alone */
  assert_int_equal(kvf_plan_summarise(&rank, 1, &rank, 0, &options, &flow, NULL), KVF_OK);
  assert_int_equal(flow.bytes, HEAD_BYTES);
  assert_int_equal(flow.pieces, 1);
}

/* A slot of many heads is moved in parts; it is still one interval of heads. */
static void a_slot_in_parts_is_one_interval(void **state) {
  enum { HEADS = 6, SLOT_HEAD_BYTES = 12 << 10 };
  kvf_plane plane = {.layer = 2,
                     .role = KVF_ROLE_STATE,
                     .dtype = KVF_DTYPE_F32,
                     .heads_total = HEADS,
                     .head_count = HEADS,
                     .head_bytes = SLOT_HEAD_BYTES,
                     .page_tokens = 1,
                     .page_count = 1,
                     .page_stride_bytes = HEADS * SLOT_HEAD_BYTES,
                     .token_stride_bytes = HEADS * SLOT_HEAD_BYTES,
                     .head_stride_bytes = SLOT_HEAD_BYTES,
                     .address = 1 << 20,
                     .component = KVF_COMPONENT_STATE,
                     .per_request = 1};
  const kvf_rank_planes rank = {&plane, 1, 0};
  kvf_plan_flow flow;
  kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
  assert_int_equal(kvf_plan_summarise(&rank, 1, &rank, 0, &options, &flow, NULL), KVF_OK);
  assert_int_equal(flow.bytes, HEADS * SLOT_HEAD_BYTES);
  assert_int_equal(flow.heads_count, 1);
  assert_int_equal(flow.heads[0].head_count, HEADS);
  assert_int_equal(flow.heads[0].layer_count, 1);
}

static void expect_refusal(kvf_status wanted, const kvf_rank_planes *source, const kvf_rank_planes *target,
                           const kvf_plan_options *options) {
  kvf_plan_flow flow = {.source = 77};
  kvf_error *error = NULL;
  assert_int_equal(kvf_plan_summarise(source, 1, target, 0, options, &flow, &error), wanted);
  assert_int_equal(kvf_error_status(error), wanted);
  assert_int_equal(flow.source, 77); /* nothing is written */
  kvf_error_free(error);
}

static void what_cannot_be_planned_is_refused(void **state) {
  static struct side sources, targets;
  kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
  fill_side(&sources, 2, 8, 16, KVF_LAYOUT_NHD);
  fill_side(&targets, 1, 8, 16, KVF_LAYOUT_NHD);
  options.token_end = 10;
  expect_refusal(KVF_INVALID, sources.ranks, targets.ranks, NULL);
  expect_refusal(KVF_NOT_COVERED, sources.ranks, targets.ranks, &options); /* one of two sources */
  options.token_first = 11;
  expect_refusal(KVF_INVALID, sources.ranks, sources.ranks, &options);
  options.token_first = 0;
  options.token_end = KVF_PLAN_TOKEN_LIMIT + 1;
  expect_refusal(KVF_TOO_LARGE, sources.ranks, sources.ranks, &options);
  options.token_end = 10;
  options.piece_bytes = HEAD_BYTES;
  expect_refusal(KVF_TOO_LARGE, sources.ranks, sources.ranks, &options);
  options.piece_bytes = 0;
  options.flow_bytes = 8;
  expect_refusal(KVF_INVALID, sources.ranks, sources.ranks, &options);
  options.flow_bytes = 0;
  targets.planes[0][0].dtype = KVF_DTYPE_F16;
  expect_refusal(KVF_INCOMPATIBLE, sources.ranks, targets.ranks, &options);
}

static void a_larger_flow_keeps_its_stride(void **state) {
  struct {
    kvf_plan_flow flow;
    uint64_t later;
  } flows[2];
  static struct side sources, targets;
  kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
  fill_side(&sources, 2, 8, 16, KVF_LAYOUT_NHD);
  fill_side(&targets, 1, 8, 16, KVF_LAYOUT_NHD);
  options.token_end = 10;
  options.flow_bytes = sizeof flows[0];
  memset(flows, 0xff, sizeof flows);
  assert_int_equal(kvf_plan_summarise(sources.ranks, 2, targets.ranks, 0, &options, &flows[0].flow, NULL), KVF_OK);
  assert_int_equal(flows[1].flow.source, 1);
  assert_int_equal(flows[1].later, 0);
}

/* The public header repeats what each fabric says of itself. */
static void the_thresholds_are_the_fabrics_own(void **state) {
  assert_int_equal(fabric_shm_ops.direct_min_row_bytes, KVF_PLAN_DIRECT_ROW_SHM);
  assert_int_equal(fabric_tcp_ops.direct_min_row_bytes, KVF_PLAN_DIRECT_ROW_TCP);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_summary_matches_a_naive_count),       cmocka_unit_test(the_way_follows_the_runs),
      cmocka_unit_test(windows_slots_and_entries_are_counted), cmocka_unit_test(a_slot_in_parts_is_one_interval),
      cmocka_unit_test(what_cannot_be_planned_is_refused),     cmocka_unit_test(a_larger_flow_keeps_its_stride),
      cmocka_unit_test(the_thresholds_are_the_fabrics_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
