/* Sends and their legs: one leg for each receiving rank that has opened the room. */
#include <string.h>

#include "transfer/inside.h"

void transfer_room_event(struct transfer *transfer, void *user, uint32_t type, uint64_t room, uint64_t user_tag, kvf_error *error,
                         uint64_t opened_ns, const struct transfer_result *result) {
  const kvf_event event = {.type = type,
                           .status = kvf_error_status(error),
                           .room = room,
                           .user_tag = user_tag,
                           .error = error,
                           .bytes = result->bytes,
                           .elapsed_ns = base_clock_ns() - opened_ns,
                           .grant_wait_ns = result->grant_wait_ns,
                           .gather_ns = result->gather_ns,
                           .write_ns = result->write_ns,
                           .scatter_ns = result->scatter_ns,
                           .pieces = result->pieces,
                           .retries = result->retries,
                           .slices = result->slices};
  transfer->host.event(transfer->host.context, user, &event);
}

kvf_status transfer_send_open(struct transfer *transfer, const kvf_send_options *options, void *user, struct transfer_send **send_out) {
  struct transfer_send *send = base_calloc(1, sizeof *send);
  if (!send || !base_map_put(&transfer->sends_by_room, options->room, send)) {
    base_free(send);
    return KVF_NO_MEMORY;
  }
  send->transfer = transfer;
  send->user = user;
  send->room = options->room;
  send->user_tag = options->user_tag;
  send->opened_ns = send->last_progress_ns = base_clock_ns();
  send->progress_limit_ns = options->progress_ns ? options->progress_ns : transfer->progress_ns;
  send->deadline_ns = send->opened_ns + (options->room_ns ? options->room_ns : transfer->room_ns);
  base_list_init(&send->legs);
  base_list_push_back(&transfer->sends, &send->node);
  transfer->turn_due = transfer->tick_due = true;
  transfer_parked_deliver(send);
  *send_out = send;
  return KVF_OK;
}

static bool add_chunk(struct transfer_send *send, const kvf_chunk *chunk) {
  if (send->chunk_count == send->chunk_capacity) {
    uint32_t capacity = send->chunk_capacity ? send->chunk_capacity * 2 : 8;
    struct transfer_chunk **grown = base_realloc(send->chunks, capacity * sizeof *grown);
    if (!grown) return false;
    send->chunks = grown;
    send->chunk_capacity = capacity;
  }
  struct transfer_chunk *copy = base_calloc(1, sizeof *copy);
  if (!copy || !transfer_pages_copy(&copy->pages, chunk->page_lists, chunk->page_list_count)) {
    base_free(copy);
    return false;
  }
  copy->range = (struct plan_range){.token_first = chunk->token_first,
                                    .token_end = chunk->token_first + chunk->token_count,
                                    .layer_first = chunk->layer_first,
                                    .layer_end = chunk->layer_count ? chunk->layer_first + chunk->layer_count : UINT32_MAX};
  bool first = send->chunk_count == 0;
  send->token_first = first ? copy->range.token_first : base_min_u64(send->token_first, copy->range.token_first);
  send->token_end = base_max_u64(send->token_end, copy->range.token_end);
  send->chunks[send->chunk_count++] = copy;
  return true;
}

static bool copy_aux(struct transfer_send *send, const kvf_chunk *chunk) {
  if (!chunk->aux_bytes) return true;
  send->aux = base_alloc(chunk->aux_bytes);
  if (!send->aux) return false;
  memcpy(send->aux, chunk->aux, chunk->aux_bytes);
  send->aux_bytes = (uint32_t)chunk->aux_bytes;
  return true;
}

void transfer_send_post(struct transfer_send *send, const kvf_chunk *chunk) {
  if (send->failing) return;
  if (!add_chunk(send, chunk) || (chunk->final && !copy_aux(send, chunk))) {
    transfer_send_fail(send, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a chunk"), NULL);
    return;
  }
  send->final = chunk->final;
  send->last_progress_ns = base_clock_ns();
  BASE_LIST_EACH(&send->legs, node) transfer_leg_wake(BASE_CONTAINER(node, struct transfer_leg, send_node));
  transfer_send_settle(send);
}

void transfer_send_cancel(struct transfer_send *send, kvf_error *reason) { transfer_send_fail(send, reason, NULL); }

/* ---- legs ---- */

struct transfer_leg *transfer_leg_find(struct transfer_link *link, uint64_t room) {
  struct transfer_send *send = base_map_get(&link->transfer->sends_by_room, room);
  if (!send) return NULL;
  BASE_LIST_EACH(&send->legs, node) {
    struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (leg->link == link && !leg->closed) return leg;
  }
  return NULL;
}

static struct transfer_leg *create_leg(struct transfer_link *link, struct transfer_send *send, const struct wire_open *open) {
  struct transfer_leg *leg = base_calloc(1, sizeof *leg);
  if (!leg || !transfer_pages_copy(&leg->target_pages, open->page_lists, open->page_list_count)) {
    base_free(leg);
    return NULL;
  }
  leg->send = send;
  leg->link = link;
  leg->plan = transfer_plan_find(&link->send_plans, open->plan);
  leg->opening = open->opening;
  leg->token_first = open->token_first;
  leg->token_end = open->token_end;
  leg->may_direct = open->page_list_count > 0;
  base_list_init(&leg->send_node);
  base_list_init(&leg->ready_node);
  base_list_init(&leg->pieces);
  base_list_init(&leg->waiting);
  link->uses++;
  base_list_push_back(&send->legs, &leg->send_node);
  send->leg_count++;
  return leg;
}

/* The peer's page lists, as far as a direct write would follow them: inside the pools, or they are refused. */
static kvf_error *check_target_pages(struct transfer_link *link, const struct wire_open *open) {
  if (!open->page_list_count) return NULL;
  struct layout_pages pages = {0};
  for (uint32_t i = 0; i < open->page_list_count; i++) {
    if (open->page_lists[i].page_list >= KVF_PAGE_LIST_LIMIT) return BASE_ERROR(KVF_PROTOCOL, NULL, "page list number out of range");
    pages.lists[open->page_lists[i].page_list] = open->page_lists[i];
  }
  const struct layout_demand demand = {
      .token_first = open->token_first, .token_end = open->token_end, .layer_end = UINT32_MAX, .whole = true, .slots = true};
  kvf_error *error = NULL;
  layout_pages_check(&pages, link->planes.planes, link->planes.plane_count, &demand, &error);
  return error;
}

static kvf_error *check_open(struct transfer_link *link, const struct transfer_send *send, const struct wire_open *open) {
  if (!transfer_plan_find(&link->send_plans, open->plan)) return BASE_ERROR(KVF_PROTOCOL, NULL, "the room names plan %u, which was never sent", open->plan);
  if (open->token_first > open->token_end) return BASE_ERROR(KVF_PROTOCOL, NULL, "the room's token range is reversed");
  if (send->receiver_count && open->receiver_count != send->receiver_count)
    return BASE_ERROR(KVF_INCOMPATIBLE, NULL, "receiving ranks disagree on their number: %u and %u", send->receiver_count, open->receiver_count);
  if (open->receiver_count == 0 || send->leg_count == open->receiver_count)
    return BASE_ERROR(KVF_PROTOCOL, NULL, "more ranks opened the room than the receiving instance has");
  if (transfer_leg_find(link, open->room)) return BASE_ERROR(KVF_OVERLAP, NULL, "the rank opened the room twice");
  return check_target_pages(link, open);
}

void transfer_send_opened_by(struct transfer_link *link, const struct wire_open *open) {
  struct transfer *transfer = link->transfer;
  struct transfer_send *send = base_map_get(&transfer->sends_by_room, open->room);
  if (!send) {
    const kvf_error *failure = transfer_ended_untold(link, open->room, open->opening);
    if (failure) {
      transfer_link_refuse_open(link, open->room, open->opening, failure);
    } else if (transfer->draining) {
      kvf_error *error = BASE_ERROR(KVF_DRAINING, NULL, "this rank takes no new rooms");
      transfer_link_refuse_open(link, open->room, open->opening, error);
      kvf_error_free(error);
    } else {
      transfer_park_open(link, open);
    }
    return;
  }
  if (send->failing) {
    transfer_link_refuse_open(link, open->room, open->opening, send->error);
    return;
  }
  kvf_error *error = check_open(link, send, open);
  struct transfer_leg *leg = error ? NULL : create_leg(link, send, open);
  if (!error && !leg) error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a leg");
  if (error) {
    transfer_link_refuse_open(link, open->room, open->opening, error);
    transfer_send_fail(send, error, link);
    return;
  }
  send->receiver_count = open->receiver_count;
  send->last_progress_ns = base_clock_ns();
  transfer_leg_wake(leg);
}

static void close_leg(struct transfer_leg *leg) {
  if (leg->closed) return;
  leg->closed = true;
  base_list_remove(&leg->ready_node);
  transfer_leg_drop_pieces(leg);
  transfer_link_dirty(leg->link);
}

/* ---- ends ---- */

void transfer_send_fail(struct transfer_send *send, kvf_error *error, const struct transfer_link *except) {
  if (send->failing || send->over) {
    kvf_error_free(error);
    return;
  }
  struct transfer *transfer = send->transfer;
  send->failing = true;
  send->error = error;
  send->failing_since_ns = base_clock_ns();
  BASE_LIST_EACH(&send->legs, node) {
    struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (!leg->done && leg->link != except) transfer_link_post_fail(leg->link, send->room, leg->opening, false, error);
    close_leg(leg);
  }
  if (send->busy_count)
    transfer_room_event(transfer, send->user, KVF_EVENT_SEND_FAILING, send->room, send->user_tag, base_error_copy(error), send->opened_ns,
                        &send->result);
  transfer_send_settle(send);
}

/* Over when it failed and nothing uses its pages, or when every receiver has said DONE. */
void transfer_send_settle(struct transfer_send *send) {
  if (send->over || send->busy_count) return;
  bool done = send->final && send->receiver_count && send->legs_done == send->receiver_count;
  if (!send->failing && !done) return;
  struct transfer *transfer = send->transfer;
  send->over = true;
  base_list_remove(&send->node);
  base_list_push_back(&transfer->sends_over, &send->node);
  transfer->turn_due = true;
}

void transfer_send_done_by(struct transfer_link *link, const struct wire_done *done) {
  struct transfer_leg *leg = transfer_leg_find(link, done->room);
  if (!leg || leg->done) {
    stats_counter_add(&link->transfer->counters->messages_refused, 1);
    return;
  }
  if (!leg->final_sent || done->bytes != leg->bytes_cut) {
    kvf_error *error = BASE_ERROR(KVF_INCOMPLETE, NULL, "%s says the room is done with other bytes than were sent", link->label);
    base_error_add(error, "sent", "%llu", (unsigned long long)leg->bytes_cut);
    base_error_add(error, "received", "%llu", (unsigned long long)done->bytes);
    transfer_send_fail(leg->send, error, NULL);
    return;
  }
  leg->done = true;
  leg->send->legs_done++;
  close_leg(leg);
  transfer_send_settle(leg->send);
}

static bool has_leg(const struct transfer_send *send, const struct transfer_link *link) {
  BASE_LIST_EACH(&send->legs, node) {
    if (BASE_CONTAINER(node, struct transfer_leg, send_node)->link == link) return true;
  }
  return false;
}

void transfer_send_failed_by(struct transfer_link *link, const struct wire_fail *fail) {
  struct transfer_send *send = base_map_get(&link->transfer->sends_by_room, fail->room);
  bool has = send && has_leg(send, link);
  /* It may speak of an earlier life, whose end it had not heard of yet. */
  bool known = transfer_ended_is_known(link, fail->room, fail->opening);
  if (send && !send->failing && (has || !known)) {
    transfer_send_fail(send, transfer_peer_failed(link, fail->room, fail->error), link);
    return;
  }
  /* With a leg towards that rank, copies may still be writing into its pages: the end of the send says so. */
  if (!has) wire_fail_ack_encode(transfer_link_out(link), &(struct wire_fail_ack){.room = fail->room, .opening = fail->opening});
  if (send)
    kvf_error_free(fail->error);
  else
    transfer_park_failure(link, fail->room, known, fail->error);
}

void transfer_send_link_lost(struct transfer_send *send, struct transfer_link *link) {
  BASE_LIST_EACH(&send->legs, node) {
    struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (leg->link != link || leg->closed) continue;
    kvf_error *error = BASE_ERROR(KVF_PEER_LOST, base_error_copy(link->lost_error), "%s was lost in the middle of the room", link->label);
    base_error_add(error, "room", "%llu", (unsigned long long)send->room);
    base_error_add(error, "bytes_done", "%llu", (unsigned long long)leg->bytes_acked);
    transfer_send_fail(send, error, link);
    return;
  }
}

void transfer_send_free(struct transfer_send *send) {
  struct transfer *transfer = send->transfer;
  transfer_ended_remember(send);
  base_map_remove(&transfer->sends_by_room, send->room);
  while (!base_list_empty(&send->legs)) {
    struct transfer_leg *leg = BASE_CONTAINER(base_list_pop_front(&send->legs), struct transfer_leg, send_node);
    /* The word that nothing of this room is on its way any more. */
    if (!leg->done && !leg->link->lost) wire_fail_ack_encode(transfer_link_out(leg->link), &(struct wire_fail_ack){.room = send->room, .opening = leg->opening});
    transfer_pages_fini(&leg->target_pages);
    leg->link->uses--;
    base_free(leg);
  }
  for (uint32_t i = 0; i < send->chunk_count; i++) {
    transfer_pages_fini(&send->chunks[i]->pages);
    base_free(send->chunks[i]);
  }
  base_free(send->chunks);
  base_free(send->aux);
  base_free(send);
}

static const char *missing_for_send(const struct transfer_send *send) {
  if (send->leg_count == 0) return "OPEN";
  if (send->leg_count < send->receiver_count) return "OPEN of the other receiving ranks";
  if (!send->final) return "the final chunk";
  BASE_LIST_EACH(&send->legs, node) {
    const struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (!leg->closed && leg->waiting_since_ns) return "GRANT";
    if (!leg->closed && !base_list_empty(&leg->pieces)) return "ACK";
  }
  return "DONE";
}

/* Not when all is sent and acknowledged: DONE also waits for the other sending ranks, which may still be computing. */
static bool expects_progress(const struct transfer_send *send) {
  BASE_LIST_EACH(&send->legs, node) {
    const struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (!leg->closed && (!base_list_empty(&leg->ready_node) || !base_list_empty(&leg->pieces))) return true;
  }
  return false;
}

void transfer_send_tick(struct transfer_send *send, uint64_t now_ns) {
  if (send->failing) {
    if (now_ns - send->failing_since_ns < TRANSFER_QUIESCE_NS) return;
    /* A write that does not end: cut the connections under it. */
    send->failing_since_ns = now_ns;
    BASE_LIST_EACH(&send->legs, node) {
      struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
      if (!base_list_empty(&leg->pieces)) transfer_route_reset(leg->link);
    }
    return;
  }
  BASE_LIST_EACH(&send->legs, node) {
    struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (!leg->closed) transfer_leg_tick(leg, now_ns);
    if (send->failing) return;
  }
  bool stalled = expects_progress(send) && now_ns - send->last_progress_ns > send->progress_limit_ns;
  if (!stalled && now_ns < send->deadline_ns) return;
  kvf_error *error = BASE_ERROR(KVF_TIMEOUT, NULL, stalled ? "no byte moved for the no-progress time" : "the room's time ran out");
  base_error_add(error, "room", "%llu", (unsigned long long)send->room);
  base_error_add(error, "waiting_for", "%s", missing_for_send(send));
  base_error_add(error, "bytes_done", "%llu", (unsigned long long)send->result.bytes);
  transfer_send_fail(send, error, NULL);
}
