/* What is said of ranks and flows, whatever the format. */
#include <stdio.h>
#include <string.h>

#include "plan.h"

/* The engine's defaults: a standing credit of two pieces for each peer, a window of eight; arenas are powers of two. */
enum { STANDING_CREDIT = 2, WINDOW = 8, HEADS_LIMIT = 32 };
static const uint64_t least_arena_bytes = 64 << 10;

/* Roles that hold the same heads are named together. */
struct heads_row {
  uint32_t first, count, total;
  uint32_t roles; /* bit by role */
};

struct heads_table {
  struct heads_row rows[HEADS_LIMIT];
  uint32_t count;
};

static void add_row(struct heads_table *table, uint32_t role, uint32_t first, uint32_t count, uint32_t total) {
  for (uint32_t i = 0; i < table->count; i++) {
    struct heads_row *row = &table->rows[i];
    if (row->first != first || row->count != count || row->total != total) continue;
    row->roles |= 1u << role;
    return;
  }
  if (table->count < HEADS_LIMIT) table->rows[table->count++] = (struct heads_row){first, count, total, 1u << role};
}

static void append(char *text, size_t capacity_bytes, const char *more) {
  size_t used = strlen(text);
  if (used + 1 < capacity_bytes) snprintf(text + used, capacity_bytes - used, "%s", more);
}

static void print_rows(const struct heads_table *table, char *text, size_t capacity_bytes) {
  *text = 0;
  for (uint32_t i = 0; i < table->count; i++) {
    const struct heads_row *row = &table->rows[i];
    char heads[64];
    if (i) append(text, capacity_bytes, "; ");
    for (uint32_t role = KVF_ROLE_K; role <= KVF_ROLE_STATE; role++) {
      if (!(row->roles >> role & 1)) continue;
      append(text, capacity_bytes, model_role_name(role));
      append(text, capacity_bytes, row->roles >> (role + 1) ? " " : "");
    }
    if (row->total == 1) continue;
    if (row->count == 1)
      snprintf(heads, sizeof heads, " %u of %u", row->first, row->total);
    else
      snprintf(heads, sizeof heads, " %u-%u of %u", row->first, row->first + row->count - 1, row->total);
    append(text, capacity_bytes, heads);
  }
}

const char *plan_describe_heads(const kvf_plan_flow *flow, char *text, size_t capacity_bytes) {
  struct heads_table table = {.count = 0};
  for (uint32_t i = 0; i < flow->heads_count; i++)
    add_row(&table, flow->heads[i].role, flow->heads[i].head_first, flow->heads[i].head_count, flow->heads[i].heads_total);
  print_rows(&table, text, capacity_bytes);
  return text;
}

/* "0-3, 7": the layers of a rank's planes, which stand in order. */
static void describe_layers(const struct geometry *geometry, char *text, size_t capacity_bytes) {
  *text = 0;
  for (uint32_t i = 0; i < geometry->plane_count;) {
    uint32_t first = geometry->planes[i].layer, last = first;
    char run[32];
    for (; i < geometry->plane_count && geometry->planes[i].layer <= last + 1; i++) last = geometry->planes[i].layer;
    snprintf(run, sizeof run, first == last ? "%s%u" : "%s%u-%u", *text ? ", " : "", first, last);
    append(text, capacity_bytes, run);
  }
}

void plan_describe_rank(const struct plan *plan, enum role role, uint32_t rank, struct plan_holding *holding_out) {
  const struct geometry *geometry = &plan->sides[role][rank];
  struct heads_table table = {.count = 0};
  *holding_out = (struct plan_holding){.token_bytes = 0};
  describe_layers(geometry, holding_out->layers, sizeof holding_out->layers);
  for (uint32_t i = 0; i < geometry->plane_count; i++) {
    const kvf_plane *plane = &geometry->planes[i];
    uint64_t entry_bytes = (uint64_t)plane->head_count * plane->head_bytes;
    uint32_t parts = plane->token_parts ? plane->token_parts : 1, tokens = plane->entry_tokens ? plane->entry_tokens : 1;
    add_row(&table, plane->role, plane->head_first, plane->head_count, plane->heads_total);
    if (plane->per_request)
      holding_out->state_bytes += entry_bytes;
    else if (plane->window_tokens)
      holding_out->window_bytes += entry_bytes * plane->window_tokens / parts;
    else
      holding_out->token_bytes += (double)entry_bytes / parts / tokens;
  }
  print_rows(&table, holding_out->heads, sizeof holding_out->heads);
}

static uint64_t round_up_power(uint64_t bytes) {
  uint64_t power = least_arena_bytes;
  while (power < bytes) power *= 2;
  return power;
}

struct plan_arena plan_size_arena(const struct plan *plan, uint32_t decode) {
  struct plan_arena arena = {0};
  for (uint32_t i = 0; i < plan->counts[ROLE_PREFILL]; i++) arena.senders += plan_flow(plan, i, decode)->bytes > 0;
  arena.least_bytes = round_up_power(arena.senders * STANDING_CREDIT * plan->piece_bytes);
  arena.recommended_bytes = round_up_power(arena.senders * WINDOW * plan->piece_bytes);
  return arena;
}

struct plan_totals plan_sum(const struct plan *plan) {
  struct plan_totals totals = {0};
  for (uint32_t i = 0; i < plan->counts[ROLE_PREFILL] * plan->counts[ROLE_DECODE]; i++) {
    totals.bytes += plan->flows[i].bytes;
    totals.pieces += plan->flows[i].pieces;
    totals.slices += plan->flows[i].slices;
    totals.direct_writes += plan->flows[i].direct_writes;
  }
  return totals;
}
