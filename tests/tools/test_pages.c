/* The pattern and the checks of pages: every coordinate counts, and no single wrong byte gets by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "page_pool.h"
#include "pages.h"

enum { LAYERS = 2, HEADS = 3, PAGE_TOKENS = 8, PAGES = 10, HEAD_BYTES = 20, TOKEN_FIRST = 13, TOKEN_END = 35 };

struct fixture {
  kvf_plane planes[2 * LAYERS];
  uint8_t *pool;
  size_t pool_bytes;
  uint32_t list[4];
  struct pages pages;
};

/* Planes of heads 4, 5 and 6 of 8 with a pad of 4 bytes after each page. */
static void make_planes(struct fixture *fixture, bool hnd) {
  const uint64_t page_stride = HEADS * PAGE_TOKENS * HEAD_BYTES + 4, plane_bytes = page_stride * PAGES;
  fixture->pool_bytes = plane_bytes * 2 * LAYERS;
  fixture->pool = malloc(fixture->pool_bytes);
  memset(fixture->pool, PATTERN_CANARY, fixture->pool_bytes);
  for (uint32_t i = 0; i < 2 * LAYERS; i++)
    fixture->planes[i] = (kvf_plane){.layer = 7 + i / 2,
                                     .role = i % 2 ? KVF_ROLE_V : KVF_ROLE_K,
                                     .heads_total = 8,
                                     .head_first = 4,
                                     .head_count = HEADS,
                                     .head_bytes = HEAD_BYTES,
                                     .page_tokens = PAGE_TOKENS,
                                     .page_count = PAGES,
                                     .page_stride_bytes = page_stride,
                                     .token_stride_bytes = hnd ? HEAD_BYTES : HEADS * HEAD_BYTES,
                                     .head_stride_bytes = hnd ? PAGE_TOKENS * HEAD_BYTES : HEAD_BYTES,
                                     .address = (uintptr_t)fixture->pool + i * plane_bytes};
}

static void set_up(struct fixture *fixture, bool hnd) {
  const uint32_t list[] = {9, 0, 5, 3};
  make_planes(fixture, hnd);
  memcpy(fixture->list, list, sizeof list);
  fixture->pages = (struct pages){.room = 42, .tokens = TOKEN_END, .planes = fixture->planes, .plane_count = 2 * LAYERS};
  fixture->pages.lists[0] = (struct pages_list){fixture->list, 4, 1};
  pages_fill(&fixture->pages, TOKEN_FIRST, TOKEN_END);
}

static uint8_t *find(struct fixture *fixture, uint32_t plane, uint64_t token, uint32_t head) {
  const kvf_plane *p = &fixture->planes[plane];
  uint64_t slot = token - PAGE_TOKENS;
  return (uint8_t *)(uintptr_t)p->address + fixture->list[slot / PAGE_TOKENS] * p->page_stride_bytes +
         slot % PAGE_TOKENS * p->token_stride_bytes + head * p->head_stride_bytes;
}

static bool check(struct fixture *fixture, struct pages_fault *fault) {
  return pages_check(&fixture->pages, TOKEN_FIRST, false, fault);
}

static void every_coordinate_changes_every_row(void **state) {
  uint8_t row[HEAD_BYTES];
  const uint64_t base = pattern_base(pattern_stem(42, 7, KVF_ROLE_K, 0, 4), 13);
  pattern_fill(base, row, sizeof row);
  assert_true(pattern_matches(base, row, sizeof row));
  for (uint64_t i = 1; i < 2000; i++) {
    assert_false(pattern_matches(pattern_base(pattern_stem(42 + i, 7, KVF_ROLE_K, 0, 4), 13), row, sizeof row));
    assert_false(pattern_matches(pattern_base(pattern_stem(42, 7 + (uint32_t)i, KVF_ROLE_K, 0, 4), 13), row, sizeof row));
    assert_false(pattern_matches(pattern_base(pattern_stem(42, 7, KVF_ROLE_K, 0, 4 + (uint32_t)i), 13), row, sizeof row));
    assert_false(pattern_matches(pattern_base(pattern_stem(42, 7, KVF_ROLE_K, 0, 4), 13 + i), row, sizeof row));
    assert_false(pattern_matches(pattern_base(pattern_stem(42, 7, KVF_ROLE_K, (uint32_t)i, 4), 13), row, sizeof row));
    if (i < 7)
      assert_false(pattern_matches(pattern_base(pattern_stem(42, 7, KVF_ROLE_K + (uint32_t)i, 0, 4), 13), row, sizeof row));
  }
}

static void a_row_of_any_length_is_its_own_bytes(void **state) {
  uint8_t row[70];
  for (size_t length = 1; length < 64; length++) {
    memset(row, PATTERN_CANARY, sizeof row);
    pattern_fill(99, row, length);
    for (size_t i = 0; i < length; i++) assert_int_equal(row[i], pattern_byte(99, i));
    assert_true(pattern_is_canary(row + length, sizeof row - length));
    assert_int_equal(pattern_find(99, row, length), length);
    row[length - 1] ^= 1;
    assert_false(pattern_matches(99, row, length));
    assert_int_equal(pattern_find(99, row, length), length - 1);
  }
}

static void a_right_fill_passes_and_every_flipped_byte_is_found(void **state) {
  for (int hnd = 0; hnd < 2; hnd++) {
    struct fixture fixture;
    struct pages_fault fault;
    set_up(&fixture, hnd);
    assert_true(check(&fixture, &fault));
    for (uint32_t plane = 0; plane < 2 * LAYERS; plane++)
      for (uint64_t token = 8; token < 40; token++)
        for (uint32_t head = 0; head < HEADS; head++)
          for (uint32_t byte = 0; byte < HEAD_BYTES; byte += 19) {
            uint8_t *place = find(&fixture, plane, token, head) + byte;
            *place ^= 0x10;
            assert_false(check(&fixture, &fault));
            assert_int_equal(fault.layer, fixture.planes[plane].layer);
            assert_int_equal(fault.role, fixture.planes[plane].role);
            assert_int_equal(fault.head, 4 + head);
            assert_int_equal(fault.entry, token);
            assert_int_equal(fault.byte, byte);
            assert_int_equal(fault.expected ^ fault.found, 0x10);
            *place ^= 0x10;
          }
    assert_true(check(&fixture, &fault));
    free(fixture.pool);
  }
}

static void expect_description(struct fixture *fixture, const char *wanted) {
  struct pages_fault fault;
  char text[512];
  assert_false(check(fixture, &fault));
  pages_describe(&fixture->pages, &fault, text, sizeof text);
  if (!strstr(text, wanted)) fail_msg("\"%s\" does not say \"%s\"", text, wanted);
}

static void a_swap_is_found_and_said(void **state) {
  struct fixture fixture;
  set_up(&fixture, false);
  pattern_fill(pattern_base(pattern_stem(42, 7, KVF_ROLE_K, 0, 6), 20), find(&fixture, 0, 20, 1), HEAD_BYTES);
  expect_description(&fixture, "layer 7 K head 5 token 20 (page 0)");
  expect_description(&fixture, "it holds layer 7 K head 6 of the same token");
  pattern_fill(pattern_base(pattern_stem(42, 8, KVF_ROLE_K, 0, 5), 20), find(&fixture, 0, 20, 1), HEAD_BYTES);
  expect_description(&fixture, "it holds layer 8 K head 5");
  pattern_fill(pattern_base(pattern_stem(42, 7, KVF_ROLE_V, 0, 5), 20), find(&fixture, 0, 20, 1), HEAD_BYTES);
  expect_description(&fixture, "it holds layer 7 V head 5");
  pattern_fill(pattern_base(pattern_stem(42, 7, KVF_ROLE_K, 0, 5), 21), find(&fixture, 0, 20, 1), HEAD_BYTES);
  expect_description(&fixture, "it holds token 21 of head 5");
  memset(find(&fixture, 0, 20, 1), PATTERN_CANARY, HEAD_BYTES);
  expect_description(&fixture, "it was never written");
  free(fixture.pool);
}

/* Planes with a window, per-request state, and half of the compressed entries, in lists of their own. */
static void other_planes_are_filled_where_they_matter(void **state) {
  enum { TOKENS = 35, ROW = 8, OTHER_PAGES = 4 };
  uint8_t pool[3 * OTHER_PAGES * 8 * ROW];
  const uint32_t window_list[] = {3, 1}, state_list[] = {2}, entry_list[] = {0, 3, 1};
  kvf_plane planes[3];
  struct pages_fault fault;
  memset(pool, PATTERN_CANARY, sizeof pool);
  for (uint32_t i = 0; i < 3; i++)
    planes[i] = (kvf_plane){.layer = 5,
                            .role = KVF_ROLE_K,
                            .page_list = i,
                            .heads_total = 1,
                            .head_count = 1,
                            .head_bytes = ROW,
                            .page_tokens = i == 0 ? 8 : 1 + i / 2,
                            .page_count = OTHER_PAGES,
                            .page_stride_bytes = 8 * ROW,
                            .token_stride_bytes = ROW,
                            .head_stride_bytes = ROW,
                            .address = (uintptr_t)pool + i * OTHER_PAGES * 8 * ROW};
  planes[0].window_tokens = 10;
  planes[1].role = KVF_ROLE_STATE;
  planes[1].per_request = 1;
  planes[2].entry_tokens = 4; /* 8 entries, the odd ones here */
  planes[2].token_parts = 2;
  planes[2].token_part = 1;
  struct pages pages = {.room = 9, .tokens = TOKENS, .planes = planes, .plane_count = 3};
  pages.lists[0] = (struct pages_list){window_list, 2, 3}; /* tokens 24 to 39 */
  pages.lists[1] = (struct pages_list){state_list, 1, 0};
  pages.lists[2] = (struct pages_list){entry_list, 3, 0}; /* entries 1 3, 5 7, 9 11 */
  pages_fill(&pages, 0, 20);
  assert_int_equal(pattern_find_stain(pool, (OTHER_PAGES + 2) * 8 * ROW),
                   (OTHER_PAGES + 2) * 8 * ROW); /* neither window nor state yet */
  pages_fill(&pages, 20, TOKENS);
  const uint64_t stem = pattern_stem(9, 5, KVF_ROLE_K, 0, 0);
  assert_true(pattern_is_canary(pool + 3 * 8 * ROW, ROW)); /* token 24 is before the window */
  assert_true(pattern_matches(pattern_base(stem, 25), pool + (3 * 8 + 1) * ROW, ROW));
  assert_true(pattern_matches(pattern_base(stem, 34), pool + (8 + 2) * ROW, ROW));
  assert_true(pattern_is_canary(pool + (8 + 3) * ROW, ROW));
  assert_true(pattern_matches(pattern_base(pattern_stem(9, 5, KVF_ROLE_STATE, 0, 0), 0), pool + (4 + 2) * 8 * ROW, ROW));
  assert_true(pattern_matches(pattern_base(stem, 1), pool + 8 * 8 * ROW, ROW));
  assert_true(pattern_matches(pattern_base(stem, 7), pool + (8 + 3) * 8 * ROW + ROW, ROW));
  assert_true(pages_check(&pages, 0, false, &fault));
  assert_true(pages_check(&pages, 25, false, &fault) == false); /* entries 1 to 5 would have to be canary */
  pages_reset(&pages);
  assert_int_equal(pattern_find_stain(pool, sizeof pool), sizeof pool);
}

static void another_room_is_found(void **state) {
  struct fixture fixture;
  struct pages_fault fault;
  set_up(&fixture, false);
  fixture.pages.room = 43;
  assert_false(check(&fixture, &fault));
  free(fixture.pool);
}

static void one_token_more_or_less_is_found(void **state) {
  struct fixture fixture;
  struct pages_fault fault;
  set_up(&fixture, true);
  fixture.pages.tokens = TOKEN_END - 1;
  assert_false(pages_check(&fixture.pages, TOKEN_FIRST, false, &fault));
  assert_int_equal(fault.entry, TOKEN_END - 1);
  fixture.pages.tokens = TOKEN_END;
  assert_false(pages_check(&fixture.pages, TOKEN_FIRST - 1, false, &fault));
  assert_int_equal(fault.entry, TOKEN_FIRST - 1);
  free(fixture.pool);
}

static void a_sample_looks_at_the_edges_of_pages(void **state) {
  struct fixture fixture;
  struct pages_fault fault;
  set_up(&fixture, false);
  for (uint64_t token = 8; token < 40; token++) {
    uint8_t *place = find(&fixture, 3, token, 2);
    bool looked_at = token % 8 == 0 || token % 8 == 7;
    *place ^= 1;
    assert_int_equal(pages_check(&fixture.pages, TOKEN_FIRST, true, &fault), !looked_at);
    *place ^= 1;
  }
  free(fixture.pool);
}

static void a_reset_leaves_the_whole_pool_canary(void **state) {
  struct fixture fixture;
  set_up(&fixture, true);
  size_t stain = pattern_find_stain(fixture.pool, fixture.pool_bytes);
  assert_true(stain < fixture.pool_bytes);
  assert_int_not_equal(fixture.pool[stain], PATTERN_CANARY);
  pages_reset(&fixture.pages);
  assert_int_equal(pattern_find_stain(fixture.pool, fixture.pool_bytes), fixture.pool_bytes);
  free(fixture.pool);
}

static void a_stain_anywhere_in_a_large_pool_is_found(void **state) {
  const size_t length = 200000;
  uint8_t *pool = malloc(length);
  memset(pool, PATTERN_CANARY, length);
  for (size_t at = 0; at < length; at += 9973) {
    pool[at] = 0;
    assert_int_equal(pattern_find_stain(pool, length), at);
    pool[at] = PATTERN_CANARY;
  }
  assert_int_equal(pattern_find_stain(pool, length), length);
  free(pool);
}

static void aux_bytes_belong_to_their_room(void **state) {
  uint8_t aux[64];
  pattern_fill_aux(5, aux, sizeof aux);
  assert_true(pattern_aux_matches(5, aux, sizeof aux));
  assert_false(pattern_aux_matches(6, aux, sizeof aux));
  aux[63] ^= 1;
  assert_false(pattern_aux_matches(5, aux, sizeof aux));
}

static void the_page_pool_hands_out_each_page_once(void **state) {
  struct page_pool pool;
  uint32_t pages[60], more[60];
  uint8_t owned[60] = {0};
  assert_true(page_pool_init(&pool, 60, 5));
  assert_true(page_pool_take(&pool, 40, pages));
  assert_false(page_pool_take(&pool, 21, more));
  assert_true(page_pool_take(&pool, 20, more));
  for (int i = 0; i < 40; i++) owned[pages[i]]++;
  for (int i = 0; i < 20; i++) owned[more[i]]++;
  for (int i = 0; i < 60; i++) assert_int_equal(owned[i], 1);
  bool sorted = true;
  for (int i = 1; i < 40; i++) sorted = sorted && pages[i] > pages[i - 1];
  assert_false(sorted);
  page_pool_give(&pool, pages, 40);
  assert_int_equal(pool.free_count, 40);
  assert_true(page_pool_take(&pool, 40, pages));
  page_pool_fini(&pool);
}

static void a_pool_hands_out_runs_of_a_length_in_random_order(void **state) {
  struct page_pool pool;
  uint32_t pages[1000], breaks = 0;
  bool seen[1000] = {false};
  assert_true(page_pool_init(&pool, 1000, 5));
  pool.in_order = true;
  pool.run_pages = 4;
  assert_true(page_pool_take(&pool, 1000, pages));
  for (uint32_t i = 0; i < 1000; i++) {
    assert_false(seen[pages[i]]);
    seen[pages[i]] = true;
    if (i % 4) assert_int_equal(pages[i], pages[i - 1] + 1);
    if (i && i % 4 == 0) breaks += pages[i] != pages[i - 1] + 1;
  }
  assert_true(breaks > 240); /* of 249 places where one run ends */
  page_pool_fini(&pool);
}

static void a_pool_in_order_hands_out_runs(void **state) {
  struct page_pool pool;
  uint32_t pages[3][20];
  assert_true(page_pool_init(&pool, 60, 5));
  pool.in_order = true;
  assert_true(page_pool_take(&pool, 0, NULL));
  for (int round = 0; round < 4; round++) { /* whatever comes back first */
    for (int i = 0; i < 3; i++) assert_true(page_pool_take(&pool, 20, pages[i]));
    for (int i = 0; i < 3; i++)
      for (int j = 1; j < 20; j++) assert_int_equal(pages[i][j], pages[i][0] + (uint32_t)j);
    assert_false(page_pool_take(&pool, 1, pages[0]));
    for (int i = 0; i < 3; i++) page_pool_give(&pool, pages[(i + round) % 3], 20);
  }
  page_pool_fini(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pool_in_order_hands_out_runs),
      cmocka_unit_test(a_pool_hands_out_runs_of_a_length_in_random_order),
      cmocka_unit_test(every_coordinate_changes_every_row),
      cmocka_unit_test(a_row_of_any_length_is_its_own_bytes),
      cmocka_unit_test(a_right_fill_passes_and_every_flipped_byte_is_found),
      cmocka_unit_test(a_swap_is_found_and_said),
      cmocka_unit_test(other_planes_are_filled_where_they_matter),
      cmocka_unit_test(another_room_is_found),
      cmocka_unit_test(one_token_more_or_less_is_found),
      cmocka_unit_test(a_sample_looks_at_the_edges_of_pages),
      cmocka_unit_test(a_reset_leaves_the_whole_pool_canary),
      cmocka_unit_test(a_stain_anywhere_in_a_large_pool_is_found),
      cmocka_unit_test(aux_bytes_belong_to_their_room),
      cmocka_unit_test(the_page_pool_hands_out_each_page_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
