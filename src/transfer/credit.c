/* Credits: the receiver's arena speaks GRANT, the sender holds what it was granted and says how much it wants. */
#include "transfer/inside.h"

static struct transfer_link *find_party(struct transfer *transfer, uint64_t party) {
  BASE_LIST_EACH(&transfer->links, node) {
    struct transfer_link *link = BASE_CONTAINER(node, struct transfer_link, node);
    if (link->party == party) return link;
  }
  return NULL;
}

void transfer_grants_pump(struct transfer *transfer) {
  struct arena_grant grant;
  while (arena_grant_next(transfer->arena, base_clock_ns(), &grant)) {
    struct transfer_link *link = find_party(transfer, grant.party);
    if (!link || link->lost) {
      arena_return(transfer->arena, grant.party, grant.id, grant.generation);
      return;
    }
    const struct wire_grant_entry entry = {.id = grant.id, .generation = grant.generation, .offset = grant.offset, .length = grant.length};
    const struct transfer_exposure *staging = &transfer->staging;
    wire_grant_encode(transfer_link_out(link), &(struct wire_grant){.region = staging->memory.region,
                                                                    .region_generation = staging->generation,
                                                                    .region_base = (uintptr_t)staging->memory.address,
                                                                    .region_bytes = staging->memory.length,
                                                                    .want_sequence = link->peer_want_sequence,
                                                                    .grant_count = 1,
                                                                    .grants = &entry});
  }
}

kvf_error *transfer_credit_granted(struct transfer_link *link, const struct wire_grant *grant) {
  uint32_t need = link->credit_count + grant->grant_count;
  if (need > 65536) return BASE_ERROR(KVF_PROTOCOL, NULL, "more grants than were wanted");
  if (need > link->credit_capacity) {
    struct transfer_credit *grown = base_realloc(link->credits, need * 2 * sizeof *grown);
    if (!grown) return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for %u grants", need);
    link->credits = grown;
    link->credit_capacity = need * 2;
  }
  /* Nothing is wanted any more, and the receiver did not know it yet: what comes with the present WANT's number is standing credit. */
  bool overtaken = link->level == 0 && grant->want_sequence != link->want_sequence;
  for (uint32_t i = 0; i < grant->grant_count; i++) {
    const struct wire_grant_entry *entry = &grant->grants[i];
    link->credits[link->credit_count++] =
        (struct transfer_credit){.id = entry->id, .generation = entry->generation, .offset = entry->offset, .length = entry->length};
  }
  link->staging_region = grant->region;
  link->staging_generation = grant->region_generation;
  link->staging_base = grant->region_base;
  link->staging_bytes = grant->region_bytes;
  if (overtaken) transfer_credit_drop_all(link);
  transfer_link_dirty(link);
  return NULL;
}

bool transfer_credit_take(struct transfer_link *link, uint64_t bytes, struct transfer_credit *credit_out) {
  if (!link->credit_count || link->credits[link->credit_count - 1].length < bytes) return false;
  *credit_out = link->credits[--link->credit_count];
  return true;
}

void transfer_credit_give_back(struct transfer_link *link, const struct transfer_credit *credit) {
  if (link->lost) return;
  const struct wire_return_entry entry = {.id = credit->id, .generation = credit->generation};
  wire_return_encode(transfer_link_out(link), &(struct wire_return){.grant_count = 1, .grants = &entry});
}

void transfer_credit_drop_all(struct transfer_link *link) {
  while (link->credit_count) transfer_credit_give_back(link, &link->credits[--link->credit_count]);
}

void transfer_credit_want(struct transfer_link *link, uint32_t level) {
  if (link->level == level || link->lost) return;
  link->level = level;
  wire_want_encode(transfer_link_out(link), &(struct wire_want){.level = level, .sequence = ++link->want_sequence});
}
