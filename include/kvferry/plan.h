/* Plans: what the ranks of one instance would send to a rank of another, worked out from their planes alone. Nothing is opened and
 * nothing moves: for choosing layouts and sizes, and for looking at what will happen. */
#ifndef KVFERRY_PLAN_H
#define KVFERRY_PLAN_H

#include <kvferry/plane.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KVF_PLAN_TOKEN_LIMIT = 1 << 24, /* of one request */
  KVF_PLAN_HEADS_LIMIT = 16
};

/* Runs of at least so many bytes are written directly into pages by this fabric; shorter ones go through staging. */
enum { KVF_PLAN_DIRECT_ROW_SHM = 0, KVF_PLAN_DIRECT_ROW_TCP = 2048, KVF_PLAN_DIRECT_ROW_UCX = 2048 };

typedef struct kvf_plan_options {
  size_t struct_bytes;
  uint64_t token_first; /* what the request wants: tokens [token_first, token_end) */
  uint64_t token_end;
  uint64_t piece_bytes;          /* as in kvf_engine_options; 0 = 256 KiB */
  uint64_t direct_min_row_bytes; /* of the fabric: KVF_PLAN_DIRECT_ROW_… */
  uint32_t cannot_direct;        /* 1: the fabric cannot write into pages */
  uint32_t way;                  /* KVF_WAY_…; anything but AUTO is a demand */
  uint32_t flow_bytes;           /* sizeof(kvf_plan_flow) as compiled; 0 = this header's */
} kvf_plan_options;

#define KVF_PLAN_OPTIONS_INIT \
  { sizeof(kvf_plan_options), 0, 0, 0, 0, 0, 0, 0 }

/** Heads of one kind of array that a flow carries. */
typedef struct kvf_plan_heads {
  uint32_t role, part;
  uint32_t head_first, head_count; /* model heads */
  uint32_t heads_total;
  uint32_t layer_count; /* layers with exactly this */
} kvf_plan_heads;

/** What one source sends. */
typedef struct kvf_plan_flow {
  uint32_t source;
  uint32_t way;                    /* KVF_WAY_… that would be chosen */
  uint32_t layer_first, layer_end; /* the lowest layer id, and one past the highest; equal when nothing is sent */
  uint32_t layer_count;            /* layers of which something is sent */
  uint32_t heads_count;            /* in heads; more kinds than there is room for are left out */
  uint64_t bytes;
  uint64_t pieces; /* bulk writes through staging */
  uint64_t slices; /* writes of a method that goes token by token: one for each run of heads that is contiguous on both sides */
  uint64_t direct_writes; /* runs that are contiguous on both sides when no two pages are neighbours */
  uint64_t row_bytes;     /* the shortest of these runs, but for the ends of the request; 0 when nothing is sent */
  uint64_t component_bytes[KVF_COMPONENT_LIMIT];
  kvf_plan_heads heads[KVF_PLAN_HEADS_LIMIT];
  char reason[192]; /* why this way */
} kvf_plan_flow;

/** Work out what each source sends to @p target for one request.
 *  Shapes:    @p sources[source_count], @p flows_out[source_count], of options->flow_bytes each; all of them are written.
 *  Units:     tokens and bytes.   Ownership: borrows everything for the call.
 *  Errors:    INVALID, TOO_LARGE (more than KVF_PLAN_TOKEN_LIMIT tokens, an entry larger than a piece), INCOMPATIBLE and
 * NOT_COVERED as kvf_layout_compare, UNSUPPORTED (a way that cannot be had), NO_MEMORY. Threads:   any.   Blocks: computes for a
 * while with many tokens. */
KVF_API kvf_status kvf_plan_summarise(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                                      uint32_t target_rank, const kvf_plan_options *options, kvf_plan_flow *flows_out,
                                      kvf_error **error_out);

#ifdef __cplusplus
}
#endif
#endif
