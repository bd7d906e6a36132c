/* Which kernel: the widest that both this build and this CPU have. */
#include <string.h>

#include "copy/backends.h"

#if defined(__x86_64__)
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("bmi2");
}
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2");
}
#endif
static bool has_always(void) {
  return true;
}

/* The best first. */
static const struct {
  const struct copy_backend *backend;
  bool (*available)(void);
} candidates[] = {
#if defined(__x86_64__)
    {&copy_backend_avx512, has_avx512},
    {&copy_backend_avx2, has_avx2},
#elif defined(__aarch64__)
    {&copy_backend_neon, has_always}, /* part of the architecture */
#endif
    {&copy_backend_portable, has_always},
};
enum { CANDIDATE_COUNT = sizeof candidates / sizeof candidates[0] };

const struct copy_backend *copy_host_backend(void) {
  for (int i = 0; i < CANDIDATE_COUNT - 1; i++) {
    if (candidates[i].available()) return candidates[i].backend;
  }
  return candidates[CANDIDATE_COUNT - 1].backend;
}

const struct copy_backend *copy_host_backend_find(const char *name) {
  for (int i = 0; i < CANDIDATE_COUNT; i++) {
    if (!strcmp(candidates[i].backend->name, name)) return candidates[i].available() ? candidates[i].backend : NULL;
  }
  return NULL;
}
