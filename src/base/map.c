/* Open addressing with linear probing and backward-shift deletion, so there are no tombstones to clean. */
#include "base/map.h"

#include "base/alloc.h"
#include "base/random.h"

static size_t home_slot(const struct base_map *map, uint64_t key) { return base_mix_u64(key) & (map->capacity - 1); }

static size_t find_slot(const struct base_map *map, uint64_t key) {
  size_t index = home_slot(map, key);
  while (map->slots[index].value && map->slots[index].key != key) index = (index + 1) & (map->capacity - 1);
  return index;
}

static bool grow(struct base_map *map) {
  struct base_map larger = {.capacity = map->capacity ? map->capacity * 2 : 16, .count = map->count};
  larger.slots = base_calloc(larger.capacity, sizeof *larger.slots);
  if (!larger.slots) return false;
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->slots[i].value) larger.slots[find_slot(&larger, map->slots[i].key)] = map->slots[i];
  }
  base_free(map->slots);
  *map = larger;
  return true;
}

void base_map_fini(struct base_map *map) {
  base_free(map->slots);
  *map = (struct base_map){0};
}

void *base_map_get(const struct base_map *map, uint64_t key) {
  return map->capacity ? map->slots[find_slot(map, key)].value : NULL;
}

bool base_map_put(struct base_map *map, uint64_t key, void *value) {
  if ((map->count + 1) * 4 > map->capacity * 3 && !grow(map)) return false;
  struct base_map_slot *slot = &map->slots[find_slot(map, key)];
  if (!slot->value) map->count++;
  *slot = (struct base_map_slot){.key = key, .value = value};
  return true;
}

void *base_map_remove(struct base_map *map, uint64_t key) {
  if (!map->capacity) return NULL;
  size_t hole = find_slot(map, key);
  void *removed = map->slots[hole].value;
  if (!removed) return NULL;
  size_t mask = map->capacity - 1;
  for (size_t next = (hole + 1) & mask; map->slots[next].value; next = (next + 1) & mask) {
    size_t home = home_slot(map, map->slots[next].key);
    /* An entry may fill the hole unless its home lies between the hole and itself. */
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    map->slots[hole] = map->slots[next];
    hole = next;
  }
  map->slots[hole].value = NULL;
  map->count--;
  return removed;
}

void *base_map_next(const struct base_map *map, size_t *cursor) {
  while (*cursor < map->capacity) {
    void *value = map->slots[(*cursor)++].value;
    if (value) return value;
  }
  return NULL;
}
