/* The checksum of a piece's packed bytes: XXH3 of 64 bits, in the widest form that this CPU has. The same bytes have the same checksum on
 * every host. Any thread. */
#ifndef COPY_CHECKSUM_H
#define COPY_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Never 0, which stands for "none" in a piece's header. */
uint64_t copy_checksum(const void *bytes, size_t length_bytes);

/* The kernels, for tests; those of x86-64 only where the CPU has the instructions. */
uint64_t copy_checksum_plain(const void *bytes, size_t length_bytes);
#if defined(__x86_64__)
uint64_t copy_checksum_avx2(const void *bytes, size_t length_bytes);
uint64_t copy_checksum_avx512(const void *bytes, size_t length_bytes);
#endif

#endif
