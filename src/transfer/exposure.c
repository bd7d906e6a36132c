/* Exposures: a range of our memory under a key on each one-sided provider, with a generation that rises each time it is made anew.
 * Message providers need no key, but they too refuse pieces for a staging that is not registered. */
#include "transfer/inside.h"

void transfer_exposure_open(struct transfer *transfer, struct transfer_exposure *exposure) {
  exposure->generation++;
  exposure->registered = true;
  for (uint32_t i = 0; i < transfer->fabric_count; i++) {
    const struct fabric_ops *ops = transfer->fabrics[i]->ops;
    exposure->on[i] = NULL;
    if (!(ops->traits & FABRIC_ONE_SIDED)) continue;
    const struct fabric_exposure wanted = {.region = exposure->memory.region,
                                           .generation = exposure->generation,
                                           .address = exposure->memory.address,
                                           .length = exposure->memory.length,
                                           .memory_fd = exposure->memory.memory_fd,
                                           .memory_fd_offset = exposure->memory.memory_fd_offset};
    kvf_error *error = NULL;
    if (ops->region_expose(transfer->fabrics[i], &wanted, &exposure->on[i], &error) == KVF_OK) continue;
    exposure->on[i] = NULL;
    base_log_write(&transfer->log, KVF_LOG_NOTICE, "region %u cannot be exposed over %s: %s", exposure->memory.region, ops->name,
                   kvf_error_message(error));
    kvf_error_free(error);
  }
}

void transfer_exposure_close(struct transfer *transfer, struct transfer_exposure *exposure) {
  exposure->registered = false;
  for (uint32_t i = 0; i < transfer->fabric_count; i++) {
    if (exposure->on[i]) exposure->on[i]->ops->region_revoke(exposure->on[i]);
    exposure->on[i] = NULL;
  }
}

static struct wire_text text_of(const char *text) {
  struct wire_text view = {.text = text};
  while (text[view.length]) view.length++;
  return view;
}

void transfer_exposure_encode(const struct transfer *transfer, const struct transfer_exposure *exposure, struct wire_buffer *frames) {
  for (uint32_t i = 0; i < transfer->fabric_count; i++) {
    if (!exposure->on[i]) continue;
    uint8_t key[FABRIC_KEY_LIMIT_BYTES];
    uint32_t key_bytes = (uint32_t)exposure->on[i]->ops->region_key(exposure->on[i], key);
    wire_expose_encode(frames, &(struct wire_expose){.provider = text_of(transfer->fabrics[i]->ops->name),
                                                     .region = exposure->memory.region,
                                                     .generation = exposure->generation,
                                                     .region_bytes = exposure->memory.length,
                                                     .key = key,
                                                     .key_bytes = key_bytes});
  }
}

static struct transfer_exposure *find_exposure(struct transfer *transfer, uint32_t region) {
  if (region == transfer->staging.memory.region) return &transfer->staging;
  for (uint32_t i = 0; i < transfer->pool_count; i++) {
    if (transfer->pools[i].memory.region == region) return &transfer->pools[i];
  }
  return NULL;
}

void transfer_exposure_refresh(struct transfer *transfer, const struct wire_refresh *refresh) {
  struct transfer_exposure *exposure = find_exposure(transfer, refresh->region);
  if (!exposure || (exposure == &transfer->staging && transfer->staging_lost)) return;
  /* Another peer's request may have renewed it already: then the asker only needs to hear it again. */
  if (refresh->generation >= exposure->generation || !exposure->registered) {
    transfer_exposure_close(transfer, exposure);
    transfer_exposure_open(transfer, exposure);
    base_log_write(&transfer->log, KVF_LOG_NOTICE, "region %u registered again, generation %llu: a peer reported %s",
                   exposure->memory.region, (unsigned long long)exposure->generation, kvf_status_name((kvf_status)refresh->reason));
  }
  BASE_LIST_EACH(&transfer->links, node) {
    struct transfer_link *link = BASE_CONTAINER(node, struct transfer_link, node);
    if (!link->lost) transfer_exposure_encode(transfer, exposure, transfer_link_out(link));
  }
}

kvf_error *transfer_exposure_missing(const struct transfer *transfer) {
  const struct transfer_exposure *staging = &transfer->staging;
  if (staging->registered) return NULL;
  kvf_error *error = BASE_ERROR(KVF_NOT_REGISTERED, NULL, "the staging that was granted is not registered");
  base_error_add(error, "region", "%u", staging->memory.region);
  base_error_add(error, "region_registered", "no");
  base_error_add(error, "region_base", "%p", staging->memory.address);
  base_error_add(error, "region_bytes", "%llu", (unsigned long long)staging->memory.length);
  return base_error_add(error, "region_generation", "%llu", (unsigned long long)staging->generation);
}

void transfer_staging_revoke(struct transfer *transfer, bool for_ever) {
  transfer->staging_lost = for_ever;
  transfer_exposure_close(transfer, &transfer->staging);
}
