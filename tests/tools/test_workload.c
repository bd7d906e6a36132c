/* The workload: the same in every process, the prefix logic against a naive oracle, spans, and the synthetic trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mix.h"
#include "synthetic.h"
#include "workload.h"

static struct workload make(const struct trace *trace, struct workload_options options) {
  struct workload workload;
  struct complaint complaint;
  assert_true(workload_create(trace, &options, &workload, &complaint));
  return workload;
}

static struct trace generate(size_t count, uint64_t seed) {
  struct trace trace;
  struct complaint complaint;
  assert_true(synthetic_generate(count, seed, &trace, &complaint));
  return trace;
}

static int compare_lengths(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static void assert_near(uint64_t found, uint64_t wanted, double tolerance) {
  double ratio = (double)found / (double)wanted;
  if (ratio < 1 - tolerance || ratio > 1 + tolerance)
    fail_msg("%llu is not near %llu", (unsigned long long)found, (unsigned long long)wanted);
}

static void synthetic_lengths_have_the_quantiles_of_the_conversation(void **state) {
  enum { COUNT = 20000 };
  static uint64_t lengths[COUNT];
  assert_int_equal(synthetic_length(0.1), 964);
  assert_int_equal(synthetic_length(0.5), 6909);
  assert_int_equal(synthetic_length(0.9), 27367);
  assert_int_equal(synthetic_length(0.99), 85401);
  assert_int_equal(synthetic_length(1), 126195);
  struct trace trace = generate(COUNT, 3);
  for (size_t i = 0; i < COUNT; i++) {
    lengths[i] = trace.requests[i].input_tokens;
    assert_int_equal(trace.requests[i].block_count, (lengths[i] + 511) / 512);
    if (i) assert_true(trace.requests[i].timestamp_ms >= trace.requests[i - 1].timestamp_ms);
  }
  qsort(lengths, COUNT, sizeof *lengths, compare_lengths);
  assert_near(lengths[COUNT / 10], 964, 0.02);
  assert_near(lengths[COUNT / 2], 6909, 0.05);
  assert_near(lengths[COUNT * 9 / 10], 27367, 0.05);
  assert_near(lengths[COUNT * 99 / 100], 85401, 0.05);
  assert_true(lengths[COUNT - 1] <= 126195);
  trace_fini(&trace);
}

static void synthetic_prefix_hits_are_near_36_percent(void **state) {
  enum { SEEDS = 5 };
  double sum = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct trace trace = generate(12000, seed);
    struct workload workload = make(&trace, (struct workload_options){.seed = seed});
    double share = (double)workload.hit_blocks / (double)workload.blocks;
    uint64_t full_hits = workload.full_hits;
    workload_fini(&workload);
    trace_fini(&trace);
    if (share < 0.33 || share > 0.40) fail_msg("seed %llu: %.3f of the blocks are hits", (unsigned long long)seed, share);
    assert_in_range(full_hits, 60, 250);
    sum += share;
  }
  if (sum / SEEDS < 0.35 || sum / SEEDS > 0.38) fail_msg("%.3f of the blocks are hits", sum / SEEDS);
}

static void the_same_seed_gives_the_same_workload_and_another_does_not(void **state) {
  struct trace one = generate(300, 7), two = generate(300, 7), other = generate(300, 8);
  struct workload_options options = {.seed = 7, .max_tokens = 9000, .time_scale = 0.5};
  struct workload a = make(&one, options), b = make(&two, options), c = make(&other, options);
  assert_memory_equal(a.requests, b.requests, 300 * sizeof *a.requests);
  assert_true(memcmp(a.requests, c.requests, 300 * sizeof *a.requests) != 0);
  options.seed = 9;
  struct workload d = make(&one, options);
  assert_int_not_equal(a.requests[0].room, d.requests[0].room);
  workload_fini(&a);
  workload_fini(&b);
  workload_fini(&c);
  workload_fini(&d);
  trace_fini(&one);
  trace_fini(&two);
  trace_fini(&other);
}

static void a_shorter_run_is_the_start_of_a_longer_one(void **state) {
  struct trace few = generate(50, 7), many = generate(300, 7);
  struct workload a = make(&few, (struct workload_options){.seed = 7}), b = make(&many, (struct workload_options){.seed = 7});
  assert_memory_equal(a.requests, b.requests, 50 * sizeof *a.requests);
  workload_fini(&a);
  workload_fini(&b);
  trace_fini(&few);
  trace_fini(&many);
}

static void add(struct trace *trace, uint64_t tokens, size_t count, const uint64_t *ids) {
  struct trace_request *request = trace_add(trace, count);
  assert_non_null(request);
  request->timestamp_ms = trace->count * 10;
  request->input_tokens = tokens;
  memcpy(request->block_ids, ids, count * sizeof *ids);
}

static void only_leading_known_blocks_are_a_prefix(void **state) {
  struct trace trace = {0};
  add(&trace, 1500, 3, (uint64_t[]){1, 2, 3});
  add(&trace, 1536, 3, (uint64_t[]){1, 2, 9});
  add(&trace, 1500, 3, (uint64_t[]){1, 2, 3}); /* whole, and shorter than its blocks */
  add(&trace, 1024, 2, (uint64_t[]){8, 9});    /* 9 is known but does not lead */
  add(&trace, 512, 1, (uint64_t[]){8});
  add(&trace, 513, 2, (uint64_t[]){7, 7}); /* its own blocks do not count */
  struct workload workload = make(&trace, (struct workload_options){.seed = 1, .time_scale = 2});
  const uint64_t prefixes[] = {0, 1024, 1500, 0, 512, 0};
  for (size_t i = 0; i < 6; i++) {
    assert_int_equal(workload.requests[i].prefix_tokens, prefixes[i]);
    assert_int_equal(workload.requests[i].arrival_ns, (i + 1) * 20000000);
    for (size_t j = 0; j < i; j++) assert_int_not_equal(workload.requests[i].room, workload.requests[j].room);
  }
  assert_int_equal(workload.hit_blocks, 6);
  assert_int_equal(workload.full_hits, 2);
  workload_fini(&workload);
  trace_fini(&trace);
}

static void a_cut_prompt_brings_only_the_blocks_it_keeps(void **state) {
  struct trace trace = {0};
  add(&trace, 2048, 4, (uint64_t[]){1, 2, 3, 4});
  add(&trace, 2048, 4, (uint64_t[]){1, 2, 3, 5});
  struct workload workload = make(&trace, (struct workload_options){.seed = 1, .max_tokens = 700});
  assert_int_equal(workload.cut_count, 2);
  assert_int_equal(workload.requests[1].tokens, 700);
  assert_int_equal(workload.requests[1].prefix_tokens, 700);
  assert_int_equal(workload.blocks, 4);
  workload_fini(&workload);
  trace_fini(&trace);
}

/* Quadratic and plain: a prefix block is one that any earlier request had. */
static size_t count_hits_plainly(const struct trace *trace, size_t index) {
  const struct trace_request *request = &trace->requests[index];
  for (size_t block = 0; block < request->block_count; block++) {
    bool known = false;
    for (size_t i = 0; i < index && !known; i++)
      for (size_t j = 0; j < trace->requests[i].block_count && !known; j++)
        known = trace->requests[i].block_ids[j] == request->block_ids[block];
    if (!known) return block;
  }
  return request->block_count;
}

static void prefixes_match_a_plain_count(void **state) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : 11;
  print_message("KVF_SEED=%llu\n", (unsigned long long)seed);
  struct trace trace = {0};
  for (size_t i = 0; i < 200; i++) {
    uint64_t ids[8];
    size_t count = 1 + mix_next(&seed) % 8;
    for (size_t j = 0; j < count; j++) ids[j] = mix_next(&seed) % 40;
    add(&trace, count * 512 - mix_next(&seed) % 512, count, ids);
  }
  struct workload workload = make(&trace, (struct workload_options){.seed = 1});
  for (size_t i = 0; i < trace.count; i++) {
    uint64_t prefix = count_hits_plainly(&trace, i) * 512;
    if (prefix > trace.requests[i].input_tokens) prefix = trace.requests[i].input_tokens;
    assert_int_equal(workload.requests[i].prefix_tokens, prefix);
  }
  workload_fini(&workload);
  trace_fini(&trace);
}

static void posting_starts_at_the_chunk_with_the_first_new_token(void **state) {
  const struct workload_request tail = {.tokens = 2048, .prefix_tokens = 1984}, whole = {.tokens = 2048, .prefix_tokens = 2048};
  assert_int_equal(workload_post_start(&tail, 512), 1536);
  assert_int_equal(workload_post_start(&whole, 512), 2048);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(synthetic_lengths_have_the_quantiles_of_the_conversation),
      cmocka_unit_test(synthetic_prefix_hits_are_near_36_percent),
      cmocka_unit_test(the_same_seed_gives_the_same_workload_and_another_does_not),
      cmocka_unit_test(a_shorter_run_is_the_start_of_a_longer_one),
      cmocka_unit_test(only_leading_known_blocks_are_a_prefix),
      cmocka_unit_test(a_cut_prompt_brings_only_the_blocks_it_keeps),
      cmocka_unit_test(prefixes_match_a_plain_count),
      cmocka_unit_test(posting_starts_at_the_chunk_with_the_first_new_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
