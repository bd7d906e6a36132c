/* The public traces, where KVF_TRACES names a folder that has them: what is known of them must be found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "workload.h"

struct known {
  const char *file;
  size_t count;
  uint64_t last_ms, p10, p50, p90, p99, most;
  double mean;
  double hit_share;
  uint64_t full_hits;
};

static const char *folder;

static int compare_lengths(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static void check_lengths(const struct trace *trace, const struct known *known) {
  uint64_t *lengths = calloc(trace->count, sizeof *lengths);
  double sum = 0;
  for (size_t i = 0; i < trace->count; i++) {
    lengths[i] = trace->requests[i].input_tokens;
    sum += (double)lengths[i];
  }
  qsort(lengths, trace->count, sizeof *lengths, compare_lengths);
  assert_int_equal(lengths[trace->count / 10], known->p10);
  assert_int_equal(lengths[trace->count / 2], known->p50);
  assert_int_equal(lengths[trace->count * 9 / 10], known->p90);
  assert_int_equal(lengths[trace->count * 99 / 100], known->p99);
  assert_int_equal(lengths[trace->count - 1], known->most);
  assert_true(sum / (double)trace->count - known->mean < 1 && known->mean - sum / (double)trace->count < 1);
  free(lengths);
}

static void check_trace(const struct known *known) {
  char path[512];
  struct trace trace;
  struct workload workload;
  struct complaint complaint;
  const struct workload_options options = {.seed = 1, .time_scale = 1};
  snprintf(path, sizeof path, "%s/%s", folder, known->file);
  if (!trace_load(path, SIZE_MAX, &trace, &complaint)) fail_msg("%s", complaint.text);
  assert_int_equal(trace.count, known->count);
  assert_int_equal(trace.requests[0].timestamp_ms, 0);
  assert_int_equal(trace.requests[trace.count - 1].timestamp_ms, known->last_ms);
  check_lengths(&trace, known);
  assert_true(workload_create(&trace, &options, &workload, &complaint));
  double share = (double)workload.hit_blocks / (double)workload.blocks;
  assert_true(share > known->hit_share - 0.0005 && share < known->hit_share + 0.0005);
  assert_int_equal(workload.full_hits, known->full_hits);
  workload_fini(&workload);
  trace_fini(&trace);
}

static void the_conversation_trace_is_as_published(void **state) {
  check_trace(&(struct known){"mooncake-conversation.jsonl", 12031, 3536999, 964, 6909, 27367, 85401, 126195, 12035, 0.366, 118});
}

static void the_synthetic_trace_is_as_published(void **state) {
  check_trace(&(struct known){"mooncake-synthetic.jsonl", 3993, 1022025, 30, 11587, 38615, 66458, 191378, 15325, 0.640, 213});
}

static void the_conversation_comes_in_bursts(void **state) {
  char path[512];
  struct trace trace;
  struct complaint complaint;
  size_t distinct = 0, burst = 0, most = 0;
  snprintf(path, sizeof path, "%s/mooncake-conversation.jsonl", folder);
  assert_true(trace_load(path, SIZE_MAX, &trace, &complaint));
  for (size_t i = 0; i < trace.count; i++) {
    bool fresh = i == 0 || trace.requests[i].timestamp_ms != trace.requests[i - 1].timestamp_ms;
    distinct += fresh;
    burst = fresh ? 1 : burst + 1;
    if (burst > most) most = burst;
  }
  assert_int_equal(distinct, 1180);
  assert_int_equal(most, 28);
  trace_fini(&trace);
}

int main(void) {
  enum { SKIPPED = 77 };
  char path[512];
  folder = getenv("KVF_TRACES");
  snprintf(path, sizeof path, "%s/mooncake-conversation.jsonl", folder ? folder : "");
  if (!folder || access(path, R_OK)) return SKIPPED;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_conversation_trace_is_as_published),
      cmocka_unit_test(the_synthetic_trace_is_as_published),
      cmocka_unit_test(the_conversation_comes_in_bursts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
