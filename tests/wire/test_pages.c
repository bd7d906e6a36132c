/* Page lists on the wire: how small they are (C125), and that a small message cannot ask for much memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "wire/message.h"

enum { PAGES = 15000, EMPTY_OPEN_BYTES = WIRE_FRAME_BYTES + 40, LIST_BYTES = 20 };

static struct wire_buffer encode_pages(const uint32_t *pages, uint32_t page_count) {
  struct wire_buffer buffer = {0};
  struct wire_open open = {.page_list_count = 1, .page_lists = {{.page_list = 0, .page_count = page_count, .pages = pages}}};
  wire_open_encode(&buffer, &open);
  assert_false(buffer.failed);
  return buffer;
}

/* Bytes that the pages themselves took; they also come back unchanged. */
static size_t measure_pages(const uint32_t *pages, uint32_t page_count) {
  struct wire_buffer buffer = encode_pages(pages, page_count);
  struct wire_open open;
  struct wire_scratch scratch = {0};
  assert_int_equal(wire_open_decode(buffer.bytes + WIRE_FRAME_BYTES, buffer.length - WIRE_FRAME_BYTES, &scratch, &open, NULL),
                   KVF_OK);
  assert_int_equal(open.page_lists[0].page_count, page_count);
  assert_memory_equal(open.page_lists[0].pages, pages, page_count * sizeof *pages);
  wire_scratch_reset(&scratch);
  size_t bytes = buffer.length - EMPTY_OPEN_BYTES - LIST_BYTES;
  wire_buffer_fini(&buffer);
  return bytes;
}

static void random_pages_take_four_bytes_at_most(void **state) {
  static uint32_t pages[PAGES];
  const uint32_t pool_pages[] = {20000, 1u << 20, 1u << 26};
  const size_t limit[] = {3, 4, 4};
  for (size_t pool = 0; pool < 3; pool++) {
    uint64_t random = pool;
    for (size_t i = 0; i < PAGES; i++) pages[i] = (uint32_t)(base_random_next(&random) % pool_pages[pool]);
    assert_true(measure_pages(pages, PAGES) <= limit[pool] * PAGES);
  }
}

static void runs_take_a_few_bytes_each(void **state) {
  static uint32_t pages[PAGES];
  for (uint32_t i = 0; i < PAGES; i++) pages[i] = 700000 + i;
  assert_true(measure_pages(pages, PAGES) <= 6);
  for (uint32_t i = 0; i < PAGES; i++) pages[i] = i / 100 * 5000 + i % 100;
  assert_true(measure_pages(pages, PAGES) <= PAGES / 100 * 4);
  for (uint32_t i = 0; i < PAGES; i++) pages[i] = 2 * i;
  assert_true(measure_pages(pages, PAGES) <= PAGES);
  for (uint32_t i = 0; i < PAGES; i++) pages[i] = PAGES - i;
  assert_true(measure_pages(pages, PAGES) <= PAGES + 3);
}

static void the_last_page_numbers_travel(void **state) {
  const uint32_t pages[] = {UINT32_MAX, 0, UINT32_MAX - 1, UINT32_MAX, 5, 4, 4, 0, 1, 2, 1};
  measure_pages(pages, sizeof pages / sizeof pages[0]);
}

static void the_largest_list_travels(void **state) {
  uint32_t *pages = malloc((size_t)WIRE_PAGE_LIMIT * sizeof *pages);
  for (uint32_t i = 0; i < WIRE_PAGE_LIMIT; i++) pages[i] = i;
  assert_true(measure_pages(pages, WIRE_PAGE_LIMIT) <= 6);
  free(pages);
}

/* An OPEN with hand-made lists: @p runs is used for each. The scratch shows what was allocated. */
static kvf_status decode_runs(uint32_t list_count, uint32_t page_count, const void *runs, uint8_t run_bytes, bool *allocated_out) {
  uint8_t payload[40 + KVF_PAGE_LIST_LIMIT * (LIST_BYTES + 32)] = {0};
  uint8_t *at = payload + 36;
  *at = (uint8_t)list_count;
  at += 4;
  for (uint32_t i = 0; i < list_count; i++) {
    for (size_t byte = 0; byte < 4; byte++) at[12 + byte] = (uint8_t)(page_count >> (8 * byte));
    at[16] = run_bytes;
    memcpy(at + LIST_BYTES, runs, run_bytes);
    at += LIST_BYTES + run_bytes;
  }
  struct wire_open open;
  struct wire_scratch scratch = {0};
  kvf_error *error = NULL;
  kvf_status status = wire_open_decode(payload, (size_t)(at - payload), &scratch, &open, &error);
  if (status != KVF_OK) assert_string_equal(kvf_error_find(error, "field"), "page_lists");
  *allocated_out = scratch.memory[0] != NULL;
  kvf_error_free(error);
  wire_scratch_reset(&scratch);
  return status;
}

static void what_a_run_claims_is_checked_before_memory_is_taken(void **state) {
  struct {
    uint32_t list_count, page_count;
    const char *runs;
    uint8_t run_bytes;
    kvf_status status;
  } cases[] = {
      {1, 3, "\x01\x01", 2, KVF_OK},                                            /* 0, 1, 2 */
      {1, 2, "\x01\x01", 2, KVF_PROTOCOL},                                      /* a run over the count */
      {1, 4, "\x01\x01", 2, KVF_PROTOCOL},                                      /* runs short of the count */
      {1, 1, "", 0, KVF_PROTOCOL},                                              /* no runs at all */
      {1, 4 << 20, "\x01\xfe\xff\xff\x01", 5, KVF_OK},                          /* 4 Mi pages: the limit */
      {1, (4 << 20) + 1, "\x01\xff\xff\xff\x01", 5, KVF_PROTOCOL},              /* one more */
      {16, 4 << 20, "\x01\xfe\xff\xff\x01", 5, KVF_PROTOCOL},                   /* the limit is for all lists together */
      {16, 4 << 18, "\x01\xfe\xff\x3f", 4, KVF_PROTOCOL},                       /* the same, each list small enough */
      {4, 4 << 18, "\x01\xfe\xff\x3f", 4, KVF_OK},                              /* together just the limit */
      {1, UINT32_MAX, "\x01\xfd\xff\xff\xff\x0f", 6, KVF_PROTOCOL},             /* all pages there are */
      {1, 3, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, KVF_PROTOCOL},     /* a run of 2^63 */
      {1, 3, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, KVF_PROTOCOL}, /* a number over 63 bits */
      {1, 1, "\x02", 1, KVF_PROTOCOL},                                          /* page -1 */
      {1, 1, "\x80\x80\x80\x80\x40", 5, KVF_PROTOCOL},                          /* page 2^32 */
      {1, 1, "\xfc\xff\xff\xff\x3f", 5, KVF_OK},                                /* page 2^32-1 */
      {1, 2, "\xfd\xff\xff\xff\x3f\x00", 6, KVF_PROTOCOL},                      /* and one after it */
      {1, 1, "\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", 9, KVF_PROTOCOL},          /* the most negative step */
      {1, 0, "", 0, KVF_OK},
      {1, 0, "\x01\x01", 2, KVF_OK}, /* bytes after the last page are ignored */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bool allocated;
    kvf_status status = decode_runs(cases[i].list_count, cases[i].page_count, cases[i].runs, cases[i].run_bytes, &allocated);
    if (status != cases[i].status) print_error("case %zu\n", i);
    assert_int_equal(status, cases[i].status);
    assert_int_equal(allocated, status == KVF_OK && cases[i].page_count > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_pages_take_four_bytes_at_most),
      cmocka_unit_test(runs_take_a_few_bytes_each),
      cmocka_unit_test(the_last_page_numbers_travel),
      cmocka_unit_test(the_largest_list_travels),
      cmocka_unit_test(what_a_run_claims_is_checked_before_memory_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
