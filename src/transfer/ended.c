/* The last sends that failed, for ranks that open them late. */
#include "transfer/inside.h"

static const struct transfer_told *find_told(const struct transfer_ended *ended, uint64_t party) {
  for (uint32_t i = 0; i < ended->told_count; i++) {
    if (ended->told[i].party == party) return &ended->told[i];
  }
  return NULL;
}

static void free_slot(struct transfer_ended *ended) {
  kvf_error_free(ended->error);
  base_free(ended->told);
  *ended = (struct transfer_ended){0};
}

static struct transfer_ended *find(const struct transfer *transfer, uint64_t room) {
  for (int i = 0; i < TRANSFER_ENDED_KEPT; i++) {
    if (transfer->ended[i].error && transfer->ended[i].room == room) return (struct transfer_ended *)&transfer->ended[i];
  }
  return NULL;
}

void transfer_ended_remember(struct transfer_send *send) {
  struct transfer *transfer = send->transfer;
  if (!send->error) return;
  struct transfer_ended *ended = find(transfer, send->room);
  if (!ended) ended = &transfer->ended[transfer->ended_next++ % TRANSFER_ENDED_KEPT];
  free_slot(ended);
  /* Nobody knows yet how many ranks the other side has before the first has opened the room. */
  uint32_t limit = send->receiver_count ? send->receiver_count : 64;
  struct transfer_told *told = base_alloc(limit * sizeof *told);
  if (!told) return;
  *ended = (struct transfer_ended){.room = send->room, .error = base_error_copy(send->error), .told = told, .told_limit = limit};
  BASE_LIST_EACH(&send->legs, node) {
    const struct transfer_leg *leg = BASE_CONTAINER(node, struct transfer_leg, send_node);
    if (ended->told_count < limit) told[ended->told_count++] = (struct transfer_told){.party = leg->link->party, .opening = leg->opening};
  }
}

const kvf_error *transfer_ended_untold(struct transfer_link *link, uint64_t room, uint32_t opening) {
  struct transfer_ended *ended = find(link->transfer, room);
  if (!ended || find_told(ended, link->party) || ended->told_count == ended->told_limit) return NULL;
  ended->told[ended->told_count++] = (struct transfer_told){.party = link->party, .opening = opening};
  return ended->error;
}

bool transfer_ended_is_known(const struct transfer_link *link, uint64_t room, uint32_t opening) {
  const struct transfer_ended *ended = find(link->transfer, room);
  const struct transfer_told *told = ended ? find_told(ended, link->party) : NULL;
  return told && told->opening >= opening;
}

void transfer_ended_free_all(struct transfer *transfer) {
  for (int i = 0; i < TRANSFER_ENDED_KEPT; i++) free_slot(&transfer->ended[i]);
}
