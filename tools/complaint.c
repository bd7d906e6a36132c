/* Complaints: printing into the fixed line. */
#include "complaint.h"

#include <stdarg.h>
#include <stdio.h>

bool complain(struct complaint *complaint, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(complaint->text, sizeof complaint->text, format, arguments);
  va_end(arguments);
  return false;
}
