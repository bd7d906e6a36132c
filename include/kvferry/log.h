/* Where the library's few log lines go. What a call returns is never logged too. */
#ifndef KVFERRY_LOG_H
#define KVFERRY_LOG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KVF_LOG_ERROR = 1, KVF_LOG_WARNING = 2, KVF_LOG_NOTICE = 3, KVF_LOG_DEBUG = 4 };

/** Called with one line without a newline, from the library's own threads. Must not call kvferry and should not block. */
typedef void (*kvf_log_sink)(void *context, int32_t level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
