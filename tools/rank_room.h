/* What rank.c, prefill.c and decode.c share: the rank's state and its open rooms. */
#ifndef TOOLS_RANK_ROOM_H
#define TOOLS_RANK_ROOM_H

#include <kvferry/kvferry.h>

#include "geometry.h"
#include "page_pool.h"
#include "pages.h"
#include "rank.h"
#include "record.h"

enum { RANK_AUX_BYTES = 64 };

/* The room's pages of one page list. */
struct rank_pages {
  uint32_t *pages;
  uint32_t page_count, page_capacity;
  uint64_t first_page; /* of its sequence of pages (span.h) */
};

struct rank_room {
  bool open;
  size_t index; /* of the request */
  const struct workload_request *request;
  struct rank_pages lists[KVF_PAGE_LIST_LIMIT];
  uint64_t opened_ns, ready_ns;
  kvf_send *send;
  kvf_recv *recv;
  uint64_t posted_to; /* prefill: the next token to post */
  bool posted_final;
  char error[RECORD_TEXT_LIMIT + 1]; /* of a call that failed before the room's end, else "" */
};

struct rank {
  const struct rank_setup *setup;
  char name[24];
  kvf_engine *engine;
  void *pool;
  void *device_pool; /* of which pool is the image (rank_device.h), or NULL */
  kvf_region *region;
  kvf_cache *cache;
  struct geometry geometry;
  struct page_pool free_pages[KVF_PAGE_LIST_LIMIT];
  kvf_peer **peers; /* in the order they came up (prefill) or were connected (decode) */
  bool *peer_up;
  size_t peer_count, peer_total;
  uint64_t start_ns;
  struct rank_room *rooms; /* [concurrency] */
  size_t next_request, ended_count;
  bool pressed; /* an open was refused for BACKPRESSURE: try again soon */
};

/** Open rooms and post chunks as far as that goes now, one step a call. True when something was done. */
bool prefill_step(struct rank *rank);
bool decode_step(struct rank *rank);
/** Open the room that was just taken; a refusal goes to rank_room_refuse. */
void prefill_open(struct rank *rank, struct rank_room *room);
void decode_open(struct rank *rank, struct rank_room *room);
/** Post @p chunk, which says its tokens, layers and whether it is the last; pages and auxiliary bytes are added here. */
void prefill_post(struct rank *rank, struct rank_room *room, kvf_chunk chunk);
/** A terminal event of the room. */
void prefill_end(struct rank *rank, struct rank_room *room, const kvf_event *event);
void decode_end(struct rank *rank, struct rank_room *room, const kvf_event *event);

/** Tell the parent that this rank gives up and why; takes @p error. Always false. */
bool rank_fail(const struct rank *rank, const char *what, kvf_error *error);
/** Block for one word from the parent; the engine goes on by itself. False when the parent is gone. */
bool rank_read_word(const struct rank *rank, uint64_t *word_out);
/** Sleep until there are events or the parent speaks. False when the parent has gone or given up. */
bool rank_wait(struct rank *rank, int timeout_ms);

/** A room for the next request with its pages taken, or NULL: none is due, or no slot or page is free. */
struct rank_room *rank_room_take(struct rank *rank);
/** Give its pages back and free the slot. */
void rank_room_give(struct rank *rank, struct rank_room *room);
/** The room could not be opened. BACKPRESSURE puts it off, anything else ends it. */
void rank_room_refuse(struct rank *rank, struct rank_room *room, kvf_error *error);
/** Tell the parent and free the slot. */
void rank_room_report(struct rank *rank, struct rank_room *room, const kvf_event *event, enum record_check check, const char *text);
/** Its pages in this rank's planes. */
struct pages rank_room_view(const struct rank *rank, const struct rank_room *room);
/** The page lists for tokens [token_first, token_end), or what of them lies in a window, in @p lists[KVF_PAGE_LIST_LIMIT]; lists
 *  that would be empty are left out. Returns how many. */
uint32_t rank_room_list(const struct rank *rank, const struct rank_room *room, uint64_t token_first, uint64_t token_end,
                        kvf_page_list *lists);
/** Free what a slot keeps between rooms. */
void rank_room_fini(struct rank_room *room);

#endif
