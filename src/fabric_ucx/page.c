/* Reads page sizes from the process's own map. The kernel walks the pages of every mapping for it, so it is asked only for regions
 * that must be cut. */
#include "fabric_ucx/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"

/* Mappings come in the order of their addresses, each a line with its range and lines with what is known about it. */
static uint64_t read_largest(FILE *map, uint64_t begin, uint64_t end) {
  uint64_t largest = 0, from, to, kilobytes;
  bool touched = false;
  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, map) > 0) {
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
      if (from >= end) break;
      touched = to > begin;
    } else if (touched && sscanf(line, "KernelPageSize: %" SCNu64 " kB", &kilobytes) == 1) {
      largest = base_max_u64(largest, kilobytes << 10);
    }
  }
  free(line);
  return largest;
}

uint64_t fabric_ucx_page_bytes(const void *address, uint64_t length) {
  uint64_t begin = (uint64_t)(uintptr_t)address, end, largest = 0;
  FILE *map = base_add_u64(begin, length, &end) ? fopen("/proc/self/smaps", "re") : NULL;
  if (map) {
    largest = read_largest(map, begin, end);
    fclose(map);
  }
  return largest ? largest : (uint64_t)sysconf(_SC_PAGESIZE);
}
