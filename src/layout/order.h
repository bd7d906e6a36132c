/* The canonical order of planes: by layer, role and first head. */
#ifndef LAYOUT_ORDER_H
#define LAYOUT_ORDER_H

#include <kvferry/plane.h>

/* Negative, 0 or positive, like strcmp. */
static inline int layout_order_compare(const kvf_plane *a, const kvf_plane *b) {
  if (a->layer != b->layer) return a->layer < b->layer ? -1 : 1;
  if (a->role != b->role) return a->role < b->role ? -1 : 1;
  if (a->head_first != b->head_first) return a->head_first < b->head_first ? -1 : 1;
  return 0;
}

/* Pointers to the planes in canonical order, base_alloc'ed; NULL when memory is out. */
const kvf_plane **layout_order_create(const kvf_plane *planes, uint32_t plane_count);

#endif
