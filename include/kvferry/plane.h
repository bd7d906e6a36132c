/* Planes: how one rank describes the KV cache it holds.
 *
 * A plane is one strided array: one role (K, V, …) of one model layer, the heads of it that this rank owns, in pages.
 * The byte address of (page, token in page, model head) is
 *     address + page*page_stride_bytes + token*token_stride_bytes + (head - head_first)*head_stride_bytes
 * NHD, HND, padded pages, K and V interleaved: all of them are only strides. What moves between two ranks is the
 * intersection of their planes over (layer, role, part, head, token); no tensor-parallel size appears anywhere.
 *
 * (layer, role, part) names one array of the model. Wherever it is held, its dtype, head_bytes, heads_total, entry_tokens,
 * window_tokens and per_request must be equal. Two planes of one rank may not hold the same entry of the same head of it. */
#ifndef KVFERRY_PLANE_H
#define KVFERRY_PLANE_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KVF_ROLE_K = 1,
  KVF_ROLE_V = 2,
  KVF_ROLE_LATENT = 3, /* MLA: one "head" of kv_lora_rank + rope elements */
  KVF_ROLE_INDEX = 4,  /* sparse-attention index keys */
  KVF_ROLE_SCALE_K = 5,
  KVF_ROLE_SCALE_V = 6,
  KVF_ROLE_STATE = 7
};

enum {
  KVF_DTYPE_BF16 = 1,
  KVF_DTYPE_F16 = 2,
  KVF_DTYPE_F32 = 3,
  KVF_DTYPE_FP8_E4M3 = 4,
  KVF_DTYPE_FP8_E5M2 = 5,
  KVF_DTYPE_INT8 = 6,
  KVF_DTYPE_UINT8 = 7
};

enum { KVF_LAYOUT_NHD = 1, /* [page][token][head][dim] */ KVF_LAYOUT_HND = 2 /* [page][head][token][dim] */ };

typedef struct kvf_plane {
  uint32_t layer;       /* global layer id of the model, never a local ordinal */
  uint32_t role;        /* KVF_ROLE_… */
  uint32_t dtype;       /* KVF_DTYPE_…: compared as a tag, not by width */
  uint32_t page_list;   /* which page list of a room indexes this plane, below KVF_PAGE_LIST_LIMIT */
  uint32_t heads_total; /* KV heads of the model in this layer and role */
  uint32_t head_first;  /* first model head held here */
  uint32_t head_count;  /* heads held here, at least 1 */
  uint32_t head_bytes;  /* bytes of one head of one token */
  uint32_t page_tokens; /* tokens a page holds */
  uint32_t page_count;  /* pages in the pool */
  uint64_t page_stride_bytes;
  uint64_t token_stride_bytes;
  uint64_t head_stride_bytes;
  uint64_t address; /* of page 0, token 0, head head_first; inside one registered region */

  /* What a plain attention cache leaves 0. */
  uint32_t part;      /* tells several arrays of one layer and role apart: the x, B and C of a convolution state */
  uint32_t component; /* KVF_COMPONENT_…: what a side may lack as a whole, by agreement */
  /* Compressed layers: the plane holds entry e for the tokens [e*entry_tokens, (e+1)*entry_tokens); at most 2^20; 0 = 1. Above read
   * "entry" for "token": page_tokens, strides and page lists are in entries of this plane. Tokens [a, b) of a request mean the
   * entries [a/entry_tokens, b/entry_tokens), both rounded down, so chunks that follow each other move each entry once. */
  uint32_t entry_tokens;
  uint32_t window_tokens; /* only the last this many tokens of a request matter, and lists need pages only for them; 0 = all */
  /* 1: not indexed by tokens. Each request has one slot, the single page of its page list, which moves whole at the end of its
   * room, also when no token does. page_tokens is 1; entry_tokens, window_tokens and token_parts say nothing and are 0. It moves
   * head by head, and no head may be larger than the engines' piece_bytes: describe a large state with many heads. */
  uint32_t per_request;
  /* Context parallelism: of all entries this rank holds those with (e / token_block) % token_parts == token_part, packed one after
   * the other in its pages; the first slot of a page list is the first entry held at or after its first_token. token_parts 0 or 1 =
   * all of them; token_block: consecutive entries that stay together, 0 = 1. The pattern of both sides together may repeat after
   * at most 2^20 entries. */
  uint32_t token_parts, token_part, token_block;
} kvf_plane;

enum {
  KVF_COMPONENT_MAIN = 0,
  KVF_COMPONENT_WINDOW = 1,
  KVF_COMPONENT_INDEX = 2,
  KVF_COMPONENT_SCALE = 3,
  KVF_COMPONENT_STATE = 4,
  KVF_COMPONENT_DRAFT = 5,
  KVF_COMPONENT_LIMIT = 32 /* up to here numbers are free for the caller's own */
};

enum { KVF_PAGE_LIST_LIMIT = 16 };

/** One page list of a room. pages[i] holds the request's tokens first_token + i*page_tokens and following: those of them, and of
 *  entries instead of tokens, that the planes of the list hold. For per-request slots one page, and first_token is not looked at.
 */
typedef struct kvf_page_list {
  uint32_t page_list;  /* matches kvf_plane.page_list */
  uint32_t page_count; /* entries in pages */
  const uint32_t *pages;
  uint64_t first_token; /* position in the request of the first slot of pages[0] */
} kvf_page_list;

/** The usual attention cache of one rank, for kvf_planes_fill. */
typedef struct kvf_planes_options {
  size_t struct_bytes;
  uint32_t layer_first; /* first global layer id of this rank's pipeline stage */
  uint32_t layer_count; /* consecutive layers from there */
  uint32_t heads_total; /* KV heads of the model */
  uint32_t rank;        /* tensor-parallel rank, below rank_count */
  uint32_t rank_count;  /* tensor-parallel size; more ranks than heads means replication */
  uint32_t head_bytes;  /* head_dim times element bytes, for K and for V */
  uint32_t dtype;       /* KVF_DTYPE_… */
  uint32_t layout;      /* KVF_LAYOUT_…; 0 = NHD */
  uint32_t page_tokens;
  uint32_t page_count;
  uint32_t page_list;
  uint32_t mla;     /* 1: one LATENT plane a layer instead of K and V, the same on every rank */
  uint64_t address; /* of the pool: layer after layer, K then V, each [page_count] pages without padding */
} kvf_planes_options;

#define KVF_PLANES_OPTIONS_INIT \
  { sizeof(kvf_planes_options), 0, 0, 0, 0, 1, 0, KVF_DTYPE_BF16, KVF_LAYOUT_NHD, 16, 0, 0, 0, 0 }

/** The head interval that tensor-parallel rank @p rank of @p rank_count holds of @p heads_total heads.
 *  Heads >= ranks: an even split, the first (heads % ranks) ranks get one more (6 over 4: 2,2,1,1).
 *  Ranks > heads: every head on rank_count/heads_total consecutive ranks, which must divide.
 *  Errors: INVALID. Threads: any. Blocks: never. */
KVF_API kvf_status kvf_heads_split(uint32_t heads_total, uint32_t rank, uint32_t rank_count, uint32_t *head_first_out,
                                   uint32_t *head_count_out, kvf_error **error_out);

/** Fill in the planes of one rank and the bytes of the pool they need.
 *  Shapes:  @p planes[capacity]; *plane_count_out planes are needed (2 a layer, 1 for MLA); planes may be NULL to ask.
 *  Units:   bytes.   Errors: INVALID (a value or the capacity), TOO_LARGE (does not fit 64 bits).
 *  Threads: any.   Blocks: never. */
KVF_API kvf_status kvf_planes_fill(const kvf_planes_options *options, kvf_plane *planes, uint32_t capacity,
                                   uint32_t *plane_count_out, uint64_t *pool_bytes_out, kvf_error **error_out);

/** One side of a comparison: the planes of every rank of an instance. */
typedef struct kvf_rank_planes {
  const kvf_plane *planes;
  uint32_t plane_count;
  uint32_t stage; /* pipeline stage of this rank; ranks of different stages must not hold the same layer, role and part */
} kvf_rank_planes;

/** Would a receiver holding @p target accept this sending instance? The same check as the handshake's, without a connection.
 *  Errors: INVALID, INCOMPATIBLE (fields: property, mine, yours), NOT_COVERED (fields: each gap or double cover), TOO_LARGE (token
 *  parts that repeat after too many entries). Threads: any. */
KVF_API kvf_status kvf_layout_compare(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                                      uint32_t target_rank, kvf_error **error_out);

#ifdef __cplusplus
}
#endif
#endif
