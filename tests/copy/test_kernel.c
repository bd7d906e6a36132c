/* Every kernel that this CPU has against memcpy row by row: random row sizes, strides and alignments. The buffers are filled with
 * noise and compared whole, so a byte written beside a row shows; each begins or ends against a page that cannot be touched, so a
 * byte read or written beyond them does too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "copy/copy.h"
#include "seed.h"

enum { BUFFER_BYTES = 1 << 20, GUARD_BYTES = 4096, BLOCK_LIMIT = 40 };

/* Pages cannot be read or written before and behind. */
static uint8_t *map_guarded(void) {
  uint8_t *memory = mmap(NULL, BUFFER_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  assert_int_equal(mprotect(memory + GUARD_BYTES, BUFFER_BYTES, PROT_READ | PROT_WRITE), 0);
  return memory + GUARD_BYTES;
}

static struct {
  uint8_t *packed, *pages, *expected;
  uint8_t *other_pages;
} buffers;

static int map_buffers(void **state) {
  buffers.packed = map_guarded();
  buffers.pages = map_guarded();
  buffers.other_pages = map_guarded();
  buffers.expected = map_guarded();
  return 0;
}

static void fill(uint8_t *buffer, uint64_t *random) {
  uint64_t word;
  for (size_t i = 0; i < BUFFER_BYTES; i += sizeof word) {
    word = base_random_next(random);
    memcpy(buffer + i, &word, sizeof word);
  }
}

/* One dimension of a block: where in a region of @p limit bytes its rows lie. */
struct rows {
  uint64_t offset, stride;
};

/* Rows without overlap in [first, first+limit), against its begin, against its end or somewhere within. */
static struct rows place_rows(uint64_t *random, uint64_t first, uint64_t limit, uint64_t row_bytes, uint64_t row_count) {
  uint64_t slack_most = row_count > 1 ? (limit - row_count * row_bytes) / (row_count - 1) : 0;
  uint64_t gap = random_below(random, 3) ? random_below(random, slack_most + 1) : 0;
  if (gap > 4096) gap = random_below(random, 4096);
  if (random_below(random, 3) == 0) gap &= ~(uint64_t)63;
  uint64_t need = row_count ? row_count * row_bytes + (row_count - 1) * gap : 0;
  uint64_t offset = 0;
  switch (random_below(random, 3)) {
    case 0:
      break;
    case 1:
      offset = limit - need;
      break;
    default:
      offset = random_below(random, limit - need + 1);
      break;
  }
  return (struct rows){.offset = first + offset, .stride = row_bytes + gap};
}

static uint64_t pick_row_bytes(uint64_t *random, uint64_t limit) {
  switch (random_below(random, 4)) {
    case 0:
      return 1 + random_below(random, limit < 600 ? limit : 600);
    case 1:
      return 64 * (1 + random_below(random, limit / 64 < 16 ? limit / 64 : 16));
    case 2:
      return 1 + random_below(random, limit);
    default:
      return 1 + random_below(random, limit < 64 ? limit : 64);
  }
}

/* Blocks in consecutive parts of both buffers. */
static size_t make_pairs(uint64_t *random, uint64_t *row_bytes_out, struct rows *a, struct rows *b, uint64_t *row_counts) {
  size_t count = 1 + random_below(random, BLOCK_LIMIT);
  uint64_t part = BUFFER_BYTES / count;
  for (size_t i = 0; i < count; i++) {
    uint64_t row_bytes = pick_row_bytes(random, part);
    uint64_t rows_most = part / row_bytes < 40 ? part / row_bytes : 40;
    row_counts[i] = random_below(random, 16) ? 1 + random_below(random, rows_most) : 0;
    row_bytes_out[i] = row_bytes;
    /* The last part may end at the guard only when the parts fill the buffer. */
    uint64_t first = i + 1 == count ? BUFFER_BYTES - part : i * part;
    a[i] = place_rows(random, first, part, row_bytes, row_counts[i]);
    b[i] = place_rows(random, first, part, row_bytes, row_counts[i]);
  }
  return count;
}

static void check_once(const struct copy_backend *backend, uint64_t *random) {
  uint64_t row_bytes[BLOCK_LIMIT], row_counts[BLOCK_LIMIT];
  struct rows a[BLOCK_LIMIT], b[BLOCK_LIMIT];
  struct layout_block blocks[BLOCK_LIMIT];
  struct layout_pair pairs[BLOCK_LIMIT];
  size_t count = make_pairs(random, row_bytes, a, b, row_counts);
  for (size_t i = 0; i < count; i++) {
    uint64_t address = (uintptr_t)buffers.pages + a[i].offset, other = (uintptr_t)buffers.other_pages + b[i].offset;
    blocks[i] = (struct layout_block){address, b[i].offset, row_bytes[i], a[i].stride, b[i].stride, row_counts[i]};
    pairs[i] = (struct layout_pair){address, other, row_bytes[i], a[i].stride, b[i].stride, row_counts[i]};
  }

  memcpy(buffers.expected, buffers.packed, BUFFER_BYTES);
  for (size_t i = 0; i < count; i++) {
    for (uint64_t n = 0; n < row_counts[i]; n++) {
      memcpy(buffers.expected + b[i].offset + n * b[i].stride, buffers.pages + a[i].offset + n * a[i].stride, row_bytes[i]);
    }
  }
  memcpy(buffers.other_pages, buffers.packed, BUFFER_BYTES);
  backend->pairs(pairs, count);
  assert_memory_equal(buffers.other_pages, buffers.expected, BUFFER_BYTES);
  backend->gather(buffers.packed, blocks, count);
  assert_memory_equal(buffers.packed, buffers.expected, BUFFER_BYTES);

  fill(buffers.packed, random);
  memcpy(buffers.expected, buffers.pages, BUFFER_BYTES);
  for (size_t i = 0; i < count; i++) {
    for (uint64_t n = 0; n < row_counts[i]; n++) {
      memcpy(buffers.expected + a[i].offset + n * a[i].stride, buffers.packed + b[i].offset + n * b[i].stride, row_bytes[i]);
    }
  }
  backend->scatter(buffers.packed, blocks, count);
  assert_memory_equal(buffers.pages, buffers.expected, BUFFER_BYTES);
}

static const char *const names[] = {"avx512", "avx2", "neon", "portable"};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

static void random_blocks_match_memcpy(void **state) {
  uint64_t random = seed_get();
  fill(buffers.packed, &random);
  fill(buffers.pages, &random);
  for (int i = 0; i < NAME_COUNT; i++) {
    const struct copy_backend *backend = copy_host_backend_find(names[i]);
    printf("%s: %s\n", names[i], backend ? "checked" : "not on this CPU");
    for (int round = 0; backend && round < 400; round++) check_once(backend, &random);
  }
}

/* One row of every size at every alignment of both sides that matters. */
static void every_small_row_at_every_alignment(void **state) {
  uint64_t random = seed_get();
  enum { ROOM = 1024 };
  fill(buffers.packed, &random);
  for (int i = 0; i < NAME_COUNT; i++) {
    const struct copy_backend *backend = copy_host_backend_find(names[i]);
    for (uint64_t bytes = 0; backend && bytes <= 600; bytes++) {
      for (uint64_t shift = 0; shift < 64; shift++) {
        uint64_t source_shift = random_below(&random, 64);
        struct layout_block block = {(uintptr_t)buffers.pages + shift, source_shift, bytes, bytes, bytes, 1};
        memset(buffers.pages, 0xa5, ROOM);
        memset(buffers.expected, 0xa5, ROOM);
        memcpy(buffers.expected + shift, buffers.packed + source_shift, bytes);
        backend->scatter(buffers.packed, &block, 1);
        assert_memory_equal(buffers.pages, buffers.expected, ROOM);
        struct layout_block back = {(uintptr_t)buffers.pages + shift, source_shift, bytes, bytes, bytes, 1};
        memset(buffers.other_pages, 0x5a, ROOM);
        memset(buffers.expected, 0x5a, ROOM);
        memcpy(buffers.expected + source_shift, buffers.packed + source_shift, bytes);
        backend->gather(buffers.other_pages, &back, 1);
        assert_memory_equal(buffers.other_pages, buffers.expected, ROOM);
      }
    }
  }
}

/* Rows as large as the buffer, and none at all. */
static void extremes(void **state) {
  uint64_t random = seed_get();
  for (int i = 0; i < NAME_COUNT; i++) {
    const struct copy_backend *backend = copy_host_backend_find(names[i]);
    if (!backend) continue;
    backend->gather(NULL, NULL, 0);
    backend->scatter(NULL, NULL, 0);
    backend->pairs(NULL, 0);
    const uint64_t address = (uintptr_t)buffers.pages;
    const struct layout_block nothing[3] = {{address, 0, 64, 64, 64, 0}, {address, 0, 0, 64, 64, 3}, {address, 0, 0, 0, 0, 0}};
    backend->gather(buffers.packed, nothing, 3);
    backend->scatter(buffers.packed, nothing, 3);
    fill(buffers.pages, &random);
    const struct layout_block whole = {(uintptr_t)buffers.pages, 0, BUFFER_BYTES, BUFFER_BYTES, BUFFER_BYTES, 1};
    backend->gather(buffers.packed, &whole, 1);
    assert_memory_equal(buffers.packed, buffers.pages, BUFFER_BYTES);
    fill(buffers.packed, &random);
    backend->scatter(buffers.packed, &whole, 1);
    assert_memory_equal(buffers.packed, buffers.pages, BUFFER_BYTES);
  }
}

/* Rows may step backwards or stand still on the reading side: a stride is only added. */
static void a_row_may_be_read_many_times(void **state) {
  uint64_t random = seed_get();
  fill(buffers.pages, &random);
  for (int i = 0; i < NAME_COUNT; i++) {
    const struct copy_backend *backend = copy_host_backend_find(names[i]);
    if (!backend) continue;
    const struct layout_block block = {(uintptr_t)buffers.pages + 3, 0, 200, 0, 200, 50};
    backend->gather(buffers.packed, &block, 1);
    for (int row = 0; row < 50; row++) assert_memory_equal(buffers.packed + 200 * row, buffers.pages + 3, 200);
  }
}

static void the_best_backend_is_one_of_the_named(void **state) {
  const struct copy_backend *best = copy_host_backend();
  assert_non_null(best);
  assert_ptr_equal(copy_host_backend_find(best->name), best);
  assert_null(copy_host_backend_find("abacus"));
  assert_non_null(copy_host_backend_find("portable"));
  for (int i = 0; i < NAME_COUNT; i++) {
    const struct copy_backend *backend = copy_host_backend_find(names[i]);
    if (!backend) continue;
    assert_ptr_equal(backend, best);
    break;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_blocks_match_memcpy),
      cmocka_unit_test(every_small_row_at_every_alignment),
      cmocka_unit_test(extremes),
      cmocka_unit_test(a_row_may_be_read_many_times),
      cmocka_unit_test(the_best_backend_is_one_of_the_named),
  };
  return cmocka_run_group_tests(tests, map_buffers, NULL);
}
