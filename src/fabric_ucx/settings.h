/* The providers' own settings: "key=value,key=value". */
#ifndef FABRIC_UCX_SETTINGS_H
#define FABRIC_UCX_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct fabric_ucx_settings {
  char library[256]; /* "": the usual one */
  char devices[256];
  uint64_t fragment_bytes;     /* of a payload in one message */
  uint64_t region_limit_bytes; /* that are registered at once; UINT64_MAX: any number */
  uint64_t page_bytes;         /* taken for the size of pages; 0: the memory is asked */
  bool emulate;
};

/* @p text may be NULL. Errors: INVALID (unknown key, value out of range). */
kvf_status fabric_ucx_settings_decode(const char *text, struct fabric_ucx_settings *settings_out, kvf_error **error_out);

#endif
