/* Transfers: the life of every send and receive of one engine.
 *
 *   receiver                                     sender
 *   recv ── PLAN(cuts), OPEN(tokens) ─────────→  send: one leg for each receiving rank
 *     │                                            │ cut chunks into pieces
 *     │  ←──────────── WANT(level) ─────────────   │ (standing credit makes this unneeded for a start)
 *   arena ─────────── GRANT(extents) ─────────→    │
 *     │                                          gather → write            one piece, many in flight
 *   landed ←════════ piece through a fabric ════   │
 *   scatter ───────── ACK(pieces) ────────────→    │
 *     │  ←──────────── FINAL(count, bytes) ─────   │
 *   all legs whole ── DONE(bytes) ────────────→  end
 *
 * Everything here runs on the engine's I/O thread, except transfer_job_run, which copies on a copy thread. The engine lends what it
 * owns through transfer_host. */
#ifndef TRANSFER_TRANSFER_H
#define TRANSFER_TRANSFER_H

#include <kvferry/event.h>

#include "arena/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "copy/copy.h"
#include "copy/order.h"
#include "fabric/fabric.h"
#include "stats/counter.h"
#include "wire/message.h"

struct transfer;
struct transfer_link;
struct transfer_send;
struct transfer_recv;

/* One copy for a copy thread; `done` is called on the I/O thread afterwards. Everything it points at stays until then. */
struct transfer_job {
  struct base_list node;
  enum transfer_job_kind { TRANSFER_GATHER, TRANSFER_SCATTER, TRANSFER_PAIRS } kind;
  const struct layout_link *link;
  const struct layout_pages *source_pages;
  const struct layout_pages *target_pages;
  struct layout_piece piece;
  void *packed;
  uint64_t packed_bytes;
  bool check;        /* gather: fill in `checksum`; scatter: only when the packed bytes have it */
  uint64_t checksum;
  uint64_t found;    /* scatter: what the packed bytes had; another than `checksum` says that nothing was scattered */
  bool on_device;      /* our pages are in CUDA memory: not for transfer_job_run */
  uint64_t elapsed_ns; /* filled in by whoever ran it */
  uint64_t slices;     /* likewise, for gathers and pairs */
  kvf_error *error;    /* likewise, owned; NULL: copied */
  void (*done)(struct transfer_job *job);
};
void transfer_job_run(struct transfer_job *job, const struct copy_backend *backend);
/* For a backend that begins a copy and is asked for its end: what is to be done on the host before and after. False: damaged bytes,
 * nothing is to be copied. */
bool transfer_job_begin(struct transfer_job *job, struct copy_order *order_out);
void transfer_job_end(struct transfer_job *job, uint64_t started_ns, kvf_error *error);

struct transfer_host {
  void *context;
  /* Send whole frames to the link's peer. */
  void (*post)(void *context, struct transfer_link *link, const struct wire_buffer *frames);
  void (*submit)(void *context, struct transfer_job *job);
  /* A room's event; @p event->error is handed over. For an END event the room is freed after the call. */
  void (*event)(void *context, void *user, const kvf_event *event);
};

/* One memory range that peers may write, on every one-sided provider. */
struct transfer_memory {
  uint32_t region;
  uint32_t kind; /* KVF_MEMORY_CUDA, or anything else for memory that the host reaches */
  void *address;
  uint64_t length;
  int memory_fd; /* or -1 */
  uint64_t memory_fd_offset;
};

struct transfer_options {
  struct transfer_host host;
  struct base_log log;
  struct stats_counters *counters;
  uint32_t way; /* KVF_WAY_… */
  uint64_t arena_bytes;
  uint64_t piece_bytes;
  void *gather_memory;
  uint64_t gather_bytes;
  uint32_t window, standing_credit, retry_count;
  uint64_t retry_backoff_ns, progress_ns, room_ns;
};

kvf_status transfer_create(const struct transfer_options *options, struct transfer **transfer_out, kvf_error **error_out);
/* The fabrics, in order of preference, opened with transfer_fabric_callbacks, and the arena's memory. Once; before everything below.
 * The fabrics are borrowed until transfer_destroy. */
void transfer_fabrics_set(struct transfer *transfer, struct fabric *const *fabrics, uint32_t fabric_count, const struct transfer_memory *arena);
/* Every link must be lost and every job done before. The fabrics must still be open. */
void transfer_destroy(struct transfer *transfer);

/* Shutting down: cancel every room / are all rooms over / is everything over, links and jobs too / stop waiting for dead peers' fences. */
void transfer_cancel_all(struct transfer *transfer, const kvf_error *reason);
bool transfer_rooms_over(const struct transfer *transfer);
bool transfer_quiet(const struct transfer *transfer);
void transfer_fences_abandon(struct transfer *transfer);

/* What this rank holds, all of it in host or all in CUDA memory; @p regions are the pools that peers may be given for direct writes. Once; before the first link. Borrowed. */
kvf_status transfer_cache_set(struct transfer *transfer, const kvf_rank_planes *planes, uint32_t rank, uint32_t rank_count,
                              const struct transfer_memory *regions, uint32_t region_count, kvf_error **error_out);

/* ---- links: one for each peer whose layout has been agreed ---- */
struct transfer_link_options {
  void *user;
  const char *label;   /* for people, with the address: "prefill-1@127.0.0.1:4000" */
  uint64_t token;      /* what we told the peer to connect with */
  kvf_rank_planes planes; /* theirs; copied; addresses are offsets into regions */
  const uint32_t *plane_regions;
  uint32_t rank, rank_count;
  uint32_t components; /* bit set: what both instances have */
  uint64_t piece_bytes;
  bool checksum; /* every piece carries one, in both directions: no way is taken that nobody could check */
};
kvf_status transfer_link_add(struct transfer *transfer, const struct transfer_link_options *options, struct transfer_link **link_out,
                             kvf_error **error_out);
void *transfer_link_user(const struct transfer_link *link);
/* The first thing a new link does by itself is to post OFFER and EXPOSE: what the peer needs to send to us.
 * A message of the transfer's from the peer. An error means that the session must be closed for it. */
kvf_error *transfer_link_message(struct transfer_link *link, uint8_t type, const uint8_t *payload, size_t payload_bytes);
/* The session is gone. The link is freed as soon as nothing uses it. */
void transfer_link_lost(struct transfer_link *link, const kvf_error *error);
/* For kvf_peer_query. */
void transfer_link_describe(const struct transfer_link *link, kvf_peer_state *state);

/* ---- fabric callbacks, to be put into fabric_options ---- */
struct fabric_callbacks transfer_fabric_callbacks(struct transfer *transfer);

/* ---- rooms ---- */
kvf_status transfer_send_open(struct transfer *transfer, const kvf_send_options *options, void *user, struct transfer_send **send_out);
/* @p chunk and its lists are copied. */
void transfer_send_post(struct transfer_send *send, const kvf_chunk *chunk);
void transfer_send_cancel(struct transfer_send *send, kvf_error *reason);

kvf_status transfer_recv_open(struct transfer *transfer, const kvf_recv_options *options, void *user, struct transfer_recv **recv_out);
/* All peers are there: start. */
void transfer_recv_bind(struct transfer_recv *recv, struct transfer_link *const *links, uint32_t link_count);
void transfer_recv_cancel(struct transfer_recv *recv, kvf_error *reason);
/* The aux bytes of a room that is ending with DONE; the caller takes them over. */
void *transfer_recv_take_aux(struct transfer_recv *recv, uint64_t *aux_bytes_out);

/* Once before each sleep of the loop, never from inside a fabric's callback: starts what can start, posts the frames of this turn, tells
 * and frees what has ended. True when it did anything. */
bool transfer_turn(struct transfer *transfer);

/* Deadlines and retries; returns the time until the next call is due, UINT64_MAX when nothing waits. */
uint64_t transfer_tick(struct transfer *transfer, uint64_t now_ns);
/* Something began that needs ticks sooner than the last transfer_tick said; asking clears it. */
bool transfer_tick_is_due(struct transfer *transfer);

void transfer_drain(struct transfer *transfer);
void transfer_usage_get(const struct transfer *transfer, struct arena_usage *usage_out);

/* For tests: revoke the staging's exposure as if its registration had been lost; with @p for_ever no refresh brings it back. */
void transfer_staging_revoke(struct transfer *transfer, bool for_ever);

#endif
