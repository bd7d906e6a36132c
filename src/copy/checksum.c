/* Which kernel of the checksum, and the one that runs everywhere: SSE2 or NEON where they are part of the architecture. */
#include "copy/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t copy_checksum_plain(const void *bytes, size_t length_bytes) { return XXH3_64bits(bytes, length_bytes); }

uint64_t copy_checksum(const void *bytes, size_t length_bytes) {
  uint64_t checksum;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    checksum = copy_checksum_avx512(bytes, length_bytes);
  else if (__builtin_cpu_supports("avx2"))
    checksum = copy_checksum_avx2(bytes, length_bytes);
  else
#endif
    checksum = copy_checksum_plain(bytes, length_bytes);
  return checksum ? checksum : 1;
}
