/* A million random operations against a naive model: a table of units with their holder, and of parties with what they hold.
 * The model knows nothing of trees, queues or drains; it says what must never happen and, when everything has come back, what must.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arena/arena.h"
#include "base/checked.h"
#include "seed.h"

enum { UNIT = 64, UNITS = 64, CAPACITY = UNIT * UNITS, PARTIES = 12, STEPS = 1000000 };
enum holding { NONE, GRANTED, CLAIMED, QUARANTINED };
static const uint64_t starve_ns = 1000;

struct model_party {
  bool known, lost;
  uint64_t id; /* never used twice, but for an id that is known already */
  uint64_t extent_bytes;
  uint32_t standing, level, held;
  uint64_t below_since_ns; /* below its level without a break, and without a grant, since then */
  uint32_t passed_over;    /* grants to others while its own extent would have fitted */
};

struct model {
  struct arena *arena;
  uint64_t random, now_ns, next_id, grants, refusals;
  struct model_party parties[PARTIES];
  enum holding units[UNITS];
  /* By first unit. */
  struct arena_grant grants_at[UNITS];
  enum holding holding_at[UNITS];
  uint32_t last_generation[UNITS];
};

static uint32_t below(struct model *model, uint32_t limit) {
  return random_below(&model->random, limit);
}

static bool waits(const struct model_party *party) {
  return party->known && !party->lost && party->held < party->level;
}

static struct model_party *find_party(struct model *model, uint64_t id) {
  for (int i = 0; i < PARTIES; i++) {
    if (model->parties[i].known && model->parties[i].id == id) return &model->parties[i];
  }
  return NULL;
}

static bool fits(const struct model *model, uint64_t bytes) {
  uint32_t count = (uint32_t)(bytes / UNIT);
  for (uint32_t first = 0; first < UNITS; first += count) {
    bool free = true;
    for (uint32_t i = 0; i < count; i++) free &= model->units[first + i] == NONE;
    if (free) return true;
  }
  return false;
}

static void hold(struct model *model, const struct arena_grant *grant, enum holding holding) {
  model->holding_at[grant->id] = holding;
  for (uint64_t i = 0; i < grant->length / UNIT; i++) model->units[grant->id + i] = holding;
}

static void check_usage(const struct model *model) {
  struct arena_usage usage;
  arena_usage_get(model->arena, &usage);
  uint64_t bytes[4] = {0};
  for (int i = 0; i < UNITS; i++) bytes[model->units[i]] += UNIT;
  uint64_t largest = CAPACITY;
  while (largest >= UNIT && !fits(model, largest)) largest /= 2;
  uint32_t parties = 0, waiting = 0;
  for (int i = 0; i < PARTIES; i++) {
    parties += model->parties[i].known;
    waiting += waits(&model->parties[i]);
  }
  assert_int_equal(usage.capacity_bytes, CAPACITY);
  assert_int_equal(usage.granted_bytes, bytes[GRANTED]);
  assert_int_equal(usage.claimed_bytes, bytes[CLAIMED]);
  assert_int_equal(usage.quarantined_bytes, bytes[QUARANTINED]);
  assert_int_equal(usage.largest_free_bytes, largest < UNIT ? 0 : largest);
  assert_int_equal(usage.parties, parties);
  assert_int_equal(usage.parties_waiting, waiting);
  assert_int_equal(usage.grants_total, model->grants);
  assert_int_equal(usage.refused_total, model->refusals);
  assert_true(usage.peak_bytes >= CAPACITY - bytes[NONE] && usage.peak_bytes <= CAPACITY);
}

static void settle_waiting(struct model *model, struct model_party *party, bool waited) {
  if (waits(party) && !waited) {
    party->below_since_ns = model->now_ns;
    party->passed_over = 0;
  }
}

static void add_party(struct model *model) {
  struct model_party *party = &model->parties[below(model, PARTIES)];
  if (party->known) {
    assert_int_equal(arena_party_add(model->arena, party->id, UNIT, 1, NULL), KVF_OVERLAP);
    return;
  }
  uint64_t extent_bytes = 1 + below(model, below(model, 4) ? 4 * UNIT : CAPACITY);
  uint32_t standing = below(model, 4);
  uint64_t reserved = 0;
  for (int i = 0; i < PARTIES; i++) {
    if (model->parties[i].known) reserved += model->parties[i].standing * model->parties[i].extent_bytes;
  }
  assert_int_equal(arena_party_add(model->arena, model->next_id, extent_bytes, standing, NULL), KVF_OK);
  *party = (struct model_party){.known = true, .id = model->next_id++};
  party->extent_bytes = UNIT;
  while (party->extent_bytes < extent_bytes) party->extent_bytes *= 2;
  while (standing && reserved + standing * party->extent_bytes > CAPACITY / 2) standing--;
  party->standing = party->level = standing;
  settle_waiting(model, party, false);
}

static void want(struct model *model) {
  struct model_party *party = &model->parties[below(model, PARTIES)];
  uint32_t level = below(model, 20);
  if (!party->known || party->lost) {
    assert_int_equal(arena_want(model->arena, party->known ? party->id : model->next_id, level), KVF_INVALID);
    return;
  }
  bool waited = waits(party);
  assert_int_equal(arena_want(model->arena, party->id, level), KVF_OK);
  uint64_t most = CAPACITY / party->extent_bytes;
  party->level = (uint32_t)base_min_u64(level > party->standing ? level : party->standing, most);
  settle_waiting(model, party, waited);
}

/* False is right when nobody who waits fits, or when somebody has been starving. */
static void check_no_grant(const struct model *model) {
  bool somebody_fits = false, somebody_starves = false;
  for (int i = 0; i < PARTIES; i++) {
    const struct model_party *party = &model->parties[i];
    if (!waits(party)) continue;
    if (fits(model, party->extent_bytes)) {
      somebody_fits = true;
    } else if (model->now_ns - party->below_since_ns >= starve_ns) {
      somebody_starves = true;
    }
  }
  assert_true(!somebody_fits || somebody_starves);
}

static void grant_one(struct model *model) {
  bool fitted[PARTIES];
  for (int i = 0; i < PARTIES; i++) fitted[i] = waits(&model->parties[i]) && fits(model, model->parties[i].extent_bytes);
  struct arena_grant grant;
  if (!arena_grant_next(model->arena, model->now_ns, &grant)) {
    check_no_grant(model);
    return;
  }
  struct model_party *party = find_party(model, grant.party);
  assert_non_null(party);
  assert_true(waits(party));
  assert_int_equal(grant.length, party->extent_bytes);
  assert_int_equal(grant.offset % grant.length, 0);
  assert_true(grant.offset + grant.length <= CAPACITY);
  assert_int_equal(grant.offset, (uint64_t)grant.id * UNIT);
  for (uint64_t i = 0; i < grant.length / UNIT; i++) assert_int_equal(model->units[grant.id + i], NONE);
  assert_int_equal(grant.generation, model->last_generation[grant.id] + 1);
  model->last_generation[grant.id] = grant.generation;
  model->grants_at[grant.id] = grant;
  hold(model, &grant, GRANTED);
  model->grants++;
  party->held++;
  party->below_since_ns = model->now_ns;
  party->passed_over = 0;
  fitted[party - model->parties] = false;
  for (int i = 0; i < PARTIES; i++) {
    if (!fitted[i]) continue;
    /* Its place in the queue is lost only when draining for it was given up, which takes twice the starving time. */
    struct model_party *other = &model->parties[i];
    uint64_t queued = 1 + (model->now_ns - other->below_since_ns) / (2 * starve_ns);
    assert_in_range(++other->passed_over, 1, PARTIES * queued);
  }
}

static void drop(struct model *model, const struct arena_grant *grant) {
  hold(model, grant, NONE);
  struct model_party *party = find_party(model, grant->party);
  if (!party) return;
  bool waited = waits(party);
  party->held--;
  settle_waiting(model, party, waited);
}

/* Mostly a unit where such an extent begins, if there is one; sometimes just any. */
static uint32_t pick_unit(struct model *model, enum holding holding) {
  uint32_t first = below(model, UNITS);
  if (below(model, 8) == 0) return first;
  for (uint32_t i = 0; i < UNITS; i++) {
    if (model->holding_at[(first + i) % UNITS] == holding) return (first + i) % UNITS;
  }
  return first;
}

/* A grant that exists, existed, or never did; with the right answer to using it. */
static struct arena_grant pick_grant(struct model *model, kvf_status *expected_out) {
  struct arena_grant grant = model->grants_at[pick_unit(model, GRANTED)];
  bool current = model->holding_at[grant.id] == GRANTED && model->last_generation[grant.id] == grant.generation;
  *expected_out = current ? KVF_OK : KVF_STALE;
  switch (below(model, 8)) {
    case 0:
      if (model->holding_at[grant.id] == NONE) break;
      grant.party = model->next_id;
      *expected_out = KVF_WRONG_PEER;
      break;
    case 1:
      grant.generation -= 1 + below(model, 3);
      *expected_out = KVF_STALE;
      break;
    case 2:
      grant.id += UNITS;
      *expected_out = KVF_INVALID;
      break;
    default:
      break;
  }
  return grant;
}

static void claim(struct model *model) {
  kvf_status expected;
  struct arena_grant grant = pick_grant(model, &expected), claimed;
  uint64_t length = grant.length;
  if (expected == KVF_OK && below(model, 8) == 0) {
    length++;
    expected = KVF_GRANT_OVERRUN;
  }
  assert_int_equal(arena_claim(model->arena, grant.party, grant.id, grant.generation, length, &claimed, NULL), expected);
  if (expected != KVF_OK) {
    model->refusals++;
    return;
  }
  assert_memory_equal(&claimed, &grant, sizeof grant);
  hold(model, &grant, CLAIMED);
}

static void release(struct model *model) {
  struct arena_grant grant = model->grants_at[pick_unit(model, CLAIMED)];
  if (below(model, 8) == 0) grant.generation--;
  bool current = model->holding_at[grant.id] == CLAIMED && model->last_generation[grant.id] == grant.generation;
  arena_release(model->arena, grant.id, grant.generation);
  if (current) drop(model, &grant);
}

static void give_back(struct model *model) {
  kvf_status expected;
  struct arena_grant grant = pick_grant(model, &expected);
  assert_int_equal(arena_return(model->arena, grant.party, grant.id, grant.generation), expected);
  if (expected == KVF_OK) {
    drop(model, &grant);
  } else {
    model->refusals++;
  }
}

static void change_holding(struct model *model, uint64_t party, enum holding from, enum holding to) {
  for (int i = 0; i < UNITS; i++) {
    if (model->holding_at[i] == from && model->grants_at[i].party == party) hold(model, &model->grants_at[i], to);
  }
}

static void fence(struct model *model, struct model_party *party) {
  arena_party_fenced(model->arena, party->id);
  if (!party->known || !party->lost) return;
  change_holding(model, party->id, QUARANTINED, NONE);
  party->known = false;
}

static void lose(struct model *model, struct model_party *party) {
  bool might_write = below(model, 2);
  arena_party_lost(model->arena, party->id, might_write);
  if (!party->known) return;
  if (!party->lost) change_holding(model, party->id, GRANTED, might_write ? QUARANTINED : NONE);
  if (party->lost && !might_write) change_holding(model, party->id, QUARANTINED, NONE);
  if (might_write) {
    party->lost = true;
  } else {
    party->known = false;
  }
}

/* Everything comes back: nothing is live, and an extent as large as the arena is granted at once. */
static void come_to_rest(struct model *model) {
  for (int i = 0; i < UNITS; i++) {
    if (model->holding_at[i] == CLAIMED) {
      arena_release(model->arena, (uint32_t)i, model->last_generation[i]);
      drop(model, &model->grants_at[i]);
    }
  }
  for (int i = 0; i < PARTIES; i++) {
    if (!model->parties[i].known) continue;
    if (!model->parties[i].lost) lose(model, &model->parties[i]);
    if (model->parties[i].known) fence(model, &model->parties[i]);
  }
  check_usage(model);
  for (int i = 0; i < UNITS; i++) assert_int_equal(model->units[i], NONE);
  uint64_t bytes = 1 + below(model, CAPACITY);
  assert_int_equal(arena_party_add(model->arena, model->next_id, bytes, 0, NULL), KVF_OK);
  model->parties[0] = (struct model_party){.known = true, .id = model->next_id++, .extent_bytes = UNIT, .level = 1};
  while (model->parties[0].extent_bytes < bytes) model->parties[0].extent_bytes *= 2;
  assert_int_equal(arena_want(model->arena, model->parties[0].id, 1), KVF_OK);
  uint64_t before = model->grants;
  grant_one(model);
  assert_int_equal(model->grants, before + 1);
}

static void step(struct model *model) {
  model->now_ns += below(model, 100);
  switch (below(model, 128)) {
    case 0 ... 7:
      add_party(model);
      break;
    case 8:
      lose(model, &model->parties[below(model, PARTIES)]);
      break;
    case 9:
      fence(model, &model->parties[below(model, PARTIES)]);
      break;
    case 10 ... 27:
      want(model);
      break;
    case 28 ... 67:
      grant_one(model);
      break;
    case 68 ... 92:
      claim(model);
      break;
    case 93 ... 117:
      release(model);
      break;
    default:
      give_back(model);
      break;
  }
}

static void a_million_random_operations_match_the_model(void **state) {
  static struct model model;
  model.random = seed_get();
  model.next_id = 1;
  for (uint32_t i = 0; i < UNITS; i++) model.grants_at[i] = (struct arena_grant){.id = i, .length = UNIT};
  const struct arena_options options = {.capacity_bytes = CAPACITY, .min_extent_bytes = UNIT, .starve_ns = starve_ns};
  assert_int_equal(arena_create(&options, &model.arena, NULL), KVF_OK);
  for (int i = 0; i < STEPS; i++) {
    step(&model);
    check_usage(&model);
    if (i % 1000 == 999) come_to_rest(&model);
  }
  assert_true(model.grants > STEPS / 8);
  arena_destroy(model.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_million_random_operations_match_the_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
