/* The pattern: rows are written and compared a word at a time; the bytes of a tail come from the next word. */
#include "pattern.h"

#include <string.h>

static const uint64_t step = 0x9e3779b97f4a7c15ull;
static const uint64_t aux_salt = 0xa0c5ull << 40;

void pattern_fill(uint64_t base, void *row, size_t row_bytes) {
  char *write = row;
  size_t left = row_bytes;
  for (; left >= sizeof base; left -= sizeof base, write += sizeof base, base += step) memcpy(write, &base, sizeof base);
  memcpy(write, &base, left);
}

bool pattern_matches(uint64_t base, const void *row, size_t row_bytes) {
  const char *read = row;
  size_t left = row_bytes;
  uint64_t difference = 0, word;
  for (; left >= sizeof word; left -= sizeof word, read += sizeof word, base += step) {
    memcpy(&word, read, sizeof word);
    difference |= word ^ base;
  }
  return difference == 0 && !memcmp(read, &base, left);
}

uint8_t pattern_byte(uint64_t base, size_t index) {
  uint64_t word = base + index / sizeof word * step;
  uint8_t bytes[sizeof word];
  memcpy(bytes, &word, sizeof word);
  return bytes[index % sizeof word];
}

size_t pattern_find(uint64_t base, const void *row, size_t row_bytes) {
  const uint8_t *read = row;
  size_t index = 0;
  while (index < row_bytes && read[index] == pattern_byte(base, index)) index++;
  return index;
}

bool pattern_is_canary(const void *memory, size_t length_bytes) {
  const char *read = memory;
  size_t left = length_bytes;
  uint64_t canary, stain = 0, word;
  memset(&canary, PATTERN_CANARY, sizeof canary);
  for (; left >= sizeof word; left -= sizeof word, read += sizeof word) {
    memcpy(&word, read, sizeof word);
    stain |= word ^ canary;
  }
  return stain == 0 && !memcmp(read, &canary, left);
}

size_t pattern_find_stain(const void *memory, size_t length_bytes) {
  enum { STRIDE_BYTES = 1 << 16 };
  const uint8_t *read = memory;
  size_t index = 0;
  while (length_bytes - index >= STRIDE_BYTES && pattern_is_canary(read + index, STRIDE_BYTES)) index += STRIDE_BYTES;
  while (index < length_bytes && read[index] == PATTERN_CANARY) index++;
  return index;
}

void pattern_fill_aux(uint64_t room, void *aux, size_t aux_bytes) {
  pattern_fill(mix_word(room ^ aux_salt), aux, aux_bytes);
}

bool pattern_aux_matches(uint64_t room, const void *aux, size_t aux_bytes) {
  return pattern_matches(mix_word(room ^ aux_salt), aux, aux_bytes);
}
