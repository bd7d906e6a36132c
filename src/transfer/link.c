/* Links: a peer whose layout has been agreed. Dispatches its messages and collects the frames that go back in one turn. */
#include <stdio.h>
#include <string.h>

#include "transfer/inside.h"

void transfer_link_dirty(struct transfer_link *link) { link->transfer->turn_due = true; }

void *transfer_link_user(const struct transfer_link *link) { return link->user; }

static void flush_acks(struct transfer_link *link) {
  if (!link->ack_count) return;
  wire_ack_encode(&link->out, &(struct wire_ack){.ack_count = link->ack_count, .acks = link->acks});
  link->ack_count = 0;
}

struct wire_buffer *transfer_link_out(struct transfer_link *link) {
  flush_acks(link);
  transfer_link_dirty(link);
  return &link->out;
}

void transfer_link_ack(struct transfer_link *link, const struct wire_ack_entry *ack) {
  if (link->lost) return;
  if (link->ack_count == link->ack_capacity) {
    uint32_t capacity = link->ack_capacity ? link->ack_capacity * 2 : 16;
    struct wire_ack_entry *grown = base_realloc(link->acks, capacity * sizeof *grown);
    /* Without memory for a batch the entry goes out alone. */
    if (!grown) {
      wire_ack_encode(transfer_link_out(link), &(struct wire_ack){.ack_count = 1, .acks = ack});
      return;
    }
    link->acks = grown;
    link->ack_capacity = capacity;
  }
  link->acks[link->ack_count++] = *ack;
  transfer_link_dirty(link);
}

void transfer_link_post_fail(struct transfer_link *link, uint64_t room, uint32_t opening, bool by_receiver, const kvf_error *error) {
  if (link->lost) return;
  wire_fail_encode(transfer_link_out(link), &(struct wire_fail){.room = room, .opening = opening, .by_receiver = by_receiver, .error = (kvf_error *)error});
}

void transfer_link_refuse_open(struct transfer_link *link, uint64_t room, uint32_t opening, const kvf_error *error) {
  if (link->lost) return;
  transfer_link_post_fail(link, room, opening, false, error);
  wire_fail_ack_encode(transfer_link_out(link), &(struct wire_fail_ack){.room = room, .opening = opening});
}

void transfer_link_flush(struct transfer_link *link) {
  flush_acks(link);
  if (link->out.length && !link->lost) link->transfer->host.post(link->transfer->host.context, link, &link->out);
  link->out.length = 0;
  link->out.failed = false;
}

kvf_error *transfer_peer_failed(const struct transfer_link *link, uint64_t room, kvf_error *cause) {
  kvf_status status = kvf_error_status(cause) == KVF_CANCELLED ? KVF_CANCELLED : KVF_PEER_FAILED;
  kvf_error *error = BASE_ERROR(status, cause, status == KVF_CANCELLED ? "%s cancelled the room" : "%s failed the room", link->label);
  base_error_add(error, "room", "%llu", (unsigned long long)room);
  return base_error_add(error, "origin", "%s", link->label);
}

struct transfer_plan *transfer_plan_find(struct base_list *plans, uint32_t id) {
  BASE_LIST_EACH(plans, node) {
    struct transfer_plan *plan = BASE_CONTAINER(node, struct transfer_plan, node);
    if (plan->id == id) return plan;
  }
  return NULL;
}

struct transfer_plan *transfer_plan_create(uint32_t id, const struct layout_cuts *cuts, const kvf_rank_planes *source,
                                           const kvf_rank_planes *target) {
  struct transfer_plan *plan = base_calloc(1, sizeof *plan);
  struct layout_cut *copy = base_alloc((cuts->count ? cuts->count : 1) * sizeof *copy);
  if (!plan || !copy) {
    base_free(plan);
    base_free(copy);
    return NULL;
  }
  if (cuts->count) memcpy(copy, cuts->cuts, cuts->count * sizeof *copy);
  plan->id = id;
  plan->cuts = (struct layout_cuts){.cuts = copy, .count = cuts->count};
  plan->link = (struct layout_link){
      .source_planes = source->planes, .target_planes = target->planes, .cuts = copy, .cut_count = cuts->count};
  plan->row_bytes = plan_row_bytes(&plan->link);
  base_list_init(&plan->node);
  return plan;
}

void transfer_plan_free(struct transfer_plan *plan) {
  layout_cuts_fini(&plan->cuts);
  base_free(plan->mapped_planes);
  base_free(plan);
}

/* The peer's planes arrive with offsets into numbered regions; both stay, the numbers beside the planes. */
static bool copy_planes(struct transfer_link *link, const struct transfer_link_options *options) {
  uint32_t count = options->planes.plane_count;
  kvf_plane *planes = base_alloc((count ? count : 1) * sizeof *planes);
  uint32_t *regions = base_alloc((count ? count : 1) * sizeof *regions);
  link->planes = (kvf_rank_planes){.planes = planes, .plane_count = count, .stage = options->planes.stage};
  link->plane_regions = regions;
  if (!planes || !regions) return false;
  if (count) {
    memcpy(planes, options->planes.planes, count * sizeof *planes);
    memcpy(regions, options->plane_regions, count * sizeof *regions);
  }
  return true;
}

static void greet(struct transfer_link *link) {
  struct transfer *transfer = link->transfer;
  struct wire_buffer *out = transfer_link_out(link);
  uint8_t addresses[TRANSFER_PROVIDER_LIMIT][FABRIC_ADDRESS_LIMIT_BYTES];
  struct wire_offer offer = {.token = link->token};
  for (uint32_t i = 0; i < transfer->fabric_count; i++) {
    const struct fabric_ops *ops = transfer->fabrics[i]->ops;
    if (ops->token_admit(transfer->fabrics[i], link->token, NULL) != KVF_OK) continue;
    uint32_t k = offer.provider_count++;
    offer.providers[k].name = (struct wire_text){.text = ops->name, .length = (uint32_t)strlen(ops->name)};
    offer.providers[k].address = addresses[k];
    offer.providers[k].address_bytes = (uint32_t)ops->address(transfer->fabrics[i], addresses[k]);
  }
  wire_offer_encode(out, &offer);
  transfer_exposure_encode(transfer, &transfer->staging, out);
  for (uint32_t i = 0; i < transfer->pool_count; i++) transfer_exposure_encode(transfer, &transfer->pools[i], out);
}

kvf_status transfer_link_add(struct transfer *transfer, const struct transfer_link_options *options, struct transfer_link **link_out,
                             kvf_error **error_out) {
  struct transfer_link *link = base_calloc(1, sizeof *link);
  if (!link) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a link"), error_out);
  link->transfer = transfer;
  link->user = options->user;
  snprintf(link->label, sizeof link->label, "%s", options->label);
  link->token = options->token;
  link->rank = options->rank;
  link->rank_count = options->rank_count;
  link->components = options->components;
  link->piece_bytes = base_min_u64(transfer->piece_bytes, options->piece_bytes);
  link->checksum = options->checksum;
  link->party = ++transfer->next_party;
  base_list_init(&link->recv_plans);
  base_list_init(&link->send_plans);
  base_list_init(&link->landings);
  base_list_init(&link->ready);
  base_list_init(&link->unsent);
  transfer_route_init(link);
  base_list_init(&link->node);
  kvf_status status = KVF_NO_MEMORY;
  if (!copy_planes(link, options) || !base_map_put(&transfer->links_by_token, link->token, link))
    base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a link"), error_out);
  else
    status = arena_party_add(transfer->arena, link->party, link->piece_bytes, transfer->standing_credit, error_out);
  base_list_push_back(&transfer->links, &link->node);
  if (status != KVF_OK) {
    link->lost = true;
    transfer_link_free(link);
    return status;
  }
  greet(link);
  *link_out = link;
  return KVF_OK;
}

static void free_plans(struct base_list *plans) {
  while (!base_list_empty(plans)) transfer_plan_free(BASE_CONTAINER(base_list_pop_front(plans), struct transfer_plan, node));
}

void transfer_link_free(struct transfer_link *link) {
  struct transfer *transfer = link->transfer;
  for (uint32_t i = 0; i < transfer->fabric_count; i++) transfer->fabrics[i]->ops->token_drop(transfer->fabrics[i], link->token);
  if (base_map_get(&transfer->links_by_token, link->token) == link) base_map_remove(&transfer->links_by_token, link->token);
  base_list_remove(&link->node);
  transfer_route_fini(link);
  free_plans(&link->recv_plans);
  free_plans(&link->send_plans);
  base_free((void *)link->planes.planes);
  base_free(link->plane_regions);
  base_free(link->credits);
  base_free(link->acks);
  wire_buffer_fini(&link->out);
  kvf_error_free(link->lost_error);
  base_free(link);
}

/* Can the peer still write into what it was granted, though its session is gone? */
static bool might_still_write(const struct transfer_link *link) {
  const struct transfer *transfer = link->transfer;
  for (uint32_t i = 0; i < transfer->fabric_count; i++) {
    const struct fabric_ops *ops = transfer->fabrics[i]->ops;
    if ((ops->traits & FABRIC_MIGHT_WRITE_LATE) && ops->token_live && ops->token_live(transfer->fabrics[i], link->token)) return true;
  }
  return false;
}

void transfer_link_lost(struct transfer_link *link, const kvf_error *error) {
  struct transfer *transfer = link->transfer;
  link->lost = true;
  link->lost_error = base_error_copy(error);
  link->user = NULL;
  transfer_route_reset(link);
  BASE_LIST_EACH(&transfer->sends, node) transfer_send_link_lost(BASE_CONTAINER(node, struct transfer_send, node), link);
  BASE_LIST_EACH(&transfer->recvs, node) transfer_recv_link_lost(BASE_CONTAINER(node, struct transfer_recv, node), link);
  transfer_parked_drop_link(transfer, link);
  bool might_write = might_still_write(link);
  arena_party_lost(transfer->arena, link->party, might_write);
  if (might_write) {
    /* token_lost will come when the process is gone; until then its extents stay out of use. */
    link->uses++;
    link->awaiting_fence = true;
    base_log_write(&transfer->log, KVF_LOG_NOTICE, "%s is gone but its process may still write: its extents are quarantined", link->label);
  } else {
    for (uint32_t i = 0; i < transfer->fabric_count; i++) transfer->fabrics[i]->ops->token_drop(transfer->fabrics[i], link->token);
    transfer_landings_abandon(link);
    transfer_recv_link_fenced(link);
  }
  transfer_link_dirty(link);
}

void transfer_link_describe(const struct transfer_link *link, kvf_peer_state *state) {
  const struct transfer_route *route = &link->route;
  state->rank = link->rank;
  state->rank_count = link->rank_count;
  state->stage = link->planes.stage;
  if (!route->endpoint) return;
  snprintf(state->fabric, sizeof state->fabric, "%s", route->endpoint->ops->name);
  const char *reason = "";
  BASE_LIST_EACH(&link->send_plans, node) {
    const struct transfer_plan *plan = BASE_CONTAINER(node, struct transfer_plan, node);
    if (plan->choice_epoch != route->epoch || !plan->cuts.count) continue;
    state->way = plan->choice.way;
    reason = plan->choice.reason;
  }
  snprintf(state->reason, sizeof state->reason, "%s%s%s", reason, route->passed_over[0] ? "; passed over: " : "", route->passed_over);
}

/* ---- messages ---- */

static kvf_error *plan_arrived(struct transfer_link *link, const struct wire_plan *message) {
  struct transfer *transfer = link->transfer;
  kvf_error *error = NULL;
  struct layout_cuts cuts = {.count = message->cut_count};
  cuts.cuts = base_alloc((cuts.count ? cuts.count : 1) * sizeof *cuts.cuts);
  if (!cuts.cuts) return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a plan");
  for (uint32_t i = 0; i < cuts.count; i++)
    cuts.cuts[i] = (struct layout_cut){.source_plane = message->cuts[i].source_plane,
                                       .target_plane = message->cuts[i].target_plane,
                                       .head_first = message->cuts[i].head_first,
                                       .head_count = message->cuts[i].head_count};
  if (transfer_plan_find(&link->send_plans, message->plan))
    error = BASE_ERROR(KVF_PROTOCOL, NULL, "plan %u sent twice", message->plan);
  else if (layout_cuts_check(&cuts, &transfer->planes, &link->planes, &error) == KVF_OK) {
    struct transfer_plan *plan = transfer_plan_create(message->plan, &cuts, &transfer->planes, &link->planes);
    if (plan)
      base_list_push_back(&link->send_plans, &plan->node);
    else
      error = BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a plan");
  }
  layout_cuts_fini(&cuts);
  return error;
}

static kvf_error *returned(struct transfer_link *link, const struct wire_return *message) {
  /* A refusal means that the piece has landed after all: its landing releases the extent. */
  for (uint32_t i = 0; i < message->grant_count; i++)
    arena_return(link->transfer->arena, link->party, message->grants[i].id, message->grants[i].generation);
  transfer_link_dirty(link);
  return NULL;
}

static void fail_arrived(struct transfer_link *link, const struct wire_fail *message) {
  if (message->by_receiver)
    transfer_send_failed_by(link, message);
  else
    transfer_recv_failed_by(link, message);
}

#define DECODE(noun)                \
  struct wire_##noun noun##_message; \
  if (wire_##noun##_decode(payload, payload_bytes, &scratch, &noun##_message, &error) != KVF_OK) break

kvf_error *transfer_link_message(struct transfer_link *link, uint8_t type, const uint8_t *payload, size_t payload_bytes) {
  struct transfer *transfer = link->transfer;
  struct wire_scratch scratch = {0};
  kvf_error *error = NULL;
  transfer->turn_due = true;
  switch (type) {
    case WIRE_OFFER: { DECODE(offer); error = transfer_route_offer(link, &offer_message); break; }
    case WIRE_EXPOSE: { DECODE(expose); error = transfer_route_key(link, &expose_message); break; }
    case WIRE_PLAN: { DECODE(plan); error = plan_arrived(link, &plan_message); break; }
    case WIRE_OPEN: { DECODE(open); transfer_send_opened_by(link, &open_message); break; }
    case WIRE_GRANT: { DECODE(grant); error = transfer_credit_granted(link, &grant_message); break; }
    case WIRE_RETURN: { DECODE(return); error = returned(link, &return_message); break; }
    case WIRE_WANT: {
      DECODE(want);
      link->peer_want_sequence = want_message.sequence;
      arena_want(transfer->arena, link->party, want_message.level);
      break;
    }
    case WIRE_REFRESH: { DECODE(refresh); transfer_exposure_refresh(transfer, &refresh_message); break; }
    case WIRE_FINAL: { DECODE(final); transfer_recv_final(link, &final_message); break; }
    case WIRE_DONE: { DECODE(done); transfer_send_done_by(link, &done_message); break; }
    case WIRE_FAIL: { DECODE(fail); fail_arrived(link, &fail_message); break; }
    case WIRE_FAIL_ACK: { DECODE(fail_ack); transfer_recv_fenced(link, &fail_ack_message); break; }
    case WIRE_ACK: {
      DECODE(ack);
      for (uint32_t i = 0; i < ack_message.ack_count; i++) transfer_piece_acked(link, &ack_message.acks[i]);
      break;
    }
    case WIRE_NACK: {
      DECODE(nack);
      transfer_piece_refused(link, &nack_message);
      kvf_error_free(nack_message.error);
      break;
    }
    case WIRE_REVOKE: break; /* the pieces that run into it say so with more detail */
    default: stats_counter_add(&transfer->counters->messages_refused, 1);
  }
  wire_scratch_reset(&scratch);
  return error;
}
