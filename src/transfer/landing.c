/* Landings: pieces as they arrive, from the header that a provider shows to the last scattered row.
 *
 *   message providers   place ─→ placed ─→ landed ─→ scattering ─→ acknowledged, extent free
 *   one-sided           ──────────────────→ landed ─→ …
 * A landing whose room has gone is detached: its bytes may still arrive in the arena, and are dropped there. */
#include <string.h>

#include "transfer/inside.h"

static void free_landing(struct transfer_landing *landing) {
  struct transfer_link *link = landing->link;
  if (landing->memory) arena_release(link->transfer->arena, landing->piece.grant, landing->piece.grant_generation);
  base_list_remove(&landing->node);
  link->uses--;
  link->transfer->turn_due = true;
  base_free(landing);
}

static void leave_room(struct transfer_landing *landing) {
  struct transfer_recv_leg *leg = landing->leg;
  landing->leg = NULL;
  if (!leg || !landing->counted) return;
  landing->counted = false;
  leg->recv->busy_count--;
  transfer_recv_settle(leg->recv);
}

static void count_in_room(struct transfer_landing *landing) {
  landing->counted = true;
  landing->leg->recv->busy_count++;
}

static void refuse_piece(struct transfer_link *link, const struct wire_piece *piece, kvf_error *error) {
  stats_counter_add(&link->transfer->counters->messages_refused, 1);
  if (!link->lost)
    wire_nack_encode(transfer_link_out(link), &(struct wire_nack){.room = piece->room, .sequence = piece->sequence, .attempt = piece->attempt, .error = error});
  kvf_error_free(error);
}

/* The extent of a piece that nobody wants any more goes back. */
static void waste_grant(struct transfer_link *link, const struct wire_piece *piece) {
  struct arena_grant grant;
  if (piece->direct) return;
  if (arena_claim(link->transfer->arena, link->party, piece->grant, piece->grant_generation, piece->bytes, &grant, NULL) != KVF_OK) return;
  arena_release(link->transfer->arena, piece->grant, piece->grant_generation);
  link->transfer->turn_due = true;
}

/* Does the room want these tokens of each of the piece's cuts, which exist? */
static bool wants_piece(const struct transfer_recv_leg *leg, const struct layout_piece *piece) {
  for (uint32_t cut = piece->cut_first; cut < piece->cut_first + piece->cut_count; cut++) {
    uint64_t first, end;
    layout_cut_range(&leg->plan->link, cut, leg->recv->token_first, leg->recv->token_end, &first, &end);
    if (piece->token_first < first || piece->token_first + piece->token_count > end) return false;
  }
  return true;
}

/* Does the header describe a piece that this room's sender may send? */
static kvf_error *check_piece(const struct transfer_recv_leg *leg, const struct wire_piece *piece, uint64_t payload_bytes) {
  const struct transfer_recv *recv = leg->recv;
  const struct layout_piece cut = {
      .cut_first = piece->cut_first, .cut_count = piece->cut_count, .token_first = piece->token_first, .token_count = piece->token_count};
  uint64_t bytes = 0;
  const char *wrong = NULL;
  if (piece->plan != leg->plan->id)
    wrong = "another plan than its room's";
  else if (piece->sequence >= TRANSFER_PIECES_PER_ROOM_LIMIT || (leg->final && piece->sequence >= leg->piece_count))
    wrong = "a sequence number past the end";
  else if (!layout_piece_bytes(&leg->plan->link, &cut, &bytes) || bytes != piece->bytes || payload_bytes != piece->bytes)
    wrong = "another size than its cuts and tokens have";
  else if (!wants_piece(leg, &cut))
    wrong = "tokens outside of what the room wants";
  else if (piece->direct && recv->transfer->way == KVF_WAY_STAGED)
    return BASE_ERROR(KVF_UNSUPPORTED, NULL, "this rank takes staged pieces only");
  else if (leg->link->checksum && (piece->direct || !piece->checksum))
    wrong = "no checksum that can be checked, though both sides agreed on them";
  if (!wrong) return NULL;
  kvf_error *error = BASE_ERROR(KVF_PROTOCOL, NULL, "the piece has %s", wrong);
  return base_error_add(error, "sequence", "%u", piece->sequence);
}

/* A piece that counts: its landing, with its extent claimed. NULL when it was refused or has arrived before. */
static struct transfer_landing *admit(struct transfer_link *link, const struct wire_piece *piece, uint64_t payload_bytes) {
  struct transfer *transfer = link->transfer;
  struct transfer_recv_leg *leg = transfer_recv_leg_find(link, piece->room);
  if (!leg || leg->recv->opening != piece->opening || leg->recv->failing || leg->recv->over) {
    waste_grant(link, piece);
    return NULL;
  }
  if (transfer_recv_leg_seen(leg, piece->sequence)) {
    waste_grant(link, piece);
    transfer_link_ack(link, &(struct wire_ack_entry){.room = piece->room, .sequence = piece->sequence});
    return NULL;
  }
  kvf_error *error = check_piece(leg, piece, payload_bytes);
  if (!error && !piece->direct) error = transfer_exposure_missing(transfer);
  struct transfer_landing *landing = error ? NULL : base_calloc(1, sizeof *landing);
  if (!error && !landing) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a landing");
  struct arena_grant grant;
  if (!error && !piece->direct) {
    if (arena_claim(transfer->arena, link->party, piece->grant, piece->grant_generation, piece->bytes, &grant, &error) == KVF_OK)
      landing->memory = (char *)transfer->staging.memory.address + grant.offset;
  }
  if (error) {
    base_free(landing);
    refuse_piece(link, piece, error);
    return NULL;
  }
  landing->link = link;
  landing->leg = leg;
  landing->piece = *piece;
  base_list_push_back(&link->landings, &landing->node);
  link->uses++;
  return landing;
}

/* The rows of a direct piece in our pages. */
static size_t list_rows(const struct transfer_landing *landing, struct iovec *iov, size_t capacity) {
  const struct wire_piece *piece = &landing->piece;
  const struct layout_piece cut = {
      .cut_first = piece->cut_first, .cut_count = piece->cut_count, .token_first = piece->token_first, .token_count = piece->token_count};
  struct layout_walk walk;
  struct layout_block blocks[32];
  size_t used = 0, count;
  layout_walk_init(&walk, &landing->leg->plan->link, LAYOUT_TARGET, &landing->leg->recv->pages, &cut);
  while ((count = layout_walk_next(&walk, blocks, sizeof blocks / sizeof *blocks)) > 0) {
    for (size_t i = 0; i < count; i++) {
      if (blocks[i].row_count > capacity - used) return 0;
      for (uint64_t row = 0; row < blocks[i].row_count; row++)
        iov[used++] = (struct iovec){.iov_base = (void *)(uintptr_t)(blocks[i].address + row * blocks[i].row_stride),
                                     .iov_len = blocks[i].row_bytes};
    }
  }
  return used;
}

static struct transfer_link *find_link(struct transfer *transfer, uint64_t token, const uint8_t *header, struct wire_piece *piece_out) {
  struct transfer_link *link = base_map_get(&transfer->links_by_token, token);
  kvf_error *error = NULL;
  if (link && !link->lost && wire_piece_decode(header, piece_out, &error) == KVF_OK) return link;
  kvf_error_free(error);
  stats_counter_add(&transfer->counters->messages_refused, 1);
  return NULL;
}

kvf_status transfer_landing_place(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes, struct iovec *iov_out,
                                  size_t *iov_count_inout) {
  struct transfer *transfer = context;
  struct wire_piece piece;
  struct transfer_link *link = find_link(transfer, token, header, &piece);
  struct transfer_landing *landing = link ? admit(link, &piece, payload_bytes) : NULL;
  if (!landing) return KVF_STALE;
  if (landing->memory) {
    iov_out[0] = (struct iovec){.iov_base = landing->memory, .iov_len = payload_bytes};
    *iov_count_inout = 1;
    return KVF_OK;
  }
  *iov_count_inout = list_rows(landing, iov_out, *iov_count_inout);
  if (*iov_count_inout == 0) {
    refuse_piece(link, &piece, BASE_ERROR(KVF_UNSUPPORTED, NULL, "the piece has more rows than one vectored read takes"));
    free_landing(landing);
    return KVF_UNSUPPORTED;
  }
  count_in_room(landing);
  return KVF_OK;
}

static void finish_landing(struct transfer_landing *landing, uint64_t scatter_ns) {
  struct transfer_recv_leg *leg = landing->leg;
  const struct wire_piece piece = landing->piece;
  if (leg && !leg->recv->failing) {
    /* Leave first: the piece may be the one that makes the room whole. */
    if (landing->counted) leg->recv->busy_count--;
    landing->counted = false;
    landing->leg = NULL;
    free_landing(landing);
    transfer_recv_piece_done(leg, &piece, scatter_ns);
    /* The same piece may have been scattered twice, and the other time have made the room whole while this one was busy. */
    transfer_recv_settle(leg->recv);
    return;
  }
  leave_room(landing);
  free_landing(landing);
}

/* What has landed is not what was sent. The sender hears it, and the extent is free for another attempt. */
static void refuse_corrupt(struct transfer_landing *landing, uint64_t found) {
  struct transfer_link *link = landing->link;
  const struct wire_piece piece = landing->piece;
  bool wanted = landing->leg && !landing->leg->recv->failing;
  stats_counter_add(&link->transfer->counters->pieces_corrupt, 1);
  kvf_error *error = BASE_ERROR(KVF_CORRUPT, NULL, "the piece's bytes do not have its checksum");
  base_error_add(error, "sequence", "%u", piece.sequence);
  base_error_add(error, "length", "%llu", (unsigned long long)piece.bytes);
  base_error_add(error, "checksum", "%016llx", (unsigned long long)found);
  base_error_add(error, "expected", "%016llx", (unsigned long long)piece.checksum);
  leave_room(landing);
  free_landing(landing);
  if (wanted)
    refuse_piece(link, &piece, error);
  else
    kvf_error_free(error);
}

static void scatter_done(struct transfer_job *job) {
  struct transfer_landing *landing = BASE_CONTAINER(job, struct transfer_landing, job);
  landing->link->transfer->job_count--;
  landing->scattering = false;
  if (job->error && landing->leg) {
    kvf_error *error = BASE_ERROR(kvf_error_status(job->error), job->error, "a piece could not be scattered");
    base_error_add(error, "sequence", "%u", landing->piece.sequence);
    transfer_recv_fail(landing->leg->recv, error, NULL);
  } else {
    kvf_error_free(job->error);
  }
  if (job->check && job->found != job->checksum)
    refuse_corrupt(landing, job->found);
  else
    finish_landing(landing, job->elapsed_ns);
}

static void scatter(struct transfer_landing *landing) {
  struct transfer *transfer = landing->link->transfer;
  const struct wire_piece *piece = &landing->piece;
  landing->job = (struct transfer_job){.kind = TRANSFER_SCATTER,
                                       .link = &landing->leg->plan->link,
                                       .target_pages = &landing->leg->recv->pages,
                                       .piece = {.cut_first = piece->cut_first,
                                                 .cut_count = piece->cut_count,
                                                 .token_first = piece->token_first,
                                                 .token_count = piece->token_count},
                                       .packed = landing->memory,
                                       .packed_bytes = piece->bytes,
                                       .check = piece->checksum != 0,
                                       .checksum = piece->checksum,
                                       .on_device = transfer->on_device,
                                       .done = scatter_done};
  landing->scattering = true;
  count_in_room(landing);
  transfer->job_count++;
  transfer->host.submit(transfer->host.context, &landing->job);
}

static struct transfer_landing *find_placed(struct transfer_link *link, const struct wire_piece *piece) {
  BASE_LIST_EACH(&link->landings, node) {
    struct transfer_landing *landing = BASE_CONTAINER(node, struct transfer_landing, node);
    if (!landing->scattering && landing->piece.room == piece->room && landing->piece.sequence == piece->sequence &&
        landing->piece.attempt == piece->attempt && landing->piece.opening == piece->opening)
      return landing;
  }
  return NULL;
}

void transfer_landing_landed(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes) {
  struct transfer *transfer = context;
  struct wire_piece piece;
  struct transfer_link *link = find_link(transfer, token, header, &piece);
  if (!link) return;
  struct transfer_landing *landing = find_placed(link, &piece);
  if (!landing) landing = admit(link, &piece, payload_bytes);
  if (!landing) return;
  if (landing->leg && landing->memory)
    scatter(landing);
  else
    finish_landing(landing, 0);
}

void transfer_landings_detach(struct transfer_recv_leg *leg) {
  BASE_LIST_EACH(&leg->link->landings, node) {
    struct transfer_landing *landing = BASE_CONTAINER(node, struct transfer_landing, node);
    /* A scatter, or a payload on its way into our pages, keeps its room until it ends. */
    if (landing->leg == leg && !landing->counted) landing->leg = NULL;
  }
}

static void drop_placed(struct transfer_link *link) {
  BASE_LIST_EACH(&link->landings, node) {
    struct transfer_landing *landing = BASE_CONTAINER(node, struct transfer_landing, node);
    if (landing->scattering) continue;
    leave_room(landing);
    free_landing(landing);
  }
}

void transfer_landings_abandon(struct transfer_link *link) {
  struct transfer *transfer = link->transfer;
  for (uint32_t i = 0; i < transfer->fabric_count; i++) {
    const struct fabric_ops *ops = transfer->fabrics[i]->ops;
    if (ops->traits & FABRIC_ONE_SIDED) continue;
    ops->token_drop(transfer->fabrics[i], link->token);
    if (!link->lost) ops->token_admit(transfer->fabrics[i], link->token, NULL);
  }
  drop_placed(link);
}

void transfer_landing_token_lost(void *context, uint64_t token) {
  struct transfer *transfer = context;
  struct transfer_link *link = base_map_get(&transfer->links_by_token, token);
  if (!link) return;
  drop_placed(link);
  if (!link->awaiting_fence) return;
  link->awaiting_fence = false;
  link->uses--;
  arena_party_fenced(transfer->arena, link->party);
  transfer_recv_link_fenced(link);
  transfer->turn_due = true;
}
