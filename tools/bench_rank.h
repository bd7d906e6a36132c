/* What a rank does in a benchmark: rounds, each prepared, announced, started at one moment, and ended. */
#ifndef TOOLS_BENCH_RANK_H
#define TOOLS_BENCH_RANK_H

#include "rank.h"

enum bench_kind { BENCH_TRANSFER, BENCH_SUBMIT, BENCH_IDLE };

/* What the parent says: prepare a round, then the moment at which it starts; or that it was the last. */
enum { BENCH_QUIT = 0, BENCH_PREPARE = 1 };

/* Of one rank, in memory that it shares with the parent. */
struct bench_sample {
  uint64_t call_ns;        /* submit: kvf_send_post or kvf_recv_open on the caller's thread */
  uint64_t first_piece_ns; /* submit: from the post to the first bulk write that the counters tell of */
  uint64_t poll_count;
  double poll_p50_ns, poll_p99_ns, poll_most_ns; /* submit: kvf_engine_poll on another thread, from before the call to the end */
  uint64_t cpu_ns;                               /* transfer and idle: of the whole process */
  uint64_t wall_ns;                              /* idle */
};

/* Where a side's ranks live. */
struct bench_host {
  const char *network; /* network namespace; NULL = this process's own */
  const char *address; /* to listen on */
};

struct bench_task {
  enum bench_kind kind;
  bool verify_first; /* the first round is filled and checked, and not for measuring */
  bool in_order;     /* contiguous pages */
  uint32_t run_pages; /* contiguous pages in random order, runs of so many; 0 = one run */
  bool layerwise;    /* each layer is posted when it is computed; else all after the last */
  uint64_t layer_ns; /* computing one layer */
  double idle_s;
  struct bench_host hosts[2]; /* by role; an address of NULL = 127.0.0.1 */
  struct bench_sample *samples; /* [2][SETTINGS_RANK_LIMIT], by role and rank */
};

/** rank_setup.work; rank_setup.context is the task. */
bool bench_rank_work(struct rank *rank);

#endif
