/* Endpoints: the port is what follows the last colon, so that [::1]:80 works; the library checks the rest. */
#include "endpoints.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "quantity.h"

static bool split_port(const char *text, size_t *host_bytes_out, uint64_t *port_out, struct complaint *complaint) {
  const char *colon = strrchr(text, ':');
  if (!colon || colon == text || strchr(colon, ']')) return complain(complaint, "\"%s\": host:port is expected", text);
  if (!quantity_parse_count(colon + 1, port_out) || *port_out > 65535)
    return complain(complaint, "\"%s\": the port must be from 0 to 65535", text);
  *host_bytes_out = (size_t)(colon - text);
  return true;
}

static bool count_upwards(const char *text, size_t count, struct endpoints *endpoints, struct complaint *complaint) {
  size_t host_bytes;
  uint64_t port;
  if (!split_port(text, &host_bytes, &port, complaint)) return false;
  if (port + count - 1 > 65535)
    return complain(complaint, "\"%s\": %zu ranks need ports up to %llu", text, count, (unsigned long long)(port + count - 1));
  for (size_t i = 0; i < count; i++)
    snprintf(endpoints->text[i], ENDPOINT_BYTES, "%.*s:%llu", (int)host_bytes, text, (unsigned long long)(port ? port + i : 0));
  return true;
}

static bool split_list(const char *text, size_t count, struct endpoints *endpoints, struct complaint *complaint) {
  size_t found = 0, host_bytes;
  uint64_t port;
  for (const char *word = text;;) {
    size_t length = strcspn(word, ",");
    if (found < count && length < ENDPOINT_BYTES) {
      snprintf(endpoints->text[found], ENDPOINT_BYTES, "%.*s", (int)length, word);
      if (!split_port(endpoints->text[found], &host_bytes, &port, complaint)) return false;
    }
    found++;
    if (!word[length]) break;
    word += length + 1;
  }
  if (found != count) return complain(complaint, "%zu addresses given, and there are %zu ranks", found, count);
  return true;
}

bool endpoints_parse(const char *text, size_t count, struct endpoints *endpoints_out, struct complaint *complaint) {
  *endpoints_out = (struct endpoints){.count = count};
  if (count == 0 || count > ENDPOINT_LIMIT || strlen(text) >= ENDPOINT_LIMIT * ENDPOINT_BYTES)
    return complain(complaint, "too many ranks");
  if (!strchr(text, ',') && strlen(text) >= ENDPOINT_BYTES - 8) return complain(complaint, "the address is too long");
  bool good =
      strchr(text, ',') ? split_list(text, count, endpoints_out, complaint) : count_upwards(text, count, endpoints_out, complaint);
  for (size_t i = 0; i < count; i++) endpoints_out->list[i] = endpoints_out->text[i];
  return good;
}
