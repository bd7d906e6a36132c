/* Error chains and the status table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

static void chain_prints_one_line_per_link(void **state) {
  kvf_error *inner = base_error_add(BASE_ERROR(KVF_FABRIC, NULL, "put: Endpoint timeout"), "ucs_status", "%d", -80);
  kvf_error *outer = base_error_add(BASE_ERROR(KVF_STAGED_WRITE_FAILED, inner, "piece %d of %d not delivered", 7, 31), "room", "%d", 8123);
  char text[512];
  size_t need = kvf_error_format(outer, text, sizeof text);
  assert_string_equal(text,
                      "STAGED_WRITE_FAILED: piece 7 of 31 not delivered  [room=8123]\n"
                      "  caused by FABRIC: put: Endpoint timeout  [ucs_status=-80]");
  assert_int_equal(need, strlen(text));
  char small[10];
  assert_int_equal(kvf_error_format(outer, small, sizeof small), need);
  assert_string_equal(small, "STAGED_WR");
  assert_string_equal(kvf_error_find(outer, "ucs_status"), "-80");
  assert_null(kvf_error_find(outer, "nothing"));
  kvf_error *copy = base_error_copy(outer);
  char again[512];
  kvf_error_format(copy, again, sizeof again);
  assert_string_equal(again, text);
  kvf_error_free(copy);
  kvf_error_free(outer);
}

static void every_failing_allocation_still_gives_an_error(void **state) {
  for (uint64_t n = 1;; n++) {
    base_alloc_fail_after(n);
    kvf_error *error = base_error_add(BASE_ERROR(KVF_INVALID, BASE_ERROR(KVF_SYSTEM, NULL, "inner"), "outer"), "a", "%d", 1);
    base_alloc_fail_after(0);
    kvf_status status = kvf_error_status(error);
    bool whole = status == KVF_INVALID && kvf_error_field_count(error) == 1 && kvf_error_status(kvf_error_cause(error)) == KVF_SYSTEM;
    assert_true(status == KVF_INVALID || status == KVF_NO_MEMORY);
    kvf_error_free(error);
    if (whole) break;
    assert_true(n < 50);
  }
}

static void every_status_has_all_texts(void **state) {
  kvf_status_text text;
  int count = 0;
  for (; kvf_status_query(count, &text) == KVF_OK; count++) {
    kvf_status found = -1;
    assert_int_equal(kvf_status_find(text.name, &found), KVF_OK);
    assert_int_equal(found, count);
    assert_true(*text.meaning && *text.when && *text.check && *text.remedy);
    assert_string_equal(kvf_status_name(count), text.name);
  }
  assert_int_equal(count, KVF_UNKNOWN_ROOM + 1);
  kvf_status found = -1;
  assert_int_equal(kvf_status_find("kvf_key_revoked", &found), KVF_OK);
  assert_int_equal(found, KVF_KEY_REVOKED);
  assert_int_equal(kvf_status_find("no such", &found), KVF_INVALID);
  assert_string_equal(kvf_status_name(KVF_STALE), "STALE");
  assert_string_equal(kvf_status_name(KVF_OVERLAP), "OVERLAP");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chain_prints_one_line_per_link),
      cmocka_unit_test(every_failing_allocation_still_gives_an_error),
      cmocka_unit_test(every_status_has_all_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
