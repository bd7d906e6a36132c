/* What must be equal wherever an array is held, on both sides and in all planes of one. */
#ifndef LAYOUT_FIELD_H
#define LAYOUT_FIELD_H

#include "layout/entry.h"

enum layout_field {
  LAYOUT_FIELD_DTYPE,
  LAYOUT_FIELD_HEAD_BYTES,
  LAYOUT_FIELD_HEADS_TOTAL,
  LAYOUT_FIELD_ENTRY_TOKENS,
  LAYOUT_FIELD_WINDOW_TOKENS,
  LAYOUT_FIELD_PER_REQUEST,
  LAYOUT_FIELDS
};

static inline uint32_t layout_field_value(const kvf_plane *plane, enum layout_field field) {
  const uint32_t values[LAYOUT_FIELDS] = {plane->dtype,         plane->head_bytes,
                                          plane->heads_total,   (uint32_t)layout_entry_tokens(plane),
                                          plane->window_tokens, plane->per_request};
  return values[field];
}

/* "dtype", "head_bytes" … */
static inline const char *layout_field_name(enum layout_field field) {
  static const char *const names[LAYOUT_FIELDS] = {"dtype",        "head_bytes",    "heads_total",
                                                   "entry_tokens", "window_tokens", "per_request"};
  return names[field];
}

/* The first field that differs; LAYOUT_FIELDS when none does. */
static inline enum layout_field layout_field_find_unequal(const kvf_plane *a, const kvf_plane *b) {
  enum layout_field field = 0;
  while (field < LAYOUT_FIELDS && layout_field_value(a, field) == layout_field_value(b, field)) field++;
  return field;
}

#endif
