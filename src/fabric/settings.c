/* Settings are for tests and experiments, so anything that is not understood is an error rather than ignored. */
#include "fabric/settings.h"

#include <stdlib.h>
#include <string.h>

bool fabric_settings_next(const char **cursor, struct fabric_setting *setting_out, kvf_error **error_out) {
  const char *text = *cursor;
  if (!text || !*text) return false;
  size_t length = strcspn(text, ",");
  const char *equals = memchr(text, '=', length);
  size_t key_length = equals ? (size_t)(equals - text) : 0;
  size_t value_length = equals ? length - key_length - 1 : 0;
  if (key_length == 0 || key_length >= sizeof setting_out->key || value_length >= sizeof setting_out->value) {
    base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the setting \"%.*s\" is not of the form key=value", (int)length, text),
                    error_out);
    return false;
  }
  memcpy(setting_out->key, text, key_length);
  setting_out->key[key_length] = '\0';
  memcpy(setting_out->value, equals + 1, value_length);
  setting_out->value[value_length] = '\0';
  *cursor = text + length + (text[length] == ',');
  return true;
}

kvf_status fabric_setting_number(const struct fabric_setting *setting, uint64_t limit, uint64_t *number_out,
                                 kvf_error **error_out) {
  size_t digits = strspn(setting->value, "0123456789");
  if (digits > 0 && digits < 20 && setting->value[digits] == '\0') {
    uint64_t number = strtoull(setting->value, NULL, 10);
    if (number <= limit) {
      *number_out = number;
      return KVF_OK;
    }
  }
  kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "the setting %s needs a number up to %llu, not \"%s\"", setting->key,
                                (unsigned long long)limit, setting->value);
  return base_error_give(error, error_out);
}

kvf_error *fabric_setting_unknown(const struct fabric_setting *setting, const char *provider) {
  return BASE_ERROR(KVF_INVALID, NULL, "%s has no setting called %s", provider, setting->key);
}
