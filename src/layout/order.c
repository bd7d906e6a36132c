/* Sorting planes without moving them. */
#include "layout/order.h"

#include <stdlib.h>

#include "base/alloc.h"

static int compare_pointers(const void *a, const void *b) {
  const kvf_plane *left = *(const kvf_plane *const *)a, *right = *(const kvf_plane *const *)b;
  int order = layout_order_compare(left, right);
  return order ? order : (left > right) - (left < right);
}

const kvf_plane **layout_order_create(const kvf_plane *planes, uint32_t plane_count) {
  const kvf_plane **order = base_alloc(((size_t)plane_count + 1) * sizeof *order);
  if (!order) return NULL;
  for (uint32_t i = 0; i < plane_count; i++) order[i] = &planes[i];
  qsort(order, plane_count, sizeof *order, compare_pointers);
  return order;
}
