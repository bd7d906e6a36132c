/* The last things that happened, for whoever asks why. A fixed number of events; the oldest is overwritten.
 * Any thread pushes and reads, under the ring's own lock: it is for rare events, not for pieces. Allocates when created only. */
#ifndef STATS_RING_H
#define STATS_RING_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

enum stats_event_kind {
  STATS_EVENT_PEER_UP = 1,
  STATS_EVENT_PEER_DOWN = 2,
  STATS_EVENT_ROOM_END = 3,
  STATS_EVENT_PIECE_RETRY = 4,
  STATS_EVENT_KEY_REFRESH = 5,
  STATS_EVENT_QUARANTINE = 6,
  STATS_EVENT_MESSAGE_REFUSED = 7,
  STATS_EVENT_WAY_CHOSEN = 8
};

enum { STATS_PEER_LIMIT_BYTES = 31, STATS_DETAIL_LIMIT_BYTES = 95 };

struct stats_event {
  uint64_t time_ns;
  uint64_t room;     /* 0: about no room */
  uint64_t sequence; /* counts every event ever pushed, from 0 */
  uint32_t kind;
  char peer[STATS_PEER_LIMIT_BYTES + 1];
  char detail[STATS_DETAIL_LIMIT_BYTES + 1];
};

struct stats_ring {
  pthread_mutex_t lock;
  struct stats_event *events;
  size_t capacity;
  uint64_t pushed;
};

/* Errors: INVALID (no capacity), NO_MEMORY. On success stats_ring_fini it. */
kvf_status stats_ring_init(struct stats_ring *ring, size_t capacity);
void stats_ring_fini(struct stats_ring *ring);

/* Texts are cut to their limits and made printable, for they may come from a peer; NULL is "". */
void stats_ring_push(struct stats_ring *ring, uint64_t time_ns, uint32_t kind, uint64_t room, const char *peer, const char *detail);

/* Copy the newest @p capacity events, oldest of them first; returns how many. */
size_t stats_ring_snapshot(struct stats_ring *ring, struct stats_event *events_out, size_t capacity);

/* "PEER_UP", or "UNKNOWN". */
const char *stats_event_name(uint32_t kind);

#endif
