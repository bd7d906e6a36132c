/* The engine: one per rank. It owns the I/O thread, the copy threads, the staging arena and every connection. */
#ifndef KVFERRY_ENGINE_H
#define KVFERRY_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/error.h>
#include <kvferry/log.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_engine kvf_engine;

enum { KVF_WAY_AUTO = 0, KVF_WAY_STAGED = 1, KVF_WAY_DIRECT = 2 };

typedef struct kvf_engine_options {
  size_t struct_bytes;
  const char *listen;          /* "host:port"; port 0 takes a free one. NULL = "127.0.0.1:0". */
  const char *label;           /* for people only: appears in errors and metrics. NULL = "rank-<pid>" */
  const char *fabrics;         /* "auto", or providers in order of preference: "shm,ucx,tcp". A list is a demand:
                                  a provider that is named and cannot be opened is an error. NULL = "auto". */
  const char *secret;          /* shared secret; NULL = none. Both sides must agree. */
  uint32_t way;                /* KVF_WAY_…; anything but AUTO is a demand */
  uint32_t copy_threads;       /* 0 = 1 */
  uint64_t arena_bytes;        /* receive staging; rounded down to a power of two; 0 = 64 MiB, least 64 KiB */
  uint64_t gather_bytes;       /* send staging; 0 = 16 MiB, least 64 KiB */
  uint64_t piece_bytes;        /* largest piece; rounded down to a power of two; 0 = 256 KiB, least 16 KiB */
  uint32_t window;             /* pieces in flight to one peer; 0 = 8 */
  uint32_t standing_credit;    /* extents granted to a peer before it asks; 0 = 2 */
  uint32_t retry_count;        /* further attempts of a failed piece; 0 = 2, UINT32_MAX = none */
  uint32_t event_capacity;     /* 0 = 4096 */
  uint64_t retry_backoff_ns;   /* before the first further attempt, doubled each time; 0 = 10 ms */
  uint64_t handshake_ns;       /* connect and handshake; 0 = 5 s */
  uint64_t heartbeat_ns;       /* silence after which a peer is asked; lost after four of them; 0 = 200 ms */
  uint64_t progress_ns;        /* a room with no byte moved for this long fails; 0 = 30 s */
  uint64_t room_ns;            /* a room fails after this long in any case; 0 = 10 min */
  kvf_log_sink log_sink;       /* NULL = silent */
  void *log_context;
  int32_t log_level;           /* 0 = KVF_LOG_WARNING */
  uint32_t checksum;           /* 1: pieces to and from this rank carry a checksum, which the receiver checks before it scatters. A damaged
                                  piece is sent again, and at last the room fails with CORRUPT. Such rooms take the staged way: with way = DIRECT
                                  INVALID. One side asking is enough */
  const char *control_fault;   /* for tests: control frames to lose, repeat, delay, …, "drop:OPEN:out:1"; docs/testing.md.
                                  NULL = none */
} kvf_engine_options;

#define KVF_ENGINE_OPTIONS_INIT {sizeof(kvf_engine_options)}

/** Open an engine: bind, listen, allocate staging, load providers, start the threads.
 *  Ownership: copies everything in @p options except log_context. Returns owned; kvf_engine_close it.
 *  Blocks: for the set-up only.
 *  Errors: INVALID, BAD_ADDRESS, SYSTEM (bind and others), NO_MEMORY, RESOURCE_LIMIT, UNAVAILABLE (a demanded provider). */
KVF_API kvf_status kvf_engine_open(const kvf_engine_options *options, kvf_engine **engine_out, kvf_error **error_out);

/** Stop the threads and free everything: rooms end as CANCELLED on the other side, live handles become dead and must
 *  still be closed. After it returns nothing reads or writes registered memory. NULL is fine. Blocks: until quiet. */
KVF_API void kvf_engine_close(kvf_engine *engine);

/** Where the engine listens, as bound: "127.0.0.1:40123". Owned by @p engine. Threads: any. */
KVF_API const char *kvf_engine_address(const kvf_engine *engine);

/** The random 128-bit identity of this process start. */
KVF_API void kvf_engine_incarnation(const kvf_engine *engine, uint8_t incarnation_out[16]);

/** Refuse new rooms with DRAINING; running ones go on. Threads: any. Blocks: never. */
KVF_API kvf_status kvf_engine_drain(kvf_engine *engine, kvf_error **error_out);

typedef struct kvf_engine_stats {
  size_t struct_bytes;
  uint64_t rooms_done, rooms_failed, rooms_cancelled; /* each side counts its own rooms */
  uint64_t bytes_sent, bytes_received;                /* payload, acknowledged */
  uint64_t pieces_sent, pieces_received;              /* bulk writes */
  uint64_t slices_replaced;                           /* contiguous runs that the bulk writes stood for */
  uint64_t pieces_retried, pieces_failed;
  uint64_t grant_wait_ns, gather_ns, write_ns, scatter_ns; /* summed over pieces */
  uint64_t arena_capacity_bytes, arena_used_bytes, arena_peak_bytes;
  uint64_t peers_up, peers_lost;
  uint64_t regions, region_bytes;
  uint64_t control_bytes_sent, control_bytes_received;
  uint64_t messages_refused; /* stale, unknown or malformed, dropped and counted */
  uint64_t peers_partial;    /* peers that came up with a component left out by agreement */
  uint64_t peers_suspect;    /* peers that are up and have left a heartbeat unanswered */
  uint64_t peer_silence_ns;  /* of the one of them that was heard of least recently; 0 = all answer */
  uint64_t pieces_corrupt;   /* arrived damaged, as their checksum told */
} kvf_engine_stats;

#define KVF_ENGINE_STATS_INIT {sizeof(kvf_engine_stats)}

/** Read the counters. They may be a few microseconds apart. Errors: INVALID. Threads: any. Blocks: never for long. */
KVF_API kvf_status kvf_engine_stats_query(kvf_engine *engine, kvf_engine_stats *stats_out, kvf_error **error_out);

/** Render the metrics as Prometheus text, like snprintf: returns the bytes needed without the NUL. Threads: any. */
KVF_API size_t kvf_engine_metrics_render(kvf_engine *engine, char *text, size_t capacity_bytes);

#ifdef __cplusplus
}
#endif
#endif
