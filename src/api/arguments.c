#include "api/arguments.h"

#include <string.h>

kvf_status api_null(const char *what, kvf_error **error_out) {
  return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "%s is NULL", what), error_out);
}

kvf_status api_options_copy(const void *options, size_t known_bytes, size_t least_bytes, void *options_out, kvf_error **error_out) {
  size_t given_bytes;
  if (!options) return api_null("options", error_out);
  memcpy(&given_bytes, options, sizeof given_bytes);
  if (given_bytes < least_bytes) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "struct_bytes is too small: initialise options with their INIT macro");
    return base_error_give(base_error_add(error, "struct_bytes", "%zu", given_bytes), error_out);
  }
  for (size_t i = known_bytes; i < given_bytes; i++) {
    if (((const unsigned char *)options)[i] == 0) continue;
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "options carry a setting that this library does not know"), error_out);
  }
  memset(options_out, 0, known_bytes);
  memcpy(options_out, options, given_bytes < known_bytes ? given_bytes : known_bytes);
  return KVF_OK;
}
