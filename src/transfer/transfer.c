/* The whole of an engine's transfers: set-up, turns, ticks. */
#include "transfer/transfer.h"

#include <kvferry/region.h>

#include "transfer/inside.h"

static bool cut_gather_buffers(struct transfer *transfer, const struct transfer_options *options) {
  uint64_t count = options->gather_bytes / options->piece_bytes;
  transfer->gather_free = base_alloc((count ? count : 1) * sizeof *transfer->gather_free);
  if (!transfer->gather_free) return false;
  for (uint64_t i = 0; i < count; i++)
    transfer->gather_free[transfer->gather_free_count++] = (char *)options->gather_memory + i * options->piece_bytes;
  return true;
}

kvf_status transfer_create(const struct transfer_options *options, struct transfer **transfer_out, kvf_error **error_out) {
  struct transfer *transfer = base_calloc(1, sizeof *transfer);
  if (!transfer) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the transfers"), error_out);
  transfer->host = options->host;
  transfer->log = options->log;
  transfer->counters = options->counters;
  transfer->way = options->way;
  transfer->piece_bytes = options->piece_bytes;
  transfer->window = options->window;
  transfer->standing_credit = options->standing_credit;
  transfer->retry_count = options->retry_count;
  transfer->retry_backoff_ns = options->retry_backoff_ns;
  transfer->progress_ns = options->progress_ns;
  transfer->room_ns = options->room_ns;
  transfer->rank_count = 1;
  transfer->next_plan = 1;
  struct base_list *lists[] = {&transfer->links, &transfer->sends, &transfer->recvs, &transfer->sends_over, &transfer->recvs_over, &transfer->parked};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) base_list_init(lists[i]);
  const struct arena_options arena = {
      .capacity_bytes = options->arena_bytes, .min_extent_bytes = base_min_u64(4096, options->piece_bytes), .starve_ns = 100 * BASE_NS_PER_MS};
  kvf_status status = arena_create(&arena, &transfer->arena, error_out);
  if (status == KVF_OK && !cut_gather_buffers(transfer, options))
    status = base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for gather buffers"), error_out);
  if (status != KVF_OK) {
    if (transfer->arena) arena_destroy(transfer->arena);
    base_free(transfer);
    return status;
  }
  *transfer_out = transfer;
  return KVF_OK;
}

void transfer_fabrics_set(struct transfer *transfer, struct fabric *const *fabrics, uint32_t fabric_count, const struct transfer_memory *arena) {
  for (uint32_t i = 0; i < fabric_count && i < TRANSFER_PROVIDER_LIMIT; i++) transfer->fabrics[transfer->fabric_count++] = fabrics[i];
  transfer->staging.memory = *arena;
  transfer_exposure_open(transfer, &transfer->staging);
}

kvf_status transfer_cache_set(struct transfer *transfer, const kvf_rank_planes *planes, uint32_t rank, uint32_t rank_count,
                              const struct transfer_memory *regions, uint32_t region_count, kvf_error **error_out) {
  struct transfer_exposure *pools = base_calloc(region_count, sizeof *pools);
  if (!pools) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the cache's regions"), error_out);
  transfer->on_device = region_count && regions[0].kind == KVF_MEMORY_CUDA;
  /* Nobody but our own GPU reaches such pages. */
  if (transfer->on_device) transfer->way = KVF_WAY_STAGED;
  for (uint32_t i = 0; i < region_count; i++) {
    pools[i].memory = regions[i];
    /* A rank that takes staged pieces only keeps its pools to itself. */
    if (transfer->way != KVF_WAY_STAGED) transfer_exposure_open(transfer, &pools[i]);
  }
  transfer->planes = *planes;
  transfer->rank = rank;
  transfer->rank_count = rank_count;
  transfer->pools = pools;
  transfer->pool_count = region_count;
  return KVF_OK;
}

bool transfer_rooms_over(const struct transfer *transfer) {
  return base_list_empty(&transfer->sends) && base_list_empty(&transfer->recvs) && base_list_empty(&transfer->sends_over) &&
         base_list_empty(&transfer->recvs_over);
}

bool transfer_quiet(const struct transfer *transfer) {
  return transfer_rooms_over(transfer) && base_list_empty(&transfer->links) && transfer->job_count == 0;
}

void transfer_cancel_all(struct transfer *transfer, const kvf_error *reason) {
  BASE_LIST_EACH(&transfer->sends, node) transfer_send_fail(BASE_CONTAINER(node, struct transfer_send, node), base_error_copy(reason), NULL);
  BASE_LIST_EACH(&transfer->recvs, node) transfer_recv_fail(BASE_CONTAINER(node, struct transfer_recv, node), base_error_copy(reason), NULL);
}

void transfer_fences_abandon(struct transfer *transfer) {
  BASE_LIST_EACH(&transfer->links, node) {
    struct transfer_link *link = BASE_CONTAINER(node, struct transfer_link, node);
    if (link->awaiting_fence) transfer_landing_token_lost(transfer, link->token);
  }
}

bool transfer_tick_is_due(struct transfer *transfer) {
  bool due = transfer->tick_due;
  transfer->tick_due = false;
  return due;
}

void transfer_destroy(struct transfer *transfer) {
  transfer_parked_free_all(transfer);
  transfer_exposure_close(transfer, &transfer->staging);
  for (uint32_t i = 0; i < transfer->pool_count; i++) transfer_exposure_close(transfer, &transfer->pools[i]);
  transfer_ended_free_all(transfer);
  base_map_fini(&transfer->links_by_token);
  base_map_fini(&transfer->sends_by_room);
  base_map_fini(&transfer->recvs_by_room);
  base_map_fini(&transfer->parked_by_room);
  arena_destroy(transfer->arena);
  base_free(transfer->pools);
  base_free(transfer->gather_free);
  base_free(transfer);
}

struct fabric_callbacks transfer_fabric_callbacks(struct transfer *transfer) {
  return (struct fabric_callbacks){.context = transfer,
                                   .place = transfer_landing_place,
                                   .landed = transfer_landing_landed,
                                   .token_lost = transfer_landing_token_lost,
                                   .sent = transfer_piece_sent,
                                   .endpoint_ready = transfer_route_ready,
                                   .endpoint_down = transfer_route_down};
}

void transfer_drain(struct transfer *transfer) { transfer->draining = true; }

void transfer_usage_get(const struct transfer *transfer, struct arena_usage *usage_out) { arena_usage_get(transfer->arena, usage_out); }

static void tell_sends_over(struct transfer *transfer) {
  while (!base_list_empty(&transfer->sends_over)) {
    struct transfer_send *send = BASE_CONTAINER(base_list_pop_front(&transfer->sends_over), struct transfer_send, node);
    stats_counters_room_ended(transfer->counters, kvf_error_status(send->error));
    kvf_error *error = base_error_copy(send->error);
    transfer_room_event(transfer, send->user, KVF_EVENT_SEND_END, send->room, send->user_tag, send->error, send->opened_ns, &send->result);
    send->error = error;
    transfer_send_free(send);
    kvf_error_free(error);
  }
}

static void tell_recvs_over(struct transfer *transfer) {
  while (!base_list_empty(&transfer->recvs_over)) {
    struct transfer_recv *recv = BASE_CONTAINER(base_list_pop_front(&transfer->recvs_over), struct transfer_recv, node);
    stats_counters_room_ended(transfer->counters, kvf_error_status(recv->error));
    transfer_room_event(transfer, recv->user, KVF_EVENT_RECV_END, recv->room, recv->user_tag, recv->error, recv->opened_ns, &recv->result);
    transfer_recv_free(recv);
  }
}

bool transfer_turn(struct transfer *transfer) {
  if (!transfer->turn_due) return false;
  transfer->turn_due = false;
  uint64_t now_ns = base_clock_ns();
  BASE_LIST_EACH(&transfer->links, node) {
    struct transfer_link *link = BASE_CONTAINER(node, struct transfer_link, node);
    transfer_route_turn(link);
    transfer_link_pump(link, now_ns);
  }
  tell_sends_over(transfer);
  tell_recvs_over(transfer);
  transfer_grants_pump(transfer);
  BASE_LIST_EACH(&transfer->links, node) {
    struct transfer_link *link = BASE_CONTAINER(node, struct transfer_link, node);
    transfer_link_flush(link);
    if (link->lost && !link->uses && !link->route.doomed) transfer_link_free(link);
  }
  return true;
}

/* A piece that only waits for a credit needs no clock. */
static bool has_failed_piece(const struct transfer_leg *leg) {
  BASE_LIST_EACH(&leg->waiting, node) {
    const struct transfer_piece *piece = BASE_CONTAINER(node, struct transfer_piece, node);
    if (piece->not_before_ns) return true;
  }
  return false;
}

static bool has_retries(const struct transfer *transfer) {
  BASE_LIST_EACH(&transfer->links, node) {
    const struct transfer_link *link = BASE_CONTAINER(node, struct transfer_link, node);
    if (link->route.state == ROUTE_BACKOFF && (link->flying || !base_list_empty(&link->ready))) return true;
  }
  BASE_LIST_EACH(&transfer->sends, node) {
    struct transfer_send *send = BASE_CONTAINER(node, struct transfer_send, node);
    BASE_LIST_EACH(&send->legs, leg_node) {
      if (has_failed_piece(BASE_CONTAINER(leg_node, struct transfer_leg, send_node))) return true;
    }
  }
  return false;
}

uint64_t transfer_tick(struct transfer *transfer, uint64_t now_ns) {
  BASE_LIST_EACH(&transfer->sends, node) transfer_send_tick(BASE_CONTAINER(node, struct transfer_send, node), now_ns);
  BASE_LIST_EACH(&transfer->recvs, node) transfer_recv_tick(BASE_CONTAINER(node, struct transfer_recv, node), now_ns);
  transfer_parked_expire(transfer, now_ns);
  if (has_retries(transfer)) {
    transfer->turn_due = true;
    return TRANSFER_RETRY_TICK_NS;
  }
  bool idle = base_list_empty(&transfer->sends) && base_list_empty(&transfer->recvs) && base_list_empty(&transfer->parked);
  return idle ? UINT64_MAX : TRANSFER_TICK_NS;
}
