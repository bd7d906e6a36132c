/* Making an arena and reading it: sizes are checked here once, everything later relies on them. */
#include "arena/state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/checked.h"

enum {
  ARENA_EXTENT_BYTES_LEAST = 64, /* a cache line: extents never share one */
  ARENA_UNIT_COUNT_LIMIT = 1 << 20
};

/* A power of two in [least, most], both powers of two themselves; the error names the nearest ones. */
static kvf_error *check_size(const char *name, uint64_t value, uint64_t least, uint64_t most) {
  if (value == base_floor_pow2(value) && value >= least && value <= most) return NULL;
  uint64_t within = base_min_u64(base_max_u64(value, least), most);
  kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "%s must be a power of two from %" PRIu64 " to %" PRIu64, name, least, most);
  base_error_add(error, name, "%" PRIu64, value);
  base_error_add(error, "nearest_below", "%" PRIu64, base_floor_pow2(within));
  return base_error_add(error, "nearest_above", "%" PRIu64, base_ceil_pow2(within));
}

static kvf_error *check_options(const struct arena_options *options) {
  kvf_error *error = check_size("capacity_bytes", options->capacity_bytes, ARENA_EXTENT_BYTES_LEAST, 1ull << 62);
  if (error) return error;
  uint64_t least = base_max_u64(ARENA_EXTENT_BYTES_LEAST, options->capacity_bytes / ARENA_UNIT_COUNT_LIMIT);
  return check_size("min_extent_bytes", options->min_extent_bytes, least, options->capacity_bytes);
}

kvf_status arena_create(const struct arena_options *options, struct arena **arena_out, kvf_error **error_out) {
  kvf_error *error = check_options(options);
  if (error) return base_error_give(error, error_out);
  struct arena *arena = base_calloc(1, sizeof *arena);
  if (!arena) goto err_no_memory;
  arena->options = *options;
  arena->unit_count = (uint32_t)(options->capacity_bytes / options->min_extent_bytes);
  base_list_init(&arena->waiting);
  base_list_init(&arena->by_age);
  uint8_t order = (uint8_t)__builtin_ctz(arena->unit_count);
  arena->extents = base_calloc(arena->unit_count, sizeof *arena->extents);
  if (!arena->extents || !arena_buddy_init(&arena->free, order) || !arena_buddy_init(&arena->reachable, order)) goto err_destroy;
  *arena_out = arena;
  return KVF_OK;

err_destroy:
  arena_destroy(arena);
err_no_memory:
  return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the arena's records"), error_out);
}

void arena_destroy(struct arena *arena) {
  if (!arena) return;
  size_t cursor = 0;
  for (struct arena_party *party; (party = base_map_next(&arena->parties, &cursor));) base_free(party);
  base_map_fini(&arena->parties);
  arena_buddy_fini(&arena->reachable);
  arena_buddy_fini(&arena->free);
  base_free(arena->extents);
  base_free(arena);
}

static uint64_t get_largest_free_bytes(const struct arena *arena) {
  uint8_t largest = arena->free.largest[1];
  return largest ? arena_extent_bytes(arena, largest - 1) : 0;
}

void arena_usage_get(const struct arena *arena, struct arena_usage *usage_out) {
  *usage_out = (struct arena_usage){
      .capacity_bytes = arena->options.capacity_bytes,
      .granted_bytes = arena->state_bytes[EXTENT_GRANTED],
      .claimed_bytes = arena->state_bytes[EXTENT_CLAIMED],
      .quarantined_bytes = arena->state_bytes[EXTENT_QUARANTINED],
      .peak_bytes = arena->peak_bytes,
      .largest_free_bytes = get_largest_free_bytes(arena),
      .parties = (uint32_t)arena->parties.count,
      .parties_waiting = arena->waiting_count,
      .grants_total = arena->grants_total,
      .refused_total = arena->refused_total,
  };
}

struct render {
  char *text;
  size_t capacity_bytes, length;
};

static void append(struct render *render, const char *format, ...) BASE_PRINTF(2, 3);
static void append(struct render *render, const char *format, ...) {
  bool room = render->length < render->capacity_bytes;
  va_list arguments;
  va_start(arguments, format);
  int length =
      vsnprintf(room ? render->text + render->length : NULL, room ? render->capacity_bytes - render->length : 0, format, arguments);
  va_end(arguments);
  if (length > 0) render->length += (size_t)length;
}

static void append_oldest(struct render *render, const struct arena *arena, uint64_t now_ns) {
  static const char *const names[EXTENT_STATE_COUNT] = {"free", "granted", "claimed", "quarantined"};
  if (base_list_empty(&arena->by_age)) {
    append(render, "oldest holder: none\n");
    return;
  }
  const struct arena_extent *oldest = BASE_CONTAINER(arena->by_age.next, struct arena_extent, age_node);
  uint32_t id = (uint32_t)(oldest - arena->extents);
  append(render,
         "oldest holder: party %" PRIu64 ", %" PRIu64 " bytes at %" PRIu64 " %s, grant %" PRIu32 " generation %" PRIu32
         ", age %.3f s\n",
         oldest->party_id, arena_extent_bytes(arena, oldest->order), id * arena->options.min_extent_bytes, names[oldest->state], id,
         oldest->generation, (double)arena_elapsed_ns(oldest->granted_ns, now_ns) / 1e9);
}

size_t arena_render(const struct arena *arena, uint64_t now_ns, char *text, size_t capacity_bytes) {
  struct render render = {.text = text, .capacity_bytes = capacity_bytes};
  append(&render,
         "arena: capacity %" PRIu64 " bytes, live %" PRIu64 " (granted %" PRIu64 ", claimed %" PRIu64 ", quarantined %" PRIu64
         "), peak %" PRIu64 "\n",
         arena->options.capacity_bytes, arena_live_bytes(arena), arena->state_bytes[EXTENT_GRANTED],
         arena->state_bytes[EXTENT_CLAIMED], arena->state_bytes[EXTENT_QUARANTINED], arena->peak_bytes);
  append(&render, "largest grantable: %" PRIu64 " bytes\n", get_largest_free_bytes(arena));
  append_oldest(&render, arena, now_ns);
  append(&render, "parties: %zu, waiting %" PRIu32, arena->parties.count, arena->waiting_count);
  const struct arena_party *party = arena->draining_for;
  if (party) {
    append(&render, ", draining for party %" PRIu64 " that needs %" PRIu64 " bytes, waiting %.3f s", party->id,
           arena_extent_bytes(arena, party->order), (double)arena_elapsed_ns(party->blocked_since_ns, now_ns) / 1e9);
  }
  append(&render, "\n");
  return render.length;
}
