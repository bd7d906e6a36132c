/* mlock, and what its errno means. */
#include "memory/pin.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static bool is_mapped(void *address, uint64_t length) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t slack = (uint64_t)(uintptr_t)address % page;
  /* MS_ASYNC starts nothing on Linux; it only walks the mappings. */
  return msync((char *)address - slack, length + slack, MS_ASYNC) == 0 || errno != ENOMEM;
}

static kvf_error *describe_limit(uint64_t length, int number) {
  struct rlimit limit = {0};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  kvf_error *error = BASE_ERROR(
      KVF_RESOURCE_LIMIT, BASE_ERROR_ERRNO("mlock", number),
      "locking %llu bytes exceeds the limit of locked memory (%llu bytes): raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=, "
      "or --ulimit memlock=-1 for a container)",
      (unsigned long long)length, (unsigned long long)limit.rlim_cur);
  base_error_add(error, "limit", "%llu", (unsigned long long)limit.rlim_cur);
  return base_error_add(error, "need", "%llu", (unsigned long long)length);
}

kvf_status memory_pin(void *address, uint64_t length, kvf_error **error_out) {
  if (mlock(address, length) == 0) return KVF_OK;
  int number = errno;
  kvf_error *error;
  if (number == ENOMEM && !is_mapped(address, length))
    error = BASE_ERROR(KVF_INVALID, BASE_ERROR_ERRNO("mlock", number), "a part of the region is not mapped");
  else if (number == ENOMEM || number == EPERM)
    error = describe_limit(length, number);
  else
    error = BASE_ERROR(KVF_SYSTEM, BASE_ERROR_ERRNO("mlock", number), "the region cannot be locked in memory");
  base_error_add(error, "address", "%p", address);
  return base_error_give(base_error_add(error, "length", "%llu", (unsigned long long)length), error_out);
}

void memory_unpin(uint64_t first, uint64_t end) {
  if (first < end) munlock((void *)(uintptr_t)first, end - first);
}
