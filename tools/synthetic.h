/* Synthetic traces: prompt lengths and shared prefixes distributed like those of a public conversation trace. */
#ifndef TOOLS_SYNTHETIC_H
#define TOOLS_SYNTHETIC_H

#include "trace.h"

/** The prompt length at quantile @p unit in [0, 1]: log-linear between the trace's p0, p10, p50, p90, p99 and maximum. */
uint64_t synthetic_length(double unit);

/** @p count requests, the same for the same @p seed. */
bool synthetic_generate(size_t count, uint64_t seed, struct trace *trace_out, struct complaint *complaint);

#endif
