/* The order of planes: by what they are (layer, role, part), then by first head. */
#ifndef LAYOUT_ORDER_H
#define LAYOUT_ORDER_H

#include <stdbool.h>

#include <kvferry/plane.h>

/* Are these two planes, or pieces of one, of the same array of the model? */
static inline bool layout_order_same_array(const kvf_plane *a, const kvf_plane *b) {
  return a->layer == b->layer && a->role == b->role && a->part == b->part;
}

/* Both: negative, 0 or positive, like strcmp. */
static inline int layout_order_compare_arrays(const kvf_plane *a, const kvf_plane *b) {
  if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
  if (a->role != b->role) return a->role < b->role ? -1 : 1;
  return (a->part > b->part) - (a->part < b->part);
}
static inline int layout_order_compare(const kvf_plane *a, const kvf_plane *b) {
  int order = layout_order_compare_arrays(a, b);
  if (order) return order;
  if (a->head_first != b->head_first) return a->head_first < b->head_first ? -1 : 1;
  return 0;
}

/* Pointers to the planes in order, base_alloc'ed; NULL when memory is out. */
const kvf_plane **layout_order_create(const kvf_plane *planes, uint32_t plane_count);

#endif
