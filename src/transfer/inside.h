/* The structures behind transfer.h, shared by the sources of this room only. */
#ifndef TRANSFER_INSIDE_H
#define TRANSFER_INSIDE_H

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/map.h"
#include "plan/plan.h"
#include "transfer/transfer.h"

enum {
  TRANSFER_PROVIDER_LIMIT = 8,
  TRANSFER_PARKED_PER_LINK = 4096,
  TRANSFER_ENDED_KEPT = 1024,
  TRANSFER_PIECES_PER_ROOM_LIMIT = 1 << 24
};

#define TRANSFER_PARKED_TTL_NS (60 * BASE_NS_PER_S)
#define TRANSFER_TICK_NS (50 * BASE_NS_PER_MS)
#define TRANSFER_RETRY_TICK_NS (5 * BASE_NS_PER_MS)
/* How long a failed room waits for writes under way before the connection under them is cut. */
#define TRANSFER_QUIESCE_NS (1 * BASE_NS_PER_S)

/* A range of our memory on the providers: exposure number i belongs to transfer->fabrics[i]. */
struct transfer_exposure {
  struct transfer_memory memory;
  uint64_t generation;
  bool registered;
  struct fabric_region *on[TRANSFER_PROVIDER_LIMIT];
};

/* A send that failed. Ranks that had not opened it yet learn of it when they do; for a rank that knows, the same room is a new one. */
struct transfer_ended {
  uint64_t room;
  kvf_error *error; /* NULL: the slot is free */
  struct transfer_told {
    uint64_t party;
    uint32_t opening; /* of the life that it knows the end of */
  } *told;
  uint32_t told_count, told_limit;
};

struct transfer {
  struct transfer_host host;
  struct base_log log;
  struct stats_counters *counters;
  struct fabric *fabrics[TRANSFER_PROVIDER_LIMIT];
  uint32_t fabric_count;
  uint32_t way;
  bool on_device; /* our pages are in CUDA memory */
  uint64_t piece_bytes;
  uint32_t window, standing_credit, retry_count;
  uint64_t retry_backoff_ns, progress_ns, room_ns;
  bool draining;

  kvf_rank_planes planes;
  uint32_t rank, rank_count;

  struct arena *arena;
  struct transfer_exposure staging;
  bool staging_lost; /* a test took the registration away for good */
  struct transfer_exposure *pools;
  uint32_t pool_count;

  void **gather_free; /* stack of gather buffers, each piece_bytes long */
  uint32_t gather_free_count;

  bool turn_due; /* something changed since the last turn */
  bool tick_due; /* a deadline or a retry began */
  struct base_list links;
  struct base_map links_by_token;
  struct base_list sends, recvs;
  struct base_list sends_over, recvs_over; /* ended; told and freed at the next turn */
  struct base_map sends_by_room, recvs_by_room;
  struct base_list parked;
  struct base_map parked_by_room;
  struct transfer_ended ended[TRANSFER_ENDED_KEPT]; /* the last sends that failed */
  uint32_t ended_next;
  uint32_t job_count;
  uint64_t next_party;
  uint32_t next_plan;
  uint32_t next_opening;
};

/* The cuts from one rank to another. Lives as long as its link. */
struct transfer_plan {
  struct base_list node;
  uint32_t id;
  uint64_t peers_key; /* receiver: which set of links it was made for */
  struct layout_cuts cuts;
  struct layout_link link;
  kvf_plane *mapped_planes; /* sender, direct over mapped pools: the target planes at our addresses; else NULL */
  struct layout_link mapped_link;
  uint64_t row_bytes; /* the smallest run that is contiguous on both sides, pages apart */
  struct plan_way_choice choice; /* sender: what this plan takes, once the route is up */
  uint32_t choice_epoch;         /* of the route it was chosen for; 0: not yet */
};

struct transfer_credit {
  uint32_t id, generation;
  uint64_t offset, length;
};

/* A key of the peer's memory, kept so that a later endpoint can import it too. */
struct transfer_key {
  struct base_list node;
  char provider[16];
  uint32_t region;
  uint64_t generation;
  uint64_t region_bytes;
  uint8_t bytes[FABRIC_KEY_LIMIT_BYTES];
  uint32_t length;
  bool imported; /* by the present endpoint */
};

struct transfer_provider_address {
  uint8_t bytes[FABRIC_ADDRESS_LIMIT_BYTES];
  uint32_t length; /* 0: the peer does not offer this provider */
};

/* Our way to a peer: one endpoint of one provider at a time, falling back in order of preference. */
struct transfer_route {
  enum { ROUTE_IDLE, ROUTE_CONNECTING, ROUTE_READY, ROUTE_BACKOFF } state;
  uint64_t peer_token; /* what the peer told us to connect with */
  struct transfer_provider_address addresses[TRANSFER_PROVIDER_LIMIT];
  uint32_t candidate; /* index into transfer->fabrics */
  uint32_t failures;  /* of this candidate in a row */
  uint64_t retry_at_ns;
  uint32_t epoch; /* counts endpoints, from 1 */
  struct fabric_endpoint *endpoint;
  struct fabric_endpoint *doomed; /* went down; to be disconnected at the next turn, outside of its callback */
  kvf_error *error;               /* why the last candidate failed */
  struct base_list keys;
  bool keys_due; /* a key came while copies used the old mapping: import it when they are done */
  char passed_over[160]; /* candidates that could not be had, and why */
};

struct transfer_link {
  struct base_list node;
  struct transfer *transfer;
  void *user;
  char label[96];
  bool lost;
  bool awaiting_fence; /* lost, and its process may still write: one of the uses */
  kvf_error *lost_error;
  uint32_t uses; /* legs, pieces, landings: freed at a turn when lost and 0 */
  struct wire_buffer out; /* frames of this turn */
  struct wire_ack_entry *acks;
  uint32_t ack_count, ack_capacity;
  uint64_t party;
  uint64_t token;
  kvf_rank_planes planes;
  uint32_t *plane_regions; /* of the peer's planes, for mapping */
  uint32_t rank, rank_count;
  uint32_t components; /* that are moved between us */
  uint64_t piece_bytes;
  bool checksum;
  uint32_t parked_count;

  /* we receive from it */
  struct base_list recv_plans;
  struct base_list landings;
  uint32_t peer_want_sequence;

  /* we send to it */
  struct base_list send_plans;
  struct transfer_route route;
  struct base_list ready; /* legs that may have something to send, round robin */
  struct transfer_credit *credits;
  uint32_t credit_count, credit_capacity;
  uint32_t staging_region; /* of the grants */
  uint64_t staging_generation, staging_base, staging_bytes;
  struct base_list unsent; /* copied pieces that the provider had no room for */
  uint32_t level;  /* of the last WANT */
  uint32_t want_sequence;
  uint32_t flying; /* pieces started and not finished */
  uint32_t mapped_jobs; /* copies that write through a mapping right now: it must stay */
};

struct transfer_chunk {
  struct plan_range range;
  struct layout_pages pages;
};

enum piece_state { PIECE_IDLE, PIECE_COPYING, PIECE_UNSENT, PIECE_SENDING, PIECE_FLYING };

/* One piece on the sender, from its cut to its acknowledgement. */
struct transfer_piece {
  struct base_list node;        /* in leg->pieces or leg->waiting */
  struct base_list unsent_node; /* in link->unsent */
  struct transfer_job job;
  struct transfer_leg *leg;
  struct transfer_chunk *chunk;
  struct layout_piece cut;
  uint64_t bytes;
  uint32_t sequence, attempt;
  enum piece_state state;
  bool acked, direct;
  bool busy;   /* a job or a provider still uses our memory for it */
  bool flying; /* counted in the link's window */
  bool mapped; /* its copy writes through a mapping of the peer's memory */
  uint32_t route_epoch; /* of the endpoint this attempt uses */
  bool has_credit;
  struct transfer_credit credit;
  void *gather;         /* our staging, or NULL */
  void *source_address; /* of the last attempt, for error texts */
  kvf_error *last_error;
  kvf_error *refusal; /* the receiver's, while the provider is still sending */
  uint64_t not_before_ns, write_started_ns, flying_since_ns;
};

/* A send towards one receiving rank. */
struct transfer_leg {
  struct base_list send_node;
  struct base_list ready_node;
  struct transfer_send *send;
  struct transfer_link *link;
  struct transfer_plan *plan;
  uint32_t opening;
  uint64_t token_first, token_end;
  struct layout_pages target_pages; /* for direct writes through a mapping */
  bool may_direct;
  uint32_t chunk_index;
  bool cursor_open;
  struct plan_cursor cursor;
  uint32_t next_sequence;
  uint64_t bytes_cut, bytes_acked;
  struct base_list pieces;  /* under way */
  struct base_list waiting; /* cut and not begun, or failed and to go again */
  uint64_t waiting_since_ns; /* for a grant */
  bool final_sent, done, closed;
};

struct transfer_result {
  uint64_t bytes, slices;
  uint64_t grant_wait_ns, gather_ns, write_ns, scatter_ns;
  uint32_t pieces, retries;
};

struct transfer_send {
  struct base_list node;
  struct transfer *transfer;
  void *user;
  uint64_t room, user_tag;
  uint64_t opened_ns, deadline_ns, progress_limit_ns, last_progress_ns, failing_since_ns;
  struct transfer_chunk **chunks;
  uint32_t chunk_count, chunk_capacity;
  bool final;
  uint64_t token_first, token_end;
  void *aux;
  uint32_t aux_bytes;
  struct base_list legs;
  uint32_t leg_count, legs_done, receiver_count;
  uint32_t busy_count; /* pieces that use our memory right now */
  bool failing, over;
  kvf_error *error;
  struct transfer_result result;
};

struct transfer_landing {
  struct base_list node;
  struct transfer_job job;
  struct transfer_link *link;
  struct transfer_recv_leg *leg; /* NULL once its room is gone */
  struct wire_piece piece;
  bool scattering;
  bool counted; /* in its room's busy_count: our pages are being written */
  void *memory; /* the granted extent; NULL for a direct piece */
};

/* A receive from one sending rank. */
struct transfer_recv_leg {
  struct transfer_recv *recv;
  struct transfer_link *link;
  struct transfer_plan *plan;
  uint64_t *seen; /* bitmap by sequence: scattered */
  uint32_t seen_capacity;
  uint32_t pieces_done;
  uint64_t bytes_done, bytes_expected;
  bool final, whole;
  bool fence_needed; /* the peer can write into our pages by itself: wait for its word */
  uint32_t piece_count;
};

struct transfer_recv {
  struct base_list node;
  struct transfer *transfer;
  void *user;
  uint64_t room, user_tag;
  uint32_t opening;
  uint64_t opened_ns, deadline_ns, progress_limit_ns, last_progress_ns, failing_since_ns;
  uint64_t token_first, token_end;
  struct layout_pages pages;
  struct transfer_recv_leg *legs;
  uint32_t leg_count, legs_whole;
  uint32_t busy_count; /* placed or scattering */
  bool bound, failing, over;
  kvf_error *error;
  void *aux;
  uint64_t aux_bytes;
  uint32_t aux_leg; /* the lowest leg that brought any */
  struct transfer_result result;
};

/* An OPEN or FAIL for a send that does not exist yet. */
struct transfer_parked {
  struct base_list node;      /* in transfer->parked, oldest first */
  struct transfer_parked *next_same_room;
  struct transfer_link *link;
  uint64_t parked_ns;
  struct wire_open open;
  struct layout_pages pages;  /* owned lists of open */
  kvf_error *failure;         /* a FAIL, instead of an OPEN */
};

/* pages.c */
bool transfer_pages_copy(struct layout_pages *pages_out, const kvf_page_list *lists, uint32_t list_count);
void transfer_pages_fini(struct layout_pages *pages);

/* exposure.c */
void transfer_exposure_open(struct transfer *transfer, struct transfer_exposure *exposure);
void transfer_exposure_close(struct transfer *transfer, struct transfer_exposure *exposure);
void transfer_exposure_encode(const struct transfer *transfer, const struct transfer_exposure *exposure, struct wire_buffer *frames);
void transfer_exposure_refresh(struct transfer *transfer, const struct wire_refresh *refresh);
/* NULL, or an error that says that the staging is not registered. */
kvf_error *transfer_exposure_missing(const struct transfer *transfer);

/* route.c */
void transfer_route_init(struct transfer_link *link);
kvf_error *transfer_route_offer(struct transfer_link *link, const struct wire_offer *offer);
kvf_error *transfer_route_key(struct transfer_link *link, const struct wire_expose *expose);
/* Connect when it is time; call at turns while something wants to be sent. */
void transfer_route_start(struct transfer_link *link, uint64_t now_ns);
/* Disconnect what went down and import what has come, as soon as no copy uses the mappings. */
void transfer_route_turn(struct transfer_link *link);
/* Cut the endpoint; its pieces come back through `sent`. */
void transfer_route_reset(struct transfer_link *link);
void transfer_route_fini(struct transfer_link *link);
void transfer_route_ready(void *context, struct fabric_endpoint *endpoint);
void transfer_route_down(void *context, struct fabric_endpoint *endpoint, kvf_error *error);
/* The endpoint is there, and its peer's memory can be written through a mapping. */
bool transfer_route_is_mappable(const struct transfer_link *link);
/* The way of this leg's pieces over the present endpoint. Errors: UNSUPPORTED. */
kvf_status transfer_route_choose_way(struct transfer_leg *leg, kvf_error **error_out);
const struct transfer_key *transfer_route_find_key(const struct transfer_link *link, const char *provider, uint32_t region);

/* link.c */
void transfer_link_free(struct transfer_link *link);
void transfer_link_dirty(struct transfer_link *link);
/* The frames of this turn, acknowledgements first. */
struct wire_buffer *transfer_link_out(struct transfer_link *link);
void transfer_link_ack(struct transfer_link *link, const struct wire_ack_entry *ack);
void transfer_link_post_fail(struct transfer_link *link, uint64_t room, uint32_t opening, bool by_receiver, const kvf_error *error);
/* The answer to an OPEN that comes to nothing: FAIL, and the word that nothing is on its way. */
void transfer_link_refuse_open(struct transfer_link *link, uint64_t room, uint32_t opening, const kvf_error *error);
void transfer_link_flush(struct transfer_link *link);
struct transfer_plan *transfer_plan_find(struct base_list *plans, uint32_t id);
struct transfer_plan *transfer_plan_create(uint32_t id, const struct layout_cuts *cuts, const kvf_rank_planes *source,
                                           const kvf_rank_planes *target);
void transfer_plan_free(struct transfer_plan *plan);
/* Wraps what a peer reported about a room. */
kvf_error *transfer_peer_failed(const struct transfer_link *link, uint64_t room, kvf_error *cause);

/* credit.c */
void transfer_grants_pump(struct transfer *transfer);
kvf_error *transfer_credit_granted(struct transfer_link *link, const struct wire_grant *grant);
bool transfer_credit_take(struct transfer_link *link, uint64_t bytes, struct transfer_credit *credit_out);
void transfer_credit_give_back(struct transfer_link *link, const struct transfer_credit *credit);
/* Drop every credit held: they belong to a level that is no longer wanted. */
void transfer_credit_drop_all(struct transfer_link *link);
void transfer_credit_want(struct transfer_link *link, uint32_t level);

/* pump.c */
void transfer_link_pump(struct transfer_link *link, uint64_t now_ns);

/* piece.c */
/* Begin an attempt; false when it could not even begin and must be tried later. The credit, if it needs one, is taken already. */
bool transfer_piece_start(struct transfer_piece *piece, uint64_t now_ns);
/* Offer the provider again what it had no room for. */
void transfer_pieces_send_unsent(struct transfer_link *link);
void transfer_leg_wake(struct transfer_leg *leg);
void transfer_piece_sent(void *context, void *tag, kvf_error *error);
void transfer_piece_acked(struct transfer_link *link, const struct wire_ack_entry *ack);
void transfer_piece_refused(struct transfer_link *link, const struct wire_nack *nack);
/* The endpoint is gone: pieces that were written and not acknowledged go again. */
void transfer_pieces_unacked_fail(struct transfer_link *link, const kvf_error *error);
void transfer_leg_tick(struct transfer_leg *leg, uint64_t now_ns);
/* End every piece of a leg that is closed; those in use end when they come back. */
void transfer_leg_drop_pieces(struct transfer_leg *leg);

/* send.c */
void transfer_send_fail(struct transfer_send *send, kvf_error *error, const struct transfer_link *except);
void transfer_send_settle(struct transfer_send *send);
void transfer_send_free(struct transfer_send *send);
void transfer_send_opened_by(struct transfer_link *link, const struct wire_open *open);
void transfer_send_failed_by(struct transfer_link *link, const struct wire_fail *fail);
void transfer_send_done_by(struct transfer_link *link, const struct wire_done *done);
void transfer_send_link_lost(struct transfer_send *send, struct transfer_link *link);
void transfer_send_tick(struct transfer_send *send, uint64_t now_ns);
struct transfer_leg *transfer_leg_find(struct transfer_link *link, uint64_t room);
void transfer_room_event(struct transfer *transfer, void *user, uint32_t type, uint64_t room, uint64_t user_tag, kvf_error *error,
                         uint64_t opened_ns, const struct transfer_result *result);

/* parked.c */
void transfer_park_open(struct transfer_link *link, const struct wire_open *open);
/* The peer gives up a room that has no send here. Takes @p error over; it waits for the send unless @p known, but always takes the place of an
 * OPEN of the same peer that waits. */
void transfer_park_failure(struct transfer_link *link, uint64_t room, bool known, kvf_error *error);
void transfer_parked_deliver(struct transfer_send *send);
void transfer_parked_drop_link(struct transfer *transfer, struct transfer_link *link);
void transfer_parked_expire(struct transfer *transfer, uint64_t now_ns);
void transfer_parked_free_all(struct transfer *transfer);

/* ended.c */
void transfer_ended_remember(struct transfer_send *send);
/* The failure that this peer has not been told of yet, or NULL; asking counts as telling. */
const kvf_error *transfer_ended_untold(struct transfer_link *link, uint64_t room, uint32_t opening);
/* Does this peer know already that this life of the room failed? */
bool transfer_ended_is_known(const struct transfer_link *link, uint64_t room, uint32_t opening);
void transfer_ended_free_all(struct transfer *transfer);

/* recv.c */
void transfer_recv_fail(struct transfer_recv *recv, kvf_error *error, const struct transfer_link *except);
void transfer_recv_settle(struct transfer_recv *recv);
void transfer_recv_free(struct transfer_recv *recv);
void transfer_recv_link_lost(struct transfer_recv *recv, struct transfer_link *link);
void transfer_recv_final(struct transfer_link *link, const struct wire_final *final);
void transfer_recv_failed_by(struct transfer_link *link, const struct wire_fail *fail);
/* The peer's word, or its death: nothing of it can be written into our pages any more. */
void transfer_recv_fenced(struct transfer_link *link, const struct wire_fail_ack *ack);
void transfer_recv_link_fenced(struct transfer_link *link);
void transfer_recv_piece_done(struct transfer_recv_leg *leg, const struct wire_piece *piece, uint64_t scatter_ns);
void transfer_recv_tick(struct transfer_recv *recv, uint64_t now_ns);
struct transfer_recv_leg *transfer_recv_leg_find(struct transfer_link *link, uint64_t room);
bool transfer_recv_leg_seen(const struct transfer_recv_leg *leg, uint32_t sequence);

/* landing.c: the fabric callbacks of the receiving side */
kvf_status transfer_landing_place(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes, struct iovec *iov_out,
                                  size_t *iov_count_inout);
void transfer_landing_landed(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes);
void transfer_landing_token_lost(void *context, uint64_t token);
/* The room is gone: what is on its way lands nowhere. */
void transfer_landings_detach(struct transfer_recv_leg *leg);
/* Pieces that were placed and will not land. */
void transfer_landings_abandon(struct transfer_link *link);

#endif
