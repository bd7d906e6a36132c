/* OPENs and FAILs that came before their send: kept for a while, a bounded number from each peer. */
#include <string.h>

#include "transfer/inside.h"

static void unlink_parked(struct transfer *transfer, struct transfer_parked *parked) {
  struct transfer_parked *first = base_map_get(&transfer->parked_by_room, parked->open.room);
  if (first == parked) {
    if (parked->next_same_room)
      base_map_put(&transfer->parked_by_room, parked->open.room, parked->next_same_room);
    else
      base_map_remove(&transfer->parked_by_room, parked->open.room);
  } else {
    while (first && first->next_same_room != parked) first = first->next_same_room;
    if (first) first->next_same_room = parked->next_same_room;
  }
  base_list_remove(&parked->node);
  parked->link->parked_count--;
  parked->link->uses--;
}

static void free_parked(struct transfer_parked *parked) {
  transfer_pages_fini(&parked->pages);
  kvf_error_free(parked->failure);
  base_free(parked);
}

static void refuse(struct transfer_link *link, uint64_t room, uint32_t opening, kvf_status status, const char *why) {
  kvf_error *error = base_error_add(BASE_ERROR(status, NULL, "%s", why), "room", "%llu", (unsigned long long)room);
  transfer_link_refuse_open(link, room, opening, error);
  kvf_error_free(error);
}

static struct transfer_parked *park(struct transfer_link *link, uint64_t room) {
  struct transfer *transfer = link->transfer;
  struct transfer_parked *parked = link->parked_count < TRANSFER_PARKED_PER_LINK ? base_calloc(1, sizeof *parked) : NULL;
  if (!parked) return NULL;
  struct transfer_parked *first = base_map_get(&transfer->parked_by_room, room);
  if (first) {
    parked->next_same_room = first->next_same_room;
    first->next_same_room = parked;
  } else if (!base_map_put(&transfer->parked_by_room, room, parked)) {
    base_free(parked);
    return NULL;
  }
  parked->link = link;
  parked->open.room = room;
  parked->parked_ns = base_clock_ns();
  base_list_push_back(&transfer->parked, &parked->node);
  link->parked_count++;
  transfer->tick_due = true;
  link->uses++;
  return parked;
}

/* What this peer said of the room before is overtaken. True when there was anything. */
static bool forget_earlier(struct transfer_link *link, uint64_t room) {
  struct transfer *transfer = link->transfer;
  bool found = false;
  for (struct transfer_parked *parked = base_map_get(&transfer->parked_by_room, room), *next; parked; parked = next) {
    next = parked->next_same_room;
    if (parked->link != link) continue;
    found = true;
    unlink_parked(transfer, parked);
    free_parked(parked);
  }
  return found;
}

void transfer_park_open(struct transfer_link *link, const struct wire_open *open) {
  forget_earlier(link, open->room);
  struct transfer_parked *parked = park(link, open->room);
  if (parked && transfer_pages_copy(&parked->pages, open->page_lists, open->page_list_count)) {
    parked->open = *open;
    for (uint32_t i = 0; i < open->page_list_count; i++)
      parked->open.page_lists[i] = parked->pages.lists[open->page_lists[i].page_list];
    return;
  }
  if (parked) {
    unlink_parked(link->transfer, parked);
    free_parked(parked);
  }
  refuse(link, open->room, open->opening, KVF_BACKPRESSURE, "too many rooms of this peer wait for their sender");
}

void transfer_park_failure(struct transfer_link *link, uint64_t room, bool known, kvf_error *error) {
  bool waited = forget_earlier(link, room);
  struct transfer_parked *parked = waited || !known ? park(link, room) : NULL;
  if (parked)
    parked->failure = error;
  else
    kvf_error_free(error);
}

void transfer_parked_deliver(struct transfer_send *send) {
  struct transfer *transfer = send->transfer;
  struct transfer_parked *parked;
  while ((parked = base_map_get(&transfer->parked_by_room, send->room))) {
    unlink_parked(transfer, parked);
    kvf_error *failure = parked->failure;
    parked->failure = NULL;
    if (failure)
      transfer_send_fail(send, transfer_peer_failed(parked->link, send->room, failure), parked->link);
    else
      transfer_send_opened_by(parked->link, &parked->open);
    free_parked(parked);
  }
}

void transfer_parked_drop_link(struct transfer *transfer, struct transfer_link *link) {
  BASE_LIST_EACH(&transfer->parked, node) {
    struct transfer_parked *parked = BASE_CONTAINER(node, struct transfer_parked, node);
    if (parked->link != link) continue;
    unlink_parked(transfer, parked);
    free_parked(parked);
  }
}

void transfer_parked_expire(struct transfer *transfer, uint64_t now_ns) {
  while (!base_list_empty(&transfer->parked)) {
    struct transfer_parked *parked = BASE_CONTAINER(transfer->parked.next, struct transfer_parked, node);
    if (now_ns - parked->parked_ns < TRANSFER_PARKED_TTL_NS) return;
    unlink_parked(transfer, parked);
    if (!parked->failure) refuse(parked->link, parked->open.room, parked->open.opening, KVF_UNKNOWN_ROOM, "the sender never opened this room");
    free_parked(parked);
  }
}

void transfer_parked_free_all(struct transfer *transfer) {
  while (!base_list_empty(&transfer->parked)) {
    struct transfer_parked *parked = BASE_CONTAINER(transfer->parked.next, struct transfer_parked, node);
    unlink_parked(transfer, parked);
    free_parked(parked);
  }
}
