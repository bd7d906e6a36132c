/* The fuzzer's corpus without the fuzzer: every input as it is, then many random changes of them. KVF_SEED repeats a run,
 * KVF_MUTATIONS says how many (200,000 unless set). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <dirent.h>

#include "base/random.h"
#include "fuzz/wire_input.h"
#include "wire/golden_path.h"

enum { INPUT_LIMIT = 256, INPUT_BYTES_LIMIT = 65536, EXTRA_BYTES = 64 };

static struct {
  uint8_t *bytes;
  size_t length;
} inputs[INPUT_LIMIT];
static size_t input_count;

static void read_input(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", WIRE_CORPUS_PATH, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_true(input_count < INPUT_LIMIT);
  uint8_t *bytes = malloc(INPUT_BYTES_LIMIT);
  inputs[input_count].length = fread(bytes, 1, INPUT_BYTES_LIMIT, file);
  inputs[input_count++].bytes = bytes;
  fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* In the order of their names, so that a seed means the same everywhere. */
static int read_corpus(void **state) {
  struct dirent **entries = NULL;
  int count = scandir(WIRE_CORPUS_PATH, &entries, NULL, by_name);
  for (int i = 0; i < count; i++) {
    if (entries[i]->d_name[0] != '.') read_input(entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  return 0;
}

static int free_corpus(void **state) {
  for (size_t i = 0; i < input_count; i++) free(inputs[i].bytes);
  return 0;
}

/* What the fuzzer finds may be added and need not decode; the golden frames in two forms, and the piece header, must. */
static void the_whole_corpus_passes(void **state) {
  size_t decoded = 0;
  for (size_t i = 0; i < input_count; i++) decoded += (size_t)wire_input_check(inputs[i].bytes, inputs[i].length);
  assert_true(decoded >= 45);
}

/* One change of the kind that finds faults in decoders: a bit, a byte, an edge value in a number, a cut, a copy. */
static size_t mutate(uint8_t *bytes, size_t length, uint64_t *random) {
  static const uint32_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};
  uint64_t choice = base_random_next(random);
  size_t at = base_random_next(random) % length, from = base_random_next(random) % length;
  switch (choice % 6) {
    case 0:
      bytes[at] ^= (uint8_t)(1 << (choice >> 8) % 8);
      return length;
    case 1:
      bytes[at] = (uint8_t)(choice >> 8);
      return length;
    case 2:
      if (length - at >= 4) memcpy(bytes + at, &edges[(choice >> 8) % (sizeof edges / sizeof edges[0])], 4);
      return length;
    case 3:
      return at + 1;
    case 4: {
      size_t longest = length - (at > from ? at : from);
      memmove(bytes + at, bytes + from, (choice >> 8) % longest);
      return length;
    }
    default:
      for (size_t i = 0; i < EXTRA_BYTES / 4; i++) bytes[length + i] = (uint8_t)base_random_next(random);
      return length + EXTRA_BYTES / 4;
  }
}

/* Up to four changes of one input, in memory of exactly its length. */
static int check_mutant(uint64_t *random) {
  static uint8_t work[INPUT_BYTES_LIMIT + EXTRA_BYTES];
  size_t input = base_random_next(random) % input_count, length = inputs[input].length;
  memcpy(work, inputs[input].bytes, length);
  for (uint64_t changes = 1 + base_random_next(random) % 4; changes > 0; changes--) length = mutate(work, length, random);
  uint8_t *exact = malloc(length);
  memcpy(exact, work, length);
  int decoded = wire_input_check(exact, length);
  free(exact);
  return decoded;
}

static void random_changes_are_decoded_or_refused(void **state) {
  const char *given_seed = getenv("KVF_SEED"), *given_count = getenv("KVF_MUTATIONS");
  uint64_t random = given_seed ? strtoull(given_seed, NULL, 0) : (uint64_t)time(NULL);
  uint64_t count = given_count ? strtoull(given_count, NULL, 0) : 200000, decoded = 0;
  printf("KVF_SEED=%llu\n", (unsigned long long)random);
  for (uint64_t i = 0; i < count; i++) decoded += (uint64_t)check_mutant(&random);
  printf("%llu of %llu decoded\n", (unsigned long long)decoded, (unsigned long long)count);
  /* Neither side of the decoders may have gone untested. */
  assert_true(decoded > count / 10 && decoded < count - count / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_whole_corpus_passes),
      cmocka_unit_test(random_changes_are_decoded_or_refused),
  };
  return cmocka_run_group_tests(tests, read_corpus, free_corpus);
}
