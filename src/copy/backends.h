/* What this build has; which of them this CPU can run is decided in host.c. */
#ifndef COPY_BACKENDS_H
#define COPY_BACKENDS_H

#include "copy/copy.h"

extern const struct copy_backend copy_backend_portable;
#if defined(__x86_64__)
extern const struct copy_backend copy_backend_avx2;
extern const struct copy_backend copy_backend_avx512;
#elif defined(__aarch64__)
extern const struct copy_backend copy_backend_neon;
#endif

#endif
