/* The log sink. The library logs only what has no caller to return it to; whoever opened the engine says where it goes. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <kvferry/log.h>

#include "base/error.h"

struct base_log {
  kvf_log_sink sink; /* NULL: silent */
  void *context;
  int32_t level;
};

void base_log_write(const struct base_log *log, int32_t level, const char *format, ...) BASE_PRINTF(3, 4);

#endif
