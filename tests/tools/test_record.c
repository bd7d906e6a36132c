/* Records over a pipe: whole, in order, in any portions; nonsense is told apart from not yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "record.h"

static void records_come_out_as_they_went_in(void **state) {
  int fds[2];
  struct record_reader reader = {0};
  static struct record record;
  const struct record_room room = {.index = 7, .status = 6, .bytes = 1ull << 40};
  const struct record_summary summary = {.fabric = "tcp", .way = 2};
  assert_int_equal(pipe(fds), 0);
  assert_true(record_write(fds[1], RECORD_LISTENING, NULL, "127.0.0.1:9"));
  assert_true(record_write(fds[1], RECORD_ROOM, &room, "TIMEOUT: x\n  caused by y"));
  assert_true(record_write(fds[1], RECORD_SUMMARY, &summary, "why"));
  assert_true(record_write(fds[1], RECORD_READY, NULL, NULL));
  close(fds[1]);
  while (record_read(&reader, fds[0]) > 0) {
  }
  assert_int_equal(record_next(&reader, &record), 1);
  assert_int_equal(record.type, RECORD_LISTENING);
  assert_string_equal(record.text, "127.0.0.1:9");
  assert_int_equal(record_next(&reader, &record), 1);
  assert_memory_equal(&record.room, &room, sizeof room);
  assert_string_equal(record.text, "TIMEOUT: x\n  caused by y");
  assert_int_equal(record_next(&reader, &record), 1);
  assert_string_equal(record.summary.fabric, "tcp");
  assert_string_equal(record.text, "why");
  assert_int_equal(record_next(&reader, &record), 1);
  assert_int_equal(record.type, RECORD_READY);
  assert_string_equal(record.text, "");
  assert_int_equal(record_next(&reader, &record), 0);
  close(fds[0]);
  record_reader_fini(&reader);
}

static void a_record_in_portions_waits_for_its_end(void **state) {
  int whole[2], portions[2];
  uint8_t frame[512];
  struct record_reader reader = {0};
  static struct record record;
  const struct record_room room = {.index = 3, .slices = 12};
  assert_int_equal(pipe(whole), 0);
  assert_int_equal(pipe(portions), 0);
  assert_true(record_write(whole[1], RECORD_ROOM, &room, "abc"));
  ssize_t length = read(whole[0], frame, sizeof frame);
  for (ssize_t i = 0; i < length; i++) {
    assert_int_equal(record_next(&reader, &record), 0);
    assert_int_equal(write(portions[1], frame + i, 1), 1);
    assert_int_equal(record_read(&reader, portions[0]), 1);
  }
  assert_int_equal(record_next(&reader, &record), 1);
  assert_int_equal(record.room.slices, 12);
  for (int i = 0; i < 2; i++) {
    close(whole[i]);
    close(portions[i]);
  }
  record_reader_fini(&reader);
}

static void nonsense_and_the_end_are_told(void **state) {
  int fds[2];
  struct record_reader reader = {0};
  static struct record record;
  const uint32_t nonsense[2] = {77, 1 << 30};
  assert_int_equal(pipe(fds), 0);
  assert_int_equal(write(fds[1], nonsense, sizeof nonsense), sizeof nonsense);
  assert_int_equal(record_read(&reader, fds[0]), 1);
  assert_int_equal(record_next(&reader, &record), -1);
  close(fds[1]);
  assert_int_equal(record_read(&reader, fds[0]), -1);
  close(fds[0]);
  record_reader_fini(&reader);
}

static void text_beyond_the_limit_is_cut(void **state) {
  int fds[2];
  struct record_reader reader = {0};
  static struct record record;
  static char text[RECORD_TEXT_LIMIT * 2];
  memset(text, 'x', sizeof text - 1);
  assert_int_equal(pipe(fds), 0);
  assert_true(record_write(fds[1], RECORD_FAILURE, NULL, text));
  assert_int_equal(record_read(&reader, fds[0]), 1);
  assert_int_equal(record_next(&reader, &record), 1);
  assert_int_equal(strlen(record.text), RECORD_TEXT_LIMIT);
  close(fds[0]);
  close(fds[1]);
  record_reader_fini(&reader);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_come_out_as_they_went_in),
      cmocka_unit_test(a_record_in_portions_waits_for_its_end),
      cmocka_unit_test(nonsense_and_the_end_are_told),
      cmocka_unit_test(text_beyond_the_limit_is_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
