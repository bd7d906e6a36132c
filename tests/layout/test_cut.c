/* Who sends what to whom: head maps of real sizes, the replica rule, gaps, double covers, mismatches, and lists from a peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "layout/cut.h"

enum { RANKS = 16, HEADS = 16 };

struct instance {
  kvf_plane *planes[RANKS];
  kvf_rank_planes ranks[RANKS];
  uint32_t rank_count;
};

static void make_instance(struct instance *instance, uint32_t layers, uint32_t heads, uint32_t ranks) {
  kvf_planes_options options = KVF_PLANES_OPTIONS_INIT;
  options.layer_count = layers;
  options.heads_total = heads;
  options.rank_count = ranks;
  options.head_bytes = 256;
  options.page_count = 4;
  instance->rank_count = ranks;
  for (uint32_t rank = 0; rank < ranks; rank++) {
    uint32_t count;
    options.rank = rank;
    instance->planes[rank] = malloc(2 * layers * sizeof(kvf_plane));
    assert_int_equal(kvf_planes_fill(&options, instance->planes[rank], 2 * layers, &count, NULL, NULL), KVF_OK);
    instance->ranks[rank] = (kvf_rank_planes){instance->planes[rank], count, 0};
  }
}

static void free_instance(struct instance *instance) {
  for (uint32_t rank = 0; rank < instance->rank_count; rank++) free(instance->planes[rank]);
}

/* A plane of one layer with heads [first, end). */
static kvf_plane make_plane(uint32_t layer, uint32_t role, uint32_t heads_total, uint32_t first, uint32_t end) {
  return (kvf_plane){.layer = layer,
                     .role = role,
                     .dtype = KVF_DTYPE_BF16,
                     .heads_total = heads_total,
                     .head_first = first,
                     .head_count = end - first,
                     .head_bytes = 4,
                     .page_tokens = 1,
                     .page_count = 1,
                     .page_stride_bytes = 4ull * (end - first),
                     .token_stride_bytes = 4ull * (end - first),
                     .head_stride_bytes = 4};
}

static void free_cuts(struct layout_cuts *cuts, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) layout_cuts_fini(&cuts[i]);
}

/* Target rank, source rank, and the one head interval that goes between them; "-" when there is none. */
static void expect_cut(uint32_t heads, uint32_t sources, uint32_t targets, uint32_t target, uint32_t source, const char *interval) {
  struct instance from, to;
  struct layout_cuts cuts[RANKS];
  char text[32] = "-";
  make_instance(&from, 1, heads, sources);
  make_instance(&to, 1, heads, targets);
  assert_int_equal(layout_cuts_build(from.ranks, sources, &to.ranks[target], target, cuts, NULL), KVF_OK);
  if (cuts[source].count > 0) {
    assert_int_equal(cuts[source].count, 2); /* K and V */
    assert_memory_equal(&cuts[source].cuts[0].head_first, &cuts[source].cuts[1].head_first, 8);
    uint32_t first = cuts[source].cuts[0].head_first;
    snprintf(text, sizeof text, "%u-%u", first, first + cuts[source].cuts[0].head_count);
  }
  assert_string_equal(text, interval);
  free_cuts(cuts, sources);
  free_instance(&from);
  free_instance(&to);
}

/* tp 4 to 2 with 8 heads: source rank r lands at target head [0,2,0,2][r] of its half. */
static void four_ranks_to_two(void **state) {
  expect_cut(8, 4, 2, 0, 0, "0-2");
  expect_cut(8, 4, 2, 0, 1, "2-4");
  expect_cut(8, 4, 2, 0, 2, "-");
  expect_cut(8, 4, 2, 0, 3, "-");
  expect_cut(8, 4, 2, 1, 1, "-");
  expect_cut(8, 4, 2, 1, 2, "4-6");
  expect_cut(8, 4, 2, 1, 3, "6-8");
}

/* tp 2 to 4 with 8 heads: target d reads from head [0,2,0,2][d] of its source. */
static void two_ranks_to_four(void **state) {
  expect_cut(8, 2, 4, 0, 0, "0-2");
  expect_cut(8, 2, 4, 1, 0, "2-4");
  expect_cut(8, 2, 4, 2, 1, "4-6");
  expect_cut(8, 2, 4, 3, 1, "6-8");
  expect_cut(8, 2, 4, 3, 0, "-");
}

/* tp 1 to 4 with 2 heads: targets hold heads [0,0,1,1] (C66). */
static void one_rank_to_replicas(void **state) {
  expect_cut(2, 1, 4, 0, 0, "0-1");
  expect_cut(2, 1, 4, 1, 0, "0-1");
  expect_cut(2, 1, 4, 2, 0, "1-2");
  expect_cut(2, 1, 4, 3, 0, "1-2");
}

/* tp 8 to 2 with 4 heads: sources hold heads [0,0,1,1,2,2,3,3]; target t takes number t % 2 of each pair. */
static void replicas_take_turns(void **state) {
  static const char *const expected[2][8] = {{"0-1", "-", "1-2", "-", "-", "-", "-", "-"},
                                             {"-", "-", "-", "-", "-", "2-3", "-", "3-4"}};
  for (uint32_t target = 0; target < 2; target++)
    for (uint32_t source = 0; source < 8; source++) expect_cut(4, 8, 2, target, source, expected[target][source]);
}

static void splits_that_do_not_divide_are_just_intersections(void **state) {
  expect_cut(8, 3, 2, 0, 0, "0-3");
  expect_cut(8, 3, 2, 0, 1, "3-4");
  expect_cut(8, 3, 2, 1, 1, "4-6");
  expect_cut(8, 3, 2, 1, 2, "6-8");
  expect_cut(6, 4, 3, 1, 1, "2-4");
  expect_cut(6, 4, 3, 2, 3, "5-6");
}

/* C66: all sizes and head counts. Each head of each target comes from the source that the replica rule names, found by counting. */
static void the_sweep_matches_a_count_over_single_heads(void **state) {
  for (uint32_t heads = 1; heads <= 16; heads *= 2) {
    for (uint32_t pair = 0; pair < 25; pair++) {
      struct instance from, to;
      uint32_t sources = 1u << pair % 5, targets = 1u << pair / 5;
      make_instance(&from, 2, heads, sources);
      make_instance(&to, 2, heads, targets);
      for (uint32_t target = 0; target < targets; target++) {
        struct layout_cuts cuts[RANKS];
        assert_int_equal(layout_cuts_build(from.ranks, sources, &to.ranks[target], target, cuts, NULL), KVF_OK);
        for (uint32_t plane = 0; plane < 4; plane++) {
          const kvf_plane *mine = &to.planes[target][plane];
          for (uint32_t head = mine->head_first; head < mine->head_first + mine->head_count; head++) {
            uint32_t holders[RANKS], holder_count = 0;
            for (uint32_t i = 0; i < sources; i++)
              if (head - from.planes[i][plane].head_first < from.planes[i][plane].head_count) holders[holder_count++] = i;
            for (uint32_t i = 0; i < sources; i++) {
              uint32_t times = 0;
              for (uint32_t c = 0; c < cuts[i].count; c++)
                times += cuts[i].cuts[c].target_plane == plane && head - cuts[i].cuts[c].head_first < cuts[i].cuts[c].head_count;
              assert_int_equal(times, i == holders[target % holder_count]);
            }
          }
        }
        free_cuts(cuts, sources);
      }
      free_instance(&from);
      free_instance(&to);
    }
  }
}

/* Overlapping replicas at random, head by head; gaps included. */
static void random_overlaps_match_a_count_over_single_heads(void **state) {
  const char *text = getenv("KVF_SEED");
  uint64_t random = text ? strtoull(text, NULL, 0) : base_clock_ns();
  print_message("KVF_SEED=%llu\n", (unsigned long long)random);
  for (int round = 0; round < 20000; round++) {
    kvf_plane planes[5], mine;
    kvf_rank_planes sources[5], target = {&mine, 1, 0};
    struct layout_cuts cuts[5];
    uint32_t count = 1 + base_random_next(&random) % 5, target_rank = base_random_next(&random) % 7, owner[HEADS], gaps = 0;
    for (uint32_t i = 0; i <= count; i++) {
      uint32_t first = base_random_next(&random) % HEADS, end = first + 1 + base_random_next(&random) % (HEADS - first);
      if (i == count)
        mine = make_plane(0, KVF_ROLE_K, HEADS, first, end);
      else {
        planes[i] = make_plane(0, KVF_ROLE_K, HEADS, first, end);
        sources[i] = (kvf_rank_planes){&planes[i], 1, 0};
      }
    }
    for (uint32_t head = mine.head_first; head < mine.head_first + mine.head_count; head++) {
      uint32_t holders[5], holder_count = 0;
      for (uint32_t i = 0; i < count; i++)
        if (head - planes[i].head_first < planes[i].head_count) holders[holder_count++] = i;
      if (holder_count == 0)
        gaps++;
      else
        owner[head] = holders[target_rank % holder_count];
    }
    kvf_status status = layout_cuts_build(sources, count, &target, target_rank, cuts, NULL);
    assert_int_equal(status, gaps ? KVF_NOT_COVERED : KVF_OK);
    if (gaps) continue;
    for (uint32_t i = 0; i < count; i++) {
      uint32_t held = 0;
      for (uint32_t c = 0; c < cuts[i].count; c++) {
        const struct layout_cut *cut = &cuts[i].cuts[c];
        /* Neighbours are merged. */
        if (c > 0) assert_true(cut->head_first > cut[-1].head_first + cut[-1].head_count);
        for (uint32_t head = cut->head_first; head < cut->head_first + cut->head_count; head++, held++)
          assert_int_equal(owner[head], i);
      }
      for (uint32_t head = mine.head_first; head < mine.head_first + mine.head_count; head++) held -= owner[head] == i;
      assert_int_equal(held, 0);
      assert_int_equal(layout_cuts_check(&cuts[i], &sources[i], &target, NULL), KVF_OK);
    }
    free_cuts(cuts, count);
  }
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

static void every_gap_is_named_once_and_merged(void **state) {
  kvf_plane held[] = {make_plane(7, KVF_ROLE_K, 8, 0, 2), make_plane(7, KVF_ROLE_K, 8, 4, 5)};
  kvf_plane wanted[] = {make_plane(7, KVF_ROLE_K, 8, 0, 3), make_plane(7, KVF_ROLE_K, 8, 3, 8), make_plane(9, KVF_ROLE_V, 8, 0, 1)};
  const kvf_rank_planes source = {held, 2, 0}, target = {wanted, 3, 0};
  struct layout_cuts cuts = {.count = 99};
  kvf_error *error = NULL;
  assert_int_equal(layout_cuts_build(&source, 1, &target, 0, &cuts, &error), KVF_NOT_COVERED);
  assert_int_equal(cuts.count, 99);
  assert_int_equal(count_fields(error, "gap", NULL), 3);
  assert_int_equal(count_fields(error, "gap", "layer 7 K heads 2-3"), 1);
  assert_int_equal(count_fields(error, "gap", "layer 7 K heads 5-7"), 1);
  assert_int_equal(count_fields(error, "gap", "layer 9 V head 0"), 1);
  assert_string_equal(kvf_error_find(error, "gap_count"), "3");
  kvf_error_free(error);
}

static void beyond_sixteen_gaps_are_counted(void **state) {
  struct instance to;
  struct layout_cuts cuts;
  kvf_error *error = NULL;
  make_instance(&to, 20, 4, 1);
  const kvf_rank_planes nothing = {NULL, 0, 0};
  assert_int_equal(layout_cuts_build(&nothing, 1, &to.ranks[0], 0, &cuts, &error), KVF_NOT_COVERED);
  assert_int_equal(count_fields(error, "gap", NULL), 16);
  assert_int_equal(count_fields(error, "gap", "layer 7 V heads 0-3"), 1);
  assert_string_equal(kvf_error_find(error, "gap_count"), "40");
  kvf_error_free(error);
  free_instance(&to);
}

/* C80: stages meet by layer id; the same layer in two stages is no replica, and a missing one is a gap. */
static void stages_may_share_no_layer_and_leave_none_out(void **state) {
  kvf_plane first[] = {make_plane(3, KVF_ROLE_K, 8, 0, 8), make_plane(7, KVF_ROLE_K, 8, 0, 8)};
  kvf_plane second[] = {make_plane(11, KVF_ROLE_K, 8, 0, 8), make_plane(15, KVF_ROLE_K, 8, 0, 8)};
  kvf_plane wanted[] = {make_plane(3, KVF_ROLE_K, 8, 2, 4), make_plane(7, KVF_ROLE_K, 8, 2, 4), make_plane(11, KVF_ROLE_K, 8, 2, 4),
                        make_plane(15, KVF_ROLE_K, 8, 2, 4)};
  kvf_rank_planes sources[] = {{first, 2, 0}, {second, 2, 1}, {NULL, 0, 2}};
  const kvf_rank_planes target = {wanted, 4, 0};
  struct layout_cuts cuts[3];
  kvf_error *error = NULL;
  assert_int_equal(layout_cuts_build(sources, 3, &target, 0, cuts, NULL), KVF_OK);
  assert_true(cuts[0].count == 2 && cuts[1].count == 2 && cuts[2].count == 0);
  assert_true(cuts[1].cuts[0].source_plane == 0 && cuts[1].cuts[0].target_plane == 2);
  free_cuts(cuts, 3);
  second[0].layer = 7;
  assert_int_equal(layout_cuts_build(sources, 3, &target, 0, cuts, &error), KVF_NOT_COVERED);
  assert_int_equal(count_fields(error, "double_cover", "layer 7 K heads 2-3 in stages 0 and 1"), 1);
  assert_int_equal(count_fields(error, "gap", "layer 11 K heads 2-3"), 1);
  kvf_error_free(error);
  sources[1].stage = 0; /* in one stage they are replicas; the gap stays */
  assert_int_equal(layout_cuts_build(sources, 3, &target, 0, cuts, &error), KVF_NOT_COVERED);
  assert_int_equal(count_fields(error, "double_cover", NULL), 0);
  kvf_error_free(error);
}

/* C75: dtype and width are compared as such, and both sides' values are told. C65: so is the model's head count. */
static void each_mismatch_is_told_with_mine_and_yours(void **state) {
  kvf_plane theirs[] = {make_plane(3, KVF_ROLE_K, 8, 0, 8), make_plane(3, KVF_ROLE_V, 4, 0, 4)};
  kvf_plane wanted[] = {make_plane(3, KVF_ROLE_K, 8, 0, 8), make_plane(3, KVF_ROLE_V, 8, 0, 8)};
  const kvf_rank_planes source = {theirs, 2, 0}, target = {wanted, 2, 0};
  struct layout_cuts cuts;
  kvf_error *error = NULL;
  theirs[0].dtype = KVF_DTYPE_FP8_E4M3;
  theirs[0].head_bytes = 2;
  assert_int_equal(layout_cuts_build(&source, 1, &target, 0, &cuts, &error), KVF_INCOMPATIBLE);
  static const char *const expected[][3] = {
      {"layer 3 K dtype", "BF16", "FP8_E4M3"}, {"layer 3 K head_bytes", "4", "2"}, {"layer 3 V heads_total", "8", "4"}};
  const kvf_error *cause = kvf_error_cause(error);
  for (int i = 0; i < 3; i++, cause = kvf_error_cause(cause)) {
    assert_int_equal(kvf_error_status(cause), KVF_INCOMPATIBLE);
    assert_int_equal(count_fields(cause, "property", expected[i][0]), 1);
    assert_int_equal(count_fields(cause, "mine", expected[i][1]), 1);
    assert_int_equal(count_fields(cause, "yours", expected[i][2]), 1);
  }
  assert_null(cause);
  kvf_error_free(error);
}

static void many_mismatches_are_bounded(void **state) {
  struct instance from, to;
  struct layout_cuts cuts[4];
  kvf_error *error = NULL;
  uint32_t links = 0;
  make_instance(&from, 50, 8, 4);
  make_instance(&to, 50, 8, 1);
  for (int rank = 0; rank < 4; rank++)
    for (int plane = 0; plane < 100; plane++) from.planes[rank][plane].dtype = KVF_DTYPE_INT8;
  assert_int_equal(layout_cuts_build(from.ranks, 4, &to.ranks[0], 0, cuts, &error), KVF_INCOMPATIBLE);
  assert_string_equal(kvf_error_find(error, "mismatch_count"), "100");
  for (const kvf_error *cause = kvf_error_cause(error); cause; cause = kvf_error_cause(cause)) links++;
  assert_int_equal(links, 16);
  kvf_error_free(error);
  free_instance(&from);
  free_instance(&to);
}

static void planes_that_the_target_lacks_are_not_sent(void **state) {
  kvf_plane theirs[] = {make_plane(9, KVF_ROLE_K, 2, 0, 2), make_plane(1, KVF_ROLE_INDEX, 1, 0, 1),
                        make_plane(1, KVF_ROLE_K, 2, 0, 2)};
  kvf_plane wanted[] = {make_plane(1, KVF_ROLE_K, 2, 1, 2)};
  const kvf_rank_planes source = {theirs, 3, 0}, target = {wanted, 1, 0};
  struct layout_cuts cuts;
  assert_int_equal(layout_cuts_build(&source, 1, &target, 3, &cuts, NULL), KVF_OK);
  assert_int_equal(cuts.count, 1);
  assert_memory_equal(cuts.cuts, (&(struct layout_cut){2, 0, 1, 1}), sizeof(struct layout_cut));
  free_cuts(&cuts, 1);
}

static void a_list_from_a_peer_is_checked_in_every_part(void **state) {
  kvf_plane theirs[] = {make_plane(1, KVF_ROLE_K, 8, 0, 6), make_plane(2, KVF_ROLE_K, 8, 0, 8), make_plane(3, KVF_ROLE_K, 8, 0, 8)};
  kvf_plane mine[] = {make_plane(1, KVF_ROLE_K, 8, 2, 8), make_plane(2, KVF_ROLE_K, 8, 0, 8), make_plane(3, KVF_ROLE_K, 8, 0, 8)};
  const kvf_rank_planes source = {theirs, 3, 0}, target = {mine, 3, 0};
  struct layout_cut list[] = {{0, 0, 2, 2}, {0, 0, 4, 2}, {1, 1, 0, 8}};
  const struct layout_cuts cuts = {list, 3};
  mine[2].head_bytes = 3;
  assert_int_equal(layout_cuts_check(&cuts, &source, &target, NULL), KVF_OK);
  static const struct {
    uint32_t index;
    struct layout_cut cut;
    const char *wrong;
  } bad[] = {
      {0, {3, 0, 2, 2}, "source_plane"},
      {0, {0, 3, 2, 2}, "target_plane"},
      {0, {0, 1, 2, 2}, "layer, role or part"},
      {0, {0, 0, 2, 0}, "head_count"},
      {0, {0, 0, 1, 2}, "target heads"},
      {1, {0, 0, 4, 3}, "source heads"},
      {1, {0, 0, 3, 2}, "order"},
      {2, {0, 0, 5, 1}, "order"},
      {0, {1, 1, 0, 8}, "order"},
      {0, {0, 0, 2, UINT32_MAX}, "source heads"},
      {2, {2, 2, 0, 8}, "head_bytes"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct layout_cut keep = list[bad[i].index];
    kvf_error *error = NULL;
    list[bad[i].index] = bad[i].cut;
    assert_int_equal(layout_cuts_check(&cuts, &source, &target, &error), KVF_INVALID);
    assert_string_equal(kvf_error_find(error, "wrong"), bad[i].wrong);
    kvf_error_free(error);
    list[bad[i].index] = keep;
  }
  mine[1].dtype = KVF_DTYPE_F16;
  assert_int_equal(layout_cuts_check(&cuts, &source, &target, NULL), KVF_INVALID);
  mine[1].dtype = KVF_DTYPE_BF16;
  mine[1].heads_total = 9;
  assert_int_equal(layout_cuts_check(&cuts, &source, &target, NULL), KVF_INVALID);
}

/* Complaints that follow each other are told as one only when they are the same in everything else. */
static void neighbouring_gaps_of_unequal_arrays_are_not_merged(void **state) {
  kvf_plane wanted[] = {make_plane(1, KVF_ROLE_K, 8, 0, 4), make_plane(1, KVF_ROLE_K, 8, 4, 8), make_plane(1, KVF_ROLE_V, 8, 0, 8),
                        make_plane(2, KVF_ROLE_V, 8, 0, 4)};
  kvf_plane held = make_plane(2, KVF_ROLE_V, 8, 0, 2);
  held.token_parts = 2;
  wanted[3].part = held.part = 5;
  const kvf_rank_planes source = {&held, 1, 0}, target = {wanted, 4, 0};
  struct layout_cuts cuts;
  kvf_error *error = NULL;
  assert_int_equal(layout_cuts_build(&source, 1, &target, 0, &cuts, &error), KVF_NOT_COVERED);
  assert_string_equal(kvf_error_find(error, "gap_count"), "4");
  assert_int_equal(count_fields(error, "gap", "layer 1 K heads 0-7"), 1);
  assert_int_equal(count_fields(error, "gap", "layer 2 V part 5 heads 0-1 entries 1-1 of every 2"), 1);
  assert_int_equal(count_fields(error, "gap", "layer 2 V part 5 heads 2-3"), 1);
  kvf_error_free(error);
}

/* Doubles of one array under other stages, and gaps of other runs, side by side. */
static void neighbouring_doubles_of_unequal_stages_are_not_merged(void **state) {
  kvf_plane wanted = make_plane(1, KVF_ROLE_K, 8, 0, 8), first = make_plane(1, KVF_ROLE_K, 8, 0, 8),
            second = make_plane(1, KVF_ROLE_K, 8, 0, 4), third = make_plane(1, KVF_ROLE_K, 8, 4, 8);
  const kvf_rank_planes sources[] = {{&first, 1, 0}, {&second, 1, 1}, {&third, 1, 2}}, target = {&wanted, 1, 0};
  struct layout_cuts cuts[3];
  kvf_error *error = NULL;
  assert_int_equal(layout_cuts_build(sources, 3, &target, 0, cuts, &error), KVF_NOT_COVERED);
  assert_int_equal(count_fields(error, "double_cover", "layer 1 K heads 0-3 in stages 0 and 1"), 1);
  assert_int_equal(count_fields(error, "double_cover", "layer 1 K heads 4-7 in stages 0 and 2"), 1);
  kvf_error_free(error);
  /* Without the first: each quarter is a half of other entries. */
  second.token_parts = third.token_parts = 2;
  third.token_block = 3;
  error = NULL;
  assert_int_equal(layout_cuts_build(sources + 1, 2, &target, 0, cuts, &error), KVF_NOT_COVERED);
  assert_int_equal(count_fields(error, "gap", "layer 1 K heads 0-3 entries 1-1 of every 2"), 1);
  assert_int_equal(count_fields(error, "gap", "layer 1 K heads 4-7 entries 3-5 of every 6"), 1);
  kvf_error_free(error);
  layout_cuts_fini(NULL);
}

static void compare_is_the_handshake_without_a_connection(void **state) {
  struct instance from, to;
  kvf_error *error = NULL;
  make_instance(&from, 2, 8, 4);
  make_instance(&to, 2, 8, 2);
  assert_int_equal(kvf_layout_compare(from.ranks, 4, &to.ranks[1], 1, NULL), KVF_OK);
  assert_int_equal(kvf_layout_compare(from.ranks, 3, &to.ranks[1], 1, NULL), KVF_NOT_COVERED);
  assert_int_equal(kvf_layout_compare(from.ranks, 0, &to.ranks[1], 1, NULL), KVF_NOT_COVERED);
  assert_int_equal(kvf_layout_compare(NULL, 1, &to.ranks[1], 1, NULL), KVF_INVALID);
  assert_int_equal(kvf_layout_compare(from.ranks, 4, NULL, 1, NULL), KVF_INVALID);
  from.planes[2][1].page_tokens = 0;
  assert_int_equal(kvf_layout_compare(from.ranks, 4, &to.ranks[1], 1, &error), KVF_INVALID);
  assert_string_equal(kvf_error_find(error, "source"), "2");
  assert_string_equal(kvf_error_find(error, "plane"), "1");
  kvf_error_free(error);
  free_instance(&from);
  free_instance(&to);
}

static void every_failing_allocation_leaves_nothing_behind(void **state) {
  struct instance from, to;
  make_instance(&from, 2, 8, 4);
  make_instance(&to, 2, 8, 2);
  for (uint64_t n = 1;; n++) {
    struct layout_cuts cuts[4];
    memset(cuts, 0x55, sizeof cuts);
    base_alloc_fail_after(n);
    kvf_status status = layout_cuts_build(from.ranks, 4, &to.ranks[1], 1, cuts, NULL);
    base_alloc_fail_after(0);
    if (status == KVF_OK) {
      free_cuts(cuts, 4);
      assert_true(n > 4);
      break;
    }
    assert_int_equal(status, KVF_NO_MEMORY);
    assert_int_equal(cuts[0].count, 0x55555555);
    assert_true(n < 50);
  }
  free_instance(&from);
  free_instance(&to);
}

/* 100 layers, K and V, 16 ranks to one: meant to be well below 5 ms; the bound leaves room for sanitizers and busy machines. */
static void large_instances_are_compared_quickly(void **state) {
  struct instance from, to;
  struct layout_cuts cuts[16];
  uint64_t least_ns = UINT64_MAX;
  make_instance(&from, 100, 16, 16);
  make_instance(&to, 100, 16, 1);
  for (int round = 0; round < 10; round++) {
    uint64_t start_ns = base_clock_ns();
    assert_int_equal(layout_cuts_build(from.ranks, 16, &to.ranks[0], 0, cuts, NULL), KVF_OK);
    uint64_t taken_ns = base_clock_ns() - start_ns;
    if (taken_ns < least_ns) least_ns = taken_ns;
    for (int i = 0; i < 16; i++) assert_int_equal(cuts[i].count, 200);
    free_cuts(cuts, 16);
  }
  print_message("%llu us\n", (unsigned long long)least_ns / 1000);
  assert_true(least_ns < 50 * BASE_NS_PER_MS);
  free_instance(&from);
  free_instance(&to);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(four_ranks_to_two),
      cmocka_unit_test(two_ranks_to_four),
      cmocka_unit_test(one_rank_to_replicas),
      cmocka_unit_test(replicas_take_turns),
      cmocka_unit_test(splits_that_do_not_divide_are_just_intersections),
      cmocka_unit_test(the_sweep_matches_a_count_over_single_heads),
      cmocka_unit_test(random_overlaps_match_a_count_over_single_heads),
      cmocka_unit_test(every_gap_is_named_once_and_merged),
      cmocka_unit_test(beyond_sixteen_gaps_are_counted),
      cmocka_unit_test(stages_may_share_no_layer_and_leave_none_out),
      cmocka_unit_test(each_mismatch_is_told_with_mine_and_yours),
      cmocka_unit_test(many_mismatches_are_bounded),
      cmocka_unit_test(planes_that_the_target_lacks_are_not_sent),
      cmocka_unit_test(a_list_from_a_peer_is_checked_in_every_part),
      cmocka_unit_test(neighbouring_gaps_of_unequal_arrays_are_not_merged),
      cmocka_unit_test(neighbouring_doubles_of_unequal_stages_are_not_merged),
      cmocka_unit_test(compare_is_the_handshake_without_a_connection),
      cmocka_unit_test(every_failing_allocation_leaves_nothing_behind),
      cmocka_unit_test(large_instances_are_compared_quickly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
