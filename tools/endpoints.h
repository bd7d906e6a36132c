/* Endpoints: the addresses of an instance's ranks, from one "host:port" counted upwards or from a list. */
#ifndef TOOLS_ENDPOINTS_H
#define TOOLS_ENDPOINTS_H

#include <stddef.h>

#include "complaint.h"

enum { ENDPOINT_LIMIT = 64, ENDPOINT_BYTES = 288 };

struct endpoints {
  char text[ENDPOINT_LIMIT][ENDPOINT_BYTES];
  const char *list[ENDPOINT_LIMIT]; /* into text */
  size_t count;
};

/** One address stands for @p count ports from its own upwards (port 0 stays 0); otherwise exactly @p count, with commas. */
bool endpoints_parse(const char *text, size_t count, struct endpoints *endpoints_out, struct complaint *complaint);

#endif
