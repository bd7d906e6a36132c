/* What the api room asks of the engine. Arguments are checked by the api; handles are counted there too. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <kvferry/kvferry.h>

#include "transfer/transfer.h"

/* The options with their defaults filled in; strings are owned. */
struct engine_config {
  char *listen, *label, *fabrics, *secret, *control_fault;
  bool checksum;
  uint32_t way, copy_threads, window, standing_credit, retry_count, event_capacity;
  uint64_t arena_bytes, gather_bytes, piece_bytes;
  uint64_t retry_backoff_ns, handshake_ns, heartbeat_ns, progress_ns, room_ns;
};

enum { ENGINE_ARENA_LEAST_BYTES = 64 << 10, ENGINE_PIECE_LEAST_BYTES = 16 << 10 };

kvf_status engine_open(const kvf_engine_options *options, kvf_engine **engine_out, kvf_error **error_out);
/* Stops the threads; the shell lives on until the last handle is closed. */
void engine_close(kvf_engine *engine);
bool engine_is_closed(kvf_engine *engine);

kvf_status engine_region_open(kvf_engine *engine, const kvf_region_options *options, kvf_region **region_out, kvf_error **error_out);
void engine_region_close(kvf_region *region);
kvf_status engine_cache_open(kvf_engine *engine, const kvf_cache_options *options, kvf_cache **cache_out, kvf_error **error_out);
void engine_cache_close(kvf_cache *cache);
/* NULL before the cache is open. Immutable afterwards. */
const kvf_rank_planes *engine_planes(kvf_engine *engine);

kvf_status engine_peer_connect(kvf_engine *engine, const char *address, kvf_peer **peer_out, kvf_error **error_out);
void engine_peer_close(kvf_peer *peer);
void engine_peer_query(kvf_peer *peer, kvf_peer_state *state_out);

kvf_status engine_send_open(kvf_engine *engine, const kvf_send_options *options, kvf_send **send_out, kvf_error **error_out);
kvf_status engine_send_post(kvf_send *send, const kvf_chunk *chunk, kvf_error **error_out);
kvf_status engine_send_cancel(kvf_send *send, kvf_error **error_out);
void engine_send_close(kvf_send *send);
kvf_engine *engine_send_engine(const kvf_send *send);

kvf_status engine_recv_open(kvf_engine *engine, const kvf_recv_options *options, kvf_recv **recv_out, kvf_error **error_out);
kvf_status engine_recv_aux(const kvf_recv *recv, const void **aux_out, uint64_t *aux_bytes_out, kvf_error **error_out);
kvf_status engine_recv_cancel(kvf_recv *recv, kvf_error **error_out);
void engine_recv_close(kvf_recv *recv);

size_t engine_poll(kvf_engine *engine, kvf_event *events, size_t capacity);
int engine_event_fd(const kvf_engine *engine);
const char *engine_address(const kvf_engine *engine);
void engine_incarnation(const kvf_engine *engine, uint8_t incarnation_out[16]);
void engine_drain(kvf_engine *engine);
void engine_stats(kvf_engine *engine, kvf_engine_stats *stats_out);
size_t engine_metrics(kvf_engine *engine, char *text, size_t capacity_bytes);

/* For tests: run @p call on the I/O thread and wait for it. */
void engine_call(kvf_engine *engine, void (*call)(struct transfer *transfer, void *argument), void *argument);

#endif
