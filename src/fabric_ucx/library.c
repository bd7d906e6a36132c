/* Loads UCX. Its environment is prepared first, because UCX reads it while it is being loaded (it would install its own crash
 * handler there) and because settings of its transports can be given in no other way. What the user has set stays. */
#include "fabric_ucx/library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "fabric_ucx/device.h"

static const struct {
  const char *name;
  const char *value;
} environment[] = {
    {"UCX_HANDLE_ERRORS", "none"},
    {"UCX_LOG_LEVEL", "fatal"}, /* what it would print is in the errors that we return */
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    /* A dead link under an idle connection is found in four seconds. UCX's own keepalive must stay slower than the kernel's,
     * or its unanswered probe keeps the kernel from sending any (see open.c). */
    {"UCX_TCP_KEEPIDLE", "1s"},
    {"UCX_TCP_KEEPINTVL", "1s"},
    {"UCX_TCP_KEEPCNT", "3"},
    {"UCX_TCP_USER_TIMEOUT", "10s"},
    /* The default of 8 KiB cuts a large piece into too many; measured over loopback, at least twice the throughput from 256 KiB on.
     */
    {"UCX_TCP_TX_SEG_SIZE", "64K"},
    {"UCX_TCP_RX_SEG_SIZE", "64K"},
    /* Without it, shared memory drops out where peer failures are to be noticed. */
    {"UCX_POSIX_ERROR_HANDLING", "y"},
};

static kvf_error *explain_loader(const char *what) {
  const char *text = dlerror();
  return base_error_add(BASE_ERROR(KVF_UNAVAILABLE, NULL, "%s: %s", what, text ? text : "no reason given"), "provider", "ucx");
}

kvf_status fabric_ucx_library_load(const char *soname, struct fabric_ucx_library *library_out, kvf_error **error_out) {
  for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) setenv(environment[i].name, environment[i].value, 0);
  /* UCX replaces mmap, madvise and others in the whole process to watch over its registration cache, which only devices need. */
  if (!fabric_ucx_device_exists(FABRIC_UCX_DEVICE_FOLDER)) setenv("UCX_MEM_EVENTS", "no", 0);
  void *handle = dlopen(soname ? soname : "libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return base_error_give(explain_loader("UCX cannot be loaded"), error_out);
#define LOOK_UP(name)                                          \
  library_out->name = (__typeof__(&name))dlsym(handle, #name); \
  if (!library_out->name) return base_error_give(explain_loader("this UCX lacks a function"), error_out);
  FABRIC_UCX_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  return KVF_OK;
}

kvf_error *fabric_ucx_library_error(const struct fabric_ucx_library *library, const char *provider, const char *call,
                                    ucs_status_t status) {
  kvf_error *error = BASE_ERROR(KVF_FABRIC, NULL, "%s: %s", call, library->ucs_status_string(status));
  base_error_add(error, "ucs_status", "%d", (int)status);
  return base_error_add(error, "provider", "%s", provider);
}
