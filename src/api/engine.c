/* kvf_engine_…: argument checks around the engine room. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "api/arguments.h"
#include "base/clock.h"
#include "engine/engine.h"

kvf_status kvf_engine_open(const kvf_engine_options *options, kvf_engine **engine_out, kvf_error **error_out) {
  kvf_engine_options checked;
  if (!engine_out) return api_null("engine_out", error_out);
  kvf_status status = api_options_copy(options, sizeof checked, sizeof(size_t), &checked, error_out);
  return status == KVF_OK ? engine_open(&checked, engine_out, error_out) : status;
}

void kvf_engine_close(kvf_engine *engine) {
  if (engine) engine_close(engine);
}

const char *kvf_engine_address(const kvf_engine *engine) { return engine ? engine_address(engine) : ""; }

void kvf_engine_incarnation(const kvf_engine *engine, uint8_t incarnation_out[16]) {
  if (engine) engine_incarnation(engine, incarnation_out);
}

kvf_status kvf_engine_drain(kvf_engine *engine, kvf_error **error_out) {
  if (!engine) return api_null("engine", error_out);
  engine_drain(engine);
  return KVF_OK;
}

kvf_status kvf_engine_stats_query(kvf_engine *engine, kvf_engine_stats *stats_out, kvf_error **error_out) {
  if (!engine || !stats_out) return api_null("engine or stats_out", error_out);
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  size_t given_bytes = stats_out->struct_bytes;
  if (given_bytes < sizeof(size_t)) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "stats_out->struct_bytes is not set"), error_out);
  engine_stats(engine, &stats);
  memcpy(stats_out, &stats, given_bytes < sizeof stats ? given_bytes : sizeof stats);
  stats_out->struct_bytes = given_bytes;
  return KVF_OK;
}

size_t kvf_engine_metrics_render(kvf_engine *engine, char *text, size_t capacity_bytes) {
  return engine ? engine_metrics(engine, text, capacity_bytes) : 0;
}

kvf_status kvf_engine_poll(kvf_engine *engine, kvf_event *events, size_t capacity, size_t *count_out, kvf_error **error_out) {
  if (!engine || !events || !count_out) return api_null("engine, events or count_out", error_out);
  *count_out = engine_poll(engine, events, capacity);
  return KVF_OK;
}

int kvf_engine_event_fd(const kvf_engine *engine) { return engine ? engine_event_fd(engine) : -1; }

kvf_status kvf_engine_wait(kvf_engine *engine, uint64_t timeout_ns, kvf_error **error_out) {
  if (!engine) return api_null("engine", error_out);
  uint64_t now_ns = base_clock_ns();
  uint64_t deadline_ns = timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
  struct pollfd waited = {.fd = engine_event_fd(engine), .events = POLLIN};
  for (;;) {
    uint64_t left_ms = (deadline_ns - now_ns + BASE_NS_PER_MS - 1) / BASE_NS_PER_MS;
    int ready = poll(&waited, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
    if (ready > 0) return KVF_OK;
    if (ready < 0 && errno != EINTR) return base_error_give(BASE_ERROR_ERRNO("poll", errno), error_out);
    now_ns = base_clock_ns();
    if (now_ns >= deadline_ns) return base_error_give(BASE_ERROR(KVF_TIMEOUT, NULL, "no event came"), error_out);
  }
}
