/* The structures behind arena.h, shared by the sources of this room only.
 *
 * An extent's id is the number of its first unit (unit = min_extent_bytes), so finding it is an index, and its record outlives it:
 * the generation there counts the grants that ever began at this unit. Nothing is allocated after a party was added. */
#ifndef ARENA_STATE_H
#define ARENA_STATE_H

#include "arena/arena.h"
#include "arena/buddy.h"
#include "base/list.h"
#include "base/map.h"

enum extent_state { EXTENT_FREE, EXTENT_GRANTED, EXTENT_CLAIMED, EXTENT_QUARANTINED, EXTENT_STATE_COUNT };

struct arena_party {
  struct base_list waiting_node; /* in arena->waiting while below its level */
  struct base_list extents;
  uint64_t id;
  uint64_t blocked_since_ns; /* since when its turn has come and its extent does not fit */
  uint32_t standing, level;  /* level is never below standing */
  uint32_t held;
  uint8_t order; /* of its extents, in units */
  bool waiting, blocked, lost;
};

struct arena_extent {
  struct base_list party_node; /* in party->extents */
  struct base_list age_node;   /* in arena->by_age */
  struct arena_party *party;   /* NULL: free, or claimed and its party is gone */
  uint64_t party_id;
  uint64_t granted_ns;
  uint32_t generation;
  uint8_t order;
  uint8_t state;
};

struct arena {
  struct arena_options options;
  uint32_t unit_count;
  struct arena_buddy free;
  struct arena_buddy reachable; /* free, were every extent given back but the quarantined ones: what draining can reach */
  struct arena_extent *extents; /* [unit_count] */
  struct base_map parties;
  struct base_list waiting; /* in order of turn */
  struct base_list by_age;  /* live extents, the oldest first */
  uint32_t waiting_count;
  uint64_t state_bytes[EXTENT_STATE_COUNT]; /* of FREE: unused */
  uint64_t standing_bytes;
  uint64_t peak_bytes;
  uint64_t grants_total, refused_total, freed_total;
  struct arena_party *draining_for; /* NULL: nobody */
  uint64_t drain_progress_ns;       /* when something last came back, as seen by arena_grant_next */
  uint64_t drain_freed_total;       /* freed_total then */
  uint64_t drain_not_before_ns;     /* the last drain was given up */
};

static inline uint64_t arena_extent_bytes(const struct arena *arena, uint8_t order) {
  return arena->options.min_extent_bytes << order;
}
static inline uint64_t arena_elapsed_ns(uint64_t since_ns, uint64_t now_ns) {
  return now_ns > since_ns ? now_ns - since_ns : 0;
}
static inline uint64_t arena_live_bytes(const struct arena *arena) {
  return arena->state_bytes[EXTENT_GRANTED] + arena->state_bytes[EXTENT_CLAIMED] + arena->state_bytes[EXTENT_QUARANTINED];
}

/* Put the party into the queue of those that wait, or take it out, as its level asks. */
void arena_party_queue(struct arena *arena, struct arena_party *party);

void arena_extent_grant(struct arena *arena, struct arena_party *party, uint64_t now_ns, struct arena_grant *grant_out);
void arena_extent_free(struct arena *arena, struct arena_extent *extent);
void arena_extent_quarantine(struct arena *arena, struct arena_extent *extent);
/* A claimed extent whose party is forgotten. */
void arena_extent_orphan(struct arena_extent *extent);

#endif
