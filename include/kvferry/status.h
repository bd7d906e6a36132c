/* Status codes. Every kvferry call that can fail returns one of these; the table behind them
 * (src/base/errors.def) also makes `kvferry explain`, docs/errors.md and the Python exceptions. */
#ifndef KVFERRY_STATUS_H
#define KVFERRY_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t kvf_status;

enum {
  KVF_OK = 0,
  KVF_INVALID = 1,
  KVF_NO_MEMORY = 2,
  KVF_SYSTEM = 3,
  KVF_INTERNAL = 4,
  KVF_CLOSED = 5,
  KVF_TIMEOUT = 6,
  KVF_CANCELLED = 7,
  KVF_BACKPRESSURE = 8,
  KVF_TOO_LARGE = 9,
  KVF_INCOMPATIBLE = 10,
  KVF_UNREACHABLE = 11,
  KVF_PEER_LOST = 12,
  KVF_DRAINING = 13,
  KVF_WRONG_PEER = 14,
  KVF_AUTH_FAILED = 15,
  KVF_PROTOCOL = 16,
  KVF_NOT_REGISTERED = 17,
  KVF_KEY_REVOKED = 18,
  KVF_STALE = 19,
  KVF_OUT_OF_RANGE = 20,
  KVF_GRANT_OVERRUN = 21,
  KVF_FABRIC = 22,
  KVF_STAGED_WRITE_FAILED = 23,
  KVF_DIRECT_WRITE_FAILED = 24,
  KVF_PEER_FAILED = 25,
  KVF_NOT_COVERED = 26,
  KVF_INCOMPLETE = 27,
  KVF_UNSUPPORTED = 28,
  KVF_UNAVAILABLE = 29,
  KVF_CORRUPT = 30,
  KVF_RESOURCE_LIMIT = 31,
  KVF_BAD_ADDRESS = 32,
  KVF_OVERLAP = 33,
  KVF_NOT_READY = 34,
  KVF_UNKNOWN_ROOM = 35
};

/** What one row of the error table says; all strings are static and never NULL. */
typedef struct kvf_status_text {
  const char *name;    /* "KEY_REVOKED" */
  const char *meaning; /* what it means */
  const char *when;    /* when it happens */
  const char *check;   /* what to look at */
  const char *remedy;  /* what to do about it */
  uint32_t retry;      /* 1: trying the same thing again may succeed, 0: it will not */
} kvf_status_text;

/** The upper-case name of @p status, or "UNKNOWN". Threads: any. Blocks: never. */
KVF_API const char *kvf_status_name(kvf_status status);

/** Fill @p text_out for @p status. Errors: INVALID (no such status). Threads: any. */
KVF_API kvf_status kvf_status_query(kvf_status status, kvf_status_text *text_out);

/** Find a status by its name, with or without the KVF_ prefix, in any case, or by its number in decimal.
 *  Errors: INVALID (no such status). Threads: any. */
KVF_API kvf_status kvf_status_find(const char *name, kvf_status *status_out);

#ifdef __cplusplus
}
#endif
#endif
