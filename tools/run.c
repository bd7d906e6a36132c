/* A run: start, meet, work, end, in this order; the first thing that goes wrong stops it. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "geometry.h"
#include "moment.h"
#include "progress.h"
#include "report.h"
#include "terminal.h"

enum { NOTE_LIMIT = 20, LISTEN_MS = 50, STUCK_SECONDS = 30 };

struct run {
  const struct run_plan *plan;
  struct workload workload;
  struct crew crew;
  struct report report;
  struct progress progress;
  size_t note_count;
  const char *addresses[64]; /* of the prefill ranks */
};

static void take_room(void *context, struct crew_member *member, const struct record *record) {
  struct run *run = context;
  if (record->type == RECORD_SUMMARY)
    report_add_summary(&run->report, member->role, member->rank, &record->summary, record->text);
  else if (!report_add_room(&run->report, member->role, member->rank, &record->room, record->text))
    report_add_failure(&run->report, member->name, "it spoke of a request that does not exist");
}

static void take_note(void *context, struct crew_member *member, const char *text) {
  struct run *run = context;
  bool was_live = run->progress.live;
  if (run->note_count++ >= NOTE_LIMIT || run->plan->settings->quiet) return;
  if (was_live) fprintf(stderr, "\r\033[K");
  fprintf(stderr, "%s: %s\n", member->name, text);
}

/* What must stop the run now; it is in the report then. */
static bool is_broken(struct run *run) {
  char text[RECORD_TEXT_LIMIT + 1];
  struct crew_member *lost = crew_find_lost(&run->crew);
  if (run->crew.caught_signal) {
    snprintf(text, sizeof text, "stopped by signal %d (%s)", run->crew.caught_signal, strsignal(run->crew.caught_signal));
    report_add_failure(&run->report, "", text);
    return true;
  }
  if (!lost) return false;
  const uint64_t deadline_ns = moment_now_ns() + MOMENT_SECOND / 2; /* its exit status may be a moment behind the end of its pipe */
  while (lost->pid && moment_now_ns() < deadline_ns) crew_listen(&run->crew, LISTEN_MS);
  crew_describe_loss(lost, text, sizeof text);
  report_add_failure(&run->report, lost->name, text);
  return true;
}

static bool is_listening(const struct crew_member *member) {
  return member->address[0];
}
static bool is_ready(const struct crew_member *member) {
  return member->ready;
}
static bool is_finished(const struct crew_member *member) {
  return member->finished;
}

static bool holds_for_all(const struct run *run, bool (*holds)(const struct crew_member *member)) {
  for (size_t i = 0; i < run->crew.count; i++)
    if (!holds(&run->crew.members[i])) return false;
  return true;
}

/* A member for which it does not hold yet and that has said nothing for too long: stuck, or stopped. */
static const struct crew_member *find_silent(const struct run *run, bool (*holds)(const struct crew_member *member),
                                             uint64_t silence_ns) {
  for (size_t i = 0; i < run->crew.count; i++) {
    const struct crew_member *member = &run->crew.members[i];
    if (!holds(member) && moment_now_ns() - member->heard_ns > silence_ns) return member;
  }
  return NULL;
}

/* Listens until it holds for all members. */
static bool wait_for_all(struct run *run, bool (*holds)(const struct crew_member *member), const char *what, uint64_t silence_ns) {
  char text[160];
  for (size_t i = 0; i < run->crew.count; i++) run->crew.members[i].heard_ns = moment_now_ns();
  while (!holds_for_all(run, holds)) {
    crew_listen(&run->crew, LISTEN_MS);
    if (is_broken(run)) return false;
    progress_update(&run->progress, run->report.ended_rooms, run->workload.count, run->report.live_bytes, moment_now_ns());
    const struct crew_member *silent = find_silent(run, holds, silence_ns);
    if (!silent) continue;
    snprintf(text, sizeof text, "said nothing for %.0f s while it should %s", (double)silence_ns / 1e9, what);
    report_add_failure(&run->report, silent->name, text);
    return false;
  }
  return true;
}

static bool start_side(struct run *run, enum role role) {
  const struct run_plan *plan = run->plan;
  struct complaint complaint;
  for (uint32_t rank = 0; rank < settings_rank_count(plan->settings, role); rank++) {
    const struct rank_setup setup = {
        .settings = plan->settings,
        .workload = &run->workload,
        .role = role,
        .rank = rank,
        .listen = plan->listen ? plan->listen[rank] : "127.0.0.1:0",
        .addresses = plan->has_side[ROLE_PREFILL] ? run->addresses : plan->addresses,
        .wait_ns = plan->wait_ns,
        .linger_ns = role == ROLE_DECODE ? plan->linger_ns : 0,
    };
    if (crew_add(&run->crew, &setup, &complaint)) continue;
    report_add_failure(&run->report, "", complaint.text);
    return false;
  }
  return true;
}

static bool start_ranks(struct run *run) {
  for (int role = 0; role < 2; role++) {
    if (!run->plan->has_side[role]) continue;
    if (!start_side(run, (enum role)role)) return false;
    if (!wait_for_all(run, is_listening, "open its engine", STUCK_SECONDS * 2 * MOMENT_SECOND)) return false;
    for (size_t i = 0; i < run->crew.count && role == ROLE_PREFILL; i++) run->addresses[i] = run->crew.members[i].address;
  }
  for (size_t i = 0; i < run->crew.count && run->plan->announce; i++)
    fprintf(stderr, "%s listens on %s\n", run->crew.members[i].name, run->crew.members[i].address);
  return true;
}

/* The longest that a rank may be silent while it works: a room's deadline, and a gap between arrivals. */
static uint64_t count_silence_ns(const struct run *run) {
  uint64_t gap_ns = 0;
  for (size_t i = 1; i < run->workload.count; i++) {
    uint64_t gap = run->workload.requests[i].arrival_ns - run->workload.requests[i - 1].arrival_ns;
    if (gap > gap_ns) gap_ns = gap;
  }
  return (uint64_t)(run->plan->settings->deadline_s * 1e9) + gap_ns + STUCK_SECONDS * MOMENT_SECOND;
}

static bool work(struct run *run) {
  const uint64_t lead_ns = 2 * MOMENT_MS, quit = 0;
  if (!start_ranks(run)) return false;
  if (!wait_for_all(run, is_ready, "connect", run->plan->wait_ns + STUCK_SECONDS * MOMENT_SECOND)) return false;
  crew_tell(&run->crew, moment_now_ns() + lead_ns);
  progress_start(&run->progress, !run->plan->settings->quiet, moment_now_ns());
  bool good = wait_for_all(run, is_finished, "work", count_silence_ns(run));
  progress_stop(&run->progress);
  if (good) crew_tell(&run->crew, quit);
  return good;
}

/* One thread, between buffers far larger than the caches. 0 without memory. */
static double measure_memcpy(uint64_t bytes) {
  const size_t buffer_bytes = 64 << 20;
  const uint64_t least = 512ull << 20, limit_ns = MOMENT_SECOND;
  char *from = malloc(buffer_bytes), *to = malloc(buffer_bytes);
  double rate = 0;
  if (from && to) {
    memset(from, 1, buffer_bytes);
    memset(to, 2, buffer_bytes);
    uint64_t start_ns = moment_now_ns(), copied = 0, spent_ns = 0;
    while ((copied < bytes || copied < least) && spent_ns < limit_ns) {
      memcpy(to, from, buffer_bytes);
      __asm__ volatile("" : : "r"(to) : "memory"); /* keep the copy */
      copied += buffer_bytes;
      spent_ns = moment_now_ns() - start_ns;
    }
    rate = (double)copied / ((double)spent_ns / 1e9);
  }
  free(from);
  free(to);
  return rate;
}

static int finish(struct run *run, bool worked) {
  const struct settings *settings = run->plan->settings;
  struct complaint complaint;
  bool to_stdout = settings->json_path && !strcmp(settings->json_path, "-");
  double rate = worked ? measure_memcpy(run->report.bytes[run->plan->has_side[ROLE_DECODE] ? ROLE_DECODE : ROLE_PREFILL]) : 0;
  report_finish(&run->report, rate);
  if (settings->quiet)
    report_print_errors(&run->report, stderr);
  else
    report_print(&run->report, to_stdout ? stderr : stdout);
  if (settings->json_path && !report_save(&run->report, settings->json_path, &complaint)) {
    fprintf(stderr, "kvferry: %s\n", complaint.text);
    return 1;
  }
  return run->report.totals.good ? 0 : 1;
}

static int execute(struct run *run) {
  const struct settings *settings = run->plan->settings;
  size_t ranks = settings_rank_count(settings, ROLE_PREFILL) + settings_rank_count(settings, ROLE_DECODE);
  struct complaint complaint;
  if (!crew_init(&run->crew, ranks, &complaint) ||
      !report_init(&run->report, settings, &run->workload, run->plan->has_side[ROLE_PREFILL], run->plan->has_side[ROLE_DECODE])) {
    fprintf(stderr, "kvferry: no memory or no signals for %zu ranks\n", ranks);
    return 1;
  }
  run->crew.room = take_room;
  run->crew.note = take_note;
  run->crew.context = run;
  bool worked = work(run);
  crew_end(&run->crew, worked ? run->plan->linger_ns + 10 * MOMENT_SECOND : 0);
  return finish(run, worked);
}

/* What would fail in every rank fails here, once, before any process is started. */
static bool check_plan(const struct run_plan *plan, const struct workload *workload, struct complaint *complaint) {
  struct geometry_pages pages;
  for (int role = 0; role < 2; role++)
    if (plan->has_side[role] && !geometry_count_pages(plan->settings, workload, (enum role)role, &pages, complaint)) return false;
  return geometry_check(plan->settings, complaint);
}

int run_execute(const struct run_plan *plan) {
  struct run run = {.plan = plan, .crew = {.signal_fd = -1}};
  struct complaint complaint;
  int status = 2;
  if (!settings_make_workload(plan->settings, &run.workload, &complaint) || !check_plan(plan, &run.workload, &complaint))
    fprintf(stderr, "kvferry: %s\n", complaint.text);
  else
    status = execute(&run);
  report_fini(&run.report);
  crew_fini(&run.crew);
  workload_fini(&run.workload);
  return status;
}
