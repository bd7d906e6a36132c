#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

int base_random_fill(void *bytes, size_t length_bytes) {
  unsigned char *at = bytes;
  while (length_bytes) {
    ssize_t got = getrandom(at, length_bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    at += got;
    length_bytes -= (size_t)got;
  }
  return 0;
}
