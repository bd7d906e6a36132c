/* Extents: the four states and every step between them. An extent is given away only from FREE, and the two buddy trees are touched
 * only here, so what is live and what is handed out cannot disagree. */
#include "arena/state.h"

#include <inttypes.h>

static void set_state(struct arena *arena, struct arena_extent *extent, enum extent_state state) {
  uint64_t bytes = arena_extent_bytes(arena, extent->order);
  if (extent->state != EXTENT_FREE) arena->state_bytes[extent->state] -= bytes;
  if (state != EXTENT_FREE) arena->state_bytes[state] += bytes;
  extent->state = state;
}

static uint32_t get_id(const struct arena *arena, const struct arena_extent *extent) {
  return (uint32_t)(extent - arena->extents);
}

static void fill_grant(const struct arena *arena, const struct arena_extent *extent, struct arena_grant *grant_out) {
  uint32_t id = get_id(arena, extent);
  *grant_out = (struct arena_grant){
      .party = extent->party_id,
      .id = id,
      .generation = extent->generation,
      .offset = id * arena->options.min_extent_bytes,
      .length = arena_extent_bytes(arena, extent->order),
  };
}

void arena_extent_grant(struct arena *arena, struct arena_party *party, uint64_t now_ns, struct arena_grant *grant_out) {
  /* Standing credit may lie idle for long: packed at the low end it leaves the high end whole for large extents. */
  enum buddy_side side = party->held < party->standing ? BUDDY_LOW : BUDDY_HIGH;
  struct arena_extent *extent = &arena->extents[arena_buddy_take(&arena->free, party->order, side)];
  if (++extent->generation == 0) extent->generation = 1;
  extent->order = party->order;
  extent->party = party;
  extent->party_id = party->id;
  extent->granted_ns = now_ns;
  base_list_push_back(&party->extents, &extent->party_node);
  base_list_push_back(&arena->by_age, &extent->age_node);
  set_state(arena, extent, EXTENT_GRANTED);
  party->held++;
  arena->grants_total++;
  if (arena_live_bytes(arena) > arena->peak_bytes) arena->peak_bytes = arena_live_bytes(arena);
  fill_grant(arena, extent, grant_out);
}

void arena_extent_free(struct arena *arena, struct arena_extent *extent) {
  uint32_t unit = get_id(arena, extent);
  if (extent->state == EXTENT_QUARANTINED) arena_buddy_put(&arena->reachable, unit, extent->order);
  set_state(arena, extent, EXTENT_FREE);
  arena_buddy_put(&arena->free, unit, extent->order);
  base_list_remove(&extent->age_node);
  arena->freed_total++;
  struct arena_party *party = extent->party;
  if (!party) return;
  extent->party = NULL;
  base_list_remove(&extent->party_node);
  party->held--;
  arena_party_queue(arena, party);
}

void arena_extent_quarantine(struct arena *arena, struct arena_extent *extent) {
  set_state(arena, extent, EXTENT_QUARANTINED);
  arena_buddy_take_at(&arena->reachable, get_id(arena, extent), extent->order);
}

void arena_extent_orphan(struct arena_extent *extent) {
  base_list_remove(&extent->party_node);
  extent->party = NULL;
}

/* Is (id, generation) a grant that @p party may still use? The order matters: an old generation says nothing about the present
 * owner. */
static kvf_status check_grant(const struct arena *arena, uint64_t party, uint32_t id, uint32_t generation) {
  if (id >= arena->unit_count) return KVF_INVALID;
  const struct arena_extent *extent = &arena->extents[id];
  if (extent->generation != generation || extent->state == EXTENT_FREE) return KVF_STALE;
  if (extent->party_id != party) return KVF_WRONG_PEER;
  return extent->state == EXTENT_GRANTED ? KVF_OK : KVF_STALE;
}

static const char *describe_refusal(kvf_status status) {
  switch (status) {
    case KVF_INVALID:
      return "no such grant";
    case KVF_WRONG_PEER:
      return "the grant is another party's";
    case KVF_GRANT_OVERRUN:
      return "the piece is larger than its grant";
    default:
      return "the grant has been used, given back or withdrawn";
  }
}

static kvf_status refuse_claim(struct arena *arena, kvf_status status, const struct arena_grant *asked, kvf_error **error_out) {
  arena->refused_total++;
  kvf_error *error = BASE_ERROR(status, NULL, "%s", describe_refusal(status));
  base_error_add(error, "party", "%" PRIu64, asked->party);
  base_error_add(error, "grant", "%" PRIu32, asked->id);
  base_error_add(error, "generation", "%" PRIu32, asked->generation);
  if (status == KVF_STALE) base_error_add(error, "expected", "%" PRIu32, arena->extents[asked->id].generation);
  if (status == KVF_GRANT_OVERRUN) {
    base_error_add(error, "length", "%" PRIu64, asked->length);
    base_error_add(error, "granted", "%" PRIu64, arena_extent_bytes(arena, arena->extents[asked->id].order));
  }
  return base_error_give(error, error_out);
}

kvf_status arena_claim(struct arena *arena, uint64_t party, uint32_t id, uint32_t generation, uint64_t length,
                       struct arena_grant *grant_out, kvf_error **error_out) {
  kvf_status status = check_grant(arena, party, id, generation);
  struct arena_extent *extent = status == KVF_OK ? &arena->extents[id] : NULL;
  if (extent && length > arena_extent_bytes(arena, extent->order)) status = KVF_GRANT_OVERRUN;
  if (status != KVF_OK) {
    const struct arena_grant asked = {.party = party, .id = id, .generation = generation, .length = length};
    return refuse_claim(arena, status, &asked, error_out);
  }
  set_state(arena, extent, EXTENT_CLAIMED);
  fill_grant(arena, extent, grant_out);
  return KVF_OK;
}

void arena_release(struct arena *arena, uint32_t id, uint32_t generation) {
  if (id >= arena->unit_count) return;
  struct arena_extent *extent = &arena->extents[id];
  if (extent->generation == generation && extent->state == EXTENT_CLAIMED) arena_extent_free(arena, extent);
}

kvf_status arena_return(struct arena *arena, uint64_t party, uint32_t id, uint32_t generation) {
  kvf_status status = check_grant(arena, party, id, generation);
  if (status == KVF_OK) {
    arena_extent_free(arena, &arena->extents[id]);
  } else {
    arena->refused_total++;
  }
  return status;
}
