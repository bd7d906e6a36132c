/* Pairs that do not fit, one row for each reason with what both sides are told; shares under context parallelism; components. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "layout/block.h"
#include "layout/cut.h"
#include "layout/name.h"

enum { RANKS = 8 };

static kvf_plane make_plane(void) {
  return (kvf_plane){.layer = 3,
                     .role = KVF_ROLE_STATE,
                     .dtype = KVF_DTYPE_BF16,
                     .heads_total = 4,
                     .head_count = 4,
                     .head_bytes = 8,
                     .page_tokens = 1,
                     .page_count = 1,
                     .page_stride_bytes = 32,
                     .token_stride_bytes = 32,
                     .head_stride_bytes = 8,
                     .part = 2};
}

static kvf_plane make_share(uint32_t parts, uint32_t part, uint32_t block) {
  kvf_plane plane = make_plane();
  plane.part = 0;
  plane.role = KVF_ROLE_K;
  plane.token_parts = parts;
  plane.token_part = part;
  plane.token_block = block;
  return plane;
}

static uint32_t count_fields(const kvf_error *error, const char *name, const char *value) {
  uint32_t found = 0;
  for (size_t i = 0; i < kvf_error_field_count(error); i++) {
    const char *field, *text;
    assert_int_equal(kvf_error_field(error, i, &field, &text), KVF_OK);
    found += strcmp(field, name) == 0 && (!value || strcmp(text, value) == 0);
  }
  return found;
}

/* Every field that must be equal, each alone, as the receiver is told it, and as the sender finds it in a list of cuts. */
static void each_unequal_field_is_refused_by_name(void **state) {
  static const struct {
    const char *field, *mine, *yours;
    size_t offset;
    uint32_t value;
  } rows[] = {
      {"dtype", "BF16", "FP8_E4M3", offsetof(kvf_plane, dtype), KVF_DTYPE_FP8_E4M3},
      {"head_bytes", "8", "4", offsetof(kvf_plane, head_bytes), 4},
      {"heads_total", "4", "5", offsetof(kvf_plane, heads_total), 5},
      {"entry_tokens", "1", "4", offsetof(kvf_plane, entry_tokens), 4},
      {"window_tokens", "0", "128", offsetof(kvf_plane, window_tokens), 128},
      {"per_request", "0", "1", offsetof(kvf_plane, per_request), 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kvf_plane mine = make_plane(), yours = make_plane();
    const kvf_rank_planes source = {&yours, 1, 0}, target = {&mine, 1, 0};
    struct layout_cut cut = {0, 0, 0, 4};
    const struct layout_cuts cuts = {&cut, 1};
    char property[64];
    kvf_error *error = NULL;
    memcpy((char *)&yours + rows[i].offset, &rows[i].value, sizeof rows[i].value);
    assert_int_equal(kvf_layout_compare(&source, 1, &target, 0, &error), KVF_INCOMPATIBLE);
    const kvf_error *cause = kvf_error_cause(error);
    snprintf(property, sizeof property, "layer 3 STATE part 2 %s", rows[i].field);
    assert_string_equal(kvf_error_find(cause, "property"), property);
    assert_string_equal(kvf_error_find(cause, "mine"), rows[i].mine);
    assert_string_equal(kvf_error_find(cause, "yours"), rows[i].yours);
    assert_string_equal(kvf_error_find(error, "mismatch_count"), "1");
    kvf_error_free(error);
    error = NULL;
    assert_int_equal(layout_cuts_check(&cuts, &source, &target, &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "wrong"), rows[i].field);
    kvf_error_free(error);
  }
  /* 0 and 1 say the same. */
  kvf_plane mine = make_plane(), yours = make_plane();
  const kvf_rank_planes source = {&yours, 1, 0}, target = {&mine, 1, 0};
  yours.entry_tokens = yours.token_parts = yours.token_block = 1;
  assert_int_equal(kvf_layout_compare(&source, 1, &target, 0, NULL), KVF_OK);
}

/* What names an array: another layer, role or part is another array, and so a gap. */
static void another_array_is_no_mismatch_but_a_gap(void **state) {
  static const size_t offsets[] = {offsetof(kvf_plane, layer), offsetof(kvf_plane, role), offsetof(kvf_plane, part)};
  for (int i = 0; i < 3; i++) {
    for (uint32_t value = 1; value <= 4; value += 3) {
      kvf_plane mine = make_plane(), yours = make_plane();
      const kvf_rank_planes source = {&yours, 1, 0}, target = {&mine, 1, 0};
      kvf_error *error = NULL;
      memcpy((char *)&yours + offsets[i], &value, sizeof value);
      assert_int_equal(kvf_layout_compare(&source, 1, &target, 0, &error), KVF_NOT_COVERED);
      assert_string_equal(kvf_error_find(error, "gap"), "layer 3 STATE part 2 heads 0-3");
      kvf_error_free(error);
    }
  }
}

struct pair {
  kvf_plane theirs[RANKS];
  kvf_rank_planes sources[RANKS];
  uint32_t source_count;
};

/* Ranks with (token_parts, token_part, token_block) each. */
static void make_sources(struct pair *pair, const uint32_t (*shares)[3], uint32_t count) {
  pair->source_count = count;
  for (uint32_t i = 0; i < count; i++) {
    pair->theirs[i] = make_share(shares[i][0], shares[i][1], shares[i][2]);
    pair->sources[i] = (kvf_rank_planes){&pair->theirs[i], 1, 0};
  }
}

static kvf_status build(const struct pair *pair, kvf_plane *mine, uint32_t target_rank, struct layout_cuts *cuts,
                        kvf_error **error) {
  const kvf_rank_planes target = {mine, 1, 0};
  kvf_status status = layout_cuts_build(pair->sources, pair->source_count, &target, target_rank, cuts, error);
  for (uint32_t i = 0; status == KVF_OK && i < pair->source_count; i++) {
    assert_int_equal(layout_cuts_check(&cuts[i], &pair->sources[i], &target, NULL), KVF_OK);
    layout_cuts_fini(&cuts[i]);
  }
  return status;
}

/* Two ranks by one, three copies of each: the replica rule holds for each share by itself. */
static void replicas_are_ranks_with_the_same_share(void **state) {
  static const uint32_t shares[][3] = {{2, 0, 0}, {2, 1, 1}, {2, 0, 1}, {2, 1, 1}, {2, 0, 1}, {2, 1, 0}};
  for (uint32_t rank = 0; rank < 7; rank++) {
    struct pair pair;
    kvf_plane mine = make_share(0, 0, 0);
    const kvf_rank_planes target = {&mine, 1, 0};
    struct layout_cuts cuts[RANKS];
    make_sources(&pair, shares, 6);
    assert_int_equal(layout_cuts_build(pair.sources, 6, &target, rank, cuts, NULL), KVF_OK);
    for (uint32_t i = 0; i < 6; i++) {
      assert_int_equal(cuts[i].count, i / 2 == rank % 3);
      layout_cuts_fini(&cuts[i]);
    }
  }
}

/* Ranks whose entries the receiver does not want get no cut; those that overlap with it do. */
static void only_overlapping_shares_get_cuts(void **state) {
  static const uint32_t shares[][3] = {{4, 0, 1}, {4, 1, 1}, {4, 2, 1}, {4, 3, 1}};
  static const struct {
    uint32_t parts, part, block;
    bool wanted[4];
  } rows[] = {{0, 0, 0, {true, true, true, true}},
              {2, 0, 1, {true, false, true, false}},
              {4, 3, 1, {false, false, false, true}},
              {2, 1, 2, {false, false, true, true}},
              {3, 0, 1, {true, true, true, true}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct pair pair;
    kvf_plane mine = make_share(rows[i].parts, rows[i].part, rows[i].block);
    const kvf_rank_planes target = {&mine, 1, 0};
    struct layout_cuts cuts[RANKS];
    make_sources(&pair, shares, 4);
    assert_int_equal(layout_cuts_build(pair.sources, 4, &target, 0, cuts, NULL), KVF_OK);
    for (uint32_t k = 0; k < 4; k++) {
      assert_int_equal(cuts[k].count, rows[i].wanted[k]);
      layout_cuts_fini(&cuts[k]);
    }
  }
}

static void shares_that_leave_entries_out_or_hold_them_twice_are_refused(void **state) {
  static const struct {
    uint32_t count;
    uint32_t shares[3][3];
    const char *gap, *twice;
  } rows[] = {
      {1, {{2, 0, 1}}, "layer 3 K heads 0-3 entries 1-1 of every 2", NULL},
      {2, {{3, 0, 4}, {3, 2, 4}}, "layer 3 K heads 0-3 entries 4-7 of every 12", NULL},
      {2, {{0, 0, 0}, {2, 1, 1}}, NULL, "layer 3 K heads 0-3 entries 1-1 of every 2"},
      {3, {{2, 0, 1}, {2, 1, 1}, {4, 1, 2}}, NULL, "layer 3 K heads 0-3 entries 2-2 of every 8"},
      {2, {{2, 0, 2}, {2, 0, 1}}, "layer 3 K heads 0-3 entries 3-3 of every 4", "layer 3 K heads 0-3 entries 0-0 of every 4"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct pair pair;
    kvf_plane mine = make_share(0, 0, 0);
    struct layout_cuts cuts[RANKS];
    kvf_error *error = NULL;
    make_sources(&pair, rows[i].shares, rows[i].count);
    assert_int_equal(build(&pair, &mine, 0, cuts, &error), KVF_NOT_COVERED);
    assert_int_equal(count_fields(error, "gap", rows[i].gap), rows[i].gap != NULL);
    assert_int_equal(count_fields(error, "double_cover", rows[i].twice), rows[i].twice != NULL);
    kvf_error_free(error);
  }
}

/* The comparison that is kept from the last array is not taken for another's. */
static void each_array_is_compared_by_its_own_shares(void **state) {
  kvf_plane theirs[4] = {make_share(2, 0, 1), make_share(2, 0, 1)}, others[2] = {make_share(2, 1, 1), make_share(4, 1, 1)};
  kvf_plane mine[2] = {make_share(0, 0, 0), make_share(0, 0, 0)};
  const kvf_rank_planes sources[] = {{theirs, 2, 0}, {others, 2, 0}}, target = {mine, 2, 0};
  kvf_error *error = NULL;
  theirs[1].layer = others[1].layer = mine[1].layer = 4;
  assert_int_equal(kvf_layout_compare(sources, 2, &target, 0, &error), KVF_NOT_COVERED);
  assert_string_equal(kvf_error_find(error, "gap"), "layer 4 K heads 0-3 entries 3-3 of every 4");
  kvf_error_free(error);
  others[1].token_parts = 2;
  assert_int_equal(kvf_layout_compare(sources, 2, &target, 0, NULL), KVF_OK);
}

/* One rank may hold two shares of the same heads, and one receiver may want two. */
static void one_rank_may_hold_several_shares(void **state) {
  kvf_plane theirs[] = {make_share(4, 3, 2), make_share(4, 0, 2), make_share(4, 1, 2), make_share(4, 2, 2)};
  kvf_plane mine[] = {make_share(2, 1, 1), make_share(2, 0, 1)};
  const kvf_rank_planes sources[] = {{theirs, 2, 0}, {theirs + 2, 2, 0}}, target = {mine, 2, 0};
  struct layout_cuts cuts[2];
  assert_int_equal(layout_planes_validate(theirs, 4, NULL), KVF_OK);
  assert_int_equal(layout_cuts_build(sources, 2, &target, 0, cuts, NULL), KVF_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(layout_cuts_check(&cuts[i], &sources[i], &target, NULL), KVF_OK);
    assert_int_equal(cuts[i].count, 4);
    for (uint32_t c = 0; c < 4; c++) {
      assert_int_equal(cuts[i].cuts[c].target_plane, c / 2);
      assert_int_equal(cuts[i].cuts[c].source_plane, c % 2);
    }
    /* A cut twice, or heads twice from planes that hold everything, are not ordered. */
    struct layout_cut keep = cuts[i].cuts[1];
    cuts[i].cuts[1] = cuts[i].cuts[0];
    assert_int_equal(layout_cuts_check(&cuts[i], &sources[i], &target, NULL), KVF_INVALID);
    cuts[i].cuts[1].head_first = 1;
    cuts[i].cuts[1].head_count = 1;
    assert_int_equal(layout_cuts_check(&cuts[i], &sources[i], &target, NULL), KVF_INVALID);
    cuts[i].cuts[1] = keep;
    layout_cuts_fini(&cuts[i]);
  }
  kvf_plane halves[] = {make_share(0, 0, 0), make_share(0, 0, 0)};
  const kvf_rank_planes both = {halves, 2, 0}, one = {mine, 1, 0};
  struct layout_cut list[] = {{0, 0, 0, 4}, {1, 0, 2, 2}};
  assert_int_equal(layout_cuts_check(&(struct layout_cuts){list, 2}, &both, &one, NULL), KVF_INVALID);
}

static uint64_t random_state;

static uint32_t pick(uint32_t count) {
  return (uint32_t)(base_random_next(&random_state) % count);
}

static bool holds(const kvf_plane *plane, uint32_t head, uint32_t entry) {
  uint32_t block = plane->token_block ? plane->token_block : 1;
  return head - plane->head_first < plane->head_count &&
         (plane->token_parts <= 1 || entry / block % plane->token_parts == plane->token_part);
}

static bool same_share(const kvf_plane *a, const kvf_plane *b) {
  if (a->token_parts <= 1 || b->token_parts <= 1) return a->token_parts <= 1 && b->token_parts <= 1;
  return a->token_parts == b->token_parts && a->token_part == b->token_part && a->token_block == b->token_block;
}

/* Who gives one entry of one head, by counting: RANKS for nobody, RANKS + 1 when unequal shares hold it. */
static uint32_t find_giver(const struct pair *pair, uint32_t head, uint32_t entry, uint32_t target_rank) {
  uint32_t holders[RANKS], count = 0;
  for (uint32_t i = 0; i < pair->source_count; i++)
    if (holds(&pair->theirs[i], head, entry)) holders[count++] = i;
  for (uint32_t i = 1; i < count; i++)
    if (!same_share(&pair->theirs[holders[0]], &pair->theirs[holders[i]])) return RANKS + 1;
  return count ? holders[target_rank % count] : RANKS;
}

/* Grids of heads and parts with overlaps, or anything at all. */
static void make_random_sources(struct pair *pair, uint32_t heads) {
  const bool grid = pick(3) > 0;
  const uint32_t parts = 1 + pick(3), block = 1 + pick(3), middle = pick(heads + 1);
  pair->source_count = grid ? parts * 2 : 1 + pick(RANKS);
  for (uint32_t i = 0; i < pair->source_count; i++) {
    kvf_plane *plane = &pair->theirs[i];
    *plane = grid ? make_share(parts, i % parts, block) : make_share(1 + pick(3), 0, 1 + pick(2));
    if (!grid) plane->token_part = pick(plane->token_parts);
    uint32_t first = grid ? (i < parts ? 0 : middle) : pick(heads),
             end = grid ? (i < parts ? middle : heads) : first + 1 + pick(heads - first);
    if (grid && i < parts && pick(4) == 0) end = heads;
    plane->heads_total = heads;
    plane->head_first = first;
    plane->head_count = end - first;
    pair->sources[i] = (kvf_rank_planes){plane, end > first, 0};
  }
}

/* One layer, a few heads, random shares on both sides: every entry of every head comes from the rank that a count names, once. */
static void random_shares_match_a_count_over_single_entries(void **state) {
  const char *text = getenv("KVF_SEED");
  uint32_t good = 0;
  random_state = text ? strtoull(text, NULL, 0) : base_clock_ns();
  print_message("KVF_SEED=%llu\n", (unsigned long long)random_state);
  for (int round = 0; round < 20000; round++) {
    const uint32_t heads = 1 + pick(5), target_rank = pick(5), entries = 72;
    struct pair pair;
    kvf_plane mine = make_share(1 + pick(4), 0, 1 + pick(3));
    const kvf_rank_planes target = {&mine, 1, 0};
    struct layout_cuts cuts[RANKS];
    bool covered = true;
    make_random_sources(&pair, heads);
    mine.token_part = pick(mine.token_parts);
    mine.heads_total = heads;
    mine.head_first = pick(heads);
    mine.head_count = 1 + pick(heads - mine.head_first);
    for (uint32_t head = 0; head < heads; head++)
      for (uint32_t entry = 0; entry < entries; entry++)
        if (holds(&mine, head, entry)) covered = covered && find_giver(&pair, head, entry, target_rank) < RANKS;
    kvf_status status = layout_cuts_build(pair.sources, pair.source_count, &target, target_rank, cuts, NULL);
    assert_int_equal(status, covered ? KVF_OK : KVF_NOT_COVERED);
    if (!covered) continue;
    good++;
    for (uint32_t i = 0; i < pair.source_count; i++) {
      assert_int_equal(layout_cuts_check(&cuts[i], &pair.sources[i], &target, NULL), KVF_OK);
      for (uint32_t head = 0; head < heads; head++) {
        uint32_t times = 0;
        for (uint32_t c = 0; c < cuts[i].count; c++) times += head - cuts[i].cuts[c].head_first < cuts[i].cuts[c].head_count;
        for (uint32_t entry = 0; entry < entries; entry++)
          if (holds(&mine, head, entry))
            assert_int_equal(times && holds(&pair.theirs[i], head, entry), find_giver(&pair, head, entry, target_rank) == i);
        assert_true(times <= 1);
      }
      layout_cuts_fini(&cuts[i]);
    }
  }
  assert_true(good > 4000 && good < 19000);
}

static void patterns_that_repeat_too_late_are_too_large(void **state) {
  static const uint32_t shares[][3] = {{2, 0, (1 << 19) - 1}, {2, 1, (1 << 19) - 1}};
  struct pair pair;
  kvf_plane mine = make_share(3, 0, 1);
  const kvf_rank_planes target = {&mine, 1, 0};
  struct layout_cuts cuts[RANKS];
  struct layout_cut cut = {0, 0, 0, 4};
  kvf_error *error = NULL;
  make_sources(&pair, shares, 2);
  assert_int_equal(build(&pair, &mine, 0, cuts, &error), KVF_TOO_LARGE);
  assert_string_equal(kvf_error_find(error, "property"), "layer 3 K token_parts");
  assert_string_equal(kvf_error_find(error, "limit"), "1048576");
  kvf_error_free(error);
  error = NULL;
  assert_int_equal(layout_cuts_check(&(struct layout_cuts){&cut, 1}, &pair.sources[0], &target, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "wrong"), "token_parts");
  kvf_error_free(error);
  mine = make_share(0, 0, 0);
  assert_int_equal(build(&pair, &mine, 0, cuts, NULL), KVF_OK);
}

/* A state of megabytes is cut by heads, so that it fits the pieces of any engine; and slots come after all tokens. */
static void slots_come_last_and_in_small_cuts(void **state) {
  kvf_plane planes[4];
  const kvf_rank_planes rank = {planes, 4, 0};
  struct layout_cuts cuts;
  for (int i = 0; i < 4; i++) planes[i] = make_share(0, 0, 0);
  planes[0].per_request = 1; /* heads of 6000 bytes: two a cut */
  planes[0].head_bytes = 6000;
  planes[0].role = KVF_ROLE_STATE;
  planes[1].per_request = 1; /* heads above the bound: one a cut */
  planes[1].head_bytes = 100000;
  planes[1].part = 1;
  planes[1].role = KVF_ROLE_STATE;
  planes[2].window_tokens = 9;
  planes[3].layer = 8;
  assert_int_equal(layout_cuts_build(&rank, 1, &rank, 0, &cuts, NULL), KVF_OK);
  static const struct layout_cut expected[] = {{3, 3, 0, 4}, {2, 2, 0, 4}, {0, 0, 0, 2}, {0, 0, 2, 2},
                                               {1, 1, 0, 1}, {1, 1, 1, 1}, {1, 1, 2, 1}, {1, 1, 3, 1}};
  assert_int_equal(cuts.count, 8);
  assert_memory_equal(cuts.cuts, expected, sizeof expected);
  assert_int_equal(layout_cuts_check(&cuts, &rank, &rank, NULL), KVF_OK);
  layout_cuts_fini(&cuts);
}

/* C48, C83, C120: what one side lacks is named, unless someone ignores it; then it is known to stay behind. */
static void components_of_one_side_are_refused_by_name(void **state) {
  enum { MAIN = 1 << KVF_COMPONENT_MAIN, WINDOW = 1 << KVF_COMPONENT_WINDOW, DRAFT = 1 << KVF_COMPONENT_DRAFT, OWN = 1 << 30 };
  static const struct {
    uint32_t mine, theirs, ignored_by_me, ignored_by_them, moved;
    const char *component, *mine_text, *yours_text;
  } rows[] = {
      {MAIN | DRAFT, MAIN | DRAFT, 0, 0, MAIN | DRAFT, NULL, NULL, NULL},
      {MAIN | DRAFT, MAIN, 0, 0, 0, "DRAFT", "present", "absent"},
      {MAIN, MAIN | DRAFT, 0, 0, 0, "DRAFT", "absent", "present"},
      {MAIN | DRAFT, MAIN, DRAFT, 0, MAIN, NULL, NULL, NULL},
      {MAIN | DRAFT, MAIN, 0, DRAFT, MAIN, NULL, NULL, NULL},
      {MAIN | DRAFT, MAIN | DRAFT, DRAFT, 0, MAIN | DRAFT, NULL, NULL, NULL},
      {MAIN | DRAFT, MAIN | WINDOW, DRAFT, 0, 0, "WINDOW", "absent", "present"},
      {MAIN | OWN, MAIN, 0, 0, 0, "component 30", "present", "absent"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    uint32_t moved = 77;
    kvf_error *error = NULL;
    kvf_status status =
        layout_components_compare(rows[i].mine, rows[i].theirs, rows[i].ignored_by_me, rows[i].ignored_by_them, &moved, &error);
    assert_int_equal(status, rows[i].component ? KVF_INCOMPATIBLE : KVF_OK);
    assert_int_equal(moved, rows[i].component ? 77 : rows[i].moved);
    if (!rows[i].component) continue;
    assert_string_equal(kvf_error_find(error, "component"), rows[i].component);
    assert_string_equal(kvf_error_find(error, "mine"), rows[i].mine_text);
    assert_string_equal(kvf_error_find(error, "yours"), rows[i].yours_text);
    kvf_error_free(error);
  }
  kvf_error *error = NULL;
  uint32_t moved;
  assert_int_equal(layout_components_compare(MAIN | DRAFT, MAIN | WINDOW, 0, 0, &moved, &error), KVF_INCOMPATIBLE);
  assert_string_equal(kvf_error_find(error, "component"), "WINDOW");
  assert_string_equal(kvf_error_find(kvf_error_cause(error), "component"), "DRAFT");
  kvf_error_free(error);
}

static void unknown_numbers_have_a_name_too(void **state) {
  assert_string_equal(layout_role_name(KVF_ROLE_INDEX), "INDEX");
  assert_string_equal(layout_role_name(0), "?");
  assert_string_equal(layout_role_name(99), "?");
  assert_string_equal(layout_dtype_name(0), "?");
}

static void every_failing_allocation_leaves_nothing_behind(void **state) {
  static const uint32_t shares[][3] = {{2, 0, 1}, {2, 1, 1}};
  struct pair pair;
  kvf_plane mine = make_share(0, 0, 0);
  make_sources(&pair, shares, 2);
  for (uint64_t n = 1;; n++) {
    const kvf_rank_planes target = {&mine, 1, 0};
    base_alloc_fail_after(n);
    kvf_status status = kvf_layout_compare(pair.sources, 2, &target, 0, NULL);
    base_alloc_fail_after(0);
    if (status == KVF_OK) {
      assert_true(n > 9);
      break;
    }
    assert_int_equal(status, KVF_NO_MEMORY);
    assert_true(n < 60);
  }
  /* Slots are assigned one after the other, and their list grows on the way. */
  kvf_plane slot = make_share(0, 0, 0);
  slot.per_request = 1;
  slot.heads_total = slot.head_count = 1000;
  slot.head_bytes = 16 << 10;
  const kvf_rank_planes rank = {&slot, 1, 0};
  for (uint64_t n = 1;; n++) {
    struct layout_cuts cuts;
    base_alloc_fail_after(n);
    kvf_status status = layout_cuts_build(&rank, 1, &rank, 0, &cuts, NULL);
    base_alloc_fail_after(0);
    if (status == KVF_OK) {
      assert_int_equal(cuts.count, 1000);
      layout_cuts_fini(&cuts);
      break;
    }
    assert_int_equal(status, KVF_NO_MEMORY);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_unequal_field_is_refused_by_name),
      cmocka_unit_test(another_array_is_no_mismatch_but_a_gap),
      cmocka_unit_test(replicas_are_ranks_with_the_same_share),
      cmocka_unit_test(only_overlapping_shares_get_cuts),
      cmocka_unit_test(shares_that_leave_entries_out_or_hold_them_twice_are_refused),
      cmocka_unit_test(each_array_is_compared_by_its_own_shares),
      cmocka_unit_test(one_rank_may_hold_several_shares),
      cmocka_unit_test(random_shares_match_a_count_over_single_entries),
      cmocka_unit_test(patterns_that_repeat_too_late_are_too_large),
      cmocka_unit_test(slots_come_last_and_in_small_cuts),
      cmocka_unit_test(components_of_one_side_are_refused_by_name),
      cmocka_unit_test(unknown_numbers_have_a_name_too),
      cmocka_unit_test(every_failing_allocation_leaves_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
