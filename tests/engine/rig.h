/* A rig: a prefill and a decode instance whose ranks are engines of this process, with pools, page lists and a pattern that every
 * source byte carries. Everything goes through the public interface. */
#ifndef TESTS_ENGINE_RIG_H
#define TESTS_ENGINE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kvferry/kvferry.h>

enum { RIG_RANKS = 8, RIG_ROOM_PAGES = 4096 };

struct rig_side {
  uint32_t tp, pp;
  uint32_t page_tokens, page_count;
  uint32_t layout;
  uint32_t draft;             /* the last layer is: 0 a main layer, 1 a draft layer, 2 absent */
  uint32_t ignore_components;
  bool on_device; /* pools in the memory of options.device; rank->pool is its image here */
};

/* Memory that the host does not reach, as numbers. */
struct rig_device {
  uint64_t (*alloc)(uint64_t bytes);
  void (*free)(uint64_t address);
  void (*copy)(uint64_t target, uint64_t source, uint64_t bytes);
};

struct rig_options {
  struct rig_side prefill, decode; /* zeros: tp 1, pp 1, 16 tokens a page, 64 pages, NHD */
  uint32_t layers, heads, head_bytes; /* zeros: 2, 4, 64 */
  kvf_engine_options engine;          /* for all ranks; zeros: defaults */
  const char *prefill_fabrics;        /* instead of engine.fabrics on the prefill ranks */
  const char *prefill_control_fault, *decode_control_fault; /* instead of engine.control_fault on the ranks of one side */
  uint64_t decode_arena_bytes;        /* instead of engine.arena_bytes on the decode ranks */
  const struct rig_device *device;
  bool plain_pools;                   /* pools from malloc: nothing that a peer could map */
};

struct rig_rank {
  kvf_engine *engine;
  kvf_cache *cache;
  kvf_region *region;
  kvf_plane *planes;
  uint32_t plane_count;
  unsigned char *pool;
  uint64_t pool_bytes;
  uint64_t device_pool; /* what pool is the image of, or 0 */
  const struct rig_device *device;
  kvf_peer *peers[RIG_RANKS]; /* decode ranks: all prefill ranks */
};

struct rig {
  struct rig_options options;
  uint32_t prefill_count, decode_count;
  struct rig_rank prefill[RIG_RANKS], decode[RIG_RANKS];
  uint64_t random;
};

/* Pages of one room on one rank, drawn at random without repetition. */
struct rig_pages {
  uint32_t pages[RIG_ROOM_PAGES];
  kvf_page_list list;
};

void rig_open(struct rig *rig, const struct rig_options *options);
/* Connect every decode rank to every prefill rank and wait until all are up. */
void rig_connect(struct rig *rig);
/* End a prefill rank and start it anew on the same address: another incarnation with an empty pool. */
void rig_restart_prefill(struct rig *rig, uint32_t index);
void rig_close(struct rig *rig);

void rig_pages_draw(struct rig *rig, const struct rig_side *side, uint64_t token_first, uint64_t token_end, struct rig_pages *pages_out);
/* Write the pattern of @p room over the tokens' bytes of a rank. */
void rig_fill(const struct rig_rank *rank, uint64_t room, const struct rig_pages *pages, uint64_t token_first, uint64_t token_end);
/* Bytes of the pool that are wrong: not the pattern inside of the tokens, not zero outside. Clears the pool. */
uint64_t rig_check(const struct rig_rank *rank, uint64_t room, const struct rig_pages *pages, uint64_t token_first, uint64_t token_end);

kvf_send *rig_send_open(struct rig_rank *rank, uint64_t room);
void rig_send_post(kvf_send *send, const struct rig_pages *pages, uint64_t token_first, uint64_t token_count, bool final);
kvf_recv *rig_recv_open(struct rig *rig, struct rig_rank *rank, uint64_t room, const struct rig_pages *pages, uint64_t token_first, uint64_t token_end);

/* The next event of this type (others are dropped), within 20 s or the test fails. */
kvf_event rig_wait(kvf_engine *engine, uint32_t type);

/* One whole room over all ranks: draw, fill, open on both sides, post in chunks of @p chunk_tokens, wait for every end, compare every byte. */
void rig_run_room(struct rig *rig, uint64_t room, uint64_t tokens, uint64_t prefix, uint64_t chunk_tokens);

uint64_t rig_arena_used(const struct rig_rank *rank);
void rig_print_error(const kvf_error *error);

#endif
