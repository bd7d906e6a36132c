/* The n-th allocation fails, n = 1, 2, 3 … until everything passes: no crash, no leak, a NO_MEMORY error, and the provider goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "conformance_peer.h"
#include "fabric_fault/fault.h"
#include "fabric_shm/shm.h"
#include "fabric_tcp/tcp.h"
#include "memory/shared.h"

enum { TOKEN = 5, LENGTH = 65536, ATTEMPT_LIMIT = 200, PASSES = 20 };

static uint64_t ready, down, landed_count, sent_count;

static kvf_status place(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes, struct iovec *iov_out,
                        size_t *iov_count_inout) {
  iov_out[0] = (struct iovec){context, payload_bytes};
  *iov_count_inout = 1;
  return KVF_OK;
}
static void landed(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes) {
  landed_count++;
}
static void token_lost(void *context, uint64_t token) {}
static void sent(void *context, void *tag, kvf_error *error) {
  sent_count++;
  kvf_error_free(error);
}
static void endpoint_ready(void *context, struct fabric_endpoint *endpoint) {
  ready++;
}
static void endpoint_down(void *context, struct fabric_endpoint *endpoint, kvf_error *error) {
  down++;
  kvf_error_free(error);
}

/* One fabric talks to itself: open, expose, connect, import, send. True when all of it worked. */
static bool attempt(const struct fabric_ops *ops, const char *settings, char *memory) {
  struct fabric_options options = {.host = "127.0.0.1",
                                   .settings = settings,
                                   .callbacks = {memory, place, landed, token_lost, sent, endpoint_ready, endpoint_down}};
  struct fabric *fabric = NULL;
  struct fabric_region *region = NULL;
  struct fabric_endpoint *endpoint = NULL;
  struct fabric_exposure exposure = {.region = 1, .generation = 1, .address = memory, .length = LENGTH};
  uint8_t key[FABRIC_KEY_LIMIT_BYTES], address[FABRIC_ADDRESS_LIMIT_BYTES];
  ready = down = landed_count = sent_count = 0;
  memory_shared_find(memory, LENGTH, &exposure.memory_fd, &exposure.memory_fd_offset);
  kvf_status status = ops->open(&options, &fabric, NULL);
  if (status != KVF_OK) {
    assert_int_equal(status, KVF_NO_MEMORY);
    return false;
  }
  ops = fabric->ops;
  status = ops->token_admit(fabric, TOKEN, NULL);
  if (status == KVF_OK) status = ops->region_expose(fabric, &exposure, &region, NULL);
  if (status == KVF_OK) status = ops->connect(fabric, address, ops->address(fabric, address), TOKEN, NULL, &endpoint, NULL);
  if (status == KVF_OK && ops->key_import) {
    status = ops->key_import(endpoint, 1, 1, LENGTH, key, region->ops->region_key(region, key), NULL);
    if (status == KVF_FABRIC) status = KVF_NO_MEMORY;
  }
  uint64_t deadline_ns = base_clock_ns() + 3 * BASE_NS_PER_S;
  char payload[100] = {0};
  uint8_t header[FABRIC_HEADER_BYTES] = {0};
  const struct iovec iov = {payload, sizeof payload};
  const struct fabric_piece piece = {
      .header = header, .iov = &iov, .iov_count = 1, .payload_bytes = sizeof payload, .target = {1, 1, 0, sizeof payload}};
  bool posted = false;
  while (status == KVF_OK && !down && landed_count == 0 && base_clock_ns() < deadline_ns) {
    ops->progress(fabric);
    if (!ready || posted) continue;
    kvf_status answer = ops->send(endpoint, &piece, NULL);
    posted = answer == KVF_OK;
    if (!posted && answer != KVF_NOT_READY) assert_int_equal(answer, KVF_NO_MEMORY);
  }
  base_alloc_fail_after(0);
  if (status != KVF_OK) assert_int_equal(status, KVF_NO_MEMORY);
  if (region) region->ops->region_revoke(region);
  ops->close(fabric);
  return landed_count == 1;
}

static void run(const struct fabric_ops *ops, const char *settings) {
  char *memory;
  assert_int_equal(memory_shared_alloc(LENGTH, (void **)&memory, NULL), KVF_OK);
  assert_true(attempt(ops, settings, memory));
  uint64_t fds = peer_fd_count();
  uint32_t failed = 0, countdown = 1;
  /* Some failures are survived, so one pass proves nothing: go on well past the number of allocations that an attempt makes. */
  for (uint32_t passes = 0; passes < PASSES && countdown < ATTEMPT_LIMIT; countdown++) {
    base_alloc_fail_after(countdown);
    bool worked = attempt(ops, settings, memory);
    passes = worked ? passes + 1 : 0;
    failed += !worked;
    assert_int_equal(peer_fd_count(), fds);
  }
  assert_true(countdown < ATTEMPT_LIMIT);
  print_message("%u of %u attempts failed\n", failed, countdown - 1);
  assert_true(failed >= 4); /* at least the provider, the token, the endpoint and the receiver */
  memory_shared_free(memory);
}

static void test_tcp(void **state) {
  run(&fabric_tcp_ops, NULL);
}
static void test_shm(void **state) {
  run(&fabric_shm_ops, NULL);
}
static void test_fault(void **state) {
  run(&fabric_fault_ops, "inner=tcp,user_timeout_ms=9");
}

int main(void) {
  static const struct fabric_ops *const inners[] = {&fabric_shm_ops, &fabric_tcp_ops};
  fabric_fault_offer(inners, sizeof inners / sizeof *inners);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tcp), cmocka_unit_test(test_shm), cmocka_unit_test(test_fault)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
