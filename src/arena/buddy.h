/* A buddy allocator over units 0 … unit_count-1, as a tree of "largest free block below here": one byte a node, no lists, no
 * pointers. Blocks are 2^order units and aligned to their size. Taking and putting back cost one walk between root and block, and
 * two free buddies are one block again at once, whatever the order of frees. */
#ifndef ARENA_BUDDY_H
#define ARENA_BUDDY_H

#include <stdbool.h>
#include <stdint.h>

enum buddy_side { BUDDY_LOW, BUDDY_HIGH };

struct arena_buddy {
  uint8_t *largest; /* [2 << order]; node 1 is the root; the order of the largest free block plus one, 0: none */
  uint8_t order;    /* of the whole */
};

/* Everything free. False when memory is out. */
bool arena_buddy_init(struct arena_buddy *buddy, uint8_t order);
void arena_buddy_fini(struct arena_buddy *buddy);

bool arena_buddy_fits(const struct arena_buddy *buddy, uint8_t order);
/* The first block from @p side. The caller has asked arena_buddy_fits. */
uint32_t arena_buddy_take(struct arena_buddy *buddy, uint8_t order, enum buddy_side side);
/* This very block, which is free. */
void arena_buddy_take_at(struct arena_buddy *buddy, uint32_t unit, uint8_t order);
/* A block back, as it was taken. */
void arena_buddy_put(struct arena_buddy *buddy, uint32_t unit, uint8_t order);

#endif
