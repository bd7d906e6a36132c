/* Walks a provider's settings text: "key=value,key=value". */
#ifndef FABRIC_SETTINGS_H
#define FABRIC_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct fabric_setting {
  char key[32];
  char value[128];
};

/* The next entry of *cursor, which moves on. False at the end; also false, with *error_out set (INVALID), for text of another form.
 * A NULL text has no entries. */
bool fabric_settings_next(const char **cursor, struct fabric_setting *setting_out, kvf_error **error_out);
/* Errors: INVALID (not a decimal number, above @p limit). */
kvf_status fabric_setting_number(const struct fabric_setting *setting, uint64_t limit, uint64_t *number_out, kvf_error **error_out);
/* The error for a key that a provider does not know. */
kvf_error *fabric_setting_unknown(const struct fabric_setting *setting, const char *provider);

#endif
