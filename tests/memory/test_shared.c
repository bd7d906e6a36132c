/* Shared memory: the seals hold, and the registry answers for addresses in 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/shared.h"

static void test_bytes_are_shared_and_sealed(void **state) {
  char *memory = NULL;
  int fd = -1;
  uint64_t offset = 0;
  assert_int_equal(memory_shared_alloc(10000, (void **)&memory, NULL), KVF_OK);
  assert_int_equal(memory[9999], 0);
  assert_true(memory_shared_find(memory + 5000, 100, &fd, &offset));
  assert_int_equal(offset, 5000);
  assert_int_equal(ftruncate(fd, 0), -1);
  assert_int_equal(ftruncate(fd, 1 << 20), -1);
  assert_true(memory_shared_is_sealed(fd, 10000));
  assert_false(memory_shared_is_sealed(fd, 1 << 20));
  char *again = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  again[904] = 'x';
  assert_int_equal(memory[5000], 'x');
  munmap(again, 4096);
  memory_shared_free(memory);
  assert_false(memory_shared_find(memory, 1, &fd, &offset));
}

static void test_find_respects_both_ends(void **state) {
  char *memory = NULL;
  int fd;
  uint64_t offset;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  assert_int_equal(memory_shared_alloc(2 * page, (void **)&memory, NULL), KVF_OK);
  assert_true(memory_shared_find(memory, 2 * page, &fd, &offset));
  assert_false(memory_shared_find(memory, 2 * page + 1, &fd, &offset));
  assert_false(memory_shared_find(memory - 1, 2, &fd, &offset));
  assert_false(memory_shared_find(memory + 2 * page, 1, &fd, &offset));
  assert_false(memory_shared_find(memory + 1, UINT64_MAX, &fd, &offset));
  memory_shared_free(memory + 8); /* not an allocation's base: ignored */
  assert_true(memory_shared_find(memory, 1, &fd, &offset));
  memory_shared_free(memory);
  memory_shared_free(NULL);
}

static void test_offsets_above_4_gib(void **state) {
  char *memory = NULL;
  int fd;
  uint64_t offset;
  uint64_t bytes = (6ull << 30) + 4096;
  assert_int_equal(memory_shared_alloc(bytes, (void **)&memory, NULL), KVF_OK);
  assert_true(memory_shared_find(memory + (5ull << 30), (1ull << 30) + 4096, &fd, &offset));
  assert_true(offset == 5ull << 30);
  assert_false(memory_shared_find(memory + (5ull << 30), (1ull << 30) + 4097, &fd, &offset));
  memory_shared_free(memory);
}

static void test_impossible_lengths_are_errors(void **state) {
  void *memory = NULL;
  kvf_error *error = NULL;
  assert_int_equal(memory_shared_alloc(0, &memory, NULL), KVF_INVALID);
  assert_int_equal(memory_shared_alloc(UINT64_MAX, &memory, NULL), KVF_INVALID);
  assert_int_not_equal(memory_shared_alloc(1ull << 60, &memory, &error), KVF_OK);
  assert_string_equal(kvf_error_find(error, "need"), "1152921504606846976");
  assert_non_null(kvf_error_find(error, "errno"));
  kvf_error_free(error);
  assert_null(memory);
}

static void test_unsealed_descriptors_are_told_apart(void **state) {
  int plain = memfd_create("plain", MFD_CLOEXEC);
  int sockets[2];
  assert_int_equal(ftruncate(plain, 8192), 0);
  assert_false(memory_shared_is_sealed(plain, 1));
  assert_int_equal(pipe(sockets), 0);
  assert_false(memory_shared_is_sealed(sockets[0], 0));
  close(plain);
  close(sockets[0]);
  close(sockets[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_are_shared_and_sealed),
      cmocka_unit_test(test_find_respects_both_ends),
      cmocka_unit_test(test_offsets_above_4_gib),
      cmocka_unit_test(test_impossible_lengths_are_errors),
      cmocka_unit_test(test_unsealed_descriptors_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
