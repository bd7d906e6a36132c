/* The progress line: rooms, bytes, speed and time left, redrawn in place; only on a terminal. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
  bool live;
  uint64_t start_ns, drawn_ns;
};

void progress_start(struct progress *progress, bool wanted, uint64_t now_ns);
/** Redraw, at most ten times a second. */
void progress_update(struct progress *progress, uint64_t rooms, uint64_t rooms_total, uint64_t bytes, uint64_t now_ns);
/** Take the line away. */
void progress_stop(struct progress *progress);

/** The text of the line. */
void progress_render(uint64_t rooms, uint64_t rooms_total, uint64_t bytes, double elapsed_s, char *text, size_t capacity_bytes);

#endif
