/* The rounds of a rank. Everything that costs and is not to be measured (pages, opening, filling, checking) is done before the
 * start or in the first round; the end of a room is the moment at which this process has its event in hand. */
#include "bench_rank.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_measure.h"
#include "moment.h"
#include "rank_room.h"

enum { POLL_SAMPLE_LIMIT = 1 << 20, POLL_PAUSE_US = 20, EVENT_BATCH = 64 };

static const struct bench_task *task_of(const struct rank *rank) {
  return rank->setup->context;
}

static struct bench_sample *sample_of(const struct rank *rank) {
  return &task_of(rank)->samples[rank->setup->role * SETTINGS_RANK_LIMIT + rank->setup->rank];
}

/* All threads of this process, the engine's too. */
static uint64_t count_cpu_ns(void) {
  struct timespec spent;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return (uint64_t)spent.tv_sec * MOMENT_SECOND + (uint64_t)spent.tv_nsec;
}

static void sleep_until(uint64_t moment_ns) {
  const struct timespec moment = {(time_t)(moment_ns / MOMENT_SECOND), (long)(moment_ns % MOMENT_SECOND)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) == EINTR) continue;
}

static bool take_event(struct rank *rank, kvf_event *event) {
  kvf_error *error = event->error;
  if (event->type == KVF_EVENT_PEER_DOWN) return rank_fail(rank, "the other side was lost", error);
  if (event->type == KVF_EVENT_SEND_END || event->type == KVF_EVENT_RECV_END) {
    struct rank_room *room = &rank->rooms[event->user_tag];
    event->elapsed_ns = moment_now_ns() - room->opened_ns;
    if (event->type == KVF_EVENT_SEND_END)
      prefill_end(rank, room, event);
    else
      decode_end(rank, room, event);
  }
  kvf_error_free(error);
  return true;
}

static bool await_ends(struct rank *rank, size_t target) {
  while (rank->ended_count < target) {
    kvf_event events[EVENT_BATCH];
    size_t count = 0;
    if (kvf_engine_poll(rank->engine, events, EVENT_BATCH, &count, NULL) != KVF_OK) return rank_fail(rank, "cannot poll", NULL);
    for (size_t i = 0; i < count; i++)
      if (!take_event(rank, &events[i])) return false;
    if (count == 0 && !rank_wait(rank, -1)) return rank_fail(rank, "stopped", NULL);
  }
  return true;
}

/* The other side's rooms may still hold places: then again, until the parent loses patience. */
static bool open_room(struct rank *rank) {
  for (;;) {
    rank->pressed = false;
    struct rank_room *room = rank_room_take(rank);
    if (!room) return rank_fail(rank, "no pages for a room", NULL);
    uint64_t start_ns = moment_now_ns();
    if (rank->setup->role == ROLE_PREFILL) {
      prefill_open(rank, room);
    } else {
      decode_open(rank, room);
      sample_of(rank)->call_ns = moment_now_ns() - start_ns;
    }
    if (!rank->pressed) return true;
    usleep(1000);
  }
}

static bool open_rooms(struct rank *rank) {
  const struct settings *settings = rank->setup->settings;
  for (uint64_t i = 0; i < settings->concurrency; i++) {
    if (!open_room(rank)) return false;
    struct rank_room *room = &rank->rooms[i];
    if (!room->open || rank->setup->role == ROLE_DECODE || settings->verify == VERIFY_OFF) continue;
    struct pages view = rank_room_view(rank, room);
    pages_fill(&view, 0, room->request->tokens);
  }
  return true;
}

static void post_rooms(struct rank *rank, uint32_t layer_first, uint32_t layer_count, bool final) {
  for (uint64_t i = 0; i < rank->setup->settings->concurrency; i++) {
    kvf_chunk chunk = KVF_CHUNK_INIT;
    if (!rank->rooms[i].open) continue;
    chunk.token_count = rank->rooms[i].request->tokens;
    chunk.layer_first = layer_first;
    chunk.layer_count = layer_count;
    chunk.final = final;
    prefill_post(rank, &rank->rooms[i], chunk);
  }
}

/* Computing is sleeping: an accelerator's work leaves the cores alone. */
static void compute_and_post(struct rank *rank, uint64_t start_ns) {
  const struct bench_task *task = task_of(rank);
  const struct model *model = &rank->setup->settings->model;
  uint32_t layers = model->layers + model->draft_layers;
  for (uint32_t i = 0; i < layers && task->layerwise; i++) {
    sleep_until(start_ns + (i + 1) * task->layer_ns);
    post_rooms(rank, model->list[i].id, 1, i + 1 == layers);
  }
  if (task->layerwise) return;
  sleep_until(start_ns + layers * task->layer_ns);
  post_rooms(rank, 0, 0, true);
}

static bool run_transfer(struct rank *rank, uint64_t start_ns) {
  size_t target = rank->next_request;
  uint64_t cpu_ns = count_cpu_ns();
  if (rank->setup->role == ROLE_PREFILL) compute_and_post(rank, start_ns);
  if (!await_ends(rank, target)) return false;
  sample_of(rank)->cpu_ns = count_cpu_ns() - cpu_ns;
  return true;
}

/* Another thread of the caller that polls, as a server's event loop does. */
struct poller {
  struct rank *rank;
  pthread_t thread;
  double *times_ns; /* [POLL_SAMPLE_LIMIT] */
  size_t count;
  atomic_ullong posted_ns;
  uint64_t first_piece_ns;
  uint64_t deadline_ns;
  bool ended, lost;
  kvf_event end;
};

static void look_for_piece(struct poller *poller) {
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  uint64_t posted_ns = atomic_load(&poller->posted_ns);
  if (poller->first_piece_ns || !posted_ns) return;
  if (kvf_engine_stats_query(poller->rank->engine, &stats, NULL) == KVF_OK && stats.pieces_sent)
    poller->first_piece_ns = moment_now_ns() - posted_ns;
}

static void *poll_events(void *context) {
  struct poller *poller = context;
  while (!poller->ended && !poller->lost && moment_now_ns() < poller->deadline_ns) {
    kvf_event event;
    size_t count = 0;
    uint64_t start_ns = moment_now_ns();
    poller->lost = kvf_engine_poll(poller->rank->engine, &event, 1, &count, NULL) != KVF_OK;
    if (poller->count < POLL_SAMPLE_LIMIT) poller->times_ns[poller->count++] = (double)(moment_now_ns() - start_ns);
    if (count && (event.type == KVF_EVENT_SEND_END || event.type == KVF_EVENT_RECV_END)) {
      poller->end = event;
      poller->ended = true;
    } else if (count) {
      poller->lost = poller->lost || event.type == KVF_EVENT_PEER_DOWN;
      kvf_error_free(event.error);
    }
    look_for_piece(poller);
    if (!count) usleep(POLL_PAUSE_US);
  }
  return NULL;
}

static bool start_poller(struct rank *rank, struct poller *poller) {
  *poller = (struct poller){.rank = rank, .times_ns = calloc(POLL_SAMPLE_LIMIT, sizeof(double))};
  poller->deadline_ns = moment_now_ns() + (uint64_t)(rank->setup->settings->deadline_s * 1e9) + MOMENT_SECOND;
  if (!poller->times_ns) return rank_fail(rank, "out of memory", NULL);
  memset(poller->times_ns, 0, POLL_SAMPLE_LIMIT * sizeof(double)); /* no page faults while it measures */
  if (!pthread_create(&poller->thread, NULL, poll_events, poller)) return true;
  free(poller->times_ns);
  return rank_fail(rank, "no thread", NULL);
}

static bool finish_poller(struct rank *rank, struct poller *poller) {
  struct bench_sample *sample = sample_of(rank);
  pthread_join(poller->thread, NULL);
  sample->poll_count = poller->count;
  sample->poll_p50_ns = bench_quantile(poller->times_ns, poller->count, 0.5);
  sample->poll_p99_ns = bench_quantile(poller->times_ns, poller->count, 0.99);
  sample->poll_most_ns = bench_quantile(poller->times_ns, poller->count, 1);
  sample->first_piece_ns = poller->first_piece_ns;
  free(poller->times_ns);
  return poller->ended ? take_event(rank, &poller->end) : rank_fail(rank, "the room did not end", NULL);
}

static bool run_submit(struct rank *rank, struct poller *poller, uint64_t start_ns) {
  if (rank->setup->role == ROLE_PREFILL) {
    if (!start_poller(rank, poller)) return false;
    sleep_until(start_ns);
    uint64_t post_ns = moment_now_ns();
    atomic_store(&poller->posted_ns, post_ns);
    post_rooms(rank, 0, 0, true);
    sample_of(rank)->call_ns = moment_now_ns() - post_ns;
  }
  return finish_poller(rank, poller);
}

static bool run_idle(struct rank *rank, uint64_t start_ns) {
  struct bench_sample *sample = sample_of(rank);
  sleep_until(start_ns);
  uint64_t cpu_ns = count_cpu_ns(), wall_ns = moment_now_ns();
  sleep_until(start_ns + (uint64_t)(task_of(rank)->idle_s * 1e9));
  sample->cpu_ns = count_cpu_ns() - cpu_ns;
  sample->wall_ns = moment_now_ns() - wall_ns;
  return true;
}

static bool run_round(struct rank *rank) {
  const struct bench_task *task = task_of(rank);
  struct poller poller;
  uint64_t start_ns;
  bool polls_now = task->kind == BENCH_SUBMIT && rank->setup->role == ROLE_DECODE;
  bool waits_only = task->kind == BENCH_IDLE && rank->setup->role == ROLE_PREFILL;
  if (polls_now && !start_poller(rank, &poller)) return false;
  if (!waits_only && !open_rooms(rank)) return false;
  record_write(rank->setup->report_fd, RECORD_READY, NULL, NULL);
  if (!rank_read_word(rank, &start_ns)) return rank_fail(rank, "stopped", NULL);
  bool good = task->kind == BENCH_SUBMIT ? run_submit(rank, &poller, start_ns)
              : task->kind == BENCH_IDLE ? run_idle(rank, start_ns)
                                         : run_transfer(rank, start_ns);
  if (good) record_write(rank->setup->report_fd, RECORD_READY, NULL, NULL); /* the sample is whole */
  return good;
}

bool bench_rank_work(struct rank *rank) {
  const struct rank_setup *given = rank->setup;
  struct settings settings = *given->settings;
  struct rank_setup own = *given;
  uint64_t word;
  bool good = true;
  own.settings = &settings;
  rank->setup = &own;
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) {
    rank->free_pages[i].in_order = task_of(rank)->in_order;
    rank->free_pages[i].run_pages = task_of(rank)->run_pages;
  }
  if (!task_of(rank)->verify_first) settings.verify = VERIFY_OFF;
  while (good && (good = rank_read_word(rank, &word)) && word != BENCH_QUIT) {
    good = run_round(rank);
    settings.verify = VERIFY_OFF;
  }
  rank->setup = given;
  return good;
}
