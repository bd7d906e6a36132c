/* The report: how rooms are merged over ranks, the totals, and the whole text and JSON of one small run.
 * KVF_UPDATE_GOLDEN=1 rewrites the golden files in KVF_GOLDEN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <kvferry/status.h>

#include "progress.h"
#include "report.h"

enum { MS = 1000000 };

struct fixture {
  struct settings settings;
  struct workload_request requests[4];
  struct workload workload;
  struct report report;
};

/* Prefill tp 1, decode tp 2, four requests. */
static struct fixture *set_up(bool has_prefill, bool has_decode) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  struct complaint complaint;
  settings_init(&fixture->settings);
  fixture->settings.sides[ROLE_PREFILL].tp = 1;
  fixture->settings.sides[ROLE_DECODE].tp = 2;
  assert_true(settings_resolve(&fixture->settings, &complaint));
  for (size_t i = 0; i < 4; i++)
    fixture->requests[i] = (struct workload_request){.room = 900 + i, .tokens = 1000, .prefix_tokens = i * 100};
  fixture->workload = (struct workload){.requests = fixture->requests, .count = 4, .tokens = 4000, .prefix_tokens = 600};
  assert_true(report_init(&fixture->report, &fixture->settings, &fixture->workload, has_prefill, has_decode));
  return fixture;
}

static void tear_down(struct fixture *fixture) {
  report_fini(&fixture->report);
  free(fixture);
}

static void end_room(struct fixture *fixture, enum role role, uint32_t rank, uint32_t index, kvf_status status, const char *text) {
  const struct record_room room = {.index = index,
                                   .status = status,
                                   .check = role == ROLE_DECODE && status == KVF_OK ? RECORD_RIGHT : RECORD_UNCHECKED,
                                   .pieces = 3,
                                   .retries = index == 2,
                                   .opened_ns = (1000 + 100 * (uint64_t)index) * MS,
                                   .ready_ns = (1020 + 100 * (uint64_t)index) * MS,
                                   .end_ns = (1050 + 100 * (uint64_t)index + 10 * rank) * MS,
                                   .bytes = 1 << 20,
                                   .slices = 300,
                                   .grant_wait_ns = 1 * MS,
                                   .gather_ns = 2 * MS,
                                   .write_ns = 3 * MS,
                                   .scatter_ns = 4 * MS};
  assert_true(report_add_room(&fixture->report, role, rank, &room, text));
}

static void end_everywhere(struct fixture *fixture, uint32_t index) {
  end_room(fixture, ROLE_PREFILL, 0, index, KVF_OK, "");
  end_room(fixture, ROLE_DECODE, 0, index, KVF_OK, "");
  end_room(fixture, ROLE_DECODE, 1, index, KVF_OK, "");
}

static void summarise(struct fixture *fixture, enum role role, uint32_t rank, enum record_check check) {
  const struct record_summary summary = {
      .check = check, .way = 1, .fabric = "shm", .arena_bytes = 64 << 20, .arena_peak_bytes = 5 << 20};
  report_add_summary(&fixture->report, role, rank, &summary, "same host");
}

static void summarise_all(struct fixture *fixture) {
  summarise(fixture, ROLE_PREFILL, 0, RECORD_UNCHECKED);
  summarise(fixture, ROLE_DECODE, 0, RECORD_RIGHT);
  summarise(fixture, ROLE_DECODE, 1, RECORD_RIGHT);
}

static void all_done_everywhere_is_verified(void **state) {
  struct fixture *fixture = set_up(true, true);
  for (uint32_t i = 0; i < 4; i++) end_everywhere(fixture, i);
  assert_int_equal(fixture->report.ended_rooms, 4);
  summarise_all(fixture);
  report_finish(&fixture->report, 0);
  const struct report_totals *totals = &fixture->report.totals;
  assert_int_equal(totals->done, 4);
  assert_true(totals->good && totals->verified);
  assert_int_equal(fixture->report.bytes[ROLE_DECODE], 8 << 20);
  assert_int_equal(fixture->report.pieces[ROLE_PREFILL], 12);
  assert_true(totals->flight_s > 0.2399 && totals->flight_s < 0.2401); /* four rooms of 60 ms, apart */
  assert_true(totals->latency_p50_ms > 39.9 && totals->latency_p50_ms < 40.1);
  tear_down(fixture);
}

static void a_sample_is_not_verified(void **state) {
  struct fixture *fixture = set_up(true, true);
  fixture->settings.verify = VERIFY_SAMPLE;
  for (uint32_t i = 0; i < 4; i++) end_everywhere(fixture, i);
  summarise_all(fixture);
  report_finish(&fixture->report, 0);
  assert_true(fixture->report.totals.good);
  assert_false(fixture->report.totals.verified);
  tear_down(fixture);
}

static void one_rank_that_fails_fails_the_room(void **state) {
  struct fixture *fixture = set_up(true, true);
  end_everywhere(fixture, 0);
  end_everywhere(fixture, 1);
  end_room(fixture, ROLE_PREFILL, 0, 2, KVF_OK, "");
  end_room(fixture, ROLE_DECODE, 0, 2, KVF_PEER_FAILED, "PEER_FAILED: copy");
  end_room(fixture, ROLE_DECODE, 1, 2, KVF_TIMEOUT, "TIMEOUT: origin");
  for (uint32_t i = 0; i < 2; i++) end_room(fixture, ROLE_DECODE, i, 3, KVF_CANCELLED, "CANCELLED");
  end_room(fixture, ROLE_PREFILL, 0, 3, KVF_OK, "");
  summarise_all(fixture);
  report_finish(&fixture->report, 0);
  assert_int_equal(fixture->report.totals.done, 2);
  assert_int_equal(fixture->report.totals.failed, 1);
  assert_int_equal(fixture->report.totals.cancelled, 1);
  assert_false(fixture->report.totals.good);
  assert_int_equal(fixture->report.error_count, 2);
  assert_string_equal(fixture->report.errors[0].text, "TIMEOUT: origin");
  assert_string_equal(fixture->report.errors[0].rank, "decode-1");
  tear_down(fixture);
}

static void a_room_that_never_ended_has_failed(void **state) {
  struct fixture *fixture = set_up(true, true);
  for (uint32_t i = 0; i < 3; i++) end_everywhere(fixture, i);
  end_room(fixture, ROLE_PREFILL, 0, 3, KVF_OK, "");
  report_add_failure(&fixture->report, "decode-1", "killed by signal 9");
  report_finish(&fixture->report, 0);
  assert_int_equal(fixture->report.totals.done, 3);
  assert_int_equal(fixture->report.totals.failed, 1);
  assert_false(fixture->report.totals.good);
  tear_down(fixture);
}

static void wrong_bytes_fail_a_room_that_ended_well(void **state) {
  struct fixture *fixture = set_up(true, true);
  const struct record_room wrong = {.index = 3, .status = KVF_OK, .check = RECORD_WRONG, .opened_ns = 1, .end_ns = 2};
  for (uint32_t i = 0; i < 3; i++) end_everywhere(fixture, i);
  end_room(fixture, ROLE_PREFILL, 0, 3, KVF_OK, "");
  end_room(fixture, ROLE_DECODE, 0, 3, KVF_OK, "");
  assert_true(report_add_room(&fixture->report, ROLE_DECODE, 1, &wrong, "wrong data: layer 1"));
  summarise_all(fixture);
  report_finish(&fixture->report, 0);
  assert_int_equal(fixture->report.totals.failed, 1);
  assert_false(fixture->report.totals.good || fixture->report.totals.verified);
  assert_string_equal(fixture->report.errors[0].text, "wrong data: layer 1");
  tear_down(fixture);
}

static void a_stained_pool_fails_the_run(void **state) {
  struct fixture *fixture = set_up(true, true);
  for (uint32_t i = 0; i < 4; i++) end_everywhere(fixture, i);
  summarise(fixture, ROLE_PREFILL, 0, RECORD_UNCHECKED);
  summarise(fixture, ROLE_DECODE, 0, RECORD_RIGHT);
  summarise(fixture, ROLE_DECODE, 1, RECORD_WRONG);
  report_finish(&fixture->report, 0);
  assert_int_equal(fixture->report.totals.done, 4);
  assert_false(fixture->report.totals.good);
  tear_down(fixture);
}

static void one_side_alone_is_complete_with_its_own_ranks(void **state) {
  struct fixture *fixture = set_up(true, false);
  for (uint32_t i = 0; i < 4; i++) end_room(fixture, ROLE_PREFILL, 0, i, KVF_OK, "");
  summarise(fixture, ROLE_PREFILL, 0, RECORD_UNCHECKED);
  report_finish(&fixture->report, 0);
  assert_true(fixture->report.totals.good);
  assert_false(fixture->report.totals.verified);
  assert_true(fixture->report.totals.latency_p99_ms > 29.9 && fixture->report.totals.latency_p99_ms < 30.1);
  tear_down(fixture);
}

static void a_request_that_does_not_exist_is_refused(void **state) {
  struct fixture *fixture = set_up(true, true);
  const struct record_room room = {.index = 4};
  assert_false(report_add_room(&fixture->report, ROLE_DECODE, 0, &room, ""));
  tear_down(fixture);
}

static void errors_are_bounded_and_counted(void **state) {
  struct fixture *fixture = set_up(true, true);
  for (int i = 0; i < 3 * REPORT_ERROR_LIMIT; i++) report_add_failure(&fixture->report, "decode-0", "x");
  assert_int_equal(fixture->report.error_count, REPORT_ERROR_LIMIT);
  assert_int_equal(fixture->report.error_total, 3 * REPORT_ERROR_LIMIT);
  tear_down(fixture);
}

/* A run with a retry and a failure, for the golden files. */
static struct fixture *make_golden(void) {
  struct fixture *fixture = set_up(true, true);
  for (uint32_t i = 0; i < 3; i++) end_everywhere(fixture, i);
  end_room(fixture, ROLE_PREFILL, 0, 3, KVF_PEER_FAILED, "PEER_FAILED: decode-1 gave up");
  end_room(fixture, ROLE_DECODE, 0, 3, KVF_PEER_FAILED, "PEER_FAILED: decode-1 gave up");
  end_room(fixture, ROLE_DECODE, 1, 3, KVF_TIMEOUT, "TIMEOUT: no byte for 30 s  room=903\n  caused by SYSTEM: poll");
  summarise_all(fixture);
  report_finish(&fixture->report, 1e9);
  return fixture;
}

static void compare_with_golden(const char *name, const char *text) {
  char path[512], golden[16384];
  const char *folder = getenv("KVF_GOLDEN");
  assert_non_null(folder);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (getenv("KVF_UPDATE_GOLDEN")) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
  }
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s is missing; KVF_UPDATE_GOLDEN=1 writes it", path);
  golden[fread(golden, 1, sizeof golden - 1, file)] = 0;
  fclose(file);
  assert_string_equal(text, golden);
}

static void the_table_is_the_golden_one(void **state) {
  struct fixture *fixture = make_golden();
  char *text = NULL;
  size_t length;
  FILE *file = tmpfile();
  report_print(&fixture->report, file);
  length = (size_t)ftell(file);
  rewind(file);
  text = calloc(1, length + 1);
  assert_int_equal(fread(text, 1, length, file), length);
  fclose(file);
  compare_with_golden("report.txt", text);
  free(text);
  tear_down(fixture);
}

static void the_json_is_the_golden_one(void **state) {
  struct fixture *fixture = make_golden();
  json_t *root = report_encode(&fixture->report);
  assert_non_null(root);
  char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
  compare_with_golden("report.json", text);
  free(text);
  json_decref(root);
  tear_down(fixture);
}

static void bytes_that_are_no_text_do_not_reach_the_terminal_or_the_json(void **state) {
  struct fixture *fixture = set_up(true, true);
  char *text = NULL;
  size_t length = 0;
  report_add_failure(&fixture->report, "decode-0", "a\xff\033[2Jb");
  report_finish(&fixture->report, 0);
  json_t *root = report_encode(&fixture->report);
  const json_t *error = json_array_get(json_object_get(root, "errors"), 0);
  assert_string_equal(json_string_value(json_object_get(error, "text")), "a?\033[2Jb");
  json_decref(root);
  FILE *file = open_memstream(&text, &length);
  report_print(&fixture->report, file);
  fclose(file);
  assert_non_null(strstr(text, "a\xff?[2Jb"));
  free(text);
  tear_down(fixture);
}

static void the_progress_line_says_how_far(void **state) {
  char text[256];
  progress_render(25, 100, 3ull << 30, 2.0, text, sizeof text);
  assert_string_equal(text, "[######..................] 25/100 rooms  3.00 GiB  1.50 GiB/s  6.0 s left");
  progress_render(0, 100, 0, 0, text, sizeof text);
  assert_string_equal(text, "[........................] 0/100 rooms  0 B  0 B/s  ? left");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_done_everywhere_is_verified),
      cmocka_unit_test(a_sample_is_not_verified),
      cmocka_unit_test(one_rank_that_fails_fails_the_room),
      cmocka_unit_test(a_room_that_never_ended_has_failed),
      cmocka_unit_test(wrong_bytes_fail_a_room_that_ended_well),
      cmocka_unit_test(a_stained_pool_fails_the_run),
      cmocka_unit_test(one_side_alone_is_complete_with_its_own_ranks),
      cmocka_unit_test(a_request_that_does_not_exist_is_refused),
      cmocka_unit_test(errors_are_bounded_and_counted),
      cmocka_unit_test(the_table_is_the_golden_one),
      cmocka_unit_test(the_json_is_the_golden_one),
      cmocka_unit_test(bytes_that_are_no_text_do_not_reach_the_terminal_or_the_json),
      cmocka_unit_test(the_progress_line_says_how_far),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
