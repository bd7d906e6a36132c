/* Suggestions: what a mistyped word probably meant. */
#ifndef TOOLS_SUGGEST_H
#define TOOLS_SUGGEST_H

#include <stddef.h>

/** How many letters must change (insert, drop, replace) to make @p right of @p left, ignoring case. */
size_t suggest_distance(const char *left, const char *right);

/** The closest of @p words[count], or NULL when none is close (a third of its letters) or contains @p word. */
const char *suggest_word(const char *word, const char *const *words, size_t count);

#endif
