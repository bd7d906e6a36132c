/* The crew: fork, pipes, signals and waiting. Members are forked before this process has any thread. */
#include "crew.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moment.h"

static void list_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGTERM);
  sigaddset(set, SIGHUP);
  sigaddset(set, SIGCHLD);
}

bool crew_init(struct crew *crew, size_t capacity, struct complaint *complaint) {
  sigset_t set;
  *crew = (struct crew){.capacity = capacity, .signal_fd = -1};
  crew->members = calloc(capacity, sizeof *crew->members);
  crew->polled = calloc(capacity + 1, sizeof *crew->polled);
  if (!crew->members || !crew->polled) return complain(complaint, "out of memory");
  list_signals(&set);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  crew->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (crew->signal_fd < 0) return complain(complaint, "signalfd: %s", strerror(errno));
  return true;
}

/* In the child: Ctrl-C is the parent's to handle, SIGTERM ends at once, and the parent's death ends too. */
static void become_member(struct crew *crew, const struct rank_setup *setup, pid_t parent) {
  sigset_t set;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  list_signals(&set);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  close(crew->signal_fd);
  for (size_t i = 0; i < crew->count; i++) {
    if (crew->members[i].report_fd >= 0) close(crew->members[i].report_fd);
    close(crew->members[i].control_fd);
  }
  char name[16];
  snprintf(name, sizeof name, "%s-%u", settings_role_name(setup->role), setup->rank);
  prctl(PR_SET_NAME, name);
}

static pid_t fork_member(struct crew *crew, struct rank_setup setup, const int report[2], const int control[2]) {
  pid_t parent = getpid();
  fflush(NULL);
  pid_t pid = fork();
  if (pid != 0) return pid;
  close(report[0]);
  close(control[1]);
  become_member(crew, &setup, parent);
  setup.report_fd = report[1];
  setup.control_fd = control[0];
  int status = rank_run(&setup);
  fflush(NULL);
  _exit(status);
}

bool crew_add(struct crew *crew, const struct rank_setup *setup, struct complaint *complaint) {
  int report[2], control[2];
  if (crew->count == crew->capacity) return complain(complaint, "too many ranks");
  if (pipe(report)) return complain(complaint, "pipe: %s", strerror(errno));
  if (pipe(control)) {
    close(report[0]);
    close(report[1]);
    return complain(complaint, "pipe: %s", strerror(errno));
  }
  pid_t pid = fork_member(crew, *setup, report, control);
  int fork_errno = errno;
  close(report[1]);
  close(control[0]);
  if (pid < 0) {
    close(report[0]);
    close(control[1]);
    return complain(complaint, "fork: %s", strerror(fork_errno));
  }
  struct crew_member *member = &crew->members[crew->count++];
  *member =
      (struct crew_member){.role = setup->role, .rank = setup->rank, .pid = pid, .report_fd = report[0], .control_fd = control[1]};
  snprintf(member->name, sizeof member->name, "%s-%u", settings_role_name(setup->role), setup->rank);
  member->heard_ns = moment_now_ns();
  return true;
}

static void take_record(struct crew *crew, struct crew_member *member, const struct record *record) {
  switch (record->type) {
    case RECORD_LISTENING:
      snprintf(member->address, sizeof member->address, "%s", record->text);
      break;
    case RECORD_READY:
      member->ready = true;
      break;
    case RECORD_NOTE:
      if (crew->note) crew->note(crew->context, member, record->text);
      break;
    case RECORD_FAILURE:
      memcpy(member->failure, record->text, sizeof member->failure);
      break;
    case RECORD_SUMMARY:
      member->finished = true;
      crew->room(crew->context, member, record);
      break;
    case RECORD_ROOM:
      crew->room(crew->context, member, record);
      break;
  }
}

static void hear_member(struct crew *crew, struct crew_member *member) {
  struct record record;
  int got = record_read(&member->reader, member->report_fd), more;
  member->heard_ns = moment_now_ns();
  while ((more = record_next(&member->reader, &record)) > 0) take_record(crew, member, &record);
  if (got >= 0 && more == 0) return;
  close(member->report_fd);
  member->report_fd = -1;
}

static void reap_members(struct crew *crew) {
  for (size_t i = 0; i < crew->count; i++) {
    struct crew_member *member = &crew->members[i];
    if (member->pid && waitpid(member->pid, &member->wait_status, WNOHANG) == member->pid) member->pid = 0;
  }
}

static void take_signals(struct crew *crew) {
  struct signalfd_siginfo info;
  while (read(crew->signal_fd, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD && !crew->caught_signal) crew->caught_signal = (int)info.ssi_signo;
  reap_members(crew);
}

void crew_listen(struct crew *crew, int timeout_ms) {
  struct pollfd *fds = crew->polled;
  fds[0] = (struct pollfd){crew->signal_fd, POLLIN, 0};
  for (size_t i = 0; i < crew->count; i++) fds[i + 1] = (struct pollfd){crew->members[i].report_fd, POLLIN, 0};
  if (poll(fds, crew->count + 1, timeout_ms) <= 0) return;
  for (size_t i = 0; i < crew->count; i++)
    if (fds[i + 1].revents) hear_member(crew, &crew->members[i]);
  if (fds[0].revents) take_signals(crew);
}

void crew_tell(struct crew *crew, uint64_t word) {
  for (size_t i = 0; i < crew->count; i++) {
    ssize_t wrote = write(crew->members[i].control_fd, &word, sizeof word);
    if (wrote != sizeof word) continue; /* it is gone, and crew_find_lost says so */
  }
}

struct crew_member *crew_find_lost(struct crew *crew) {
  for (size_t i = 0; i < crew->count; i++)
    if (crew->members[i].failure[0]) return &crew->members[i];
  for (size_t i = 0; i < crew->count; i++)
    if (!crew->members[i].finished && crew->members[i].report_fd < 0) return &crew->members[i];
  return NULL;
}

void crew_describe_loss(const struct crew_member *member, char *text, size_t capacity_bytes) {
  int status = member->wait_status;
  if (member->failure[0])
    snprintf(text, capacity_bytes, "%s", member->failure);
  else if (member->pid)
    snprintf(text, capacity_bytes, "stopped talking");
  else if (WIFSIGNALED(status))
    snprintf(text, capacity_bytes, "killed by signal %d (%s) before it had finished", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else
    snprintf(text, capacity_bytes, "exited with status %d before it had finished", WEXITSTATUS(status));
}

static size_t count_running(const struct crew *crew) {
  size_t running = 0;
  for (size_t i = 0; i < crew->count; i++) running += crew->members[i].pid != 0;
  return running;
}

static void wait_members(struct crew *crew, uint64_t patience_ns) {
  uint64_t deadline_ns = moment_now_ns() + patience_ns;
  reap_members(crew);
  while (count_running(crew) && moment_now_ns() < deadline_ns) {
    crew_listen(crew, 20);
    reap_members(crew);
  }
}

static void kill_members(const struct crew *crew, int number) {
  for (size_t i = 0; i < crew->count; i++)
    if (crew->members[i].pid) kill(crew->members[i].pid, number);
}

void crew_end(struct crew *crew, uint64_t patience_ns) {
  wait_members(crew, patience_ns);
  kill_members(crew, SIGTERM);
  wait_members(crew, 2 * MOMENT_SECOND);
  kill_members(crew, SIGKILL);
  wait_members(crew, 10 * MOMENT_SECOND);
}

void crew_fini(struct crew *crew) {
  for (size_t i = 0; i < crew->count; i++) {
    if (crew->members[i].report_fd >= 0) close(crew->members[i].report_fd);
    close(crew->members[i].control_fd);
    record_reader_fini(&crew->members[i].reader);
  }
  if (crew->signal_fd >= 0) close(crew->signal_fd);
  free(crew->members);
  free(crew->polled);
  *crew = (struct crew){.signal_fd = -1};
}
