/* Ranking. Owning is a matching: every GPU has slots, and a slot may take a device at the least distance that its GPU has. Slots are
 * filled one after the other, moving earlier ones along when that makes place; the load that a device may bear is raised only when no
 * such move is left. So the fullest device is as empty as it can be, and the outcome depends on the table alone. */
#include "topology/topology.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SLOT_LIMIT = TOPOLOGY_GPU_LIMIT * TOPOLOGY_NIC_LIMIT, FREE = UINT16_MAX };

struct match {
  const struct topology *topology;
  bool usable[TOPOLOGY_NIC_LIMIT], seen[TOPOLOGY_NIC_LIMIT];
  uint8_t nearest[TOPOLOGY_GPU_LIMIT]; /* the farthest distance at which a GPU may own: see find_reach */
  uint32_t load[TOPOLOGY_NIC_LIMIT], capacity, slots_each, usable_count;
  uint16_t taken[SLOT_LIMIT]; /* [gpu][slot]: a device, or FREE */
};

static void warn(struct topology_warnings *warnings, enum topology_concern concern, uint32_t nic) {
  const uint32_t limit = sizeof warnings->list / sizeof *warnings->list;
  if (warnings->count < limit) warnings->list[warnings->count] = (struct topology_warning){concern, nic};
  warnings->count++;
}

static uint8_t distance_of(const struct topology *topology, uint32_t gpu, uint32_t nic) {
  return topology->distances[(size_t)gpu * topology->nic_count + nic];
}

static bool is_valid(const struct topology *topology) {
  if (!topology->nic_count || topology->nic_count > TOPOLOGY_NIC_LIMIT) return false;
  if (!topology->gpu_count || topology->gpu_count > TOPOLOGY_GPU_LIMIT) return false;
  for (size_t i = 0; i < (size_t)topology->gpu_count * topology->nic_count; i++)
    if (topology->distances[i] > TOPOLOGY_UNKNOWN) return false;
  return true;
}

static void choose_usable(struct match *match, struct topology_warnings *warnings) {
  const struct topology *topology = match->topology;
  uint64_t fastest = 0;
  bool front_end_only = true;
  for (uint32_t i = 0; i < topology->nic_count; i++) front_end_only = front_end_only && topology->nics[i].front_end;
  for (uint32_t i = 0; i < topology->nic_count; i++) {
    if (topology->nics[i].front_end && !front_end_only) continue;
    if (topology->nics[i].speed_mbps > fastest) fastest = topology->nics[i].speed_mbps;
  }
  if (front_end_only) warn(warnings, TOPOLOGY_ONLY_FRONT_END, UINT32_MAX);
  for (uint32_t i = 0; i < topology->nic_count; i++) {
    const struct topology_nic *nic = &topology->nics[i];
    bool left_out = nic->front_end && !front_end_only, slow = nic->speed_mbps && nic->speed_mbps < fastest / 2;
    match->usable[i] = !left_out && !slow;
    match->usable_count += match->usable[i];
    if (left_out)
      warn(warnings, TOPOLOGY_FRONT_END_LEFT_OUT, i);
    else if (slow)
      warn(warnings, TOPOLOGY_SLOW_LEFT_OUT, i);
  }
}

/* The least distance within which a GPU sees at least one usable device. */
static void find_reach(struct match *match) {
  for (uint32_t gpu = 0; gpu < match->topology->gpu_count; gpu++) {
    match->nearest[gpu] = TOPOLOGY_UNKNOWN;
    for (uint32_t nic = 0; nic < match->topology->nic_count; nic++) {
      uint8_t distance = distance_of(match->topology, gpu, nic);
      if (match->usable[nic] && distance < match->nearest[gpu]) match->nearest[gpu] = distance;
    }
  }
}

static bool owns(const struct match *match, uint32_t gpu, uint32_t nic) {
  for (uint32_t i = 0; i < match->slots_each; i++)
    if (match->taken[gpu * match->slots_each + i] == nic) return true;
  return false;
}

/* Find a device for @p slot, moving others along if need be. */
static bool place(struct match *match, uint32_t slot) {
  const struct topology *topology = match->topology;
  uint32_t gpu = slot / match->slots_each;
  for (uint32_t step = 0; step < topology->nic_count; step++) {
    uint32_t nic = (gpu + step) % topology->nic_count; /* GPUs that see the same devices begin at different ones */
    if (!match->usable[nic] || match->seen[nic] || owns(match, gpu, nic)) continue;
    if (distance_of(topology, gpu, nic) != match->nearest[gpu]) continue;
    match->seen[nic] = true;
    bool free = match->load[nic] < match->capacity;
    for (uint32_t other = 0; !free && other < topology->gpu_count * match->slots_each; other++) {
      if (match->taken[other] != nic || other / match->slots_each == gpu) continue;
      free = place(match, other); /* which leaves this device */
    }
    if (!free) continue;
    if (match->taken[slot] != FREE) match->load[match->taken[slot]]--;
    match->taken[slot] = (uint16_t)nic;
    match->load[nic]++;
    return true;
  }
  return false;
}

/* A slot that its GPU's nearest devices cannot fill, however full they may be, stays free. */
static void match_slots(struct match *match) {
  uint32_t count = match->topology->gpu_count * match->slots_each;
  for (uint32_t i = 0; i < count; i++) match->taken[i] = FREE;
  for (match->capacity = 1; match->capacity <= count; match->capacity++) {
    for (uint32_t slot = 0; slot < count; slot++) {
      memset(match->seen, 0, sizeof match->seen);
      if (match->taken[slot] == FREE) place(match, slot);
    }
  }
}

/* Is @p a a better device to fall back to for @p gpu than @p b? */
static bool is_better(const struct match *match, uint32_t gpu, uint32_t a, uint32_t b) {
  uint8_t near_a = distance_of(match->topology, gpu, a), near_b = distance_of(match->topology, gpu, b);
  uint32_t count = match->topology->nic_count;
  if (near_a != near_b) return near_a < near_b;
  if (match->load[a] != match->load[b]) return match->load[a] < match->load[b];
  return (a + count - gpu % count) % count < (b + count - gpu % count) % count;
}

static void write_ranking(const struct match *match, uint32_t gpu, struct topology_ranking *ranking) {
  *ranking = (struct topology_ranking){0};
  for (uint32_t nic = 0; nic < match->topology->nic_count; nic++)
    if (owns(match, gpu, nic)) ranking->nics[ranking->count++] = nic;
  ranking->own_count = ranking->count;
  for (uint32_t nic = 0; nic < match->topology->nic_count; nic++) {
    if (!match->usable[nic] || owns(match, gpu, nic)) continue;
    uint32_t at = ranking->count++;
    for (; at > ranking->own_count && is_better(match, gpu, nic, ranking->nics[at - 1]); at--) ranking->nics[at] = ranking->nics[at - 1];
    ranking->nics[at] = nic;
  }
}

static void warn_of_outcome(const struct match *match, struct topology_warnings *warnings) {
  bool unknown = false;
  for (uint32_t gpu = 0; gpu < match->topology->gpu_count; gpu++) unknown = unknown || match->nearest[gpu] == TOPOLOGY_UNKNOWN;
  if (unknown) warn(warnings, TOPOLOGY_DISTANCE_UNKNOWN, UINT32_MAX);
  if (match->usable_count > match->topology->gpu_count * match->slots_each) return; /* more than GPUs can own: as it must be */
  for (uint32_t nic = 0; nic < match->topology->nic_count; nic++)
    if (match->usable[nic] && match->load[nic] == 0) warn(warnings, TOPOLOGY_NIC_IDLE, nic);
}

kvf_status topology_rank(const struct topology *topology, struct topology_ranking *rankings_out, struct topology_warnings *warnings_out) {
  struct match match = {.topology = topology};
  struct topology_warnings warnings = {0};
  if (!is_valid(topology)) return KVF_INVALID;
  choose_usable(&match, &warnings);
  assert(match.usable_count > 0); /* the fastest is never slow */
  match.slots_each = match.usable_count / topology->gpu_count;
  if (match.slots_each == 0) match.slots_each = 1;
  find_reach(&match);
  match_slots(&match);
  for (uint32_t gpu = 0; gpu < topology->gpu_count; gpu++) write_ranking(&match, gpu, &rankings_out[gpu]);
  warn_of_outcome(&match, &warnings);
  *warnings_out = warnings;
  return KVF_OK;
}

static bool has_rail(const struct topology *topology, uint32_t rail) {
  for (uint32_t i = 0; i < topology->nic_count; i++)
    if (!topology->nics[i].front_end && topology->nics[i].rail == rail) return true;
  return false;
}

void topology_check_peer(const struct topology *topology, const struct topology_ranking *rankings, const struct topology *peer,
                         struct topology_warnings *warnings) {
  bool owned[TOPOLOGY_NIC_LIMIT] = {false};
  for (uint32_t gpu = 0; gpu < topology->gpu_count; gpu++)
    for (uint32_t i = 0; i < rankings[gpu].own_count; i++) owned[rankings[gpu].nics[i]] = true;
  for (uint32_t nic = 0; nic < topology->nic_count; nic++) {
    uint32_t rail = topology->nics[nic].rail;
    if (owned[nic] && rail != TOPOLOGY_RAIL_NONE && !has_rail(peer, rail)) warn(warnings, TOPOLOGY_PEER_RAIL_MISSING, nic);
  }
}

const char *topology_warning_describe(const struct topology *topology, const struct topology_warning *warning, char *text,
                                      size_t capacity_bytes) {
  static const char *const sentences[] = {
      [TOPOLOGY_FRONT_END_LEFT_OUT] = "left out: it belongs to the front end",
      [TOPOLOGY_SLOW_LEFT_OUT] = "left out: slower than half of the fastest",
      [TOPOLOGY_ONLY_FRONT_END] = "there are only front-end devices, so they are used",
      [TOPOLOGY_NIC_IDLE] = "idle: every GPU has nearer devices",
      [TOPOLOGY_DISTANCE_UNKNOWN] = "the distance from a GPU to its devices is unknown, so they are dealt out in turn",
      [TOPOLOGY_PEER_RAIL_MISSING] = "the peer has no device on this one's rail",
  };
  const char *name = warning->nic < topology->nic_count ? topology->nics[warning->nic].name : NULL;
  snprintf(text, capacity_bytes, "%s%s%s", name ? name : "", name ? " " : "", sentences[warning->concern]);
  return text;
}
