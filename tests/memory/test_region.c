/* The registration table: duplicates, overlaps, lookups, kinds, pinning, many regions, and random operations against a byte map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "memory/region.h"
#include "memory/shared.h"

static char *const base = (char *)0x100000000ull; /* nothing is mapped there: the table does not look inside */

static int create(void **state) {
  return memory_table_create((struct memory_table **)state, NULL);
}
static int destroy(void **state) {
  memory_table_destroy(*state);
  return 0;
}

static kvf_status add(void *table, char *address, uint64_t length, struct memory_region **region_out, kvf_error **error_out) {
  kvf_region_options options = {.address = address, .length_bytes = length};
  return memory_table_add(table, &options, region_out, error_out);
}

static kvf_status find(void *table, char *address, uint64_t length) {
  struct memory_region *region;
  return memory_table_find(table, address, length, &region, NULL);
}

static void test_identical_is_counted_and_overlap_refused(void **state) { /* C07 */
  struct memory_region *first, *second;
  kvf_error *error = NULL;
  assert_int_equal(add(*state, base, 8192, &first, NULL), KVF_OK);
  assert_int_equal(add(*state, base, 8192, &second, NULL), KVF_OK);
  assert_ptr_equal(first, second);
  assert_int_equal(add(*state, base + 4096, 8192, &second, &error), KVF_OVERLAP);
  assert_string_equal(kvf_error_find(error, "address"), "0x100001000");
  assert_string_equal(kvf_error_find(error, "length"), "8192");
  assert_string_equal(kvf_error_find(error, "region_base"), "0x100000000");
  assert_string_equal(kvf_error_find(error, "region_bytes"), "8192");
  kvf_error_free(error);
  assert_int_equal(add(*state, base - 1, 2, &second, NULL), KVF_OVERLAP);
  assert_int_equal(add(*state, base - 1, 99999, &second, NULL), KVF_OVERLAP);
  assert_int_equal(add(*state, base, 4096, &second, NULL), KVF_OVERLAP);
  assert_int_equal(add(*state, base + 1, 8, &second, NULL), KVF_OVERLAP);
  assert_int_equal(memory_table_count(*state), 1);
  assert_false(memory_table_remove(*state, first));
  assert_int_equal(find(*state, base, 8192), KVF_OK);
  assert_true(memory_table_remove(*state, first));
  assert_int_equal(find(*state, base, 1), KVF_NOT_REGISTERED);
  assert_int_equal(memory_table_bytes(*state), 0);
}

static void test_numbers_and_generations_are_never_reused(void **state) {
  struct memory_region *region;
  assert_int_equal(add(*state, base, 4096, &region, NULL), KVF_OK);
  assert_int_equal(region->number, 1);
  uint64_t generation = region->generation;
  memory_table_remove(*state, region);
  assert_int_equal(add(*state, base, 4096, &region, NULL), KVF_OK);
  assert_int_equal(region->number, 2);
  assert_true(region->generation > generation);
}

static void test_lookups_name_the_region(void **state) {
  struct memory_region *region;
  kvf_error *error = NULL;
  kvf_region_options options = {.address = base, .length_bytes = 65536, .label = "pool of layer 3"};
  assert_int_equal(memory_table_add(*state, &options, &region, NULL), KVF_OK);
  assert_int_equal(find(*state, base + 65535, 1), KVF_OK);
  assert_int_equal(find(*state, base + 65536, 0), KVF_OK);
  assert_int_equal(find(*state, base + 65537, 0), KVF_NOT_REGISTERED);
  assert_int_equal(find(*state, base + 100, UINT64_MAX), KVF_OUT_OF_RANGE);
  assert_int_equal(memory_table_find(*state, base + 4096, 61441, &region, &error), KVF_OUT_OF_RANGE);
  assert_string_equal(kvf_error_find(error, "length"), "61441");
  assert_string_equal(kvf_error_find(error, "region_base"), "0x100000000");
  assert_string_equal(kvf_error_find(error, "region_bytes"), "65536");
  assert_string_equal(kvf_error_find(error, "region"), "pool of layer 3");
  kvf_error_free(error);
  assert_int_equal(find(*state, base - 1, 1), KVF_NOT_REGISTERED);
  assert_int_equal(find(*state, NULL, 1), KVF_NOT_REGISTERED);
}

static void test_lengths_above_4_gib(void **state) {
  struct memory_region *region;
  assert_int_equal(add(*state, base, 16ull << 30, &region, NULL), KVF_OK);
  assert_int_equal(find(*state, base + (5ull << 30), (4ull << 30) + 4096), KVF_OK);
  assert_int_equal(find(*state, base + (12ull << 30), (4ull << 30) + 1), KVF_OUT_OF_RANGE);
  assert_int_equal(find(*state, base + (16ull << 30), 4096), KVF_NOT_REGISTERED);
}

static void test_bad_ranges_and_kinds(void **state) {
  struct memory_region *region;
  kvf_error *error = NULL;
  assert_int_equal(add(*state, NULL, 4096, &region, NULL), KVF_INVALID);
  assert_int_equal(add(*state, base, 0, &region, NULL), KVF_INVALID);
  assert_int_equal(add(*state, base, UINT64_MAX, &region, NULL), KVF_INVALID);
  kvf_region_options options = {.address = base, .length_bytes = 4096, .kind = 17};
  assert_int_equal(memory_table_add(*state, &options, &region, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "kind"), "17");
  kvf_error_free(error);
  options.kind = KVF_MEMORY_CUDA;
  assert_int_not_equal(memory_table_add(*state, &options, &region, NULL), KVF_OK); /* no driver, or one that knows it for host memory */
  options.kind = KVF_MEMORY_SHARED;
  assert_int_equal(memory_table_add(*state, &options, &region, NULL), KVF_INVALID);
  options.kind = KVF_MEMORY_HOST;
  options.pin = 2;
  assert_int_equal(memory_table_add(*state, &options, &region, NULL), KVF_INVALID);
  assert_int_equal(memory_table_count(*state), 0);
}

static void test_the_callers_kind_wins(void **state) {
  struct memory_region *region;
  char *memory;
  assert_int_equal(memory_shared_alloc(8192, (void **)&memory, NULL), KVF_OK);
  kvf_region_options options = {.address = memory + 4096, .length_bytes = 4096};
  assert_int_equal(memory_table_add(*state, &options, &region, NULL), KVF_OK);
  assert_int_equal(region->kind, KVF_MEMORY_SHARED);
  assert_true(region->memory_fd >= 0);
  assert_int_equal(region->memory_fd_offset, 4096);
  options.kind = KVF_MEMORY_HOST;
  assert_int_equal(memory_table_add(*state, &options, &region, NULL), KVF_INVALID);
  memory_table_remove(*state, region);
  assert_int_equal(memory_table_add(*state, &options, &region, NULL), KVF_OK);
  assert_int_equal(region->kind, KVF_MEMORY_HOST);
  assert_int_equal(region->memory_fd, -1);
  memory_table_remove(*state, region);
  memory_shared_free(memory);
}

enum { MANY = 20000 };

static void test_twenty_thousand_regions(void **state) {
  const uint64_t length = 294912;
  static uint32_t order[MANY];
  static struct memory_region *regions[MANY];
  uint64_t random = 7;
  for (uint32_t i = 0; i < MANY; i++) order[i] = i;
  for (uint32_t i = MANY - 1; i > 0; i--) {
    uint32_t j = (uint32_t)(base_random_next(&random) % (i + 1)), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  uint64_t start_ns = base_clock_ns();
  for (uint32_t i = 0; i < MANY; i++)
    assert_int_equal(add(*state, base + order[i] * length, length, &regions[order[i]], NULL), KVF_OK);
  for (uint32_t i = 0; i < MANY; i++) {
    struct memory_region *region = NULL;
    assert_int_equal(memory_table_find(*state, base + i * length + length - 1, 1, &region, NULL), KVF_OK);
    assert_ptr_equal(region, regions[i]);
    assert_ptr_equal(memory_table_get(*state, i), regions[i]);
    assert_int_equal(memory_table_find(*state, base + i * length + length - 1, 2, &region, NULL), KVF_OUT_OF_RANGE);
  }
  for (uint32_t i = 0; i < MANY; i++) assert_true(memory_table_remove(*state, regions[order[i]]));
  uint64_t elapsed_ns = base_clock_ns() - start_ns;
  print_message("%d regions: %.1f ms\n", MANY, (double)elapsed_ns / 1e6);
#ifdef __SANITIZE_THREAD__
  elapsed_ns /= 10; /* it slows every access */
#endif
  assert_true(elapsed_ns < BASE_NS_PER_S);
}

/* AddressSanitizer replaces mlock with nothing. */
static void skip_without_mlock(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip();
#endif
}

/* Exit codes of the child, because cmocka's asserts do not cross a fork. */
static int pin_above_limit(void) {
  struct rlimit limit = {65536, 65536};
  struct memory_table *table;
  struct memory_region *region;
  kvf_error *error = NULL;
  char text[600];
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 1;
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 2;
  void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory_table_create(&table, NULL) != KVF_OK) return 3;
  kvf_region_options options = {.address = memory, .length_bytes = 1 << 20, .pin = 1};
  if (memory_table_add(table, &options, &region, &error) != KVF_RESOURCE_LIMIT) return 4;
  if (strcmp(kvf_error_find(error, "limit"), "65536") != 0 || strcmp(kvf_error_find(error, "need"), "1048576") != 0) return 5;
  kvf_error_format(error, text, sizeof text);
  if (!strstr(text, "RLIMIT_MEMLOCK") || !strstr(text, "65536 bytes") || memory_table_count(table) != 0) return 6;
  kvf_error_free(error);
  options.pin = 0;
  if (memory_table_add(table, &options, &region, NULL) != KVF_OK || region->pinned) return 7;
  memory_table_destroy(table);
  return 0;
}

static void test_pin_above_the_limit_names_it(void **state) {
  skip_without_mlock();
  pid_t child = fork();
  if (child == 0) _exit(pin_above_limit());
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static uint64_t locked_kib(void) {
  char line[256];
  uint64_t kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file)) sscanf(line, "VmLck: %lu", &kib);
  fclose(file);
  return kib;
}

static void test_pinned_neighbours_keep_their_page(void **state) {
  skip_without_mlock();
  char *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  kvf_region_options options = {.address = memory, .length_bytes = 6000, .pin = 1};
  struct memory_region *first, *second;
  assert_int_equal(memory_table_add(*state, &options, &first, NULL), KVF_OK);
  options.address = memory + 6000;
  assert_int_equal(memory_table_add(*state, &options, &second, NULL), KVF_OK);
  uint64_t both = locked_kib();
  if (both) assert_int_equal(both, 12);
  memory_table_remove(*state, first);
  if (both) assert_int_equal(locked_kib(), 8);
  memory_table_remove(*state, second);
  assert_int_equal(locked_kib(), 0);
  munmap(memory, 16384);
  options.address = memory;
  assert_int_equal(memory_table_add(*state, &options, &first, NULL), KVF_INVALID); /* no longer mapped */
}

enum { MODEL_BYTES = 512, MODEL_STEPS = 50000 };

/* Every byte of a small space has at most one owner; the table must agree with that after each step. */
static void test_random_operations_match_a_byte_map(void **state) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : base_clock_ns();
  static struct memory_region *owner[MODEL_BYTES];
  print_message("KVF_SEED=%llu\n", (unsigned long long)seed);
  for (int step = 0; step < MODEL_STEPS; step++) {
    uint32_t first = (uint32_t)(base_random_next(&seed) % MODEL_BYTES);
    uint32_t length = 1 + (uint32_t)(base_random_next(&seed) % 24);
    if (first + length > MODEL_BYTES) length = MODEL_BYTES - first;
    bool is_free = true, is_same = owner[first] && owner[first]->address == base + first && owner[first]->length == length;
    for (uint32_t i = first; i < first + length; i++) is_free &= !owner[i];
    struct memory_region *region = NULL;
    switch (base_random_next(&seed) % 3) {
      case 0: {
        kvf_status expected = is_free || is_same ? KVF_OK : KVF_OVERLAP;
        assert_int_equal(add(*state, base + first, length, &region, NULL), expected);
        for (uint32_t i = first; is_free && i < first + length; i++) owner[i] = region;
        break;
      }
      case 1:
        region = owner[first];
        if (!region || !memory_table_remove(*state, region)) break;
        for (uint32_t i = 0; i < MODEL_BYTES; i++) owner[i] = owner[i] == region ? NULL : owner[i];
        break;
      default: {
        bool covered = owner[first] != NULL;
        for (uint32_t i = first; i < first + length; i++) covered &= owner[i] == owner[first];
        kvf_status expected = covered ? KVF_OK : owner[first] ? KVF_OUT_OF_RANGE : KVF_NOT_REGISTERED;
        assert_int_equal(memory_table_find(*state, base + first, length, &region, NULL), expected);
        if (covered) assert_ptr_equal(region, owner[first]);
      }
    }
  }
}

static void test_failed_allocations_change_nothing(void **state) {
  struct memory_region *region = NULL;
  kvf_status status;
  uint64_t countdown = 1;
  do {
    base_alloc_fail_after(countdown++);
    status = add(*state, base, 4096, &region, NULL);
    base_alloc_fail_after(0);
    if (status != KVF_OK) assert_int_equal(status, KVF_NO_MEMORY);
    assert_int_equal(memory_table_count(*state), status == KVF_OK ? 1 : 0);
  } while (status != KVF_OK);
  assert_int_equal(countdown, 4);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, create, destroy)
  const struct CMUnitTest tests[] = {
      CASE(test_identical_is_counted_and_overlap_refused),
      CASE(test_numbers_and_generations_are_never_reused),
      CASE(test_lookups_name_the_region),
      CASE(test_lengths_above_4_gib),
      CASE(test_bad_ranges_and_kinds),
      CASE(test_the_callers_kind_wins),
      CASE(test_twenty_thousand_regions),
      CASE(test_pin_above_the_limit_names_it),
      CASE(test_pinned_neighbours_keep_their_page),
      CASE(test_random_operations_match_a_byte_map),
      CASE(test_failed_allocations_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
