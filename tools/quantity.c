/* Quantities: parsing is strict (no sign, no leftover), formatting is short. */
#include "quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool parse_digits(const char *text, uint64_t *value_out, const char **rest_out) {
  if (!isdigit((unsigned char)*text)) return false;
  char *rest;
  errno = 0;
  unsigned long long value = strtoull(text, &rest, 10);
  if (errno) return false;
  *value_out = value;
  *rest_out = rest;
  return true;
}

bool quantity_parse_count(const char *text, uint64_t *count_out) {
  const char *rest;
  uint64_t count;
  if (!parse_digits(text, &count, &rest) || *rest) return false;
  *count_out = count;
  return true;
}

bool quantity_parse_size(const char *text, uint64_t *bytes_out) {
  static const struct {
    const char *unit;
    unsigned shift;
  } units[] = {{"", 0}, {"B", 0}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40}, {"TiB", 40}};
  const char *rest;
  uint64_t number;
  if (!parse_digits(text, &number, &rest)) return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcasecmp(rest, units[i].unit)) continue;
    if (number > UINT64_MAX >> units[i].shift) return false;
    *bytes_out = number << units[i].shift;
    return true;
  }
  return false;
}

bool quantity_parse_real(const char *text, double *real_out) {
  if (!isdigit((unsigned char)*text) && *text != '.') return false;
  if (strpbrk(text, "xXpP")) return false;
  char *rest;
  double real = strtod(text, &rest);
  if (rest == text || *rest || !isfinite(real) || real < 0) return false;
  *real_out = real;
  return true;
}

const char *quantity_format_bytes(double bytes, char *text) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  snprintf(text, QUANTITY_TEXT_BYTES, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return text;
}

const char *quantity_format_count(uint64_t count, char *text) {
  char digits[24];
  size_t length = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
  char *write = text;
  for (size_t i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0) *write++ = ',';
    *write++ = digits[i];
  }
  *write = 0;
  return text;
}

const char *quantity_format_seconds(double seconds, char *text) {
  if (seconds < 60)
    snprintf(text, QUANTITY_TEXT_BYTES, "%.1f s", seconds);
  else
    snprintf(text, QUANTITY_TEXT_BYTES, "%d min %02d s", (int)(seconds / 60), (int)seconds % 60);
  return text;
}
