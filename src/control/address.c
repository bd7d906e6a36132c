/* Reading and writing host:port. Strict on purpose: whatever could be read in two ways is refused with the reason, so that an
 * address means the same on every rank. Pure: nothing is resolved here. */
#include "control/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { PORT_DIGITS_LIMIT = 5, ZONE_LIMIT_BYTES = 15, QUOTE_LIMIT_BYTES = 300 };

static kvf_status refuse(const char *text, const char *reason, kvf_error **error_out) {
  kvf_error *error = BASE_ERROR(KVF_BAD_ADDRESS, NULL, "not an address: %s", reason);
  return base_error_give(base_error_add(error, "address", "%.*s", QUOTE_LIMIT_BYTES, text ? text : ""), error_out);
}

static bool is_name_byte(char byte) {
  return isalnum((unsigned char)byte) || byte == '-' || byte == '.' || byte == '_';
}

/* NULL, or what is wrong with it. */
static const char *check_ipv6(const char *host) {
  char numeric[INET6_ADDRSTRLEN];
  const char *zone = strchr(host, '%');
  size_t length = zone ? (size_t)(zone - host) : strlen(host);
  if (length >= sizeof numeric) return "the brackets hold no IPv6 address";
  memcpy(numeric, host, length);
  numeric[length] = '\0';
  struct in6_addr parsed;
  if (inet_pton(AF_INET6, numeric, &parsed) != 1) return "the brackets hold no IPv6 address";
  if (!zone) return NULL;
  size_t zone_bytes = strlen(++zone);
  if (zone_bytes == 0 || zone_bytes > ZONE_LIMIT_BYTES) return "the zone after '%' is empty or too long";
  for (; *zone; zone++) {
    if (!is_name_byte(*zone)) return "the zone after '%' holds a character that no interface has";
  }
  return NULL;
}

/* Resolvers read "10.1" as 10.0.0.1 and "010.0.0.1" as octal: a host of digits and dots must be four plain numbers. */
static const char *check_name(const char *host) {
  bool numeric = true;
  for (const char *at = host; *at; at++) {
    if (!is_name_byte(*at)) return "the host holds a character that no name has";
    numeric = numeric && (isdigit((unsigned char)*at) || *at == '.');
  }
  struct in_addr parsed;
  if (numeric && inet_pton(AF_INET, host, &parsed) != 1) return "the host is made of digits but is no IPv4 address";
  return NULL;
}

static const char *parse_port(const char *text, bool allow_zero, uint16_t *port_out) {
  size_t length = strlen(text);
  if (length == 0) return "the port is missing";
  uint32_t port = 0;
  for (const char *at = text; *at; at++) {
    if (!isdigit((unsigned char)*at)) return "the port is not a number";
    if (at - text < PORT_DIGITS_LIMIT) port = port * 10 + (uint32_t)(*at - '0');
  }
  if (length > PORT_DIGITS_LIMIT || port > UINT16_MAX) return "the port is above 65535";
  if (length > 1 && text[0] == '0') return "the port has leading zeros";
  if (port == 0 && !allow_zero) return "port 0 names no port";
  *port_out = (uint16_t)port;
  return NULL;
}

/* Find where the host lies and where the port begins. */
static const char *split(const char *text, const char **host_out, size_t *host_bytes_out, const char **port_out) {
  if (text[0] == '[') {
    const char *bracket = strchr(text, ']');
    if (!bracket) return "the closing bracket is missing";
    if (bracket[1] == '\0') return "the port is missing";
    if (bracket[1] != ':') return "after the closing bracket comes ':' and the port";
    *host_out = text + 1;
    *host_bytes_out = (size_t)(bracket - text - 1);
    *port_out = bracket + 2;
    return NULL;
  }
  const char *colon = strchr(text, ':');
  if (!colon) return "the port is missing";
  if (strchr(colon + 1, ':')) return "more than one ':'; an IPv6 address needs brackets, [::1]:7000";
  *host_out = text;
  *host_bytes_out = (size_t)(colon - text);
  *port_out = colon + 1;
  return NULL;
}

kvf_status control_address_parse(const char *text, bool allow_zero, struct control_host_port *out, kvf_error **error_out) {
  const char *host, *port;
  size_t host_bytes;
  if (!text || !*text) return refuse(text, "it is empty", error_out);
  const char *reason = split(text, &host, &host_bytes, &port);
  if (reason) return refuse(text, reason, error_out);
  if (host_bytes == 0) return refuse(text, "the host is missing", error_out);
  if (host_bytes > CONTROL_HOST_LIMIT_BYTES) return refuse(text, "the host is longer than 255 bytes", error_out);
  struct control_host_port parsed = {.port = 0};
  memcpy(parsed.host, host, host_bytes);
  reason = text[0] == '[' ? check_ipv6(parsed.host) : check_name(parsed.host);
  if (!reason) reason = parse_port(port, allow_zero, &parsed.port);
  if (reason) return refuse(text, reason, error_out);
  *out = parsed;
  return KVF_OK;
}

int control_address_format(const struct control_host_port *address, char *text, size_t capacity_bytes) {
  bool bracketed = strchr(address->host, ':') != NULL;
  return snprintf(text, capacity_bytes, bracketed ? "[%s]:%u" : "%s:%u", address->host, (unsigned)address->port);
}
