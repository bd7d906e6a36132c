/* Parties: who may hold how much, and what becomes of it when one is gone. */
#include "arena/state.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/checked.h"

void arena_party_queue(struct arena *arena, struct arena_party *party) {
  bool wants = !party->lost && party->held < party->level;
  if (wants == party->waiting) return;
  party->waiting = wants;
  if (wants) {
    base_list_push_back(&arena->waiting, &party->waiting_node);
    arena->waiting_count++;
    return;
  }
  base_list_remove(&party->waiting_node);
  arena->waiting_count--;
  party->blocked = false;
  if (arena->draining_for == party) arena->draining_for = NULL;
}

/* Standing credit is memory that an idle peer may sit on for ever: together at most half, so that work that is under way cannot be
 * starved by credit that is not used. */
static uint32_t cut_standing(const struct arena *arena, uint64_t extent_bytes, uint32_t standing) {
  uint64_t left = arena->options.capacity_bytes / 2 - arena->standing_bytes;
  return (uint32_t)base_min_u64(standing, left / extent_bytes);
}

kvf_status arena_party_add(struct arena *arena, uint64_t party_id, uint64_t extent_bytes, uint32_t standing,
                           kvf_error **error_out) {
  if (extent_bytes > arena->options.capacity_bytes) {
    kvf_error *error = BASE_ERROR(KVF_TOO_LARGE, NULL, "an extent for party %" PRIu64 " is larger than the arena", party_id);
    base_error_add(error, "need", "%" PRIu64, extent_bytes);
    return base_error_give(base_error_add(error, "limit", "%" PRIu64, arena->options.capacity_bytes), error_out);
  }
  if (base_map_get(&arena->parties, party_id)) {
    return base_error_give(BASE_ERROR(KVF_OVERLAP, NULL, "party %" PRIu64 " is known already", party_id), error_out);
  }
  struct arena_party *party = base_calloc(1, sizeof *party);
  if (!party || !base_map_put(&arena->parties, party_id, party)) {
    base_free(party);
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for party %" PRIu64, party_id), error_out);
  }
  uint64_t bytes = base_max_u64(base_ceil_pow2(extent_bytes), arena->options.min_extent_bytes);
  base_list_init(&party->waiting_node);
  base_list_init(&party->extents);
  party->id = party_id;
  party->order = (uint8_t)__builtin_ctzll(bytes / arena->options.min_extent_bytes);
  party->standing = party->level = cut_standing(arena, bytes, standing);
  arena->standing_bytes += party->standing * bytes;
  arena_party_queue(arena, party);
  return KVF_OK;
}

kvf_status arena_want(struct arena *arena, uint64_t party_id, uint32_t level) {
  struct arena_party *party = base_map_get(&arena->parties, party_id);
  if (!party || party->lost) return KVF_INVALID;
  /* More than the arena holds would only keep the party in the queue for ever. */
  uint64_t most = arena->options.capacity_bytes / arena_extent_bytes(arena, party->order);
  party->level = (uint32_t)base_min_u64(base_max_u64(level, party->standing), most);
  arena_party_queue(arena, party);
  return KVF_OK;
}

/* Only claimed extents may be left; they are freed at their release. A lost party's standing credit stays accounted for until here,
 * so that a peer that comes and goes without being fenced cannot fill more than its half. */
static void forget_party(struct arena *arena, struct arena_party *party) {
  party->lost = true;
  arena_party_queue(arena, party);
  BASE_LIST_EACH(&party->extents, node) arena_extent_orphan(BASE_CONTAINER(node, struct arena_extent, party_node));
  arena->standing_bytes -= party->standing * arena_extent_bytes(arena, party->order);
  base_map_remove(&arena->parties, party->id);
  base_free(party);
}

void arena_party_lost(struct arena *arena, uint64_t party_id, bool might_write) {
  struct arena_party *party = base_map_get(&arena->parties, party_id);
  if (!party) return;
  if (party->lost) {
    if (!might_write) arena_party_fenced(arena, party_id);
    return;
  }
  party->lost = true;
  arena_party_queue(arena, party);
  BASE_LIST_EACH(&party->extents, node) {
    struct arena_extent *extent = BASE_CONTAINER(node, struct arena_extent, party_node);
    if (extent->state != EXTENT_GRANTED) continue;
    if (might_write) {
      arena_extent_quarantine(arena, extent);
    } else {
      arena_extent_free(arena, extent);
    }
  }
  if (!might_write) forget_party(arena, party);
}

void arena_party_fenced(struct arena *arena, uint64_t party_id) {
  struct arena_party *party = base_map_get(&arena->parties, party_id);
  if (!party || !party->lost) return;
  BASE_LIST_EACH(&party->extents, node) {
    struct arena_extent *extent = BASE_CONTAINER(node, struct arena_extent, party_node);
    if (extent->state == EXTENT_QUARANTINED) arena_extent_free(arena, extent);
  }
  forget_party(arena, party);
}
