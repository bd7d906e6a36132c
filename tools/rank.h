/* A rank: one process of an instance, with an engine, a pool and a share of every room of the workload. */
#ifndef TOOLS_RANK_H
#define TOOLS_RANK_H

#include "settings.h"

struct rank;

struct rank_setup {
  const struct settings *settings;
  const struct workload *workload;
  enum role role;
  uint32_t rank; /* stage * tp + tensor-parallel rank */
  const char *listen;
  const char *network;             /* the network namespace to work in, as ip-netns(8) names it; NULL = this process's own */
  const char *const *addresses;    /* decode: of every prefill rank, in order */
  int report_fd;                   /* records go here */
  int control_fd;                  /* one uint64_t: start at this moment; one more: quit; its end: give up */
  uint64_t wait_ns;                /* for the other side to connect */
  uint64_t linger_ns;              /* decode: after the end, stay at most this long while the other side is still connected */
  bool (*work)(struct rank *rank); /* what it does once all are connected; NULL = the workload */
  void *context;                   /* of work */
};

/** The whole life of the rank. Returns its exit status. */
int rank_run(const struct rank_setup *setup);

#endif
