/* Receives and their legs: one leg for each rank of the sending instance. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "transfer/inside.h"

kvf_status transfer_recv_open(struct transfer *transfer, const kvf_recv_options *options, void *user, struct transfer_recv **recv_out) {
  struct transfer_recv *recv = base_calloc(1, sizeof *recv);
  if (!recv || !transfer_pages_copy(&recv->pages, options->page_lists, options->page_list_count)) {
    base_free(recv);
    return KVF_NO_MEMORY;
  }
  if (!base_map_put(&transfer->recvs_by_room, options->room, recv)) {
    transfer_pages_fini(&recv->pages);
    base_free(recv);
    return KVF_NO_MEMORY;
  }
  recv->transfer = transfer;
  recv->user = user;
  recv->room = options->room;
  recv->user_tag = options->user_tag;
  recv->token_first = options->token_first;
  recv->token_end = options->token_end;
  recv->opening = ++transfer->next_opening;
  recv->aux_leg = UINT32_MAX;
  recv->opened_ns = recv->last_progress_ns = base_clock_ns();
  recv->progress_limit_ns = options->progress_ns ? options->progress_ns : transfer->progress_ns;
  recv->deadline_ns = recv->opened_ns + (options->room_ns ? options->room_ns : transfer->room_ns);
  base_list_push_back(&transfer->recvs, &recv->node);
  transfer->turn_due = transfer->tick_due = true;
  *recv_out = recv;
  return KVF_OK;
}

void *transfer_recv_take_aux(struct transfer_recv *recv, uint64_t *aux_bytes_out) {
  void *aux = recv->aux;
  *aux_bytes_out = recv->aux_bytes;
  recv->aux = NULL;
  return aux;
}

void transfer_recv_cancel(struct transfer_recv *recv, kvf_error *reason) { transfer_recv_fail(recv, reason, NULL); }

/* ---- the plans between one set of sending ranks and us ---- */

static int compare_ranks(const void *a, const void *b) {
  const struct transfer_link *left = *(struct transfer_link *const *)a, *right = *(struct transfer_link *const *)b;
  return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static uint64_t peers_key(struct transfer_link *const *links, uint32_t count) {
  uint64_t key = count;
  for (uint32_t i = 0; i < count; i++) key = base_mix_u64(key ^ base_mix_u64(links[i]->party));
  return key;
}

static struct transfer_plan *find_plan_for(struct transfer_link *link, uint64_t key) {
  BASE_LIST_EACH(&link->recv_plans, node) {
    struct transfer_plan *plan = BASE_CONTAINER(node, struct transfer_plan, node);
    if (plan->peers_key == key) return plan;
  }
  return NULL;
}

static void post_plan(struct transfer_link *link, const struct transfer_plan *plan) {
  _Static_assert(sizeof(struct wire_cut) == sizeof(struct layout_cut), "a cut travels as it is");
  wire_plan_encode(transfer_link_out(link), &(struct wire_plan){.plan = plan->id,
                                                                .cut_count = plan->cuts.count,
                                                                .cuts = (const struct wire_cut *)plan->cuts.cuts});
}

/* Our planes without the components that this sending instance lacks, and where each stands in the whole list. */
struct wanted_planes {
  kvf_rank_planes planes;
  kvf_plane *copies;
  uint32_t *indexes;
};

static bool select_planes(const struct transfer *transfer, struct transfer_link *const *links, uint32_t count, struct wanted_planes *wanted) {
  uint32_t components = UINT32_MAX, total = transfer->planes.plane_count;
  for (uint32_t i = 0; i < count; i++) components &= links[i]->components;
  wanted->copies = base_alloc((total ? total : 1) * sizeof *wanted->copies);
  wanted->indexes = base_alloc((total ? total : 1) * sizeof *wanted->indexes);
  if (!wanted->copies || !wanted->indexes) return false;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < total; i++) {
    if (!(components >> transfer->planes.planes[i].component & 1)) continue;
    wanted->copies[kept] = transfer->planes.planes[i];
    wanted->indexes[kept++] = i;
  }
  wanted->planes = (kvf_rank_planes){.planes = wanted->copies, .plane_count = kept, .stage = transfer->planes.stage};
  return true;
}

/* Work out who sends what, and tell each sender its part. */
static kvf_error *make_plans(struct transfer *transfer, struct transfer_link *const *links, uint32_t count, uint64_t key) {
  kvf_error *error = NULL;
  kvf_rank_planes *sources = base_calloc(count, sizeof *sources);
  struct layout_cuts *cuts = base_calloc(count, sizeof *cuts);
  struct wanted_planes wanted = {0};
  if (!sources || !cuts || !select_planes(transfer, links, count, &wanted)) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a plan");
  for (uint32_t i = 0; !error && i < count; i++) sources[i] = links[i]->planes;
  if (!error) layout_cuts_build(sources, count, &wanted.planes, transfer->rank, cuts, &error);
  for (uint32_t i = 0; !error && i < count; i++) {
    for (uint32_t k = 0; k < cuts[i].count; k++) cuts[i].cuts[k].target_plane = wanted.indexes[cuts[i].cuts[k].target_plane];
    struct transfer_plan *plan = transfer_plan_create(transfer->next_plan++, &cuts[i], &links[i]->planes, &transfer->planes);
    if (!plan) {
      error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a plan");
      break;
    }
    plan->peers_key = key;
    base_list_push_back(&links[i]->recv_plans, &plan->node);
    post_plan(links[i], plan);
  }
  for (uint32_t i = 0; cuts && i < count; i++) layout_cuts_fini(&cuts[i]);
  base_free(cuts);
  base_free(sources);
  base_free(wanted.copies);
  base_free(wanted.indexes);
  return error;
}

/* ---- legs ---- */

struct transfer_recv_leg *transfer_recv_leg_find(struct transfer_link *link, uint64_t room) {
  struct transfer_recv *recv = base_map_get(&link->transfer->recvs_by_room, room);
  for (uint32_t i = 0; recv && i < recv->leg_count; i++) {
    if (recv->legs[i].link == link) return &recv->legs[i];
  }
  return NULL;
}

bool transfer_recv_leg_seen(const struct transfer_recv_leg *leg, uint32_t sequence) {
  return sequence / 64 < leg->seen_capacity && (leg->seen[sequence / 64] >> (sequence % 64) & 1);
}

static bool mark_seen(struct transfer_recv_leg *leg, uint32_t sequence) {
  uint32_t word = sequence / 64;
  if (word >= leg->seen_capacity) {
    uint32_t capacity = word + 1 > leg->seen_capacity * 2 ? word + 1 : leg->seen_capacity * 2;
    uint64_t *grown = base_realloc(leg->seen, capacity * sizeof *grown);
    if (!grown) return false;
    memset(grown + leg->seen_capacity, 0, (capacity - leg->seen_capacity) * sizeof *grown);
    leg->seen = grown;
    leg->seen_capacity = capacity;
  }
  leg->seen[word] |= 1ull << (sequence % 64);
  return true;
}

static bool pools_are_exposed(const struct transfer *transfer) {
  for (uint32_t i = 0; i < transfer->pool_count; i++) {
    for (uint32_t k = 0; k < transfer->fabric_count; k++) {
      if (transfer->pools[i].on[k]) return true;
    }
  }
  return false;
}

static void post_open(const struct transfer_recv *recv, const struct transfer_recv_leg *leg) {
  const struct transfer *transfer = recv->transfer;
  struct wire_open open = {.room = recv->room,
                           .opening = recv->opening,
                           .plan = leg->plan->id,
                           .receiver_count = transfer->rank_count,
                           .token_first = recv->token_first,
                           .token_end = recv->token_end};
  for (uint32_t i = 0; transfer->way != KVF_WAY_STAGED && i < KVF_PAGE_LIST_LIMIT; i++) {
    if (recv->pages.lists[i].pages) open.page_lists[open.page_list_count++] = recv->pages.lists[i];
  }
  wire_open_encode(transfer_link_out(leg->link), &open);
}

void transfer_recv_bind(struct transfer_recv *recv, struct transfer_link *const *links, uint32_t link_count) {
  struct transfer *transfer = recv->transfer;
  struct transfer_link **sorted = base_alloc(link_count * sizeof *sorted);
  recv->legs = base_calloc(link_count, sizeof *recv->legs);
  if (!sorted || !recv->legs) {
    base_free(sorted);
    transfer_recv_fail(recv, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for legs"), NULL);
    return;
  }
  memcpy(sorted, links, link_count * sizeof *sorted);
  qsort(sorted, link_count, sizeof *sorted, compare_ranks);
  uint64_t key = peers_key(sorted, link_count);
  kvf_error *error = find_plan_for(sorted[0], key) ? NULL : make_plans(transfer, sorted, link_count, key);
  bool fence = transfer->way != KVF_WAY_STAGED && pools_are_exposed(transfer);
  for (uint32_t i = 0; i < link_count; i++) {
    struct transfer_recv_leg *leg = &recv->legs[recv->leg_count++];
    *leg = (struct transfer_recv_leg){.recv = recv, .link = sorted[i], .fence_needed = fence && !error};
    sorted[i]->uses++;
    if (error) continue;
    leg->plan = find_plan_for(sorted[i], key);
    leg->bytes_expected = layout_room_bytes(&leg->plan->link, recv->token_first, recv->token_end);
    post_open(recv, leg);
  }
  base_free(sorted);
  recv->bound = true;
  recv->last_progress_ns = base_clock_ns();
  if (error) transfer_recv_fail(recv, base_error_add(error, "room", "%llu", (unsigned long long)recv->room), NULL);
}

/* ---- progress ---- */

static kvf_error *incomplete(const struct transfer_recv_leg *leg, uint64_t sent_bytes, const char *what) {
  kvf_error *error = BASE_ERROR(KVF_INCOMPLETE, NULL, "%s %s", leg->link->label, what);
  base_error_add(error, "room", "%llu", (unsigned long long)leg->recv->room);
  base_error_add(error, "wanted", "%llu-%llu", (unsigned long long)leg->recv->token_first, (unsigned long long)leg->recv->token_end);
  base_error_add(error, "bytes_wanted", "%llu", (unsigned long long)leg->bytes_expected);
  return base_error_add(error, "bytes_sent", "%llu", (unsigned long long)sent_bytes);
}

static void check_whole(struct transfer_recv_leg *leg) {
  struct transfer_recv *recv = leg->recv;
  if (leg->whole || !leg->final || leg->pieces_done < leg->piece_count) return;
  if (leg->bytes_done != leg->bytes_expected || leg->pieces_done != leg->piece_count) {
    transfer_recv_fail(recv, incomplete(leg, leg->bytes_done, "sent other bytes than it declared"), NULL);
    return;
  }
  leg->whole = true;
  recv->legs_whole++;
  transfer_recv_settle(recv);
}

void transfer_recv_piece_done(struct transfer_recv_leg *leg, const struct wire_piece *piece, uint64_t scatter_ns) {
  struct transfer_recv *recv = leg->recv;
  struct transfer *transfer = recv->transfer;
  if (!transfer_recv_leg_seen(leg, piece->sequence)) {
    if (!mark_seen(leg, piece->sequence)) {
      transfer_recv_fail(recv, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to note a piece"), NULL);
      return;
    }
    leg->pieces_done++;
    leg->bytes_done += piece->bytes;
    recv->result.bytes += piece->bytes;
    recv->result.pieces++;
    recv->result.retries += piece->attempt > 1;
    recv->result.scatter_ns += scatter_ns;
    stats_counter_add(&transfer->counters->bytes_received, piece->bytes);
    stats_counter_add(&transfer->counters->pieces_received, 1);
    stats_counter_add(&transfer->counters->scatter_ns, scatter_ns);
  }
  recv->last_progress_ns = base_clock_ns();
  transfer_link_ack(leg->link, &(struct wire_ack_entry){.room = recv->room,
                                                        .sequence = piece->sequence,
                                                        .scatter_us = (uint32_t)base_min_u64(scatter_ns / 1000, UINT32_MAX)});
  check_whole(leg);
}

static bool keep_aux(struct transfer_recv *recv, uint32_t leg_index, const struct wire_final *final) {
  /* One writer by rule: the lowest rank that has any. */
  if (!final->aux_bytes || leg_index >= recv->aux_leg) return true;
  void *aux = base_alloc(final->aux_bytes);
  if (!aux) return false;
  memcpy(aux, final->aux, final->aux_bytes);
  base_free(recv->aux);
  recv->aux = aux;
  recv->aux_bytes = final->aux_bytes;
  recv->aux_leg = leg_index;
  return true;
}

void transfer_recv_final(struct transfer_link *link, const struct wire_final *final) {
  struct transfer_recv_leg *leg = transfer_recv_leg_find(link, final->room);
  if (!leg || leg->recv->opening != final->opening || leg->final || leg->recv->failing) {
    stats_counter_add(&link->transfer->counters->messages_refused, 1);
    return;
  }
  struct transfer_recv *recv = leg->recv;
  leg->final = true;
  leg->piece_count = final->piece_count;
  recv->last_progress_ns = base_clock_ns();
  bool wants = recv->token_first < recv->token_end;
  if (wants && (final->token_first > recv->token_first || final->token_end < recv->token_end)) {
    kvf_error *error = incomplete(leg, final->bytes, "finished with fewer tokens than this rank wants");
    transfer_recv_fail(recv, base_error_add(error, "sent", "%llu-%llu", (unsigned long long)final->token_first, (unsigned long long)final->token_end), NULL);
  } else if (final->bytes != leg->bytes_expected) {
    transfer_recv_fail(recv, incomplete(leg, final->bytes, "finished with other bytes than this rank wants"), NULL);
  } else if (!keep_aux(recv, (uint32_t)(leg - recv->legs), final)) {
    transfer_recv_fail(recv, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the auxiliary bytes"), NULL);
  } else {
    check_whole(leg);
  }
}

/* ---- ends ---- */

void transfer_recv_fail(struct transfer_recv *recv, kvf_error *error, const struct transfer_link *except) {
  if (recv->failing || recv->over) {
    kvf_error_free(error);
    return;
  }
  recv->failing = true;
  recv->error = error;
  recv->failing_since_ns = base_clock_ns();
  bool fenced = true;
  for (uint32_t i = 0; i < recv->leg_count; i++) {
    struct transfer_recv_leg *leg = &recv->legs[i];
    if (leg->link != except) transfer_link_post_fail(leg->link, recv->room, recv->opening, true, error);
    transfer_landings_detach(leg);
    fenced = fenced && !leg->fence_needed;
  }
  if (recv->busy_count || !fenced)
    transfer_room_event(recv->transfer, recv->user, KVF_EVENT_RECV_FAILING, recv->room, recv->user_tag, base_error_copy(error),
                        recv->opened_ns, &recv->result);
  transfer_recv_settle(recv);
}

static void post_done(struct transfer_recv *recv) {
  for (uint32_t i = 0; i < recv->leg_count; i++) {
    const struct transfer_recv_leg *leg = &recv->legs[i];
    if (!leg->link->lost) wire_done_encode(transfer_link_out(leg->link), &(struct wire_done){.room = recv->room, .bytes = leg->bytes_done});
  }
}

void transfer_recv_settle(struct transfer_recv *recv) {
  if (recv->over || recv->busy_count) return;
  bool done = !recv->failing && recv->bound && recv->legs_whole == recv->leg_count;
  if (!recv->failing && !done) return;
  for (uint32_t i = 0; recv->failing && i < recv->leg_count; i++) {
    if (recv->legs[i].fence_needed) return;
  }
  if (done) post_done(recv);
  recv->over = true;
  base_list_remove(&recv->node);
  base_list_push_back(&recv->transfer->recvs_over, &recv->node);
  recv->transfer->turn_due = true;
}

void transfer_recv_failed_by(struct transfer_link *link, const struct wire_fail *fail) {
  struct transfer_recv_leg *leg = transfer_recv_leg_find(link, fail->room);
  if (leg && leg->recv->opening == fail->opening) {
    transfer_recv_fail(leg->recv, transfer_peer_failed(link, fail->room, fail->error), link);
  } else {
    /* Of a life that has ended here already. */
    stats_counter_add(&link->transfer->counters->messages_refused, 1);
    kvf_error_free(fail->error);
  }
}

void transfer_recv_fenced(struct transfer_link *link, const struct wire_fail_ack *ack) {
  struct transfer_recv_leg *leg = transfer_recv_leg_find(link, ack->room);
  if (!leg || leg->recv->opening != ack->opening) return;
  leg->fence_needed = false;
  transfer_recv_settle(leg->recv);
}

void transfer_recv_link_fenced(struct transfer_link *link) {
  BASE_LIST_EACH(&link->transfer->recvs, node) {
    struct transfer_recv *recv = BASE_CONTAINER(node, struct transfer_recv, node);
    for (uint32_t i = 0; i < recv->leg_count; i++) {
      if (recv->legs[i].link == link) recv->legs[i].fence_needed = false;
    }
    if (recv->failing) transfer_recv_settle(recv);
  }
}

void transfer_recv_link_lost(struct transfer_recv *recv, struct transfer_link *link) {
  for (uint32_t i = 0; i < recv->leg_count; i++) {
    if (recv->legs[i].link != link || recv->failing) continue;
    kvf_error *error = BASE_ERROR(KVF_PEER_LOST, base_error_copy(link->lost_error), "%s was lost in the middle of the room", link->label);
    base_error_add(error, "room", "%llu", (unsigned long long)recv->room);
    base_error_add(error, "bytes_done", "%llu", (unsigned long long)recv->legs[i].bytes_done);
    transfer_recv_fail(recv, error, link);
  }
}

void transfer_recv_free(struct transfer_recv *recv) {
  base_map_remove(&recv->transfer->recvs_by_room, recv->room);
  for (uint32_t i = 0; i < recv->leg_count; i++) {
    transfer_landings_detach(&recv->legs[i]);
    base_free(recv->legs[i].seen);
    recv->legs[i].link->uses--;
  }
  base_free(recv->legs);
  transfer_pages_fini(&recv->pages);
  base_free(recv->aux);
  base_free(recv);
}

static const char *missing_for_recv(const struct transfer_recv *recv) {
  if (!recv->bound) return "a peer";
  for (uint32_t i = 0; i < recv->leg_count; i++) {
    if (!recv->legs[i].final) return "FINAL";
    if (!recv->legs[i].whole) return "pieces";
  }
  return "FAIL_ACK";
}

static void cut_placed(struct transfer_recv *recv) {
  for (uint32_t i = 0; i < recv->leg_count; i++) transfer_landings_abandon(recv->legs[i].link);
}

void transfer_recv_tick(struct transfer_recv *recv, uint64_t now_ns) {
  if (recv->failing) {
    if (!recv->busy_count || now_ns - recv->failing_since_ns < TRANSFER_QUIESCE_NS) return;
    recv->failing_since_ns = now_ns;
    cut_placed(recv);
    return;
  }
  bool expects = !recv->bound;
  for (uint32_t i = 0; i < recv->leg_count; i++) expects = expects || (recv->legs[i].final && !recv->legs[i].whole);
  bool stalled = expects && now_ns - recv->last_progress_ns > recv->progress_limit_ns;
  if (!stalled && now_ns < recv->deadline_ns) return;
  kvf_error *error = BASE_ERROR(KVF_TIMEOUT, NULL, stalled ? "no byte moved for the no-progress time" : "the room's time ran out");
  base_error_add(error, "room", "%llu", (unsigned long long)recv->room);
  base_error_add(error, "waiting_for", "%s", missing_for_recv(recv));
  base_error_add(error, "bytes_done", "%llu", (unsigned long long)recv->result.bytes);
  transfer_recv_fail(recv, error, NULL);
}
