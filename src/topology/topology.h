/* Topology: which network devices serve which GPU, from a table of distances. Pure: where the table comes from is its caller's
 * business. The same table gives the same answer on every rank of a host, so that ranks agree without talking, and every usable
 * device is used: no ranking goes by the order of names. */
#ifndef TOPOLOGY_TOPOLOGY_H
#define TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

enum { TOPOLOGY_GPU_LIMIT = 64, TOPOLOGY_NIC_LIMIT = 64, TOPOLOGY_RAIL_NONE = UINT32_MAX };

/* Between a GPU and a network device, the nearer the smaller. */
enum topology_distance {
  TOPOLOGY_PIX,    /* one PCIe switch */
  TOPOLOGY_NODE,   /* one NUMA node */
  TOPOLOGY_SYS,    /* between the sockets */
  TOPOLOGY_UNKNOWN /* nobody said */
};

struct topology_nic {
  const char *name;
  uint64_t speed_mbps; /* 0 = unknown, never excluded as slow */
  uint32_t rail;       /* of the fabric; devices of two hosts reach each other on equal rails. TOPOLOGY_RAIL_NONE = not on one */
  bool front_end;      /* for storage and management, not for this */
};

struct topology {
  const struct topology_nic *nics;
  const uint8_t *distances; /* [gpu_count][nic_count] of enum topology_distance */
  uint32_t gpu_count, nic_count;
};

/* The devices of one GPU, best first: its own, then those to fall back to. Excluded ones do not appear. */
struct topology_ranking {
  uint32_t own_count, count;
  uint32_t nics[TOPOLOGY_NIC_LIMIT];
};

enum topology_concern {
  TOPOLOGY_FRONT_END_LEFT_OUT,
  TOPOLOGY_SLOW_LEFT_OUT,
  TOPOLOGY_ONLY_FRONT_END, /* there are no others, so they are used */
  TOPOLOGY_NIC_IDLE,       /* usable, but nearest to no GPU */
  TOPOLOGY_DISTANCE_UNKNOWN,
  TOPOLOGY_PEER_RAIL_MISSING
};

struct topology_warning {
  enum topology_concern concern;
  uint32_t nic; /* UINT32_MAX when it concerns no single one */
};

/* Warnings are told in the order of the devices; those beyond the limit are only counted. */
struct topology_warnings {
  uint32_t count;
  struct topology_warning list[2 * TOPOLOGY_NIC_LIMIT];
};

/** Rank the devices for every GPU: rankings_out[gpu_count]. A device slower than half of the fastest, or of the front end, is left out.
 *  Each GPU owns usable/gpu_count devices, at least one, among the nearest; loads differ as little as the distances allow.
 *  INVALID when the table is empty or too large, or a distance is none. @p warnings_out gets what was found anew. */
kvf_status topology_rank(const struct topology *topology, struct topology_ranking *rankings_out, struct topology_warnings *warnings_out);

/** Add a warning for each device owned by some GPU whose rail the peer's host does not have. */
void topology_check_peer(const struct topology *topology, const struct topology_ranking *rankings, const struct topology *peer,
                         struct topology_warnings *warnings);

/** A sentence for people, written into @p text. */
const char *topology_warning_describe(const struct topology *topology, const struct topology_warning *warning, char *text,
                                      size_t capacity_bytes);

#endif
