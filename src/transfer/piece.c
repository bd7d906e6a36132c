/* Pieces on the sender, from the cut (pump.c) to the acknowledgement.
 *
 *   cut ─→ COPYING ─→ (UNSENT) ─→ SENDING ─→ FLYING ─→ acknowledged
 *            │            │           │          │
 *            └────────────┴───────────┴──────────┴──→ failed ─→ IDLE in leg->waiting ─→ COPYING … or the room fails
 *
 * `busy` says that a copy thread or the provider uses our memory for it: such a piece is never freed, only marked. */
#include <string.h>

#include "transfer/inside.h"

void transfer_leg_wake(struct transfer_leg *leg) {
  if (leg->closed) return;
  if (base_list_empty(&leg->ready_node)) base_list_push_back(&leg->link->ready, &leg->ready_node);
  transfer_link_dirty(leg->link);
}

static void give_buffer_back(struct transfer_piece *piece) {
  struct transfer *transfer = piece->leg->send->transfer;
  if (piece->gather) transfer->gather_free[transfer->gather_free_count++] = piece->gather;
  piece->gather = NULL;
}

static void set_busy(struct transfer_piece *piece, bool busy) {
  if (piece->busy == busy) return;
  piece->busy = busy;
  piece->leg->send->busy_count += busy ? 1 : -1;
  piece->leg->send->transfer->turn_due = true;
}

static void set_flying(struct transfer_piece *piece, bool flying) {
  if (piece->flying == flying) return;
  piece->flying = flying;
  piece->leg->link->flying += flying ? 1 : -1;
  transfer_link_dirty(piece->leg->link);
}

static void give_credit_back(struct transfer_piece *piece) {
  if (piece->has_credit) transfer_credit_give_back(piece->leg->link, &piece->credit);
  piece->has_credit = false;
}

static void free_piece(struct transfer_piece *piece) {
  struct transfer_leg *leg = piece->leg;
  give_buffer_back(piece);
  set_flying(piece, false);
  base_list_remove(&piece->node);
  base_list_remove(&piece->unsent_node);
  kvf_error_free(piece->last_error);
  kvf_error_free(piece->refusal);
  leg->link->uses--;
  base_free(piece);
  transfer_send_settle(leg->send);
}

/* It came back from a job or a provider after its leg was closed. */
static bool end_if_closed(struct transfer_piece *piece) {
  if (!piece->leg->closed) return false;
  give_credit_back(piece);
  free_piece(piece);
  return true;
}

static void finish_piece(struct transfer_piece *piece) {
  struct transfer_leg *leg = piece->leg;
  struct transfer_send *send = leg->send;
  /* The first attempt's extent was read out. A later one's may never be claimed, since an earlier one has counted: it goes back, and a refusal
   * means that it has landed too. */
  if (piece->attempt == 1) piece->has_credit = false;
  give_credit_back(piece);
  leg->bytes_acked += piece->bytes;
  send->result.bytes += piece->bytes;
  send->result.pieces++;
  send->result.retries += piece->attempt - 1;
  stats_counter_add(&send->transfer->counters->bytes_sent, piece->bytes);
  stats_counter_add(&send->transfer->counters->pieces_sent, 1);
  send->last_progress_ns = base_clock_ns();
  free_piece(piece);
}

/* ---- failure ---- */

/* Where the bytes of an attempt came from: our staging, or where the piece begins in our pages. */
static void *find_source(const struct transfer_piece *piece) {
  struct layout_walk walk;
  struct layout_block block;
  if (piece->source_address) return piece->source_address;
  layout_walk_init(&walk, &piece->leg->plan->link, LAYOUT_SOURCE, &piece->chunk->pages, &piece->cut);
  return layout_walk_next(&walk, &block, 1) ? (void *)(uintptr_t)block.address : NULL;
}

/* What is known here about a write that did not work, around the provider's own error. */
static kvf_error *describe_failure(struct transfer_piece *piece, kvf_error *cause) {
  struct transfer_link *link = piece->leg->link;
  const char *provider = link->route.endpoint ? link->route.endpoint->ops->name : "none";
  kvf_status status = kvf_error_status(cause);
  kvf_error *error = BASE_ERROR(status, cause, "attempt %u of the %s write to %s failed", piece->attempt, piece->direct ? "direct" : "bulk",
                                link->label);
  base_error_add(error, "source_address", "%p", find_source(piece));
  base_error_add(error, "length", "%llu", (unsigned long long)piece->bytes);
  base_error_add(error, "provider", "%s", provider);
  base_error_add(error, "attempt", "%u", piece->attempt);
  if (piece->direct) return error;
  const struct transfer_key *key = transfer_route_find_key(link, provider, link->staging_region);
  base_error_add(error, "target_address", "0x%llx", (unsigned long long)(link->staging_base + piece->credit.offset));
  base_error_add(error, "grant", "%u", piece->credit.id);
  base_error_add(error, "generation", "%u", piece->credit.generation);
  base_error_add(error, "region", "%u", link->staging_region);
  base_error_add(error, "region_base", "0x%llx", (unsigned long long)link->staging_base);
  base_error_add(error, "region_bytes", "%llu", (unsigned long long)link->staging_bytes);
  base_error_add(error, "region_generation", "%llu", (unsigned long long)(key ? key->generation : link->staging_generation));
  bool revoked = status == KVF_NOT_REGISTERED || status == KVF_KEY_REVOKED;
  return base_error_add(error, "region_registered", "%s", revoked ? "no" : "yes");
}

static kvf_error *describe_final_failure(struct transfer_piece *piece) {
  struct transfer_leg *leg = piece->leg;
  kvf_status status = piece->direct ? KVF_DIRECT_WRITE_FAILED : KVF_STAGED_WRITE_FAILED;
  if (kvf_error_status(piece->last_error) == KVF_CORRUPT) status = KVF_CORRUPT;
  kvf_error *error = BASE_ERROR(status, piece->last_error, "%s transfer of room %llu to %s failed: piece %u not delivered after %u attempts",
                                piece->direct ? "direct" : "staged", (unsigned long long)leg->send->room, leg->link->label, piece->sequence,
                                piece->attempt);
  piece->last_error = NULL;
  base_error_add(error, "room", "%llu", (unsigned long long)leg->send->room);
  base_error_add(error, "peer", "%s", leg->link->label);
  base_error_add(error, "way", "%s", piece->direct ? "direct" : "staged");
  base_error_add(error, "piece", "%u", piece->sequence);
  base_error_add(error, "bytes_done", "%llu", (unsigned long long)leg->bytes_acked);
  return base_error_add(error, "attempts", "%u", piece->attempt);
}

/* Ask for a new key when the old one was the trouble. */
static void ask_for_refresh(struct transfer_piece *piece, kvf_status status) {
  struct transfer_link *link = piece->leg->link;
  if (link->lost || (status != KVF_KEY_REVOKED && status != KVF_STALE && status != KVF_NOT_REGISTERED)) return;
  const char *provider = link->route.endpoint ? link->route.endpoint->ops->name : "";
  const struct transfer_key *key = transfer_route_find_key(link, provider, link->staging_region);
  const struct wire_refresh refresh = {.region = link->staging_region,
                                       .generation = key ? key->generation : link->staging_generation,
                                       .reason = (uint32_t)status};
  wire_refresh_encode(transfer_link_out(link), &refresh);
}

/* An attempt is over without success. Takes @p cause over. The piece must not be busy. */
static void fail_piece(struct transfer_piece *piece, kvf_error *cause) {
  struct transfer_leg *leg = piece->leg;
  struct transfer *transfer = leg->send->transfer;
  kvf_status status = kvf_error_status(cause);
  give_buffer_back(piece);
  set_flying(piece, false);
  if (leg->closed) {
    kvf_error_free(cause);
    end_if_closed(piece);
    return;
  }
  kvf_error_free(piece->last_error);
  piece->last_error = describe_failure(piece, cause);
  ask_for_refresh(piece, status);
  give_credit_back(piece);
  /* A direct piece that was written through a mapping is never written twice: the receiver may have taken the first time for done and given
   * the pages to another request. */
  bool final = piece->direct && piece->mapped && piece->state == PIECE_FLYING;
  if (final || piece->attempt > transfer->retry_count) {
    stats_counter_add(&transfer->counters->pieces_failed, 1);
    transfer_send_fail(leg->send, describe_final_failure(piece), NULL);
    return;
  }
  stats_counter_add(&transfer->counters->pieces_retried, 1);
  base_log_write(&transfer->log, KVF_LOG_DEBUG, "piece %u of room %llu to %s goes again after attempt %u: %s", piece->sequence,
                 (unsigned long long)leg->send->room, leg->link->label, piece->attempt,
                 kvf_error_message(kvf_error_cause(piece->last_error)));
  piece->state = PIECE_IDLE;
  transfer->tick_due = true;
  piece->not_before_ns = base_clock_ns() + (transfer->retry_backoff_ns << (piece->attempt - 1));
  base_list_remove(&piece->node);
  base_list_push_back(&leg->waiting, &piece->node);
  transfer_leg_wake(leg);
}

void transfer_pieces_unacked_fail(struct transfer_link *link, const kvf_error *error) {
  BASE_LIST_EACH(&link->transfer->sends, send_node) {
    struct transfer_send *send = BASE_CONTAINER(send_node, struct transfer_send, node);
    BASE_LIST_EACH(&send->legs, leg_node) {
      struct transfer_leg *leg = BASE_CONTAINER(leg_node, struct transfer_leg, send_node);
      if (leg->link != link || leg->closed) continue;
      BASE_LIST_EACH(&leg->pieces, node) {
        struct transfer_piece *piece = BASE_CONTAINER(node, struct transfer_piece, node);
        if (piece->state == PIECE_FLYING) fail_piece(piece, base_error_copy(error));
        /* The room failed with it: its other pieces may be freed already. */
        if (leg->closed) break;
      }
    }
  }
}

void transfer_leg_drop_pieces(struct transfer_leg *leg) {
  struct base_list *lists[] = {&leg->waiting, &leg->pieces};
  for (int i = 0; i < 2; i++) {
    BASE_LIST_EACH(lists[i], node) {
      struct transfer_piece *piece = BASE_CONTAINER(node, struct transfer_piece, node);
      if (!piece->busy) end_if_closed(piece);
    }
  }
}

/* ---- sending ---- */

static void encode_header(const struct transfer_piece *piece, uint8_t header[WIRE_PIECE_BYTES]) {
  wire_piece_encode(&(struct wire_piece){.room = piece->leg->send->room,
                                         .sequence = piece->sequence,
                                         .attempt = piece->attempt,
                                         .opening = piece->leg->opening,
                                         .plan = piece->leg->plan->id,
                                         .direct = piece->direct,
                                         .cut_first = piece->cut.cut_first,
                                         .cut_count = piece->cut.cut_count,
                                         .token_first = piece->cut.token_first,
                                         .token_count = piece->cut.token_count,
                                         .grant = piece->credit.id,
                                         .grant_generation = piece->credit.generation,
                                         .bytes = piece->bytes,
                                         .checksum = piece->job.checksum},
                    header);
}

static struct fabric_target staging_target(const struct transfer_piece *piece) {
  const struct transfer_link *link = piece->leg->link;
  const struct transfer_key *key = transfer_route_find_key(link, link->route.endpoint->ops->name, link->staging_region);
  return (struct fabric_target){.region = link->staging_region,
                                .generation = key ? key->generation : link->staging_generation,
                                .offset = piece->credit.offset,
                                .length = piece->bytes};
}

/* A direct piece lies all over the peer's pool: what must still be valid is the pool's exposure as a whole. */
static struct fabric_target pool_target(const struct transfer_piece *piece) {
  const struct transfer_link *link = piece->leg->link;
  uint32_t plane = piece->leg->plan->cuts.cuts[piece->cut.cut_first].target_plane;
  const struct transfer_key *key = transfer_route_find_key(link, link->route.endpoint->ops->name, link->plane_regions[plane]);
  if (!key) return (struct fabric_target){.region = link->plane_regions[plane]};
  return (struct fabric_target){.region = key->region, .generation = key->generation, .length = key->region_bytes};
}

/* Hand a piece to the provider; its payload is in @p iov, or in place already. False when the provider has no room for it now. */
static bool send_piece(struct transfer_piece *piece, const struct iovec *iov, size_t iov_count) {
  struct transfer_link *link = piece->leg->link;
  base_list_remove(&piece->unsent_node);
  if (link->route.state != ROUTE_READY || piece->route_epoch != link->route.epoch) {
    fail_piece(piece, BASE_ERROR(KVF_PEER_LOST, base_error_copy(link->route.error), "the connection was lost before the write"));
    return true;
  }
  uint8_t header[WIRE_PIECE_BYTES];
  encode_header(piece, header);
  const struct fabric_piece wanted = {.header = header,
                                      .iov = iov,
                                      .iov_count = iov_count,
                                      .payload_bytes = piece->bytes,
                                      .target = piece->direct ? pool_target(piece) : staging_target(piece),
                                      .in_place = iov_count == 0,
                                      .tag = piece};
  kvf_error *error = NULL;
  kvf_status status = link->route.endpoint->ops->send(link->route.endpoint, &wanted, &error);
  if (status == KVF_BACKPRESSURE) {
    kvf_error_free(error);
    piece->state = PIECE_UNSENT;
    base_list_push_front(&link->unsent, &piece->unsent_node);
    return false;
  }
  if (status != KVF_OK) {
    fail_piece(piece, error);
    return true;
  }
  piece->state = PIECE_SENDING;
  piece->write_started_ns = base_clock_ns();
  set_busy(piece, true);
  return true;
}

static bool send_copied(struct transfer_piece *piece) {
  const struct iovec whole = {.iov_base = piece->gather, .iov_len = piece->bytes};
  return send_piece(piece, &whole, piece->gather ? 1 : 0);
}

/* What a per-slice method would have written in its place: runs that are contiguous on both sides. The source's runs are known; of the
 * target's pages only the planes are, so its runs are taken from them. */
static void count_slices(struct transfer_piece *piece, uint64_t source_runs) {
  struct transfer_send *send = piece->leg->send;
  if (piece->attempt > 1) return;
  uint64_t slices = base_max_u64(source_runs, piece->bytes / piece->leg->plan->row_bytes);
  send->result.slices += slices;
  stats_counter_add(&send->transfer->counters->slices_replaced, slices);
}

static void copy_done(struct transfer_job *job) {
  struct transfer_piece *piece = BASE_CONTAINER(job, struct transfer_piece, job);
  struct transfer_send *send = piece->leg->send;
  send->transfer->job_count--;
  send->result.gather_ns += job->elapsed_ns;
  stats_counter_add(&send->transfer->counters->gather_ns, job->elapsed_ns);
  count_slices(piece, job->slices);
  if (piece->mapped) piece->leg->link->mapped_jobs--;
  set_busy(piece, false);
  kvf_error *error = job->error;
  job->error = NULL;
  if (error && (piece->acked || piece->leg->closed)) {
    kvf_error_free(error);
    error = NULL;
  }
  if (end_if_closed(piece)) return;
  if (piece->acked)
    finish_piece(piece);
  else if (error)
    fail_piece(piece, error);
  else
    send_copied(piece);
}

void transfer_piece_sent(void *context, void *tag, kvf_error *error) {
  struct transfer_piece *piece = tag;
  struct transfer_send *send = piece->leg->send;
  uint64_t now_ns = base_clock_ns();
  uint64_t elapsed_ns = now_ns - piece->write_started_ns;
  piece->write_started_ns = 0;
  send->result.write_ns += elapsed_ns;
  stats_counter_add(&send->transfer->counters->write_ns, elapsed_ns);
  set_busy(piece, false);
  give_buffer_back(piece);
  if (piece->acked) {
    kvf_error_free(error);
    finish_piece(piece);
  } else if (piece->leg->closed) {
    kvf_error_free(error);
    end_if_closed(piece);
  } else if (error || piece->refusal) {
    kvf_error *cause = error ? error : piece->refusal;
    if (error) kvf_error_free(piece->refusal);
    piece->refusal = NULL;
    fail_piece(piece, cause);
  } else {
    piece->state = PIECE_FLYING;
    piece->flying_since_ns = now_ns;
  }
}

/* ---- starting ---- */

/* The rows of a direct piece as an iov over our pages; 0 when they are too many. */
static size_t list_rows(const struct transfer_piece *piece, struct iovec *iov, size_t capacity) {
  struct layout_walk walk;
  struct layout_block blocks[32];
  size_t used = 0, count;
  layout_walk_init(&walk, &piece->leg->plan->link, LAYOUT_SOURCE, &piece->chunk->pages, &piece->cut);
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

static void submit_copy(struct transfer_piece *piece, enum transfer_job_kind kind, void *packed) {
  struct transfer_leg *leg = piece->leg;
  piece->job = (struct transfer_job){.kind = kind,
                                     .link = kind == TRANSFER_PAIRS ? &leg->plan->mapped_link : &leg->plan->link,
                                     .source_pages = &piece->chunk->pages,
                                     .target_pages = &leg->target_pages,
                                     .piece = piece->cut,
                                     .packed = packed,
                                     .packed_bytes = piece->bytes,
                                     .check = leg->link->checksum,
                                     .on_device = leg->send->transfer->on_device,
                                     .done = copy_done};
  piece->state = PIECE_COPYING;
  piece->source_address = piece->gather;
  piece->mapped = transfer_route_is_mappable(leg->link);
  if (piece->mapped) leg->link->mapped_jobs++;
  set_busy(piece, true);
  leg->send->transfer->job_count++;
  leg->send->transfer->host.submit(leg->send->transfer->host.context, &piece->job);
}

/* It could not even begin (no room in the provider, a mapping on its way): this was no attempt. False, for its starter to return. */
static bool put_back(struct transfer_piece *piece) {
  struct transfer_link *link = piece->leg->link;
  if (piece->has_credit) link->credits[link->credit_count++] = piece->credit;
  piece->has_credit = false;
  piece->state = PIECE_IDLE;
  piece->attempt--;
  piece->not_before_ns = 0;
  set_flying(piece, false);
  base_list_remove(&piece->unsent_node);
  base_list_remove(&piece->node);
  base_list_push_front(&piece->leg->waiting, &piece->node);
  link->transfer->tick_due = true;
  return false;
}

static bool start_direct(struct transfer_piece *piece) {
  if (transfer_route_is_mappable(piece->leg->link)) {
    submit_copy(piece, TRANSFER_PAIRS, NULL);
    return true;
  }
  struct iovec iov[FABRIC_IOV_LIMIT];
  size_t count = list_rows(piece, iov, FABRIC_IOV_LIMIT);
  piece->source_address = count ? iov[0].iov_base : NULL;
  if (!count) {
    fail_piece(piece, BASE_ERROR(KVF_UNSUPPORTED, NULL, "the piece has more rows than one vectored write takes"));
    return true;
  }
  count_slices(piece, count);
  /* Without room its rows are listed anew later. */
  return send_piece(piece, iov, count) || put_back(piece);
}

static bool start_staged(struct transfer_piece *piece) {
  struct transfer_link *link = piece->leg->link;
  struct transfer *transfer = link->transfer;
  void *packed = NULL;
  if (transfer_route_is_mappable(link)) {
    const struct fabric_target target = staging_target(piece);
    kvf_error *error = NULL;
    kvf_status status = link->route.endpoint->ops->map(link->route.endpoint, &target, &packed, &error);
    if (status == KVF_NOT_READY) {
      kvf_error_free(error);
      return put_back(piece);
    }
    if (status != KVF_OK) {
      fail_piece(piece, error);
      return true;
    }
  } else {
    packed = piece->gather = transfer->gather_free[--transfer->gather_free_count];
  }
  submit_copy(piece, TRANSFER_GATHER, packed);
  return true;
}

bool transfer_piece_start(struct transfer_piece *piece, uint64_t now_ns) {
  struct transfer_leg *leg = piece->leg;
  piece->attempt++;
  piece->route_epoch = leg->link->route.epoch;
  piece->write_started_ns = 0;
  piece->acked = false;
  if (leg->waiting_since_ns) {
    leg->send->result.grant_wait_ns += now_ns - leg->waiting_since_ns;
    stats_counter_add(&leg->send->transfer->counters->grant_wait_ns, now_ns - leg->waiting_since_ns);
    leg->waiting_since_ns = 0;
  }
  set_flying(piece, true);
  base_list_remove(&piece->node);
  base_list_push_back(&leg->pieces, &piece->node);
  return piece->direct ? start_direct(piece) : start_staged(piece);
}

void transfer_pieces_send_unsent(struct transfer_link *link) {
  while (!base_list_empty(&link->unsent)) {
    struct transfer_piece *piece = BASE_CONTAINER(link->unsent.next, struct transfer_piece, unsent_node);
    if (!send_copied(piece)) return;
  }
}

/* ---- what the receiver says ---- */

static struct transfer_piece *find_piece(struct transfer_leg *leg, uint32_t sequence) {
  struct base_list *lists[] = {&leg->pieces, &leg->waiting};
  for (int i = 0; i < 2; i++) {
    BASE_LIST_EACH(lists[i], node) {
      struct transfer_piece *piece = BASE_CONTAINER(node, struct transfer_piece, node);
      if (piece->sequence == sequence) return piece;
    }
  }
  return NULL;
}

void transfer_piece_acked(struct transfer_link *link, const struct wire_ack_entry *ack) {
  struct transfer_leg *leg = transfer_leg_find(link, ack->room);
  struct transfer_piece *piece = leg ? find_piece(leg, ack->sequence) : NULL;
  if (!piece || piece->attempt == 0) {
    stats_counter_add(&link->transfer->counters->messages_refused, 1);
    return;
  }
  leg->send->result.scatter_ns += (uint64_t)ack->scatter_us * 1000;
  piece->acked = true;
  if (!piece->busy) finish_piece(piece);
}

void transfer_piece_refused(struct transfer_link *link, const struct wire_nack *nack) {
  struct transfer_leg *leg = transfer_leg_find(link, nack->room);
  struct transfer_piece *piece = leg ? find_piece(leg, nack->sequence) : NULL;
  if (!piece || piece->attempt != nack->attempt || (piece->state != PIECE_SENDING && piece->state != PIECE_FLYING)) {
    stats_counter_add(&link->transfer->counters->messages_refused, 1);
    return;
  }
  if (piece->state == PIECE_FLYING) {
    fail_piece(piece, base_error_copy(nack->error));
  } else {
    kvf_error_free(piece->refusal);
    piece->refusal = base_error_copy(nack->error);
  }
}

void transfer_leg_tick(struct transfer_leg *leg, uint64_t now_ns) {
  if (!base_list_empty(&leg->waiting)) transfer_leg_wake(leg);
  uint64_t patience_ns = leg->send->progress_limit_ns / 4;
  BASE_LIST_EACH(&leg->pieces, node) {
    struct transfer_piece *piece = BASE_CONTAINER(node, struct transfer_piece, node);
    if (piece->state != PIECE_FLYING || (piece->direct && piece->mapped) || now_ns - piece->flying_since_ns < patience_ns) continue;
    kvf_error *error = BASE_ERROR(KVF_TIMEOUT, NULL, "written, and not acknowledged for %llu ms", (unsigned long long)(patience_ns / BASE_NS_PER_MS));
    fail_piece(piece, base_error_add(error, "waiting_for", "ACK"));
    if (leg->closed) return;
  }
}
