/* The metrics as Prometheus text. Allocates nothing. */
#ifndef STATS_RENDER_H
#define STATS_RENDER_H

#include <stddef.h>

#include "stats/counter.h"
#include "stats/histogram.h"

/* How long each part of a piece took. */
struct stats_phases {
  struct stats_histogram grant_wait, gather, write, scatter;
};

/* Like snprintf: writes what fits with a NUL and returns the bytes that the whole text needs without it. @p phases may be NULL.
 * The length may change from call to call while counters move: a caller that asks first leaves some room. */
size_t stats_render(const struct stats_counters *counters, const struct stats_phases *phases, char *text, size_t capacity_bytes);

#endif
