/* The life of a rank: open the engine and the cache, meet the other side, run the workload, report, quit.
 * One thread: it steps while there is something to do and otherwise sleeps on the engine's event fd and the control pipe. */
#include "rank.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "moment.h"
#include "rank_device.h"
#include "rank_room.h"

enum { EVENT_BATCH = 64, IDLE_MS = 1000, PRESSED_MS = 1 };

bool rank_fail(const struct rank *rank, const char *what, kvf_error *error) {
  char text[RECORD_TEXT_LIMIT + 1];
  int length = snprintf(text, sizeof text, "%s\n", what);
  if (error)
    kvf_error_format(error, text + length, sizeof text - (size_t)length);
  else
    text[length - 1] = 0;
  kvf_error_free(error);
  record_write(rank->setup->report_fd, RECORD_FAILURE, NULL, text);
  return false;
}

static void print_log(void *context, int32_t level, const char *line) {
  const struct rank *rank = context;
  fprintf(stderr, "%s: %s\n", rank->name, line);
}

static bool open_engine(struct rank *rank) {
  const struct settings *settings = rank->setup->settings;
  kvf_engine_options options = KVF_ENGINE_OPTIONS_INIT;
  kvf_error *error = NULL;
  options.listen = rank->setup->listen;
  options.label = rank->name;
  options.fabrics = settings->fabric;
  options.secret = settings->secret;
  options.checksum = settings->checksum;
  options.control_fault = settings->control_fault;
  options.way = settings->way;
  options.arena_bytes = settings->arena_bytes;
  options.gather_bytes = settings->gather_bytes;
  options.piece_bytes = settings->piece_bytes;
  options.room_ns = (uint64_t)(settings->deadline_s * 1e9);
  options.progress_ns = options.room_ns < 30 * MOMENT_SECOND ? options.room_ns : 30 * MOMENT_SECOND;
  options.log_sink = print_log;
  options.log_context = rank;
  if (kvf_engine_open(&options, &rank->engine, &error) != KVF_OK) return rank_fail(rank, "the engine could not be opened", error);
  return true;
}

static bool open_pool(struct rank *rank, const struct geometry_pages *pages) {
  const struct settings *settings = rank->setup->settings;
  struct complaint complaint;
  kvf_error *error = NULL;
  const uint64_t anywhere = 1 << 20; /* until the size is known and the pool exists */
  if (!geometry_init(&rank->geometry, settings, rank->setup->role, rank->setup->rank, pages, anywhere, &complaint))
    return rank_fail(rank, complaint.text, NULL);
  if (kvf_memory_alloc(rank->geometry.pool_bytes, &rank->pool, &error) != KVF_OK)
    return rank_fail(rank, "no memory for the pool", error);
  memset(rank->pool, PATTERN_CANARY, rank->geometry.pool_bytes);
  geometry_move(&rank->geometry, anywhere, (uintptr_t)rank->pool);
  if (settings->memory && !rank_device_open(rank)) return false;
  kvf_region_options region = KVF_REGION_OPTIONS_INIT;
  region.address = (char *)rank->pool + rank_device_shift(rank);
  region.length_bytes = rank->geometry.pool_bytes;
  region.label = "pool";
  if (kvf_region_open(rank->engine, &region, 1, &rank->region, &error) != KVF_OK)
    return rank_fail(rank, "the pool could not be registered", error);
  return true;
}

static bool open_cache(struct rank *rank) {
  const struct rank_setup *setup = rank->setup;
  kvf_cache_options options = KVF_CACHE_OPTIONS_INIT;
  kvf_error *error = NULL;
  options.planes = rank->geometry.planes;
  options.plane_count = rank->geometry.plane_count;
  options.plane_bytes = sizeof *rank->geometry.planes;
  options.rank = setup->rank;
  options.rank_count = settings_rank_count(setup->settings, setup->role);
  options.stage = rank->geometry.stage;
  options.components = model_components(&setup->settings->model); /* this stage may hold fewer */
  const uint64_t shift = rank_device_shift(rank);
  for (uint32_t i = 0; i < options.plane_count; i++) rank->geometry.planes[i].address += shift;
  kvf_status status = kvf_cache_open(rank->engine, &options, &rank->cache, &error);
  for (uint32_t i = 0; i < options.plane_count; i++) rank->geometry.planes[i].address -= shift;
  if (status != KVF_OK)
    return rank_fail(rank, "the cache could not be declared", error);
  return true;
}

static bool open_rank(struct rank *rank) {
  const struct rank_setup *setup = rank->setup;
  struct complaint complaint;
  struct geometry_pages pages;
  rank->peer_total = settings_rank_count(setup->settings, setup->role == ROLE_PREFILL ? ROLE_DECODE : ROLE_PREFILL);
  rank->peers = calloc(rank->peer_total, sizeof(kvf_peer *));
  rank->peer_up = calloc(rank->peer_total, sizeof *rank->peer_up);
  rank->rooms = calloc(setup->settings->concurrency, sizeof *rank->rooms);
  if (!rank->peers || !rank->peer_up || !rank->rooms) return rank_fail(rank, "out of memory", NULL);
  if (!geometry_count_pages(setup->settings, setup->workload, setup->role, &pages, &complaint))
    return rank_fail(rank, complaint.text, NULL);
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++)
    if (!page_pool_init(&rank->free_pages[i], pages.counts[i], setup->settings->seed * 1000 + setup->role * 100 + setup->rank))
      return rank_fail(rank, "out of memory", NULL);
  return open_engine(rank) && open_pool(rank, &pages) && open_cache(rank);
}

static bool connect_peers(struct rank *rank) {
  kvf_error *error = NULL;
  if (rank->setup->role == ROLE_PREFILL) return true;
  if (kvf_peer_connect(rank->engine, rank->setup->addresses, rank->peer_total, rank->peers, &error) != KVF_OK)
    return rank_fail(rank, "cannot connect", error);
  rank->peer_count = rank->peer_total;
  return true;
}

/* The peer's place; an accepted one gets a new place when it comes up. */
static size_t find_peer(struct rank *rank, kvf_peer *peer, bool add) {
  for (size_t i = 0; i < rank->peer_count; i++)
    if (rank->peers[i] == peer) return i;
  if (!add || rank->peer_count == rank->peer_total) return SIZE_MAX;
  rank->peers[rank->peer_count] = peer;
  return rank->peer_count++;
}

/* A lost peer comes back by itself; one that refuses us does not. */
static bool is_final(kvf_status status) {
  return status == KVF_INCOMPATIBLE || status == KVF_AUTH_FAILED || status == KVF_UNSUPPORTED || status == KVF_UNAVAILABLE ||
         status == KVF_NOT_COVERED;
}

static void note_peer_down(struct rank *rank, const kvf_event *event) {
  char text[RECORD_TEXT_LIMIT + 1];
  bool told_as_failure = rank->start_ns == 0 && is_final(kvf_error_status(event->error));
  if (told_as_failure || rank->ended_count == rank->setup->workload->count) return;
  kvf_error_format(event->error, text, sizeof text);
  record_write(rank->setup->report_fd, RECORD_NOTE, NULL, text);
}

static void take_event(struct rank *rank, const kvf_event *event) {
  if (event->type == KVF_EVENT_PEER_UP || event->type == KVF_EVENT_PEER_DOWN) {
    size_t place = find_peer(rank, event->peer, event->type == KVF_EVENT_PEER_UP);
    if (place != SIZE_MAX) rank->peer_up[place] = event->type == KVF_EVENT_PEER_UP;
    if (event->type == KVF_EVENT_PEER_DOWN) note_peer_down(rank, event);
    return;
  }
  if (event->type != KVF_EVENT_SEND_END && event->type != KVF_EVENT_RECV_END) return;
  struct rank_room *room = event->user_tag < rank->setup->settings->concurrency ? &rank->rooms[event->user_tag] : NULL;
  if (!room || !room->open || room->request->room != event->room) {
    record_write(rank->setup->report_fd, RECORD_NOTE, NULL, "an end arrived for a room that is not open here");
    return;
  }
  if (event->type == KVF_EVENT_SEND_END)
    prefill_end(rank, room, event);
  else
    decode_end(rank, room, event);
}

/* Takes what there is. *refused_out gets the first refusal that will not change by waiting; the caller owns it. */
static size_t take_events(struct rank *rank, kvf_error **refused_out) {
  kvf_event events[EVENT_BATCH];
  size_t count = 0;
  if (kvf_engine_poll(rank->engine, events, EVENT_BATCH, &count, NULL) != KVF_OK) return 0;
  for (size_t i = 0; i < count; i++) {
    take_event(rank, &events[i]);
    if (refused_out && !*refused_out && events[i].type == KVF_EVENT_PEER_DOWN && is_final(kvf_error_status(events[i].error)))
      *refused_out = events[i].error;
    else
      kvf_error_free(events[i].error);
  }
  return count;
}

bool rank_wait(struct rank *rank, int timeout_ms) {
  struct pollfd fds[2] = {{kvf_engine_event_fd(rank->engine), POLLIN, 0}, {rank->setup->control_fd, POLLIN, 0}};
  return poll(fds, 2, timeout_ms) < 0 ? errno == EINTR : fds[1].revents == 0;
}

static bool all_up(const struct rank *rank) {
  size_t up = 0;
  for (size_t i = 0; i < rank->peer_count; i++) up += rank->peer_up[i];
  return up == rank->peer_total;
}

static bool meet_other_side(struct rank *rank) {
  uint64_t deadline_ns = moment_now_ns() + rank->setup->wait_ns;
  kvf_error *refused = NULL;
  char text[160];
  while (!all_up(rank)) {
    if (moment_now_ns() > deadline_ns) {
      size_t up = 0;
      for (size_t i = 0; i < rank->peer_count; i++) up += rank->peer_up[i];
      snprintf(text, sizeof text, "%zu of %zu ranks of the other side connected within %.0f s", up, rank->peer_total,
               (double)rank->setup->wait_ns / 1e9);
      return rank_fail(rank, text, NULL);
    }
    if (take_events(rank, &refused) == 0 && !rank_wait(rank, 100)) return false;
    if (refused) return rank_fail(rank, "the other side and this rank do not get together", refused);
  }
  record_write(rank->setup->report_fd, RECORD_READY, NULL, NULL);
  return true;
}

bool rank_read_word(const struct rank *rank, uint64_t *word_out) {
  ssize_t got;
  do got = read(rank->setup->control_fd, word_out, sizeof *word_out);
  while (got < 0 && errno == EINTR);
  return got == sizeof *word_out;
}

/* How long the rank may sleep when there was nothing to do. */
static int count_idle_ms(const struct rank *rank) {
  const struct workload *workload = rank->setup->workload;
  if (rank->pressed) return PRESSED_MS;
  if (rank->next_request == workload->count) return IDLE_MS;
  uint64_t due_ns = rank->start_ns + workload->requests[rank->next_request].arrival_ns, now_ns = moment_now_ns();
  if (due_ns <= now_ns || due_ns - now_ns > IDLE_MS * (uint64_t)MOMENT_MS) return IDLE_MS;
  return (int)((due_ns - now_ns) / MOMENT_MS) + 1;
}

static bool run_workload(struct rank *rank) {
  bool is_prefill = rank->setup->role == ROLE_PREFILL;
  if (!rank_read_word(rank, &rank->start_ns)) return false;
  while (rank->ended_count < rank->setup->workload->count) {
    rank->pressed = false;
    bool stepped = is_prefill ? prefill_step(rank) : decode_step(rank);
    size_t events = take_events(rank, NULL);
    if (!rank_wait(rank, stepped || events ? 0 : count_idle_ms(rank))) return rank_fail(rank, "stopped", NULL);
  }
  return true;
}

static void find_route(const struct rank *rank, struct record_summary *summary, kvf_peer_state *route) {
  *route = (kvf_peer_state)KVF_PEER_STATE_INIT;
  for (size_t i = 0; i < rank->peer_count; i++) {
    kvf_peer_state state = KVF_PEER_STATE_INIT;
    bool unused = kvf_peer_query(rank->peers[i], &state, NULL) != KVF_OK || !state.fabric[0] || state.way == KVF_WAY_AUTO;
    if (unused) continue; /* a peer with which nothing is shared has a fabric and no way */
    if (!route->fabric[0]) *route = state;
    if (strcmp(route->fabric, state.fabric)) snprintf(route->fabric, sizeof route->fabric, "mixed");
  }
  summary->way = route->way;
  memcpy(summary->fabric, route->fabric, sizeof summary->fabric);
}

static void summarise(struct rank *rank) {
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  kvf_peer_state route;
  struct record_summary summary = {.pool_bytes = rank->geometry.pool_bytes};
  find_route(rank, &summary, &route);
  if (kvf_engine_stats_query(rank->engine, &stats, NULL) == KVF_OK) {
    summary.arena_bytes = stats.arena_capacity_bytes;
    summary.arena_peak_bytes = stats.arena_peak_bytes;
    summary.messages_refused = stats.messages_refused;
  }
  if (rank->setup->role == ROLE_DECODE && rank->setup->settings->verify != VERIFY_OFF) {
    rank_device_download_all(rank);
    bool clean = pattern_find_stain(rank->pool, rank->geometry.pool_bytes) == rank->geometry.pool_bytes;
    summary.check = clean ? RECORD_RIGHT : RECORD_WRONG;
  }
  record_write(rank->setup->report_fd, RECORD_SUMMARY, &summary, route.reason);
}

/* The other side may still be reading our last words; it disconnects when it has them. */
static void linger(struct rank *rank) {
  uint64_t deadline_ns = moment_now_ns() + rank->setup->linger_ns;
  bool connected = true;
  while (connected && moment_now_ns() < deadline_ns) {
    connected = false;
    take_events(rank, NULL);
    for (size_t i = 0; i < rank->peer_count; i++) connected = connected || rank->peer_up[i];
    if (connected) usleep(10000);
  }
}

static void close_rooms(struct rank *rank) {
  for (uint64_t i = 0; rank->rooms && i < rank->setup->settings->concurrency; i++) {
    if (rank->rooms[i].open) kvf_send_close(rank->rooms[i].send);
    if (rank->rooms[i].open) kvf_recv_close(rank->rooms[i].recv);
    rank_room_fini(&rank->rooms[i]);
  }
  free(rank->rooms);
}

static void close_rank(struct rank *rank) {
  close_rooms(rank);
  kvf_cache_close(rank->cache);
  for (size_t i = 0; rank->setup->role == ROLE_DECODE && i < rank->peer_count; i++) kvf_peer_close(rank->peers[i]);
  kvf_engine_close(rank->engine);
  kvf_region_close(rank->region);
  rank_device_close(rank);
  kvf_memory_free(rank->pool);
  geometry_fini(&rank->geometry);
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) page_pool_fini(&rank->free_pages[i]);
  free(rank->peers);
  free(rank->peer_up);
}

/* /sys tells of the network that it was mounted in, and UCX looks for devices there: a mount of our own, as ip-netns(8) does. */
static bool show_own_network(void) {
  return unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 && umount2("/sys", MNT_DETACH) == 0 &&
         mount("sysfs", "/sys", "sysfs", 0, NULL) == 0;
}

/* Before the engine exists: its threads and sockets are born where this thread is. */
static bool enter_network(const struct rank *rank) {
  char path[256];
  if (!rank->setup->network) return true;
  snprintf(path, sizeof path, "/run/netns/%s", rank->setup->network);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0 && show_own_network();
  int number = errno;
  if (fd >= 0) close(fd);
  if (entered) return true;
  snprintf(path, sizeof path, "the network namespace %s cannot be entered: %s", rank->setup->network, strerror(number));
  return rank_fail(rank, path, NULL);
}

int rank_run(const struct rank_setup *setup) {
  struct rank rank = {.setup = setup};
  uint64_t quit;
  snprintf(rank.name, sizeof rank.name, "%s-%u", settings_role_name(setup->role), setup->rank);
  bool good = enter_network(&rank) && open_rank(&rank);
  if (good) record_write(setup->report_fd, RECORD_LISTENING, NULL, kvf_engine_address(rank.engine));
  good = good && connect_peers(&rank) && meet_other_side(&rank) && (setup->work ? setup->work(&rank) : run_workload(&rank));
  if (good) {
    summarise(&rank);
    rank_read_word(&rank, &quit);
    if (setup->linger_ns) linger(&rank);
  }
  close_rank(&rank);
  return good ? 0 : 1;
}
