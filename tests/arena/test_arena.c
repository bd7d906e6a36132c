/* The arena step by step: sizes, the states of an extent, what is refused and why, lost parties, what people are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arena/arena.h"
#include "base/alloc.h"
#include "base/clock.h"

static struct arena *make(uint64_t capacity_bytes, uint64_t min_extent_bytes) {
  const struct arena_options options = {
      .capacity_bytes = capacity_bytes, .min_extent_bytes = min_extent_bytes, .starve_ns = BASE_NS_PER_S};
  struct arena *arena = NULL;
  assert_int_equal(arena_create(&options, &arena, NULL), KVF_OK);
  return arena;
}

static void add(struct arena *arena, uint64_t party, uint64_t extent_bytes, uint32_t standing) {
  assert_int_equal(arena_party_add(arena, party, extent_bytes, standing, NULL), KVF_OK);
}

static struct arena_grant next(struct arena *arena) {
  struct arena_grant grant;
  assert_true(arena_grant_next(arena, 0, &grant));
  return grant;
}

static bool idle(struct arena *arena) {
  struct arena_grant grant;
  return !arena_grant_next(arena, 0, &grant);
}

static uint64_t live_bytes(const struct arena *arena) {
  struct arena_usage usage;
  arena_usage_get(arena, &usage);
  return usage.granted_bytes + usage.claimed_bytes + usage.quarantined_bytes;
}

static struct arena_grant claim(struct arena *arena, const struct arena_grant *grant) {
  struct arena_grant claimed;
  assert_int_equal(arena_claim(arena, grant->party, grant->id, grant->generation, grant->length, &claimed, NULL), KVF_OK);
  return claimed;
}

static kvf_status try_claim(struct arena *arena, uint64_t party, uint32_t id, uint32_t generation, uint64_t length) {
  struct arena_grant claimed = {.offset = 77};
  kvf_error *error = NULL;
  kvf_status status = arena_claim(arena, party, id, generation, length, &claimed, &error);
  assert_int_equal(kvf_error_status(error), status);
  if (status != KVF_OK) assert_int_equal(claimed.offset, 77);
  kvf_error_free(error);
  return status;
}

static void refuse_size(uint64_t capacity_bytes, uint64_t min_extent_bytes, const char *field, const char *below,
                        const char *above) {
  const struct arena_options options = {.capacity_bytes = capacity_bytes, .min_extent_bytes = min_extent_bytes};
  struct arena *arena = NULL;
  kvf_error *error = NULL;
  assert_int_equal(arena_create(&options, &arena, &error), KVF_INVALID);
  assert_null(arena);
  assert_non_null(kvf_error_find(error, field));
  assert_string_equal(kvf_error_find(error, "nearest_below"), below);
  assert_string_equal(kvf_error_find(error, "nearest_above"), above);
  kvf_error_free(error);
}

static void odd_sizes_are_refused_with_the_nearest_good_ones(void **state) {
  refuse_size(6500, 64, "capacity_bytes", "4096", "8192");
  refuse_size(0, 64, "capacity_bytes", "64", "64");
  refuse_size(1, 1, "capacity_bytes", "64", "64");
  refuse_size((1 << 20) - 1, 4096, "capacity_bytes", "524288", "1048576");
  refuse_size(UINT64_MAX, 4096, "capacity_bytes", "4611686018427387904", "4611686018427387904");
  refuse_size(4096, 0, "min_extent_bytes", "64", "64");
  refuse_size(4096, 1, "min_extent_bytes", "64", "64");
  refuse_size(4096, 100, "min_extent_bytes", "64", "128");
  refuse_size(4096, 8192, "min_extent_bytes", "4096", "4096");
  refuse_size(1ull << 40, 64, "min_extent_bytes", "1048576", "1048576");
  arena_destroy(make(64, 64));
  arena_destroy(NULL);
}

static void memory_that_is_out_is_told_and_nothing_leaks(void **state) {
  const struct arena_options options = {.capacity_bytes = 4096, .min_extent_bytes = 64};
  struct arena *arena = NULL;
  for (uint64_t n = 1; !arena; n++) {
    base_alloc_fail_after(n);
    kvf_error *error = NULL;
    kvf_status status = arena_create(&options, &arena, &error);
    base_alloc_fail_after(0);
    assert_true(n < 20);
    assert_int_equal(status, arena ? KVF_OK : KVF_NO_MEMORY);
    kvf_error_free(error);
  }
  kvf_status status = KVF_NO_MEMORY;
  for (uint64_t n = 1; status != KVF_OK; n++) {
    base_alloc_fail_after(n);
    status = arena_party_add(arena, 1, 64, 1, NULL);
    base_alloc_fail_after(0);
    assert_true(n < 20);
    assert_true(status == KVF_OK || status == KVF_NO_MEMORY);
  }
  /* From here on nothing is allocated. */
  base_alloc_fail_after(1);
  assert_int_equal(arena_want(arena, 1, 4), KVF_OK);
  for (int i = 0; i < 4; i++) {
    struct arena_grant grant = next(arena), claimed;
    assert_int_equal(arena_claim(arena, 1, grant.id, grant.generation, 64, &claimed, NULL), KVF_OK);
    arena_release(arena, grant.id, grant.generation);
  }
  void *failing = base_alloc(1);
  base_alloc_fail_after(0);
  assert_null(failing); /* the fault was still waiting */
  arena_destroy(arena);
}

static void extents_are_rounded_up_and_too_large_ones_refused(void **state) {
  struct arena *arena = make(4096, 64);
  add(arena, 1, 1, 1);
  add(arena, 2, 65, 1);
  add(arena, 3, 0, 1);
  assert_int_equal(next(arena).length, 64);
  assert_int_equal(next(arena).length, 128);
  assert_int_equal(next(arena).length, 64);
  add(arena, 4, 4096, 0);
  kvf_error *error = NULL;
  assert_int_equal(arena_party_add(arena, 5, 4097, 1, &error), KVF_TOO_LARGE);
  assert_string_equal(kvf_error_find(error, "need"), "4097");
  assert_string_equal(kvf_error_find(error, "limit"), "4096");
  kvf_error_free(error);
  assert_int_equal(arena_party_add(arena, 5, UINT64_MAX, 1, NULL), KVF_TOO_LARGE);
  assert_int_equal(arena_party_add(arena, 4, 64, 1, NULL), KVF_OVERLAP);
  arena_destroy(arena);
}

static void standing_credit_never_passes_half(void **state) {
  struct arena *arena = make(1024, 64);
  add(arena, 1, 64, 5);
  add(arena, 2, 128, 9); /* 192 bytes are left of half: one extent */
  add(arena, 3, 128, 1); /* none */
  add(arena, 4, 64, 1);  /* the last 64 */
  uint32_t count[5] = {0};
  struct arena_grant grant;
  while (arena_grant_next(arena, 0, &grant)) count[grant.party]++;
  assert_int_equal(count[1], 5);
  assert_int_equal(count[2], 1);
  assert_int_equal(count[3], 0);
  assert_int_equal(count[4], 1);
  assert_int_equal(live_bytes(arena), 512);
  /* Whoever got no standing credit still gets what it asks for, and its level falls back to the standing one. */
  assert_int_equal(arena_want(arena, 3, 2), KVF_OK);
  assert_int_equal(next(arena).party, 3);
  assert_int_equal(next(arena).party, 3);
  assert_true(idle(arena));
  assert_int_equal(arena_want(arena, 1, 0), KVF_OK);
  assert_true(idle(arena));
  /* A party that is gone makes place for another's standing credit. */
  arena_party_lost(arena, 2, false);
  add(arena, 5, 128, 7);
  assert_int_equal(next(arena).party, 5);
  assert_true(idle(arena));
  arena_destroy(arena);
}

static void a_lost_partys_half_is_not_given_twice(void **state) {
  struct arena *arena = make(1024, 64);
  for (uint64_t party = 1; party < 10; party++) {
    add(arena, party, 64, 8);
    struct arena_grant grant;
    while (arena_grant_next(arena, 0, &grant)) assert_int_equal(grant.party, 1);
    arena_party_lost(arena, party, true);
    assert_int_equal(live_bytes(arena), 512);
  }
  arena_party_fenced(arena, 1);
  assert_int_equal(live_bytes(arena), 0);
  arena_destroy(arena);
}

static void a_grant_is_claimed_once_and_by_its_own_party(void **state) {
  struct arena *arena = make(1024, 64);
  add(arena, 1, 256, 1);
  add(arena, 2, 64, 1);
  struct arena_grant grant = next(arena);
  assert_int_equal(grant.party, 1);
  assert_int_equal(try_claim(arena, 2, grant.id, grant.generation, 64), KVF_WRONG_PEER);
  assert_int_equal(try_claim(arena, 1, grant.id, grant.generation + 1, 64), KVF_STALE);
  assert_int_equal(try_claim(arena, 1, 16, 1, 64), KVF_INVALID);
  assert_int_equal(try_claim(arena, 1, UINT32_MAX, 1, 64), KVF_INVALID);
  assert_int_equal(try_claim(arena, 1, grant.id + 1, 0, 64), KVF_STALE); /* inside it, never granted itself */
  assert_int_equal(try_claim(arena, 1, grant.id, grant.generation, 257), KVF_GRANT_OVERRUN);
  assert_int_equal(arena_return(arena, 2, grant.id, grant.generation), KVF_WRONG_PEER);
  arena_release(arena, grant.id, grant.generation); /* not claimed yet: nothing happens */
  struct arena_grant claimed = claim(arena, &grant);
  assert_memory_equal(&claimed, &grant, sizeof grant);
  assert_int_equal(try_claim(arena, 1, grant.id, grant.generation, 256), KVF_STALE);
  assert_int_equal(arena_return(arena, 1, grant.id, grant.generation), KVF_STALE);
  arena_release(arena, grant.id, grant.generation + 1);
  assert_int_equal(live_bytes(arena), 256);
  arena_release(arena, grant.id, grant.generation);
  arena_release(arena, grant.id, grant.generation);
  arena_release(arena, 9999, 1);
  assert_int_equal(live_bytes(arena), 0);
  struct arena_usage usage;
  arena_usage_get(arena, &usage);
  assert_int_equal(usage.refused_total, 9);
  assert_int_equal(usage.grants_total, 1);
  assert_int_equal(usage.peak_bytes, 256);
  arena_destroy(arena);
}

static void a_stale_generation_touches_nothing(void **state) {
  struct arena *arena = make(64, 64);
  add(arena, 1, 64, 0);
  arena_want(arena, 1, 1);
  struct arena_grant old = next(arena);
  assert_int_equal(arena_return(arena, 1, old.id, old.generation), KVF_OK);
  struct arena_grant new = next(arena);
  assert_int_equal(new.id, old.id);
  assert_int_not_equal(new.generation, old.generation);
  kvf_error *error = NULL;
  struct arena_grant claimed;
  assert_int_equal(arena_claim(arena, 1, old.id, old.generation, 64, &claimed, &error), KVF_STALE);
  assert_string_equal(kvf_error_find(error, "generation"), "1");
  assert_string_equal(kvf_error_find(error, "expected"), "2");
  kvf_error_free(error);
  assert_int_equal(arena_return(arena, 1, old.id, old.generation), KVF_STALE);
  claim(arena, &new);
  arena_release(arena, old.id, old.generation);
  assert_int_equal(live_bytes(arena), 64);
  arena_release(arena, new.id, new.generation);
  arena_destroy(arena);
}

static void what_a_lost_party_may_still_write_is_kept_back(void **state) {
  struct arena *arena = make(256, 64);
  add(arena, 1, 64, 0);
  arena_want(arena, 1, 4);
  struct arena_grant grants[4];
  for (int i = 0; i < 4; i++) grants[i] = next(arena);
  claim(arena, &grants[3]);
  arena_party_lost(arena, 1, true);
  add(arena, 2, 64, 0);
  arena_want(arena, 2, 4);
  assert_true(idle(arena));
  for (int i = 0; i < 4; i++) assert_int_equal(try_claim(arena, 1, grants[i].id, grants[i].generation, 1), KVF_STALE);
  assert_int_equal(arena_return(arena, 1, grants[0].id, grants[0].generation), KVF_STALE);
  assert_int_equal(arena_want(arena, 1, 4), KVF_INVALID);
  assert_int_equal(arena_party_add(arena, 1, 64, 0, NULL), KVF_OVERLAP); /* the id is known until it is fenced */
  arena_release(arena, grants[3].id, grants[3].generation);
  assert_int_equal(next(arena).id, grants[3].id);
  assert_true(idle(arena));
  arena_party_fenced(arena, 2); /* not lost: nothing happens */
  assert_true(idle(arena));
  arena_party_fenced(arena, 1);
  for (int i = 0; i < 3; i++) assert_int_equal(next(arena).party, 2);
  assert_true(idle(arena));
  add(arena, 1, 64, 0);
  arena_destroy(arena);
}

static void a_claimed_extent_outlives_its_party_until_it_is_read(void **state) {
  struct arena *arena = make(256, 64);
  add(arena, 1, 256, 0);
  arena_want(arena, 1, 1);
  struct arena_grant grant = next(arena);
  claim(arena, &grant);
  arena_party_lost(arena, 1, false);
  add(arena, 1, 256, 0); /* the same id again: a new party, with nothing */
  arena_want(arena, 1, 1);
  assert_true(idle(arena));
  arena_party_lost(arena, 1, true);
  arena_party_lost(arena, 1, true);
  arena_party_lost(arena, 1, false); /* it has died meanwhile: as good as fenced */
  arena_party_lost(arena, 1, false);
  arena_party_fenced(arena, 1);
  assert_int_equal(live_bytes(arena), 256);
  arena_release(arena, grant.id, grant.generation);
  assert_int_equal(live_bytes(arena), 0);
  arena_destroy(arena);
}

/* A party fails after a piece was written but not scattered, others go on; then 1,000 more rounds. */
static void failed_parties_leave_nothing_behind(void **state) {
  struct arena *arena = make(512, 64);
  for (uint64_t round = 0; round < 1000; round++) {
    uint64_t party = 3 * round;
    for (uint64_t i = 0; i < 3; i++) {
      add(arena, party + i, 64, 0);
      arena_want(arena, party + i, 2);
    }
    struct arena_grant grants[6];
    for (int i = 0; i < 6; i++) grants[i] = next(arena);
    assert_true(idle(arena));
    for (int i = 0; i < 6; i++) {
      if (grants[i].party != party || i == 0) claim(arena, &grants[i]);
    }
    arena_party_lost(arena, party, round % 2);
    if (round % 2) arena_party_fenced(arena, party);
    for (int i = 0; i < 6; i++) arena_release(arena, grants[i].id, grants[i].generation);
    arena_party_lost(arena, party + 1, false);
    arena_party_lost(arena, party + 2, true);
    arena_party_fenced(arena, party + 2);
    struct arena_usage usage;
    arena_usage_get(arena, &usage);
    assert_int_equal(live_bytes(arena), 0);
    assert_int_equal(usage.largest_free_bytes, 512);
    assert_int_equal(usage.parties + usage.parties_waiting, 0);
  }
  arena_destroy(arena);
}

/* The report's own numbers, as nearly as powers of two allow: take most, free it, take more than was left. */
static void an_empty_arena_grants_any_size(void **state) { /* C49 */
  struct arena *arena = make(4096, 64);
  for (uint64_t bytes = 1; bytes <= 4096; bytes++) {
    add(arena, bytes, bytes, 0);
    arena_want(arena, bytes, 1);
    struct arena_grant grant = next(arena);
    assert_true(grant.length >= bytes && grant.offset + grant.length <= 4096);
    claim(arena, &grant);
    arena_release(arena, grant.id, grant.generation);
    arena_party_lost(arena, bytes, false);
  }
  arena_destroy(arena);
}

static void levels_are_levels_not_increments(void **state) {
  struct arena *arena = make(1024, 64);
  add(arena, 1, 64, 0);
  for (int i = 0; i < 5; i++) assert_int_equal(arena_want(arena, 1, 3), KVF_OK);
  for (int i = 0; i < 3; i++) next(arena);
  assert_true(idle(arena));
  assert_int_equal(arena_want(arena, 1, 1), KVF_OK);
  assert_int_equal(arena_want(arena, 1, UINT32_MAX), KVF_OK);
  for (int i = 3; i < 16; i++) next(arena);
  assert_true(idle(arena));
  struct arena_usage usage;
  arena_usage_get(arena, &usage);
  assert_int_equal(usage.parties_waiting, 0); /* it holds everything there is */
  assert_int_equal(arena_want(arena, 2, 1), KVF_INVALID);
  arena_destroy(arena);
}

static void many_parties_are_found_and_forgotten(void **state) {
  enum { PARTIES = 100000 };
  struct arena *arena = make(1 << 20, 64);
  for (uint64_t party = 0; party < PARTIES; party++) add(arena, party * 0x10001, 64, 1);
  uint32_t granted = 0;
  struct arena_grant grant;
  while (arena_grant_next(arena, 0, &grant)) granted++;
  assert_int_equal(granted, (1 << 20) / 64 / 2);
  for (uint64_t party = 0; party < PARTIES; party++) arena_party_lost(arena, party * 0x10001, false);
  struct arena_usage usage;
  arena_usage_get(arena, &usage);
  assert_int_equal(usage.parties, 0);
  assert_int_equal(live_bytes(arena), 0);
  arena_destroy(arena);
}

static void people_are_shown_who_holds_what(void **state) {
  struct arena *arena = make(1024, 64);
  add(arena, 7, 256, 1);
  add(arena, 8, 64, 0);
  struct arena_grant grant;
  assert_true(arena_grant_next(arena, 1 * BASE_NS_PER_S, &grant));
  arena_want(arena, 8, 2);
  assert_true(arena_grant_next(arena, 2 * BASE_NS_PER_S, &grant));
  claim(arena, &grant);
  char text[1024];
  size_t need = arena_render(arena, 4 * BASE_NS_PER_S, text, sizeof text);
  assert_string_equal(text,
                      "arena: capacity 1024 bytes, live 320 (granted 256, claimed 64, quarantined 0), peak 320\n"
                      "largest grantable: 256 bytes\n"
                      "oldest holder: party 7, 256 bytes at 0 granted, grant 0 generation 1, age 3.000 s\n"
                      "parties: 2, waiting 1\n");
  assert_int_equal(need, strlen(text));
  for (size_t capacity = 0; capacity < need + 2; capacity++) {
    char small[1024];
    memset(small, 'x', sizeof small);
    assert_int_equal(arena_render(arena, 4 * BASE_NS_PER_S, small, capacity), need);
    if (capacity) assert_int_equal(strlen(small), capacity <= need ? capacity - 1 : need);
    assert_int_equal(small[capacity], 'x');
  }
  arena_party_lost(arena, 7, false);
  arena_render(arena, 4 * BASE_NS_PER_S, text, sizeof text);
  assert_non_null(strstr(text, "oldest holder: party 8, 64 bytes at 960 claimed, grant 15 generation 1, age 2.000 s\n"));
  arena_release(arena, grant.id, grant.generation);
  arena_render(arena, 4 * BASE_NS_PER_S, text, sizeof text);
  assert_non_null(strstr(text, "oldest holder: none\n"));
  assert_int_equal(arena_render(arena, 0, NULL, 0) > 0, 1);
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(odd_sizes_are_refused_with_the_nearest_good_ones),
      cmocka_unit_test(memory_that_is_out_is_told_and_nothing_leaks),
      cmocka_unit_test(extents_are_rounded_up_and_too_large_ones_refused),
      cmocka_unit_test(standing_credit_never_passes_half),
      cmocka_unit_test(a_lost_partys_half_is_not_given_twice),
      cmocka_unit_test(a_grant_is_claimed_once_and_by_its_own_party),
      cmocka_unit_test(a_stale_generation_touches_nothing),
      cmocka_unit_test(what_a_lost_party_may_still_write_is_kept_back),
      cmocka_unit_test(a_claimed_extent_outlives_its_party_until_it_is_read),
      cmocka_unit_test(failed_parties_leave_nothing_behind),
      cmocka_unit_test(an_empty_arena_grants_any_size),
      cmocka_unit_test(levels_are_levels_not_increments),
      cmocka_unit_test(many_parties_are_found_and_forgotten),
      cmocka_unit_test(people_are_shown_who_holds_what),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
