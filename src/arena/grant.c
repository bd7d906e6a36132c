/* Whose turn it is. The queue is in order of turn: a party goes to its end when it is granted something, and keeps its place while
 * its extent does not fit, so it is the first to be asked when something comes back.
 *
 * That alone lets small extents starve a large one for ever: each hole is filled before it can grow. So a party that has been
 * passed over for starve_ns is drained for: nobody behind it is granted anything. Draining must not become a way to stop everybody:
 *   - it is not begun when even all live parties' extents together would not make room (quarantined ones lie in between);
 *   - it is given up, and the party goes to the end of the queue, when for another starve_ns nothing at all has come back: what is
 * left is credit that idle peers sit on. */
#include "arena/state.h"

static void move_to_end(struct arena *arena, struct arena_party *party) {
  party->blocked = false;
  if (arena->draining_for == party) arena->draining_for = NULL;
  base_list_remove(&party->waiting_node);
  base_list_push_back(&arena->waiting, &party->waiting_node);
}

static bool is_starving(const struct arena *arena, const struct arena_party *party, uint64_t now_ns) {
  return arena_elapsed_ns(party->blocked_since_ns, now_ns) >= arena->options.starve_ns &&
         arena_buddy_fits(&arena->reachable, party->order);
}

/* For a starving party: go on draining? False: given up, or it is not the time. */
static bool drain_for(struct arena *arena, struct arena_party *party, uint64_t now_ns) {
  if (now_ns < arena->drain_not_before_ns) return false;
  if (arena->draining_for != party || arena->drain_freed_total != arena->freed_total) {
    arena->draining_for = party;
    arena->drain_freed_total = arena->freed_total;
    arena->drain_progress_ns = now_ns;
    return true;
  }
  if (arena_elapsed_ns(arena->drain_progress_ns, now_ns) < arena->options.starve_ns) return true;
  move_to_end(arena, party);
  arena->drain_not_before_ns = now_ns + arena->options.starve_ns;
  return false;
}

static struct arena_party *choose_party(struct arena *arena, uint64_t now_ns) {
  BASE_LIST_EACH(&arena->waiting, node) {
    struct arena_party *party = BASE_CONTAINER(node, struct arena_party, waiting_node);
    if (arena_buddy_fits(&arena->free, party->order)) return party;
    if (!party->blocked) {
      party->blocked = true;
      party->blocked_since_ns = now_ns;
    }
    if (is_starving(arena, party, now_ns) && drain_for(arena, party, now_ns)) return NULL;
  }
  return NULL;
}

bool arena_grant_next(struct arena *arena, uint64_t now_ns, struct arena_grant *grant_out) {
  struct arena_party *party = choose_party(arena, now_ns);
  if (!party) return false;
  arena_extent_grant(arena, party, now_ns, grant_out);
  move_to_end(arena, party);
  arena_party_queue(arena, party);
  return true;
}
