/* The pattern: what every byte of every room must be, computed from (room, layer, role, part, global head, entry).
 * The stem mixes all but the entry; the base mixes stem and entry; word i of the row is base + i * an odd constant. */
#ifndef TOOLS_PATTERN_H
#define TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mix.h"

enum { PATTERN_CANARY = 0xc5 }; /* every byte that nobody may write */

static inline uint64_t pattern_stem(uint64_t room, uint32_t layer, uint32_t role, uint32_t part, uint32_t head) {
  uint64_t place = (uint64_t)layer << 44 ^ (uint64_t)role << 36 ^ (uint64_t)part << 24 ^ head;
  return mix_word(mix_word(room + 0x9e3779b97f4a7c15ull) ^ place);
}

static inline uint64_t pattern_base(uint64_t stem, uint64_t entry) {
  return mix_word(stem + entry);
}

/** One row: the head of one entry. */
void pattern_fill(uint64_t base, void *row, size_t row_bytes);
bool pattern_matches(uint64_t base, const void *row, size_t row_bytes);
/** The first byte that differs, or @p row_bytes. */
size_t pattern_find(uint64_t base, const void *row, size_t row_bytes);
uint8_t pattern_byte(uint64_t base, size_t index);

bool pattern_is_canary(const void *memory, size_t length_bytes);
/** The first byte that is no canary, or @p length_bytes. */
size_t pattern_find_stain(const void *memory, size_t length_bytes);

/** The auxiliary bytes of a room. */
void pattern_fill_aux(uint64_t room, void *aux, size_t aux_bytes);
bool pattern_aux_matches(uint64_t room, const void *aux, size_t aux_bytes);

#endif
