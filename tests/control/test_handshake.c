/* What two HELLOs must agree on, and the proof of the secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/handshake.h"

static struct wire_hello make_hello(uint8_t identity) {
  struct wire_hello hello = {.version_min = 1, .version_max = 1};
  memset(hello.incarnation, identity, sizeof hello.incarnation);
  memset(hello.nonce, identity + 100, sizeof hello.nonce);
  return hello;
}

static void assert_refused(const struct wire_hello *mine, const struct wire_hello *yours, kvf_status status) {
  kvf_error *error = control_handshake_check(mine, yours);
  assert_int_equal(kvf_error_status(error), status);
  kvf_error_free(error);
}

static void versions_must_overlap_and_both_ranges_are_named(void **state) {
  struct wire_hello mine = make_hello(1), yours = make_hello(2);
  mine.version_min = 2, mine.version_max = 4;
  yours.version_min = 4, yours.version_max = 9;
  assert_null(control_handshake_check(&mine, &yours));
  yours.version_min = 5;
  kvf_error *error = control_handshake_check(&mine, &yours);
  assert_int_equal(kvf_error_status(error), KVF_INCOMPATIBLE);
  assert_string_equal(kvf_error_find(error, "version_mine"), "2-4");
  assert_string_equal(kvf_error_find(error, "version_yours"), "5-9");
  kvf_error_free(error);
  yours.version_min = 4, yours.version_max = 2; /* no range at all */
  assert_refused(&mine, &yours, KVF_INCOMPATIBLE);
}

static void identities_are_incarnations(void **state) {
  struct wire_hello mine = make_hello(1), yours = make_hello(1);
  assert_refused(&mine, &yours, KVF_INVALID);
  yours = make_hello(2);
  memset(yours.expected, 3, sizeof yours.expected);
  assert_refused(&mine, &yours, KVF_WRONG_PEER);
  memset(yours.expected, 1, sizeof yours.expected);
  assert_null(control_handshake_check(&mine, &yours));
  mine.label = yours.label = (struct wire_text){"same", 4};
  assert_null(control_handshake_check(&mine, &yours));
}

static void both_or_neither_have_a_secret(void **state) {
  struct wire_hello mine = make_hello(1), yours = make_hello(2);
  mine.has_secret = 1;
  assert_refused(&mine, &yours, KVF_AUTH_FAILED);
  assert_refused(&yours, &mine, KVF_AUTH_FAILED);
  yours.has_secret = 77; /* any non-zero is yes */
  assert_null(control_handshake_check(&mine, &yours));
}

/* Computed once with another implementation of HMAC-SHA256 (Python's hmac): key "secret",
 * "kvferry" "D" 32*0x65 32*0x66 16*0x01 16*0x02. */
static void the_proof_is_pinned(void **state) {
  static const uint8_t expected[WIRE_MAC_BYTES] = {0x0f, 0x89, 0xd2, 0xdd, 0xb5, 0x8e, 0x58, 0xd4, 0xe8, 0x85, 0xaf,
                                                   0x61, 0x33, 0xee, 0x91, 0x33, 0x0c, 0x7b, 0xc6, 0x16, 0xb2, 0xc7,
                                                   0x75, 0xdd, 0x64, 0x97, 0xa9, 0xe0, 0x6f, 0xe1, 0xb2, 0x5a};
  struct wire_hello dialer = make_hello(1), acceptor = make_hello(2);
  uint8_t mac[WIRE_MAC_BYTES];
  assert_true(control_handshake_prove("secret", true, &dialer, &acceptor, mac));
  assert_memory_equal(mac, expected, sizeof mac);
}

static void the_proof_depends_on_everything(void **state) {
  struct wire_hello dialer = make_hello(1), acceptor = make_hello(2), changed;
  uint8_t mac[WIRE_MAC_BYTES], other[WIRE_MAC_BYTES];
  assert_true(control_handshake_prove("secret", true, &dialer, &acceptor, mac));
  assert_true(control_handshake_equal(mac, mac));
  assert_true(control_handshake_prove("secret", false, &dialer, &acceptor, other));
  assert_false(control_handshake_equal(mac, other));
  assert_true(control_handshake_prove("secreT", true, &dialer, &acceptor, other));
  assert_false(control_handshake_equal(mac, other));
  for (int i = 0; i < 4; i++) {
    struct wire_hello *side = i % 2 ? &acceptor : &dialer;
    changed = *side;
    uint8_t *byte = i < 2 ? &side->nonce[31] : &side->incarnation[15];
    *byte ^= 1;
    assert_true(control_handshake_prove("secret", true, &dialer, &acceptor, other));
    assert_false(control_handshake_equal(mac, other));
    *side = changed;
  }
}

static void a_label_is_made_printable(void **state) {
  char text[8];
  control_handshake_clean((struct wire_text){"a\n\x1b[\0z", 6}, text, sizeof text);
  assert_string_equal(text, "a??[?z");
  control_handshake_clean((struct wire_text){"0123456789", 10}, text, sizeof text);
  assert_string_equal(text, "0123456");
  control_handshake_clean((struct wire_text){NULL, 0}, text, sizeof text);
  assert_string_equal(text, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(versions_must_overlap_and_both_ranges_are_named),
      cmocka_unit_test(identities_are_incarnations),
      cmocka_unit_test(both_or_neither_have_a_secret),
      cmocka_unit_test(the_proof_is_pinned),
      cmocka_unit_test(the_proof_depends_on_everything),
      cmocka_unit_test(a_label_is_made_printable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
