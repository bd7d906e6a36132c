/* Hash map from a 64-bit key to a pointer. Not thread-safe. Values are never owned. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_map_slot {
  uint64_t key;
  void *value; /* NULL: free */
};

struct base_map {
  struct base_map_slot *slots;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
};

/* Zero-initialised memory is an empty map. */
void base_map_fini(struct base_map *map);
void *base_map_get(const struct base_map *map, uint64_t key);
/* False when memory is out. @p value must not be NULL; an existing key is replaced. */
bool base_map_put(struct base_map *map, uint64_t key, void *value);
/* The removed value, or NULL. */
void *base_map_remove(struct base_map *map, uint64_t key);
/* Iterate: start with *cursor = 0; NULL at the end. The map must not change meanwhile. */
void *base_map_next(const struct base_map *map, size_t *cursor);

#endif
