/* The error table, read from errors.def: the only place where a status gets its texts. */
#include <kvferry/status.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const kvf_status_text status_table[] = {
#define BASE_ERROR_ROW(name, meaning, when, check, remedy, retry) {#name, meaning, when, check, remedy, retry},
#include "base/errors.def"
#undef BASE_ERROR_ROW
};

enum { STATUS_COUNT = sizeof status_table / sizeof status_table[0] };

const char *kvf_status_name(kvf_status status) {
  if (status < 0 || status >= STATUS_COUNT) return "UNKNOWN";
  return status_table[status].name;
}

kvf_status kvf_status_query(kvf_status status, kvf_status_text *text_out) {
  if (status < 0 || status >= STATUS_COUNT || !text_out) return KVF_INVALID;
  *text_out = status_table[status];
  return KVF_OK;
}

kvf_status kvf_status_find(const char *name, kvf_status *status_out) {
  if (!name || !*name || !status_out) return KVF_INVALID;
  char *end = NULL;
  long number = strtol(name, &end, 10);
  if (*end == '\0') {
    if (number < 0 || number >= STATUS_COUNT) return KVF_INVALID;
    *status_out = (kvf_status)number;
    return KVF_OK;
  }
  if (strncasecmp(name, "KVF_", 4) == 0) name += 4;
  for (int i = 0; i < STATUS_COUNT; i++) {
    if (strcasecmp(name, status_table[i].name) == 0) {
      *status_out = i;
      return KVF_OK;
    }
  }
  return KVF_INVALID;
}
