/* Reads a provider's settings. */
#include "fabric_ucx/settings.h"

#include <stdlib.h>
#include <string.h>

#include "fabric_ucx/device.h"

/* The default fits a TCP segment of UCX as library.c sets it, with all headers. */
enum { FRAGMENT_BYTES = 56 << 10, FRAGMENT_LIMIT_BYTES = 1 << 20 };

static bool copy_text(char *to, size_t capacity, const char *value) {
  if (!*value || strlen(value) >= capacity) return false;
  strcpy(to, value);
  return true;
}

static bool read_number(const char *value, uint64_t limit, uint64_t *number_out) {
  char *end;
  unsigned long long number = strtoull(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || number > limit) return false;
  *number_out = number;
  return true;
}

static bool set_value(struct fabric_ucx_settings *settings, const char *key, const char *value) {
  uint64_t number;
  if (!strcmp(key, "library")) return copy_text(settings->library, sizeof settings->library, value);
  if (!strcmp(key, "devices")) return copy_text(settings->devices, sizeof settings->devices, value);
  if (!strcmp(key, "fragment"))
    return read_number(value, FRAGMENT_LIMIT_BYTES, &settings->fragment_bytes) && settings->fragment_bytes;
  if (!strcmp(key, "region_limit"))
    return read_number(value, UINT64_MAX, &settings->region_limit_bytes) && settings->region_limit_bytes;
  if (!strcmp(key, "page")) return read_number(value, UINT64_MAX, &settings->page_bytes);
  if (strcmp(key, "emulate") || !read_number(value, 1, &number)) return false;
  settings->emulate = number;
  return true;
}

kvf_status fabric_ucx_settings_decode(const char *text, struct fabric_ucx_settings *settings_out, kvf_error **error_out) {
  struct fabric_ucx_settings settings = {
      .devices = FABRIC_UCX_DEVICE_FOLDER, .fragment_bytes = FRAGMENT_BYTES, .region_limit_bytes = UINT64_MAX};
  char copy[600];
  if (text && strlen(text) >= sizeof copy)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the settings are too long"), error_out);
  strcpy(copy, text ? text : "");
  char *rest = copy;
  for (char *key = strsep(&rest, ","); key; key = strsep(&rest, ",")) {
    if (!*key) continue;
    char *value = strchr(key, '=');
    if (value) *value++ = '\0';
    if (value && set_value(&settings, key, value)) continue;
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "this provider has no such setting, or not with that value");
    return base_error_give(base_error_add(base_error_add(error, "setting", "%s", key), "value", "%s", value ? value : ""),
                           error_out);
  }
  *settings_out = settings;
  return KVF_OK;
}
