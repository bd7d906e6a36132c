/* The tree. A taken block's node holds 0 and nothing below it is looked at, so nodes below may keep whatever they held; a block
 * that is put back finds its subtree as it was when the block was taken: all free. */
#include "arena/buddy.h"

#include <assert.h>
#include <stddef.h>

#include "base/alloc.h"

/* After the node @p node of order @p order changed: its ancestors. */
static void update_ancestors(struct arena_buddy *buddy, uint32_t node, uint8_t order) {
  for (node /= 2, order++; node; node /= 2, order++) {
    uint8_t left = buddy->largest[2 * node], right = buddy->largest[2 * node + 1];
    bool both_free = left == order && right == order;
    buddy->largest[node] = both_free ? order + 1 : (left > right ? left : right);
  }
}

static uint32_t find_node(const struct arena_buddy *buddy, uint32_t unit, uint8_t order) {
  return (1u << (buddy->order - order)) + (unit >> order);
}

bool arena_buddy_init(struct arena_buddy *buddy, uint8_t order) {
  buddy->order = order;
  buddy->largest = base_alloc((size_t)2 << order);
  if (!buddy->largest) return false;
  buddy->largest[0] = 0;
  for (uint8_t depth = 0; depth <= order; depth++) {
    for (uint32_t node = 1u << depth; node < 2u << depth; node++) buddy->largest[node] = order - depth + 1;
  }
  return true;
}

void arena_buddy_fini(struct arena_buddy *buddy) {
  base_free(buddy->largest);
  buddy->largest = NULL;
}

bool arena_buddy_fits(const struct arena_buddy *buddy, uint8_t order) {
  return buddy->largest[1] > order;
}

uint32_t arena_buddy_take(struct arena_buddy *buddy, uint8_t order, enum buddy_side side) {
  assert(arena_buddy_fits(buddy, order));
  uint32_t node = 1;
  for (uint8_t at = buddy->order; at > order; at--) {
    uint32_t preferred = 2 * node + (side == BUDDY_HIGH);
    node = buddy->largest[preferred] > order ? preferred : preferred ^ 1;
  }
  buddy->largest[node] = 0;
  update_ancestors(buddy, node, order);
  return (node - (1u << (buddy->order - order))) << order;
}

void arena_buddy_take_at(struct arena_buddy *buddy, uint32_t unit, uint8_t order) {
  uint32_t node = find_node(buddy, unit, order);
  assert(buddy->largest[node] == order + 1);
  buddy->largest[node] = 0;
  update_ancestors(buddy, node, order);
}

void arena_buddy_put(struct arena_buddy *buddy, uint32_t unit, uint8_t order) {
  uint32_t node = find_node(buddy, unit, order);
  assert(buddy->largest[node] == 0);
  buddy->largest[node] = order + 1;
  update_ancestors(buddy, node, order);
}
