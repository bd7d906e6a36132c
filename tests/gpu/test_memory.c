/* CUDA memory in the registration table: what the driver says of a range against what the caller says (C11), memory whose backing
 * moves (C05), pinning (C09), and every way of having no usable driver. Over the stub driver; emulation. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver.h"
#include "memory/region.h"

enum { BYTES = 1 << 20 };

static struct memory_table *table;

static kvf_status add(void *address, uint64_t bytes, uint32_t kind, struct memory_region **region_out, kvf_error **error_out) {
  const kvf_region_options options = {sizeof options, address, bytes, kind, 0, "pool"};
  return memory_table_add(table, &options, region_out, error_out);
}

static void refuse(void *address, uint32_t kind, kvf_status status, const char *text) {
  struct memory_region *region = NULL;
  kvf_error *error = NULL;
  char all[2000];
  assert_int_equal(add(address, BYTES, kind, &region, &error), status);
  kvf_error_format(error, all, sizeof all);
  if (!strstr(all, text)) fail_msg("no \"%s\" in: %s", text, all);
  kvf_error_free(error);
  assert_int_equal(memory_table_count(table), 0);
}

static void accept(void *address, uint32_t kind, uint32_t expected) {
  struct memory_region *region = NULL;
  kvf_error *error = NULL;
  assert_int_equal(add(address, BYTES, kind, &region, &error), KVF_OK);
  assert_int_equal(region->kind, expected);
  assert_true(memory_table_remove(table, region));
}

/* Runs first: nothing has loaded a driver yet, and host memory loads none. */
static void host_memory_loads_no_driver(void **state) {
  void *host = aligned_alloc(4096, BYTES);
  assert_false(memory_device_is_driver_loaded());
  accept(host, 0, KVF_MEMORY_HOST);
  accept(host, KVF_MEMORY_HOST, KVF_MEMORY_HOST);
  assert_false(memory_device_is_driver_loaded());
  free(host);
}

static void no_device_is_unavailable_and_says_why(void **state) {
  void *host = aligned_alloc(4096, BYTES);
  setenv("KVF_STUB", "no-device", 1);
  refuse(host, KVF_MEMORY_CUDA, KVF_UNAVAILABLE, "sees no device");
  unsetenv("KVF_STUB");
  free(host);
}

static void each_claim_meets_the_probe(void **state) {
  CUdeviceptr device = 0, managed = 0;
  void *pinned = NULL, *host = aligned_alloc(4096, BYTES);
  assert_true(driver_begin());
  assert_int_equal(DRIVER(cuMemAlloc)(&device, BYTES), CUDA_SUCCESS);
  assert_int_equal(DRIVER(stub_alloc_managed)(&managed, BYTES), CUDA_SUCCESS);
  assert_int_equal(DRIVER(cuMemAllocHost)(&pinned, BYTES), CUDA_SUCCESS);
  accept((void *)device, KVF_MEMORY_CUDA, KVF_MEMORY_CUDA);
  accept((void *)device, 0, KVF_MEMORY_CUDA);
  refuse((void *)device, KVF_MEMORY_HOST, KVF_INVALID, "device memory");
  accept(host, 0, KVF_MEMORY_HOST);
  accept(host, KVF_MEMORY_HOST, KVF_MEMORY_HOST);
  refuse(host, KVF_MEMORY_CUDA, KVF_INVALID, "unknown to the driver");
  accept(pinned, 0, KVF_MEMORY_HOST);
  refuse(pinned, KVF_MEMORY_CUDA, KVF_INVALID, "pinned host memory");
  refuse((void *)managed, 0, KVF_INVALID, "managed memory");
  refuse((void *)managed, KVF_MEMORY_CUDA, KVF_INVALID, "managed memory");
  setenv("KVF_STUB", "no-query", 1);
  refuse(host, 0, KVF_FABRIC, "CUDA_ERROR_NOT_PERMITTED");
  accept(host, KVF_MEMORY_HOST, KVF_MEMORY_HOST); /* the caller's word, which nothing contradicts */
  unsetenv("KVF_STUB");
  DRIVER(cuMemFree)(device);
  DRIVER(cuMemFree)(managed);
  DRIVER(cuMemFreeHost)(pinned);
  free(host);
}

static void *accept_device(void *address) {
  accept(address, KVF_MEMORY_CUDA, KVF_MEMORY_CUDA);
  return NULL;
}

/* The caller's thread may never have used the GPU. */
static void a_thread_without_a_context_may_register(void **state) {
  CUdeviceptr device = 0;
  pthread_t thread;
  assert_int_equal(DRIVER(cuMemAlloc)(&device, BYTES), CUDA_SUCCESS);
  assert_int_equal(pthread_create(&thread, NULL, accept_device, (void *)device), 0);
  pthread_join(thread, NULL);
  DRIVER(cuMemFree)(device);
}

static void a_range_may_not_leave_its_allocation(void **state) {
  CUdeviceptr device = 0;
  assert_int_equal(DRIVER(cuMemAlloc)(&device, BYTES), CUDA_SUCCESS);
  refuse((void *)(device + 4096), KVF_MEMORY_CUDA, KVF_INVALID, "leaves the device memory");
  DRIVER(cuMemFree)(device);
}

static void memory_that_can_move_is_recognised(void **state) {
  CUdeviceptr plain = 0, virtual = 0;
  struct memory_region *region = NULL;
  assert_int_equal(DRIVER(cuMemAlloc)(&plain, BYTES), CUDA_SUCCESS);
  assert_int_equal(DRIVER(stub_alloc_virtual)(&virtual, BYTES), CUDA_SUCCESS);
  assert_int_equal(add((void *)plain, BYTES, KVF_MEMORY_CUDA, &region, NULL), KVF_OK);
  assert_false(region->is_movable);
  assert_true(region->has_ipc);
  memory_table_remove(table, region);
  assert_int_equal(add((void *)virtual, BYTES, KVF_MEMORY_CUDA, &region, NULL), KVF_OK);
  assert_true(region->is_movable);
  assert_false(region->has_ipc);
  memory_table_remove(table, region);
  DRIVER(cuMemFree)(plain);
  DRIVER(cuMemFree)(virtual);
}

static void failures_of_the_device_name_the_driver_s_word(void **state) {
  CUdeviceptr device = 0;
  assert_int_equal(DRIVER(cuMemAlloc)(&device, BYTES), CUDA_SUCCESS);
  int ranges = DRIVER(stub_ranges)();
  setenv("KVF_STUB", "old-device", 1);
  refuse((void *)device, KVF_MEMORY_CUDA, KVF_UNAVAILABLE, "CUDA_ERROR_NO_BINARY_FOR_GPU");
  unsetenv("KVF_STUB");
  accept((void *)device, KVF_MEMORY_CUDA, KVF_MEMORY_CUDA);
  struct memory_device *held = NULL, *lanes = NULL;
  kvf_error *error = NULL;
  assert_int_equal(memory_device_take(0, &held, NULL), KVF_OK);
  setenv("KVF_STUB", "no-memory", 1);
  assert_int_equal(memory_device_open(0, &lanes, &error), KVF_NO_MEMORY);
  assert_non_null(strstr(kvf_error_message(kvf_error_cause(error)), "CUDA_ERROR_OUT_OF_MEMORY"));
  kvf_error_free(error);
  unsetenv("KVF_STUB");
  memory_device_give(held);
  assert_int_equal(DRIVER(stub_ranges)(), ranges); /* nothing was left behind, by failures or success */
  DRIVER(cuMemFree)(device);
}

static void kernels_reach_what_was_pinned_for_them(void **state) {
  CUdeviceptr device = 0;
  struct memory_region *region = NULL;
  uint64_t reach;
  void *host = aligned_alloc(4096, BYTES);
  assert_false(memory_device_pin(host, BYTES)); /* no device in use */
  assert_int_equal(DRIVER(cuMemAlloc)(&device, BYTES), CUDA_SUCCESS);
  assert_int_equal(add((void *)device, BYTES, KVF_MEMORY_CUDA, &region, NULL), KVF_OK);
  assert_false(memory_device_ops()->host_reach(region->device, (uintptr_t)host, &reach));
  assert_true(memory_device_pin(host, BYTES));
  assert_true(memory_device_ops()->host_reach(region->device, (uintptr_t)host, &reach));
  memory_device_unpin(host);
  assert_false(memory_device_ops()->host_reach(region->device, (uintptr_t)host, &reach));
  memory_table_remove(table, region);
  DRIVER(cuMemFree)(device);
  free(host);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(host_memory_loads_no_driver),
                                     cmocka_unit_test(no_device_is_unavailable_and_says_why),
                                     cmocka_unit_test(each_claim_meets_the_probe),
                                     cmocka_unit_test(a_thread_without_a_context_may_register),
                                     cmocka_unit_test(a_range_may_not_leave_its_allocation),
                                     cmocka_unit_test(memory_that_can_move_is_recognised),
                                     cmocka_unit_test(failures_of_the_device_name_the_driver_s_word),
                                     cmocka_unit_test(kernels_reach_what_was_pinned_for_them)};
  if (memory_table_create(&table, NULL) != KVF_OK) return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  memory_table_destroy(table);
  return failed;
}
