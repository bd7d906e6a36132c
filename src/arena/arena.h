/* The receiver's staging arena: a buddy allocator over [0, capacity) and the credits handed out from it.
 *
 * Parties are the sending peers. Each party has one extent size and a level: how many extents it wants to hold at once. The arena
 * grants extents until the level is met; an extent comes back when its piece is scattered, returned, or its party is gone.
 *
 *   free --grant--> GRANTED --claim--> CLAIMED --release--> free
 *                      |  \--return--> free
 *                      \--party lost--> QUARANTINED --fenced--> free        (a CLAIMED extent of a lost party: free at its release)
 *
 * Every grant has an id (slot) and a generation; a claim with an older generation is refused. Pure: no memory is touched, time is
 * passed in, nothing is locked. */
#ifndef ARENA_ARENA_H
#define ARENA_ARENA_H

#include <stdbool.h>

#include <kvferry/error.h>

#include "base/error.h"

struct arena;

struct arena_options {
  uint64_t capacity_bytes;    /* a power of two */
  uint64_t min_extent_bytes;  /* a power of two, at most capacity */
  uint64_t starve_ns;         /* a party whose extent size does not fit for this long is drained for: no other grants until it does */
};

struct arena_grant {
  uint64_t party;
  uint32_t id;
  uint32_t generation;
  uint64_t offset;
  uint64_t length;
};

/* Errors: INVALID (fields name the value and the nearest valid ones), NO_MEMORY. */
kvf_status arena_create(const struct arena_options *options, struct arena **arena_out, kvf_error **error_out);
void arena_destroy(struct arena *arena);

/* A new party with a standing level. The sum of the standing levels' bytes of all parties never exceeds half of the capacity: the
 * level is cut (to 0 if need be) to keep that. extent_bytes is rounded up to a power of two.
 * Errors: TOO_LARGE (extent over capacity: fields need, limit), OVERLAP (party exists), NO_MEMORY. */
kvf_status arena_party_add(struct arena *arena, uint64_t party, uint64_t extent_bytes, uint32_t standing, kvf_error **error_out);

/* The party's owner is gone. Its granted extents are freed, or quarantined when it might still write into them; claimed ones are freed
 * when they are released. With quarantine the party's id stays known until arena_party_fenced. */
void arena_party_lost(struct arena *arena, uint64_t party, bool might_write);
/* The lost party can write no more: its quarantined extents are free. */
void arena_party_fenced(struct arena *arena, uint64_t party);

/* The party wants to hold @p level extents at once; idempotent; a level below the standing one means the standing one. */
kvf_status arena_want(struct arena *arena, uint64_t party, uint32_t level);

/* The next grant to send, or false when nothing fits or nobody wants. Round robin over the parties below their level, those below their
 * standing level included; a starving party first. Call until false after each change. */
bool arena_grant_next(struct arena *arena, uint64_t now_ns, struct arena_grant *grant_out);

/* A piece has landed (or is about to be placed) in a grant: GRANTED -> CLAIMED.
 * Errors: STALE (generation, or not granted any more), INVALID (id), WRONG_PEER (another party's), GRANT_OVERRUN (length). */
kvf_status arena_claim(struct arena *arena, uint64_t party, uint32_t id, uint32_t generation, uint64_t length,
                       struct arena_grant *grant_out, kvf_error **error_out);
/* The claimed extent is read out. */
void arena_release(struct arena *arena, uint32_t id, uint32_t generation);
/* The party gives an unused grant back. Errors: STALE, INVALID, WRONG_PEER; nothing changes then. */
kvf_status arena_return(struct arena *arena, uint64_t party, uint32_t id, uint32_t generation);

struct arena_usage {
  uint64_t capacity_bytes;
  uint64_t granted_bytes, claimed_bytes, quarantined_bytes, peak_bytes;
  uint64_t largest_free_bytes;
  uint32_t parties, parties_waiting;
  uint64_t grants_total, refused_total;
};
void arena_usage_get(const struct arena *arena, struct arena_usage *usage_out);

/* A few lines for people: capacity, live bytes, largest grantable extent, and the oldest holder with its age. Like snprintf. */
size_t arena_render(const struct arena *arena, uint64_t now_ns, char *text, size_t capacity_bytes);

#endif
