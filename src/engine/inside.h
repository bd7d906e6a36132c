/* The engine's own structures. The lock protects what the callers' threads share with the I/O thread; everything else below the line
 * belongs to the I/O thread alone. */
#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "control/address.h"
#include "control/control.h"
#include "engine/device.h"
#include "engine/engine.h"
#include "engine/workers.h"
#include "memory/region.h"
#include "stats/histogram.h"
#include "transfer/transfer.h"

enum { ENGINE_FABRIC_LIMIT = 8, ENGINE_ARENA_REGION = 0 /* user regions are numbered from 1 */ };

/* Work for the I/O thread; `run` owns and frees the command. */
struct engine_command {
  struct base_list node;
  void (*run)(kvf_engine *engine, struct engine_command *command);
};

struct engine_event {
  struct base_list node;
  kvf_event event;
};

struct engine_fabric {
  kvf_engine *engine;
  struct fabric *fabric;
  uv_poll_t poll;
  bool polled;
};

struct kvf_engine {
  atomic_uint references; /* the caller's and one for each live handle */
  struct engine_config config;
  struct base_log log;
  uint8_t incarnation[WIRE_INCARNATION_BYTES];
  struct stats_counters counters;

  pthread_mutex_t lock;
  bool closing;    /* kvf_engine_close was called: nothing new is taken */
  bool loop_ended; /* commands are no longer picked up by the loop */
  bool closed;     /* the threads are gone */
  bool draining;
  struct base_map sends, recvs; /* open handles by room */
  struct base_list events;
  uint32_t event_count;
  int event_fd;
  struct base_list commands;
  struct memory_table *regions;
  struct kvf_cache *cache; /* set once; owned */
  struct engine_device *device; /* set once, before the first cache: some region is CUDA memory */
  char address[300];

  /* ---- I/O thread ---- */
  pthread_t thread;
  uv_loop_t loop;
  bool loop_open;
  uv_async_t command_async;
  uv_async_t jobs_async;
  uv_prepare_t prepare;
  uv_check_t check;
  uv_idle_t idle;
  uv_timer_t tick_timer;
  struct control *control;
  struct transfer *transfer;
  struct engine_workers *workers;
  struct engine_fabric fabrics[ENGINE_FABRIC_LIMIT];
  uint32_t fabric_count;
  struct transfer_memory arena;
  struct fabric *arena_maker; /* the provider that made the arena's memory, or NULL */
  struct fabric_memory arena_made;
  void *gather_memory;
  bool arena_pinned, gather_pinned; /* within the GPU's reach */
  const struct kvf_cache *ready_cache; /* the same, once the transfers know it */
  struct base_list peers;
  struct base_list waiting; /* receives whose peers are not all up */
  enum { ENGINE_RUNNING, ENGINE_ENDING_ROOMS, ENGINE_ENDING_LINKS, ENGINE_ENDING_LOOP } stage;
  uint64_t stage_deadline_ns;
};

struct kvf_region {
  kvf_engine *engine;
  struct memory_region *region;
};

struct kvf_cache {
  kvf_engine *engine;
  kvf_rank_planes planes; /* owned */
  kvf_plane *wire_planes; /* the same with offsets into regions instead of addresses: what peers are told */
  uint32_t *plane_regions;
  struct transfer_memory *regions;
  uint32_t region_count;
  uint32_t rank, rank_count;
  uint32_t components, ignored; /* of the instance */
};

struct kvf_peer {
  struct base_list node;
  kvf_engine *engine;
  bool closed; /* the caller's handle is gone */
  bool counted; /* the caller's handle holds a reference to the engine */
  /* under the lock */
  kvf_peer_state state;
  /* I/O thread */
  struct control_dial *dial; /* NULL: accepted */
  struct control_session *session;
  struct transfer_link *link;
  bool layout_sent, ready_sent, ready_received, up, refused, told_down;
  uint64_t capabilities; /* of its HELLO */
  uint8_t *early_layout; /* a LAYOUT that came before our cache */
  size_t early_layout_bytes;
  uint64_t changed_ns; /* under the lock: when it last came up or went down, or was made */
  kvf_error *reason; /* why it was refused */
};

struct engine_chunk;

struct kvf_send {
  kvf_engine *engine;
  uint64_t room;
  struct base_list held; /* I/O thread: chunks that wait for a fence, the first one's or an earlier one's */
  bool final, ended; /* under the lock */
  bool closed;       /* under the lock: the caller's handle is gone */
  struct transfer_send *transfer; /* I/O thread; NULL once ended */
  bool free_at_end;               /* I/O thread */
};

struct kvf_recv {
  kvf_engine *engine;
  uint64_t room;
  bool ended, closed; /* under the lock */
  struct transfer_recv *transfer;
  bool free_at_end;
  void *aux;
  uint64_t aux_bytes;
  bool aux_ready;
  struct base_list waiting_node;
  kvf_peer **peers;
  uint32_t peer_count;
};

/* command.c */
void engine_post(kvf_engine *engine, struct engine_command *command);
void engine_run_commands(kvf_engine *engine);

/* events.c */
/* Lock held: the event names a handle that its owner may be closing right now. */
void engine_event_push(kvf_engine *engine, const kvf_event *event);
/* A handle is being closed: events that are still queued forget it. Lock held. */
void engine_events_forget(kvf_engine *engine, const kvf_send *send, const kvf_recv *recv);
void engine_events_free(kvf_engine *engine);

/* fabrics.c */
kvf_status engine_fabrics_open(kvf_engine *engine, kvf_error **error_out);
void engine_fabrics_watch(kvf_engine *engine);
void engine_fabrics_unwatch(kvf_engine *engine);
void engine_fabrics_close(kvf_engine *engine);
bool engine_fabrics_progress(kvf_engine *engine);
bool engine_fabrics_arm(kvf_engine *engine);

/* peer.c */
struct control_callbacks engine_peer_callbacks(kvf_engine *engine);
void engine_peers_cache_is_set(kvf_engine *engine);
/* How many peers leave heartbeats unanswered, and for how long at most. */
void engine_peers_suspect_count(kvf_engine *engine, uint64_t *count_out, uint64_t *silence_ns_out);
void engine_peers_drop_all(kvf_engine *engine);
/* Accepted peers that nobody was told of or that were closed meanwhile; the threads are gone. */
void engine_peers_free_unheld(kvf_engine *engine);
void engine_post_frames(void *context, struct transfer_link *link, const struct wire_buffer *frames);

/* chunk.c */
/* Copies everything, the fence too. Errors: NO_MEMORY, SYSTEM. */
kvf_status engine_chunk_create(kvf_send *send, const kvf_chunk *chunk, struct engine_chunk **chunk_out, kvf_error **error_out);
void engine_chunk_free(struct engine_chunk *chunk);
struct engine_command *engine_chunk_command(struct engine_chunk *chunk);
/* The room has ended: what is still held is dropped. */
void engine_chunks_drop(kvf_send *send);

/* room.c */
void engine_room_event(void *context, void *user, const kvf_event *event);
void engine_waiting_check(kvf_engine *engine);

/* loop.c */
kvf_status engine_loop_open(kvf_engine *engine, kvf_error **error_out);
void engine_loop_run(kvf_engine *engine);
/* On the I/O thread: cancel, drop, close, in that order. */
void engine_loop_end(kvf_engine *engine);
/* The last step: close what lives in the loop, so that it runs out. */
void engine_loop_begin_end(kvf_engine *engine);

/* cache.c */
void engine_cache_free(kvf_engine *engine);

/* engine.c */
/* The GPU's thread, and the staging within its reach. Lock held. Errors: those of engine_device_create. */
kvf_status engine_device_open(kvf_engine *engine, int32_t number, kvf_error **error_out);
void engine_release(kvf_engine *engine);

#endif
