#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void base_log_write(const struct base_log *log, int32_t level, const char *format, ...) {
  if (!log->sink || level > log->level) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  log->sink(log->context, level, line);
}
