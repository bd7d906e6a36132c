/* A run: start the ranks of one or both instances here, let them work, collect, report. Never hangs: every phase has a
 * deadline, a rank that dies ends the run, and so does a signal. */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include "settings.h"

struct run_plan {
  const struct settings *settings;
  bool has_side[2];             /* by role */
  const char *const *listen;    /* of this run's first side, by rank; NULL = any free port of 127.0.0.1 */
  const char *const *addresses; /* decode alone: of every prefill rank */
  uint64_t wait_ns, linger_ns;
  bool announce; /* print the addresses listened on */
};

/** Returns the exit status: 0 all done and right, 1 not, 2 the settings do not go together. */
int run_execute(const struct run_plan *plan);

#endif
