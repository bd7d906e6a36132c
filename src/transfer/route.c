/* Our way to a peer: which provider, its endpoint, its keys, and the choice between the ways.
 * Candidates are tried in the engine's order; what was passed over, and why, is kept for people. */
#include <stdio.h>
#include <string.h>

#include "transfer/inside.h"

void transfer_route_init(struct transfer_link *link) {
  base_list_init(&link->route.keys);
  link->route.state = ROUTE_IDLE;
}

static const struct fabric_ops *candidate_ops(const struct transfer_link *link) {
  return link->transfer->fabrics[link->route.candidate]->ops;
}

static bool name_is(const struct wire_text *text, const char *name) {
  return text->length == strlen(name) && memcmp(text->text, name, text->length) == 0;
}

kvf_error *transfer_route_offer(struct transfer_link *link, const struct wire_offer *offer) {
  struct transfer_route *route = &link->route;
  route->peer_token = offer->token;
  for (uint32_t i = 0; i < link->transfer->fabric_count; i++) {
    for (uint32_t k = 0; k < offer->provider_count; k++) {
      if (!name_is(&offer->providers[k].name, link->transfer->fabrics[i]->ops->name)) continue;
      if (offer->providers[k].address_bytes > FABRIC_ADDRESS_LIMIT_BYTES) return BASE_ERROR(KVF_PROTOCOL, NULL, "provider address too long");
      memcpy(route->addresses[i].bytes, offer->providers[k].address, offer->providers[k].address_bytes);
      route->addresses[i].length = offer->providers[k].address_bytes;
    }
  }
  return NULL;
}

const struct transfer_key *transfer_route_find_key(const struct transfer_link *link, const char *provider, uint32_t region) {
  BASE_LIST_EACH(&link->route.keys, node) {
    struct transfer_key *key = BASE_CONTAINER(node, struct transfer_key, node);
    if (key->region == region && strcmp(key->provider, provider) == 0) return key;
  }
  return NULL;
}

static void import_key(struct transfer_link *link, struct transfer_key *key) {
  if (!link->route.endpoint || key->imported) return;
  const struct fabric_ops *ops = link->route.endpoint->ops;
  if (!ops->key_import || strcmp(ops->name, key->provider) != 0) return;
  key->imported = true;
  kvf_error *error = NULL;
  if (ops->key_import(link->route.endpoint, key->region, key->generation, key->region_bytes, key->bytes, key->length, &error) == KVF_OK)
    return;
  base_log_write(&link->transfer->log, KVF_LOG_WARNING, "key of region %u of %s refused: %s", key->region, link->label, kvf_error_message(error));
  kvf_error_free(error);
}

kvf_error *transfer_route_key(struct transfer_link *link, const struct wire_expose *expose) {
  if (expose->key_bytes > FABRIC_KEY_LIMIT_BYTES || expose->provider.length >= sizeof((struct transfer_key *)0)->provider)
    return BASE_ERROR(KVF_PROTOCOL, NULL, "key or provider name too long");
  struct transfer_key *key = NULL;
  BASE_LIST_EACH(&link->route.keys, node) {
    struct transfer_key *known = BASE_CONTAINER(node, struct transfer_key, node);
    if (known->region == expose->region && name_is(&expose->provider, known->provider)) key = known;
  }
  if (key && expose->generation < key->generation) return NULL;
  if (!key) {
    key = base_calloc(1, sizeof *key);
    if (!key) return BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a key");
    base_list_push_back(&link->route.keys, &key->node);
    memcpy(key->provider, expose->provider.text, expose->provider.length);
  }
  key->region = expose->region;
  key->generation = expose->generation;
  key->region_bytes = expose->region_bytes;
  key->length = expose->key_bytes;
  memcpy(key->bytes, expose->key, expose->key_bytes);
  key->imported = false;
  link->route.keys_due = true;
  transfer_link_dirty(link);
  return NULL;
}

static void import_keys(struct transfer_link *link) {
  if (link->mapped_jobs) return;
  link->route.keys_due = false;
  BASE_LIST_EACH(&link->route.keys, node) import_key(link, BASE_CONTAINER(node, struct transfer_key, node));
}

/* A one-sided provider needs at least the staging's key. */
static bool has_key_for(const struct transfer_link *link, const struct fabric_ops *ops) {
  if (!(ops->traits & FABRIC_ONE_SIDED)) return true;
  BASE_LIST_EACH(&link->route.keys, node) {
    if (strcmp(BASE_CONTAINER(node, struct transfer_key, node)->provider, ops->name) == 0) return true;
  }
  return false;
}

static void pass_over(struct transfer_link *link, const char *why) {
  struct transfer_route *route = &link->route;
  size_t used = strlen(route->passed_over);
  snprintf(route->passed_over + used, sizeof route->passed_over - used, "%s%s: %s", used ? "; " : "", candidate_ops(link)->name, why);
  route->candidate++;
  route->failures = 0;
}

static void try_candidate(struct transfer_link *link) {
  struct transfer_route *route = &link->route;
  const struct fabric_ops *ops = candidate_ops(link);
  const struct transfer_provider_address *address = &route->addresses[route->candidate];
  if (!address->length) return pass_over(link, "the peer does not offer it");
  if (!has_key_for(link, ops)) return pass_over(link, "the peer's staging cannot be exposed over it");
  kvf_error *error = NULL;
  kvf_status status = ops->connect(link->transfer->fabrics[route->candidate], address->bytes, address->length, route->peer_token, link,
                                   &route->endpoint, &error);
  if (status != KVF_OK) {
    route->endpoint = NULL;
    pass_over(link, kvf_error_message(error));
    kvf_error_free(route->error);
    route->error = error;
    return;
  }
  route->state = ROUTE_CONNECTING;
  route->epoch++;
  BASE_LIST_EACH(&route->keys, node) BASE_CONTAINER(node, struct transfer_key, node)->imported = false;
  import_keys(link);
}

/* Nothing reaches the peer: its rooms fail now, and the next room starts over with the first candidate. */
static void give_up(struct transfer_link *link) {
  struct transfer_route *route = &link->route;
  while (!base_list_empty(&link->ready)) {
    struct transfer_leg *leg = BASE_CONTAINER(link->ready.next, struct transfer_leg, ready_node);
    kvf_error *error = BASE_ERROR(KVF_UNREACHABLE, base_error_copy(route->error), "no fabric reaches %s", link->label);
    transfer_send_fail(leg->send, base_error_add(error, "passed_over", "%s", route->passed_over), NULL);
  }
  route->candidate = 0;
  route->failures = 0;
  route->passed_over[0] = '\0';
  route->state = ROUTE_IDLE;
}

void transfer_route_start(struct transfer_link *link, uint64_t now_ns) {
  struct transfer_route *route = &link->route;
  if (route->state == ROUTE_CONNECTING || route->state == ROUTE_READY || route->doomed) return;
  if (route->state == ROUTE_BACKOFF && now_ns < route->retry_at_ns) return;
  if (route->peer_token == 0) return;
  route->state = ROUTE_IDLE;
  while (route->state == ROUTE_IDLE && route->candidate < link->transfer->fabric_count) try_candidate(link);
  if (route->state == ROUTE_IDLE) give_up(link);
}

void transfer_route_ready(void *context, struct fabric_endpoint *endpoint) {
  struct transfer_link *link = endpoint->ops->endpoint_user(endpoint);
  struct transfer_route *route = &link->route;
  if (endpoint != route->endpoint) return;
  if (route->state != ROUTE_READY)
    base_log_write(&link->transfer->log, KVF_LOG_NOTICE, "pieces to %s go over %s%s%s", link->label, endpoint->ops->name,
                   route->passed_over[0] ? "; passed over: " : "", route->passed_over);
  route->state = ROUTE_READY;
  route->failures = 0;
  transfer_link_dirty(link);
}

static void enter_backoff(struct transfer_link *link) {
  struct transfer_route *route = &link->route;
  uint32_t doublings = route->failures < 6 ? route->failures : 6;
  route->state = ROUTE_BACKOFF;
  link->transfer->tick_due = true;
  route->retry_at_ns = base_clock_ns() + (link->transfer->retry_backoff_ns << doublings);
  transfer_link_dirty(link);
}

void transfer_route_down(void *context, struct fabric_endpoint *endpoint, kvf_error *error) {
  struct transfer_link *link = endpoint->ops->endpoint_user(endpoint);
  struct transfer_route *route = &link->route;
  if (endpoint != route->endpoint) {
    kvf_error_free(error);
    return;
  }
  route->endpoint = NULL;
  route->doomed = endpoint;
  transfer_pieces_unacked_fail(link, error);
  kvf_error_free(route->error);
  route->error = error;
  if (++route->failures > link->transfer->retry_count) pass_over(link, kvf_error_message(error));
  enter_backoff(link);
}

void transfer_route_turn(struct transfer_link *link) {
  struct fabric_endpoint *doomed = link->route.doomed;
  if (link->mapped_jobs) return;
  if (link->route.keys_due) import_keys(link);
  if (!doomed) return;
  link->route.doomed = NULL;
  doomed->ops->disconnect(doomed);
}

void transfer_route_reset(struct transfer_link *link) {
  struct transfer_route *route = &link->route;
  if (!route->endpoint) return;
  route->doomed = route->endpoint;
  route->endpoint = NULL;
  kvf_error *error = BASE_ERROR(KVF_CANCELLED, NULL, "the connection to %s was cut", link->label);
  transfer_pieces_unacked_fail(link, error);
  kvf_error_free(error);
  enter_backoff(link);
}

void transfer_route_fini(struct transfer_link *link) {
  struct transfer_route *route = &link->route;
  transfer_route_turn(link);
  if (route->endpoint) route->endpoint->ops->disconnect(route->endpoint);
  route->endpoint = NULL;
  while (!base_list_empty(&route->keys)) base_free(BASE_CONTAINER(base_list_pop_front(&route->keys), struct transfer_key, node));
  kvf_error_free(route->error);
  route->error = NULL;
}

bool transfer_route_is_mappable(const struct transfer_link *link) { return link->route.endpoint->ops->traits & FABRIC_MAPPABLE; }

/* The target planes of a plan at the addresses where the peer's pools are mapped here.
 * Errors: NOT_READY (a mapping is on its way), and whatever says that there is none. */
static kvf_status map_planes(struct transfer_leg *leg, kvf_error **error_out) {
  struct transfer_link *link = leg->link;
  struct transfer_plan *plan = leg->plan;
  const struct fabric_ops *ops = link->route.endpoint->ops;
  kvf_plane *planes = base_alloc(link->planes.plane_count * sizeof *planes);
  if (!planes) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for mapped planes"), error_out);
  memcpy(planes, link->planes.planes, link->planes.plane_count * sizeof *planes);
  for (uint32_t i = 0; i < plan->cuts.count; i++) {
    uint32_t index = plan->cuts.cuts[i].target_plane;
    const struct transfer_key *key = transfer_route_find_key(link, ops->name, link->plane_regions[index]);
    uint64_t extent = 0;
    void *mapped = NULL;
    if (!key || !layout_plane_extent(&planes[index], &extent)) {
      base_free(planes);
      return base_error_give(BASE_ERROR(KVF_NOT_REGISTERED, NULL, "the peer's pool is not exposed over %s", ops->name), error_out);
    }
    const struct fabric_target target = {
        .region = key->region, .generation = key->generation, .offset = link->planes.planes[index].address, .length = extent};
    kvf_status status = ops->map(link->route.endpoint, &target, &mapped, error_out);
    if (status != KVF_OK) {
      base_free(planes);
      return status;
    }
    planes[index].address = (uintptr_t)mapped;
  }
  base_free(plan->mapped_planes);
  plan->mapped_planes = planes;
  plan->mapped_link = plan->link;
  plan->mapped_link.target_planes = planes;
  return KVF_OK;
}

kvf_status transfer_route_choose_way(struct transfer_leg *leg, kvf_error **error_out) {
  struct transfer_link *link = leg->link;
  struct transfer_plan *plan = leg->plan;
  if (plan->choice_epoch == link->route.epoch) return KVF_OK;
  const struct fabric_ops *ops = link->route.endpoint->ops;
  struct plan_way_facts facts = {.demanded = link->transfer->way,
                                 .row_bytes = plan->row_bytes,
                                 .direct_min_row_bytes = ops->direct_min_row_bytes};
  kvf_error *error = NULL;
  if (link->transfer->on_device) {
    facts.demanded = KVF_WAY_AUTO;
    facts.why_not_direct = "our pages are in CUDA memory";
  } else if (!(ops->traits & FABRIC_DIRECT)) {
    facts.why_not_direct = "the fabric cannot write into pages";
  } else if (link->checksum) {
    facts.why_not_direct = "checksums are on, and nobody could check bytes that go straight into pages";
  } else if (!leg->may_direct) {
    facts.why_not_direct = "the receiver takes staged pieces only";
  } else if ((ops->traits & FABRIC_MAPPABLE) && facts.demanded != KVF_WAY_STAGED) {
    kvf_status status = map_planes(leg, &error);
    if (status == KVF_NOT_READY) return base_error_give(error, error_out);
    facts.can_direct = status == KVF_OK;
    facts.why_not_direct = kvf_error_message(error);
  } else {
    facts.can_direct = 1;
  }
  kvf_status status = plan_way_choose(&facts, &plan->choice, error_out);
  kvf_error_free(error);
  if (status == KVF_OK) plan->choice_epoch = link->route.epoch;
  return status;
}
