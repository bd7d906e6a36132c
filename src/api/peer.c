/* kvf_peer_… */
#include <string.h>

#include "api/arguments.h"
#include "engine/engine.h"

kvf_status kvf_peer_connect(kvf_engine *engine, const char *const *addresses, size_t count, kvf_peer **peers_out, kvf_error **error_out) {
  if (!engine || !addresses || !peers_out) return api_null("engine, addresses or peers_out", error_out);
  if (engine_is_closed(engine)) return base_error_give(BASE_ERROR(KVF_CLOSED, NULL, "the engine is closed"), error_out);
  for (size_t i = 0; i < count; i++) {
    kvf_error *error = NULL;
    kvf_status status = addresses[i] ? engine_peer_connect(engine, addresses[i], &peers_out[i], &error) : api_null("an address", &error);
    if (status == KVF_OK) continue;
    base_error_add(error, "index", "%zu", i);
    for (size_t k = 0; k < i; k++) engine_peer_close(peers_out[k]);
    return base_error_give(error, error_out);
  }
  return KVF_OK;
}

void kvf_peer_close(kvf_peer *peer) {
  if (peer) engine_peer_close(peer);
}

kvf_status kvf_peer_query(kvf_peer *peer, kvf_peer_state *state_out, kvf_error **error_out) {
  if (!peer || !state_out) return api_null("peer or state_out", error_out);
  size_t given_bytes = state_out->struct_bytes;
  if (given_bytes < sizeof(size_t)) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "state_out->struct_bytes is not set"), error_out);
  kvf_peer_state state;
  engine_peer_query(peer, &state);
  memcpy(state_out, &state, given_bytes < sizeof state ? given_bytes : sizeof state);
  state_out->struct_bytes = given_bytes;
  return KVF_OK;
}
