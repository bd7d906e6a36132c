/* A benchmark's run: both instances as processes of this host, one round after the other. Every wait has a deadline. */
#ifndef TOOLS_BENCH_RUN_H
#define TOOLS_BENCH_RUN_H

#include "bench_rank.h"
#include "crew.h"
#include "workload.h"

/* What one round came to, over all ranks. */
struct bench_round {
  uint64_t posted_ns, end_ns; /* first prefill rank about to post its last chunk; last decode rank with its last end */
  uint64_t bytes;             /* payload, as the decode side counts it */
  uint64_t pieces, slices, retries;
  uint64_t grant_wait_ns, gather_ns, write_ns, scatter_ns; /* summed over ranks and pieces */
  uint64_t cpu_ns;                                         /* transfer and idle: of all ranks */
  uint32_t ends;
};

struct bench_run {
  const struct settings *settings; /* concurrency rooms a round */
  struct bench_task task;
  struct workload workload;
  struct crew crew;
  const char *addresses[SETTINGS_RANK_LIMIT];
  struct bench_round round;
  char fabric[16], reason[512]; /* of a prefill rank, after bench_run_end */
  uint32_t way;
  struct complaint complaint; /* why it failed, "" = it has not */
};

/** Start the ranks and have them connect, for at most @p rounds rounds of rooms with @p tokens tokens each. */
bool bench_run_start(struct bench_run *run, const struct settings *settings, const struct bench_task *task, uint64_t tokens,
                     uint32_t rounds);
bool bench_run_round(struct bench_run *run, struct bench_round *round_out);
/** No more rounds: learn the route. */
bool bench_run_end(struct bench_run *run);
/** End the ranks, whatever they do, and free everything. */
void bench_run_fini(struct bench_run *run);
const struct bench_sample *bench_run_sample(const struct bench_run *run, enum role role, uint32_t rank);

/** One line on standard error, replaced by the next and taken away by an empty one; only on a terminal, unless @p quiet. */
__attribute__((format(printf, 2, 3))) void bench_progress(bool quiet, const char *format, ...);

#endif
