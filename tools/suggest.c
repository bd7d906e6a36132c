/* Suggestions: the edit distance over two rows. */
#include "suggest.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { WORD_LIMIT = 64 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

size_t suggest_distance(const char *left, const char *right) {
  size_t left_length = strlen(left), right_length = strlen(right);
  if (left_length > WORD_LIMIT || right_length > WORD_LIMIT) return SIZE_MAX;
  size_t row[WORD_LIMIT + 1];
  for (size_t j = 0; j <= right_length; j++) row[j] = j;
  for (size_t i = 1; i <= left_length; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= right_length; j++) {
      size_t above = row[j];
      size_t replace = diagonal + (tolower((unsigned char)left[i - 1]) != tolower((unsigned char)right[j - 1]));
      row[j] = least(replace, least(above, row[j - 1]) + 1);
      diagonal = above;
    }
  }
  return row[right_length];
}

const char *suggest_word(const char *word, const char *const *words, size_t count) {
  const char *best = NULL;
  size_t best_distance = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    size_t distance = suggest_distance(word, words[i]);
    if (distance < best_distance && distance <= strlen(words[i]) / 3 + 1) {
      best = words[i];
      best_distance = distance;
    }
  }
  for (size_t i = 0; i < count && !best; i++)
    if (strlen(word) >= 3 && strcasestr(words[i], word)) best = words[i];
  return best;
}
