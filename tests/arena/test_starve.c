/* Nobody waits for ever: a large extent among small ones, and a large one that cannot be had must not stop the small ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arena/arena.h"
#include "base/clock.h"
#include "seed.h"

enum { UNIT = 64, UNITS = 64, CAPACITY = UNIT * UNITS };
static const uint64_t starve_ns = 100 * BASE_NS_PER_MS;

static struct arena *make(void) {
  const struct arena_options options = {.capacity_bytes = CAPACITY, .min_extent_bytes = UNIT, .starve_ns = starve_ns};
  struct arena *arena = NULL;
  assert_int_equal(arena_create(&options, &arena, NULL), KVF_OK);
  return arena;
}

static void add(struct arena *arena, uint64_t party, uint64_t extent_bytes, uint32_t standing, uint32_t level) {
  assert_int_equal(arena_party_add(arena, party, extent_bytes, standing, NULL), KVF_OK);
  assert_int_equal(arena_want(arena, party, level), KVF_OK);
}

/* Grants that are held for a while and then used up. */
struct held {
  struct arena_grant grant;
  uint64_t until_ns; /* 0: no grant here */
};

static void use_up(struct arena *arena, struct held *held) {
  struct arena_grant claimed;
  const struct arena_grant *grant = &held->grant;
  assert_int_equal(arena_claim(arena, grant->party, grant->id, grant->generation, grant->length, &claimed, NULL), KVF_OK);
  arena_release(arena, grant->id, grant->generation);
  held->until_ns = 0;
}

/* Small parties always want more than there is and hold each extent for up to hold_ns. However large the big one is, it is served
 * within the starving time, plus the time the holders need, plus a step. */
static void a_large_extent_is_not_starved_by_small_ones(void **state) {
  uint64_t random = seed_get();
  const uint64_t hold_ns = 20 * BASE_NS_PER_MS, step_ns = BASE_NS_PER_MS;
  const uint64_t large = 99;
  for (uint64_t large_bytes = 2 * UNIT; large_bytes <= CAPACITY; large_bytes *= 2) {
    struct arena *arena = make();
    struct held held[UNITS] = {0};
    for (uint64_t party = 1; party <= 5; party++) add(arena, party, UNIT, 0, UNITS);
    uint64_t waiting_since_ns = 0;
    uint32_t large_grants = 0, small_grants = 0;
    for (uint64_t now_ns = step_ns; now_ns < 3 * BASE_NS_PER_S; now_ns += step_ns) {
      if (now_ns == 50 * step_ns) {
        add(arena, large, large_bytes, 0, 1);
        waiting_since_ns = now_ns;
      }
      for (int i = 0; i < UNITS; i++) {
        if (!held[i].until_ns || held[i].until_ns > now_ns) continue;
        if (held[i].grant.party == large) waiting_since_ns = now_ns;
        use_up(arena, &held[i]);
      }
      struct arena_grant grant;
      while (arena_grant_next(arena, now_ns, &grant)) {
        if (grant.party == large) {
          waiting_since_ns = UINT64_MAX;
          large_grants++;
        } else {
          small_grants++;
        }
        held[grant.id] = (struct held){.grant = grant, .until_ns = now_ns + 1 + base_random_next(&random) % hold_ns};
      }
      if (now_ns >= 50 * step_ns && waiting_since_ns != UINT64_MAX) {
        assert_in_range(now_ns - waiting_since_ns, 0, starve_ns + hold_ns + 2 * step_ns);
      }
    }
    assert_true(large_grants >= 20);
    assert_true(small_grants > 20 * UNITS / 2);
    arena_destroy(arena);
  }
}

/* Idle peers sit on standing credit for ever, one in each half: the whole cannot be had. However many want it,
 * the others go on meanwhile. */
static void draining_gives_up_when_only_idle_credit_is_left(void **state) {
  struct arena *arena = make();
  struct arena_grant grant;
  add(arena, 1, UNIT, 1, 1);
  assert_true(arena_grant_next(arena, 0, &grant));
  add(arena, 2, UNIT, 0, 8);
  add(arena, 3, CAPACITY, 0, 1);
  add(arena, 4, CAPACITY, 0, 1);
  add(arena, 5, CAPACITY, 0, 1);
  struct held held[UNITS] = {0};
  uint32_t small_grants = 0, idle_steps = 0, idle_steps_most = 0;
  for (uint64_t now_ns = 1; now_ns < 100 * starve_ns; now_ns += starve_ns / 10) {
    for (int i = 0; i < UNITS; i++) {
      if (held[i].until_ns) use_up(arena, &held[i]);
    }
    idle_steps++;
    while (arena_grant_next(arena, now_ns, &grant)) {
      assert_int_equal(grant.party, 2);
      held[grant.id] = (struct held){.grant = grant, .until_ns = now_ns};
      small_grants++;
      idle_steps = 0;
    }
    if (idle_steps > idle_steps_most) idle_steps_most = idle_steps;
  }
  assert_in_range(idle_steps_most, 1, 12);
  assert_in_range(small_grants, 8 * 1000 / 3, 8 * 1000);
  arena_want(arena, 4, 0);
  arena_want(arena, 5, 0);
  /* Once the idle peer uses its credit, the large one has its turn. */
  arena_party_lost(arena, 1, false);
  for (int i = 0; i < UNITS; i++) {
    if (held[i].until_ns) use_up(arena, &held[i]);
  }
  bool served = false;
  for (uint64_t now_ns = 100 * starve_ns; now_ns < 104 * starve_ns && !served; now_ns += starve_ns / 10) {
    while (arena_grant_next(arena, now_ns, &grant)) {
      served |= grant.party == 3;
      held[grant.id] = (struct held){.grant = grant, .until_ns = now_ns};
    }
    for (int i = 0; i < UNITS; i++) {
      if (held[i].until_ns) use_up(arena, &held[i]);
    }
  }
  assert_true(served);
  arena_destroy(arena);
}

/* A quarantined extent may stay for ever; nobody is drained for what lies under it, so the others lose nothing. */
static void quarantine_does_not_make_everybody_wait(void **state) {
  struct arena *arena = make();
  struct arena_grant grant;
  add(arena, 1, UNIT, 0, 1);
  assert_true(arena_grant_next(arena, 0, &grant));
  arena_party_lost(arena, 1, true);
  add(arena, 2, CAPACITY, 0, 1);
  add(arena, 3, UNIT, 0, 4);
  for (uint64_t now_ns = 1; now_ns < 20 * starve_ns; now_ns += starve_ns / 10) {
    for (int i = 0; i < 4; i++) {
      assert_true(arena_grant_next(arena, now_ns, &grant));
      assert_int_equal(grant.party, 3);
      struct held held = {.grant = grant, .until_ns = 1};
      use_up(arena, &held);
    }
  }
  arena_party_fenced(arena, 1);
  assert_true(arena_grant_next(arena, 20 * starve_ns, &grant));
  assert_int_equal(grant.party, 2);
  arena_destroy(arena);
}

static void a_drain_is_shown(void **state) {
  struct arena *arena = make();
  struct arena_grant grant;
  add(arena, 1, UNIT, 0, 1);
  assert_true(arena_grant_next(arena, 0, &grant));
  add(arena, 2, CAPACITY, 0, 1);
  assert_false(arena_grant_next(arena, 0, &grant));
  assert_false(arena_grant_next(arena, starve_ns, &grant));
  char text[512];
  arena_render(arena, 5 * BASE_NS_PER_S, text, sizeof text);
  assert_non_null(strstr(text, "parties: 2, waiting 1, draining for party 2 that needs 4096 bytes, waiting 5.000 s\n"));
  arena_want(arena, 2, 0);
  arena_render(arena, 5 * BASE_NS_PER_S, text, sizeof text);
  assert_non_null(strstr(text, "parties: 2, waiting 0\n"));
  arena_destroy(arena);
}

/* Equal sizes, an arena that is always full: between two grants to one party there is at most one for each other party. */
static void turns_go_round(void **state) {
  uint64_t random = seed_get();
  enum { PARTIES = 9 };
  struct arena *arena = make();
  for (uint64_t party = 0; party < PARTIES; party++) add(arena, party, 4 * UNIT, party % 2, UNITS);
  struct arena_grant held[UNITS / 4], grant;
  uint32_t count = 0;
  uint64_t turn = 0, last_turn[PARTIES] = {0};
  for (int step = 0; step < 20000; step++) {
    while (arena_grant_next(arena, (uint64_t)step * BASE_NS_PER_MS, &grant)) {
      held[count++] = grant;
      turn++;
      if (turn > 64) assert_in_range(turn - last_turn[grant.party], 1, PARTIES);
      last_turn[grant.party] = turn;
    }
    assert_int_equal(count, UNITS / 4);
    uint32_t index = random_below(&random, count);
    assert_int_equal(arena_return(arena, held[index].party, held[index].id, held[index].generation), KVF_OK);
    held[index] = held[--count];
  }
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_large_extent_is_not_starved_by_small_ones),
      cmocka_unit_test(draining_gives_up_when_only_idle_credit_is_left),
      cmocka_unit_test(quarantine_does_not_make_everybody_wait),
      cmocka_unit_test(a_drain_is_shown),
      cmocka_unit_test(turns_go_round),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
