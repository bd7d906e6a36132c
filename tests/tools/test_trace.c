/* Traces: what the loader refuses, by line and field, and that a good one comes out as written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trace.h"

static bool read_text(const char *text, size_t limit, struct trace *trace, struct complaint *complaint) {
  FILE *file = fmemopen((void *)text, strlen(text), "r");
  assert_non_null(file);
  bool good = trace_read(file, "t.jsonl", limit, trace, complaint);
  fclose(file);
  return good;
}

static void a_good_trace_comes_out_as_written(void **state) {
  struct trace trace;
  struct complaint complaint;
  assert_true(
      read_text("{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 7, \"hash_ids\": [4, 9]}\n\n"
                "{\"timestamp\": 3000, \"input_length\": 512, \"output_length\": 0, \"hash_ids\": [4]}",
                100, &trace, &complaint));
  assert_int_equal(trace.count, 2);
  assert_int_equal(trace.requests[0].input_tokens, 513);
  assert_int_equal(trace.requests[0].output_tokens, 7);
  assert_int_equal(trace.requests[0].block_count, 2);
  assert_int_equal(trace.requests[0].block_ids[1], 9);
  assert_int_equal(trace.requests[1].timestamp_ms, 3000);
  trace_fini(&trace);
}

static void the_limit_stops_the_reading(void **state) {
  struct trace trace;
  struct complaint complaint;
  assert_true(
      read_text("{\"timestamp\":0,\"input_length\":1,\"output_length\":0,\"hash_ids\":[4]}\nrubbish\n", 1, &trace, &complaint));
  assert_int_equal(trace.count, 1);
  trace_fini(&trace);
}

static void bad_lines_are_refused_by_line_and_field(void **state) {
  static const struct {
    const char *line, *named;
  } rows[] = {
      {"{\"input_length\":1,\"output_length\":0,\"hash_ids\":[4]}", "timestamp is missing"},
      {"{\"timestamp\":5,\"output_length\":0,\"hash_ids\":[4]}", "input_length is missing"},
      {"{\"timestamp\":5,\"input_length\":1,\"hash_ids\":[4]}", "output_length is missing"},
      {"{\"timestamp\":5,\"input_length\":1,\"output_length\":0}", "hash_ids is missing"},
      {"{\"timestamp\":5,\"input_length\":1,\"output_length\":0,\"hash_ids\":4}", "hash_ids is not a list"},
      {"{\"timestamp\":5,\"input_length\":1,\"output_length\":0,\"hash_ids\":[]}", "hash_ids does not have"},
      {"{\"timestamp\":5,\"input_length\":512,\"output_length\":0,\"hash_ids\":[1,2]}", "hash_ids does not have"},
      {"{\"timestamp\":5,\"input_length\":1,\"output_length\":0,\"hash_ids\":[\"a\"]}", "hash_ids holds"},
      {"{\"timestamp\":5,\"input_length\":1,\"output_length\":0,\"hash_ids\":[-1]}", "hash_ids holds"},
      {"{\"timestamp\":-5,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1]}", "timestamp is too small"},
      {"{\"timestamp\":2,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1]}", "timestamp is before"},
      {"{\"timestamp\":5.5,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1]}", "timestamp is not a whole"},
      {"{\"timestamp\":5,\"input_length\":0,\"output_length\":0,\"hash_ids\":[]}", "input_length is too small"},
      {"{\"timestamp\":5,\"input_length\":9223372036854775807,\"output_length\":0,\"hash_ids\":[1]}", "input_length is too large"},
      {"[1]", "not a JSON object"},
      {"{\"timestamp\":5,", "not JSON"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[512];
    struct trace trace;
    struct complaint complaint;
    snprintf(text, sizeof text, "{\"timestamp\":3,\"input_length\":1,\"output_length\":0,\"hash_ids\":[4]}\n%s\n", rows[i].line);
    assert_false(read_text(text, 100, &trace, &complaint));
    assert_non_null(strstr(complaint.text, "t.jsonl: line 2"));
    if (!strstr(complaint.text, rows[i].named))
      fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].line, complaint.text, rows[i].named);
  }
}

static void a_file_without_requests_is_refused(void **state) {
  struct trace trace;
  struct complaint complaint;
  assert_false(read_text("\n \n", 100, &trace, &complaint));
  assert_false(trace_load("/nonexistent/trace", 1, &trace, &complaint));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_good_trace_comes_out_as_written),
      cmocka_unit_test(the_limit_stops_the_reading),
      cmocka_unit_test(bad_lines_are_refused_by_line_and_field),
      cmocka_unit_test(a_file_without_requests_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
