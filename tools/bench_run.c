/* The run: the parent's half of the rounds. */
#include "bench_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "geometry.h"
#include "mix.h"
#include "moment.h"
#include "terminal.h"

enum { LISTEN_MS = 50, LEAD_MS = 5, START_SECONDS = 60, SLACK_SECONDS = 30 };
static const size_t samples_bytes = 2 * SETTINGS_RANK_LIMIT * sizeof(struct bench_sample);

void bench_progress(bool quiet, const char *format, ...) {
  va_list arguments;
  if (quiet || !terminal_is_live(stderr)) return;
  fputs("\r", stderr);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputs("\033[K", stderr);
  fflush(stderr);
}

static void add_end(struct bench_run *run, const struct crew_member *member, const struct record *record) {
  const struct record_room *room = &record->room;
  struct bench_round *round = &run->round;
  round->ends++;
  if (room->status != KVF_OK || room->check == RECORD_WRONG) {
    if (!run->complaint.text[0])
      complain(&run->complaint, "%s: %s", member->name, record->text[0] ? record->text : "a room was cancelled");
    return;
  }
  if (member->role == ROLE_PREFILL) {
    if (!round->posted_ns || room->ready_ns < round->posted_ns) round->posted_ns = room->ready_ns;
    round->pieces += room->pieces;
    round->slices += room->slices;
    round->retries += room->retries;
    round->grant_wait_ns += room->grant_wait_ns;
    round->gather_ns += room->gather_ns;
    round->write_ns += room->write_ns;
    return;
  }
  if (room->end_ns > round->end_ns) round->end_ns = room->end_ns;
  round->bytes += room->bytes;
  round->scatter_ns += room->scatter_ns;
}

static void take_record(void *context, struct crew_member *member, const struct record *record) {
  struct bench_run *run = context;
  if (record->type == RECORD_ROOM) {
    add_end(run, member, record);
  } else if (member->role == ROLE_PREFILL && !run->fabric[0]) {
    memcpy(run->fabric, record->summary.fabric, sizeof run->fabric);
    snprintf(run->reason, sizeof run->reason, "%s", record->text);
    run->way = record->summary.way;
  }
}

static void take_note(void *context, struct crew_member *member, const char *text) {
  struct bench_run *run = context;
  if (!run->complaint.text[0]) complain(&run->complaint, "%s: %s", member->name, text);
}

static bool all_listening(const struct bench_run *run) {
  for (size_t i = 0; i < run->crew.count; i++)
    if (!run->crew.members[i].address[0]) return false;
  return true;
}
static bool all_ready(const struct bench_run *run) {
  for (size_t i = 0; i < run->crew.count; i++)
    if (!run->crew.members[i].ready) return false;
  return true;
}
/* All rooms have ended, unless they are only to wait, and every rank has said so. */
static bool round_is_over(const struct bench_run *run) {
  return all_ready(run) && (run->task.kind == BENCH_IDLE || run->round.ends == run->crew.count * run->settings->concurrency);
}
static bool all_finished(const struct bench_run *run) {
  for (size_t i = 0; i < run->crew.count; i++)
    if (!run->crew.members[i].finished) return false;
  return true;
}

/* True when the run cannot go on; the complaint says why. */
static bool is_broken(struct bench_run *run) {
  char text[sizeof run->complaint.text];
  struct crew_member *lost = crew_find_lost(&run->crew);
  if (run->crew.caught_signal)
    return !complain(&run->complaint, "stopped by signal %d (%s)", run->crew.caught_signal, strsignal(run->crew.caught_signal));
  if (run->complaint.text[0]) return true;
  if (!lost) return false;
  crew_describe_loss(lost, text, sizeof text);
  return !complain(&run->complaint, "%s: %.900s", lost->name, text);
}

static bool wait_for(struct bench_run *run, bool (*holds)(const struct bench_run *run), const char *what, double seconds) {
  uint64_t deadline_ns = moment_now_ns() + (uint64_t)(seconds * 1e9);
  while (!holds(run)) {
    crew_listen(&run->crew, LISTEN_MS);
    if (is_broken(run)) return false;
    if (moment_now_ns() > deadline_ns) return complain(&run->complaint, "the ranks did not %s within %.0f s", what, seconds);
  }
  return !is_broken(run);
}

static bool make_workload(struct bench_run *run, uint64_t tokens, uint32_t rounds) {
  size_t count = (size_t)rounds * run->settings->concurrency;
  run->workload = (struct workload){.requests = calloc(count, sizeof *run->workload.requests), .count = count};
  if (!run->workload.requests) return complain(&run->complaint, "out of memory");
  for (size_t i = 0; i < count; i++)
    run->workload.requests[i] = (struct workload_request){.room = mix_word(run->settings->seed + 1) + i, .tokens = tokens};
  return true;
}

static bool start_side(struct bench_run *run, enum role role) {
  const struct bench_host *host = &run->task.hosts[role];
  char listen[80];
  snprintf(listen, sizeof listen, "%s:0", host->address ? host->address : "127.0.0.1");
  for (uint32_t rank = 0; rank < settings_rank_count(run->settings, role); rank++) {
    const struct rank_setup setup = {.settings = run->settings,
                                     .workload = &run->workload,
                                     .role = role,
                                     .rank = rank,
                                     .listen = listen,
                                     .network = host->network,
                                     .addresses = run->addresses,
                                     .wait_ns = START_SECONDS * MOMENT_SECOND,
                                     .work = bench_rank_work,
                                     .context = &run->task};
    if (!crew_add(&run->crew, &setup, &run->complaint)) return false;
  }
  return wait_for(run, all_listening, "open their engines", START_SECONDS);
}

bool bench_run_start(struct bench_run *run, const struct settings *settings, const struct bench_task *task, uint64_t tokens,
                     uint32_t rounds) {
  size_t ranks = settings_rank_count(settings, ROLE_PREFILL) + settings_rank_count(settings, ROLE_DECODE);
  *run = (struct bench_run){.settings = settings, .task = *task, .crew = {.signal_fd = -1}};
  void *samples = mmap(NULL, samples_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (samples == MAP_FAILED) return complain(&run->complaint, "out of memory");
  run->task.samples = samples;
  if (!make_workload(run, tokens, rounds) || !geometry_check(settings, &run->complaint)) return false;
  if (!crew_init(&run->crew, ranks, &run->complaint)) return false;
  run->crew.room = take_record;
  run->crew.note = take_note;
  run->crew.context = run;
  run->complaint.text[0] = 0;
  if (!start_side(run, ROLE_PREFILL)) return false;
  for (size_t i = 0; i < run->crew.count; i++) run->addresses[i] = run->crew.members[i].address;
  return start_side(run, ROLE_DECODE) && wait_for(run, all_ready, "connect", START_SECONDS + SLACK_SECONDS);
}

bool bench_run_round(struct bench_run *run, struct bench_round *round_out) {
  double limit_s = run->settings->deadline_s + SLACK_SECONDS;
  run->round = (struct bench_round){0};
  for (size_t i = 0; i < run->crew.count; i++) run->crew.members[i].ready = false;
  crew_tell(&run->crew, BENCH_PREPARE);
  if (!wait_for(run, all_ready, "prepare the round", limit_s)) return false;
  for (size_t i = 0; i < run->crew.count; i++) run->crew.members[i].ready = false;
  crew_tell(&run->crew, moment_now_ns() + LEAD_MS * MOMENT_MS);
  if (!wait_for(run, round_is_over, "end the round", limit_s)) return false;
  for (size_t i = 0; i < run->crew.count; i++)
    run->round.cpu_ns += bench_run_sample(run, run->crew.members[i].role, run->crew.members[i].rank)->cpu_ns;
  *round_out = run->round;
  return true;
}

bool bench_run_end(struct bench_run *run) {
  crew_tell(&run->crew, BENCH_QUIT);
  if (!wait_for(run, all_finished, "finish", SLACK_SECONDS)) return false;
  crew_tell(&run->crew, BENCH_QUIT);
  return true;
}

void bench_run_fini(struct bench_run *run) {
  if (run->crew.members) crew_end(&run->crew, all_finished(run) ? 10 * MOMENT_SECOND : 0);
  crew_fini(&run->crew);
  workload_fini(&run->workload);
  if (run->task.samples) munmap(run->task.samples, samples_bytes);
}

const struct bench_sample *bench_run_sample(const struct bench_run *run, enum role role, uint32_t rank) {
  return &run->task.samples[role * SETTINGS_RANK_LIMIT + rank];
}
