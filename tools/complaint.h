/* A complaint: one line for the person at the terminal about what was wrong with an option, a file or a rank. */
#ifndef TOOLS_COMPLAINT_H
#define TOOLS_COMPLAINT_H

#include <stdbool.h>

struct complaint {
  char text[1024];
};

/** Write the line; always false, so that a check can end with `return complain(…)`. */
__attribute__((format(printf, 2, 3))) bool complain(struct complaint *complaint, const char *format, ...);

#endif
