/* The progress line, on standard error. */
#include "progress.h"

#include <stdio.h>
#include <string.h>

#include "moment.h"
#include "quantity.h"
#include "terminal.h"

enum { BAR_CELLS = 24 };

void progress_render(uint64_t rooms, uint64_t rooms_total, uint64_t bytes, double elapsed_s, char *text, size_t capacity_bytes) {
  char bar[BAR_CELLS + 1], moved[QUANTITY_TEXT_BYTES], rate[QUANTITY_TEXT_BYTES], left[QUANTITY_TEXT_BYTES] = "?";
  uint64_t filled = rooms_total ? rooms * BAR_CELLS / rooms_total : 0;
  memset(bar, '.', BAR_CELLS);
  memset(bar, '#', filled < BAR_CELLS ? filled : BAR_CELLS);
  bar[BAR_CELLS] = 0;
  if (rooms) quantity_format_seconds(elapsed_s * (double)(rooms_total - rooms) / (double)rooms, left);
  snprintf(text, capacity_bytes, "[%s] %llu/%llu rooms  %s  %s/s  %s left", bar, (unsigned long long)rooms,
           (unsigned long long)rooms_total, quantity_format_bytes((double)bytes, moved),
           quantity_format_bytes(elapsed_s > 0 ? (double)bytes / elapsed_s : 0, rate), left);
}

void progress_start(struct progress *progress, bool wanted, uint64_t now_ns) {
  *progress = (struct progress){.live = wanted && terminal_is_live(stderr), .start_ns = now_ns};
}

void progress_update(struct progress *progress, uint64_t rooms, uint64_t rooms_total, uint64_t bytes, uint64_t now_ns) {
  char text[256];
  if (!progress->live || now_ns - progress->drawn_ns < 100 * (uint64_t)MOMENT_MS) return;
  progress->drawn_ns = now_ns;
  progress_render(rooms, rooms_total, bytes, (double)(now_ns - progress->start_ns) / 1e9, text, sizeof text);
  fprintf(stderr, "\r%s\033[K", text);
  fflush(stderr);
}

void progress_stop(struct progress *progress) {
  if (progress->live) fprintf(stderr, "\r\033[K");
  progress->live = false;
}
