/* The registry is a list: allocations are pools and arenas, a few per process, each with a descriptor of its own. */
#include "memory/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct allocation {
  struct base_list node;
  void *address;
  uint64_t length;
  int fd;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct base_list registry = {&registry, &registry};

static kvf_error *fail(kvf_status status, uint64_t bytes, const char *call) {
  kvf_error *error = BASE_ERROR(status, BASE_ERROR_ERRNO(call, errno), "no shared memory of %llu bytes", (unsigned long long)bytes);
  return base_error_add(error, "need", "%llu", (unsigned long long)bytes);
}

static kvf_status status_of_errno(void) {
  return errno == ENOMEM || errno == ENOSPC ? KVF_NO_MEMORY : errno == EMFILE || errno == ENFILE ? KVF_RESOURCE_LIMIT : KVF_SYSTEM;
}

/* NULL on success; the descriptor is closed otherwise. */
static kvf_error *make(struct allocation *made) {
  const char *call = "memfd_create";
  made->fd = memfd_create("kvferry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made->fd < 0) return fail(status_of_errno(), made->length, call);
  bool ok = ftruncate(made->fd, (off_t)made->length) == 0;
  if (!ok) call = "ftruncate";
  if (ok && fcntl(made->fd, F_ADD_SEALS, SEALS) != 0) {
    ok = false;
    call = "fcntl(F_ADD_SEALS)";
  }
  if (ok) {
    made->address = mmap(NULL, made->length, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd, 0);
    if (made->address != MAP_FAILED) return NULL;
    call = "mmap";
  }
  kvf_error *error = fail(status_of_errno(), made->length, call);
  close(made->fd);
  return error;
}

kvf_status memory_shared_alloc(uint64_t bytes, void **memory_out, kvf_error **error_out) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (bytes == 0 || bytes > (uint64_t)INT64_MAX - page) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "shared memory of %llu bytes was asked for", (unsigned long long)bytes);
    return base_error_give(base_error_add(error, "length", "%llu", (unsigned long long)bytes), error_out);
  }
  struct allocation *made = base_calloc(1, sizeof *made);
  if (!made) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the registry of shared memory"), error_out);
  made->length = (bytes + page - 1) / page * page;
  kvf_error *error = make(made);
  if (error) {
    base_free(made);
    return base_error_give(error, error_out);
  }
  pthread_mutex_lock(&registry_lock);
  base_list_push_front(&registry, &made->node);
  pthread_mutex_unlock(&registry_lock);
  *memory_out = made->address;
  return KVF_OK;
}

/* The lock is held. */
static struct allocation *find_allocation(const void *address, uint64_t length) {
  BASE_LIST_EACH(&registry, node) {
    struct allocation *allocation = BASE_CONTAINER(node, struct allocation, node);
    uint64_t offset = (uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)allocation->address;
    if (offset < allocation->length && length <= allocation->length - offset) return allocation;
  }
  return NULL;
}

void memory_shared_free(void *memory) {
  if (!memory) return;
  pthread_mutex_lock(&registry_lock);
  struct allocation *allocation = find_allocation(memory, 1);
  if (allocation && allocation->address != memory) allocation = NULL;
  if (allocation) base_list_remove(&allocation->node);
  pthread_mutex_unlock(&registry_lock);
  if (!allocation) return;
  munmap(allocation->address, allocation->length);
  close(allocation->fd);
  base_free(allocation);
}

bool memory_shared_find(const void *address, uint64_t length, int *fd_out, uint64_t *offset_out) {
  pthread_mutex_lock(&registry_lock);
  const struct allocation *allocation = find_allocation(address, length);
  if (allocation) {
    *fd_out = allocation->fd;
    *offset_out = (uint64_t)((const char *)address - (const char *)allocation->address);
  }
  pthread_mutex_unlock(&registry_lock);
  return allocation != NULL;
}

bool memory_shared_is_sealed(int fd, uint64_t bytes) {
  int seals = fcntl(fd, F_GET_SEALS);
  struct stat status;
  return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &status) == 0 && status.st_size >= 0 &&
         (uint64_t)status.st_size >= bytes;
}
