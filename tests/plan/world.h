/* A world to move cache in: ranks with real memory, page lists and contents that name themselves, and a naive oracle.
 * Nothing here shares code with the rooms under test but the structs: an element's place is computed from plane.h's one formula. */
#ifndef TESTS_PLAN_WORLD_H
#define TESTS_PLAN_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

enum { WORLD_PLANES = 64, WORLD_RANKS = 48, WORLD_CHUNKS = 4 };

struct world_rank {
  kvf_plane planes[WORLD_PLANES];
  uint32_t plane_count;
  uint32_t stage;
  uint8_t *memory;
  size_t memory_bytes;
  uint32_t *numbers[KVF_PAGE_LIST_LIMIT];
  struct layout_pages pages;
};

struct world_side {
  struct world_rank ranks[WORLD_RANKS];
  uint32_t rank_count;
};

/* Give the rank memory; the planes' addresses were offsets until now. */
void world_rank_bind(struct world_rank *rank, size_t memory_bytes);
/* A list over [first_token, token_end) with distinct pages in random order. */
void world_rank_list(struct world_rank *rank, uint32_t list, uint32_t page_tokens, uint32_t pool_pages, uint64_t first_token,
                     uint64_t token_end, uint64_t *random);
/* Such lists for all planes, beginning up to @p lead tokens before token_first, those of windows only from about where the windows
 * of [token_first, token_end) begin; one page for per-request slots. */
void world_rank_lists(struct world_rank *rank, uint64_t token_first, uint64_t token_end, uint32_t lead, uint64_t *random);
void world_side_fini(struct world_side *side);

/* A side with @p stages pipeline stages of kvf_planes_fill's planes; rank number = stage * options->rank_count + tensor rank. */
void world_side_fill(struct world_side *side, kvf_planes_options options, uint32_t stages);

/* Canary everywhere, the same for the same rank. */
void world_rank_blank(struct world_rank *rank);
/* Write what tokens [token_first, token_end) hold into the rank's pages, as far as they have pages. */
void world_rank_write(struct world_rank *rank, uint64_t token_first, uint64_t token_end);

enum world_method { WORLD_STAGED, WORLD_PAIRS };

struct world_move {
  struct world_side *sources;
  struct world_rank *target;
  uint32_t target_rank;
  struct plan_range range;
  uint64_t chunk_ends[WORLD_CHUNKS]; /* chunk_count > 0: the range is moved in chunks; the last of them ends with it */
  uint32_t chunk_count;
  struct plan_limits limits;
  uint64_t *random;
};

struct world_counts {
  uint64_t pieces, bytes, slices;
  uint64_t bytes_of[WORLD_RANKS]; /* by source */
};

/* Move everything by plan, walk and memcpy, with every check on the way; the caller compares the memory. Returns a status. */
kvf_status world_move_run(const struct world_move *move, enum world_method method, struct world_counts *counts_out,
                          kvf_error **error_out);
/* Both methods into blanked memory, each compared with the oracle, byte by byte. Fails the test on the first difference. */
void world_move_verify(const struct world_move *move, struct world_counts *counts_out);

uint64_t world_pick(uint64_t *random, uint64_t count);
/* KVF_SEED, or a number from the clock. Printed. */
uint64_t world_seed(void);

#endif
