/* conformance_run for the provider named by the argument. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "fabric_fault/fault.h"
#include "fabric_shm/shm.h"
#include "fabric_tcp/tcp.h"
#include "fabric_ucx/ucx.h"

/* LeakSanitizer's own tracer dies in the thread-local storage of UCX's message mode (gcc 12, UCX 1.13), before it can look at anything: for that
 * provider alone leaks are not searched. tests/fabric/ucx_provider.c searches them in the same code. */
static bool skip_leak_search;
int __lsan_is_turned_off(void);
__attribute__((visibility("default"), used)) int __lsan_is_turned_off(void) { return skip_leak_search; }

int main(int argument_count, char **arguments) {
  static const struct fabric_ops *const wrapped[] = {&fabric_shm_ops, &fabric_tcp_ops};
  const struct {
    const char *name;
    const struct fabric_ops *ops;
    const char *settings;
  } providers[] = {
      {"shm", &fabric_shm_ops, NULL},
      {"tcp", &fabric_tcp_ops, NULL},
      {"ucx", &fabric_ucx_ops, NULL},
      {"rdma", &fabric_rdma_ops, "emulate=1"},
      {"rdma-parts", &fabric_rdma_ops, "emulate=1,region_limit=131072"},
      {"fault-shm", &fabric_fault_ops, "inner=shm"},
      {"fault-tcp", &fabric_fault_ops, "inner=tcp"},
  };
  skip_leak_search = argument_count == 2 && strcmp(arguments[1], "ucx") == 0;
  fabric_fault_offer(wrapped, sizeof wrapped / sizeof *wrapped);
  for (size_t i = 0; argument_count == 2 && i < sizeof providers / sizeof *providers; i++) {
    if (strcmp(arguments[1], providers[i].name) == 0) return conformance_run(providers[i].ops, providers[i].settings);
  }
  fprintf(stderr, "usage: %s shm|tcp|ucx|rdma|rdma-parts|fault-shm|fault-tcp\n", arguments[0]);
  return 2;
}
