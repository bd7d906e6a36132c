/* The table of host:port texts (field case C108). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/address.h"

static void good_addresses_parse_and_print_back(void **state) {
  static const struct {
    const char *text, *host;
    uint16_t port;
  } rows[] = {
      {"1.2.3.4:80", "1.2.3.4", 80},
      {"[::1]:80", "::1", 80},
      {"host:80", "host", 80},
      {"[fe80::1%eth0]:7000", "fe80::1%eth0", 7000},
      {"[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1", 1},
      {"decode-3.pods_a.example:65535", "decode-3.pods_a.example", 65535},
      {"v6-only.example:443", "v6-only.example", 443},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct control_host_port address;
    kvf_error *error = NULL;
    assert_int_equal(control_address_parse(rows[i].text, false, &address, &error), KVF_OK);
    assert_null(error);
    assert_string_equal(address.host, rows[i].host);
    assert_int_equal(address.port, rows[i].port);
    char text[300];
    assert_int_equal(control_address_format(&address, text, sizeof text), strlen(rows[i].text));
    assert_string_equal(text, rows[i].text);
  }
}

static void bad_addresses_are_refused_with_the_reason(void **state) {
  static const struct {
    const char *text, *reason;
  } rows[] = {
      {"", "empty"},
      {"[::1]", "port is missing"},
      {"[::1]:", "port is missing"},
      {"::1", "needs brackets"},
      {"::1:80", "needs brackets"},
      {"fe80::1%eth0", "needs brackets"},
      {"host", "port is missing"},
      {"host:", "port is missing"},
      {":80", "host is missing"},
      {"[]:80", "host is missing"},
      {"a:b:c", "needs brackets"},
      {"host:0", "names no port"},
      {"host:65536", "above 65535"},
      {"host:99999999999999999999", "above 65535"},
      {"host:-1", "not a number"},
      {"host:+80", "not a number"},
      {"host: 80", "not a number"},
      {"host:80 ", "not a number"},
      {"host:http", "not a number"},
      {"host:0080", "leading zeros"},
      {"[::1]80", "after the closing bracket"},
      {"[::1:80", "closing bracket is missing"},
      {"[1.2.3.4]:80", "no IPv6"},
      {"[host]:80", "no IPv6"},
      {"[fe80::1%]:80", "zone"},
      {"[fe80::1%a/b]:80", "zone"},
      {"[fe80::1%interface-too-long]:80", "zone"},
      {"1.2.3:80", "no IPv4"},
      {"010.0.0.1:80", "no IPv4"},
      {"256.0.0.1:80", "no IPv4"},
      {"ho st:80", "no name has"},
      {"tcp//host:80", "no name has"},
      {"user@host:80", "no name has"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct control_host_port address;
    kvf_error *error = NULL;
    assert_int_equal(control_address_parse(rows[i].text, false, &address, &error), KVF_BAD_ADDRESS);
    if (!strstr(kvf_error_message(error), rows[i].reason)) fail_msg("%s: %s", rows[i].text, kvf_error_message(error));
    assert_string_equal(kvf_error_find(error, "address"), rows[i].text);
    kvf_error_free(error);
  }
  assert_int_equal(control_address_parse(NULL, false, &(struct control_host_port){0}, NULL), KVF_BAD_ADDRESS);
}

static void the_longest_host_fits_and_one_more_does_not(void **state) {
  char text[300];
  struct control_host_port address;
  memset(text, 'h', CONTROL_HOST_LIMIT_BYTES);
  strcpy(text + CONTROL_HOST_LIMIT_BYTES, ":1");
  assert_int_equal(control_address_parse(text, false, &address, NULL), KVF_OK);
  assert_int_equal(strlen(address.host), CONTROL_HOST_LIMIT_BYTES);
  strcpy(text + CONTROL_HOST_LIMIT_BYTES, "h:1");
  assert_int_equal(control_address_parse(text, false, &address, NULL), KVF_BAD_ADDRESS);
}

static void port_zero_is_for_listening_only(void **state) {
  struct control_host_port address;
  assert_int_equal(control_address_parse("[::]:0", true, &address, NULL), KVF_OK);
  assert_int_equal(address.port, 0);
  assert_int_equal(control_address_parse("[::]:0", false, &address, NULL), KVF_BAD_ADDRESS);
}

static void format_into_too_little_room_says_what_is_needed(void **state) {
  struct control_host_port address = {.host = "::1", .port = 7000};
  char text[6];
  assert_int_equal(control_address_format(&address, text, sizeof text), 10);
  assert_string_equal(text, "[::1]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_addresses_parse_and_print_back),
      cmocka_unit_test(bad_addresses_are_refused_with_the_reason),
      cmocka_unit_test(the_longest_host_fits_and_one_more_does_not),
      cmocka_unit_test(port_zero_is_for_listening_only),
      cmocka_unit_test(format_into_too_little_room_says_what_is_needed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
