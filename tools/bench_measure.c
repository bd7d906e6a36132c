/* Measures. Children are one per measurement, die with this process, and every socket call of theirs and ours has a time limit. */
#include "bench_measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moment.h"

enum {
  CALL_BYTES = 256 << 10,
  CALL_PARTS = 4,
  STREAM_BYTES = 256 << 20,
  TRIP_COUNT = 2000,
  SMALL_BYTES = 4096,
  SMALL_COPIES = 200000,
  WAIT_MS = 5000,
  ROUND_LIMIT = 101
};

static int compare_values(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

double bench_quantile(double *values, size_t count, double quantile) {
  if (count == 0) return 0;
  qsort(values, count, sizeof *values, compare_values);
  return values[(size_t)(quantile * (double)(count - 1) + 0.5)];
}

struct bench_stat bench_stat_of(double *values, size_t count) {
  if (count == 0) return (struct bench_stat){0};
  double median = bench_quantile(values, count, 0.5);
  return (struct bench_stat){median, values[0], values[count - 1]};
}

static char *map_buffer(size_t bytes, int fill) {
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  madvise(memory, bytes, MADV_HUGEPAGE);
  madvise(memory, bytes, MADV_DONTFORK); /* or the first copy after a fork would pay for copies on write */
  memset(memory, fill, bytes);
  return memory;
}

bool bench_copy_init(struct bench_copy *copy, uint64_t bytes, struct complaint *complaint) {
  size_t buffer_bytes = bytes < BENCH_COPY_LIMIT_BYTES ? (size_t)bytes : BENCH_COPY_LIMIT_BYTES;
  *copy = (struct bench_copy){.buffer_bytes = buffer_bytes, .from = map_buffer(buffer_bytes, 1), .to = map_buffer(buffer_bytes, 2)};
  if (copy->from && copy->to) return true;
  bench_copy_fini(copy);
  return complain(complaint, "no memory for two buffers of %zu bytes", buffer_bytes);
}

void bench_copy_fini(struct bench_copy *copy) {
  if (copy->from) munmap(copy->from, copy->buffer_bytes);
  if (copy->to) munmap(copy->to, copy->buffer_bytes);
  *copy = (struct bench_copy){0};
}

static uint64_t count_thread_ns(void) {
  struct timespec spent;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return (uint64_t)spent.tv_sec * MOMENT_SECOND + (uint64_t)spent.tv_nsec;
}

double bench_copy_run(struct bench_copy *copy, uint64_t bytes) {
  uint64_t start_ns = moment_now_ns(), start_cpu_ns = count_thread_ns();
  for (uint64_t left = bytes; left > 0;) {
    size_t length = left < copy->buffer_bytes ? (size_t)left : copy->buffer_bytes;
    memcpy(copy->to, copy->from, length);
    __asm__ volatile("" : : "r"(copy->to) : "memory"); /* keep the copy */
    left -= length;
  }
  uint64_t cpu_ns = count_thread_ns() - start_cpu_ns;
  copy->wall_ns += moment_now_ns() - start_ns;
  copy->cpu_ns += cpu_ns;
  return (double)bytes * 1e9 / (double)(cpu_ns ? cpu_ns : 1);
}

double bench_copy_share(const struct bench_copy *copy) {
  return copy->wall_ns > copy->cpu_ns ? (double)copy->cpu_ns / (double)copy->wall_ns : 1;
}

/* A child that does its part and exits; -1 when there is none. */
static pid_t fork_partner(void (*part)(const int *fds), const int *fds) {
  pid_t parent = getpid();
  fflush(NULL);
  pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) part(fds);
  _exit(0);
}

static void end_partner(pid_t pid) {
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

static void bound_socket(int fd) {
  const struct timeval limit = {.tv_sec = WAIT_MS / 1000};
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Two ends of one connection over 127.0.0.1. */
static bool connect_pair(int fds[2]) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fds[1] = -1;
  if (listener >= 0 && fds[0] >= 0 && !bind(listener, (void *)&address, sizeof address) && !listen(listener, 1) &&
      !getsockname(listener, (void *)&address, &length) && !connect(fds[0], (void *)&address, sizeof address))
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  close(listener);
  bound_socket(fds[0]);
  bound_socket(fds[1]);
  if (fds[1] < 0) close(fds[0]);
  return fds[1] >= 0;
}

/* Whole calls of CALL_PARTS parts until @p bytes have passed. */
static bool stream(int fd, char *memory, uint64_t bytes, ssize_t (*call)(int fd, const struct iovec *parts, int count)) {
  const size_t part_bytes = CALL_BYTES / CALL_PARTS;
  while (bytes > 0) {
    struct iovec parts[CALL_PARTS];
    for (int i = 0; i < CALL_PARTS; i++) parts[i] = (struct iovec){memory + (size_t)i * part_bytes, part_bytes};
    ssize_t passed = call(fd, parts, CALL_PARTS);
    if (passed <= 0) return false;
    bytes -= (uint64_t)passed < bytes ? (uint64_t)passed : bytes;
  }
  return true;
}

static void send_stream(const int *fds) {
  static char memory[CALL_BYTES];
  memset(memory, 3, sizeof memory);
  stream(fds[1], memory, STREAM_BYTES, writev);
}

static void echo_bytes(const int *fds) {
  char byte;
  while (read(fds[1], &byte, 1) == 1 && write(fds[1], &byte, 1) == 1) continue;
}

static void echo_wakes(const int *fds) {
  uint64_t word;
  while (read(fds[1], &word, sizeof word) == sizeof word && write(fds[0], &word, sizeof word) == sizeof word) continue;
}

static double measure_stream(void) {
  static char memory[CALL_BYTES];
  int fds[2];
  if (!connect_pair(fds)) return 0;
  uint64_t start_ns = moment_now_ns();
  pid_t pid = fork_partner(send_stream, fds);
  bool good = pid > 0 && stream(fds[0], memory, STREAM_BYTES, readv);
  uint64_t spent_ns = moment_now_ns() - start_ns;
  end_partner(pid);
  close(fds[0]);
  close(fds[1]);
  return good ? (double)STREAM_BYTES * 1e9 / (double)spent_ns : 0;
}

/* The median time there and back, between an fd to write and one to read. */
static double time_trips(int to, int from, const void *word, void *back, size_t word_bytes) {
  double times[TRIP_COUNT];
  for (size_t i = 0; i < TRIP_COUNT; i++) {
    struct pollfd waited = {from, POLLIN, 0};
    uint64_t start_ns = moment_now_ns();
    if (write(to, word, word_bytes) != (ssize_t)word_bytes || poll(&waited, 1, WAIT_MS) != 1 ||
        read(from, back, word_bytes) != (ssize_t)word_bytes)
      return 0;
    times[i] = (double)(moment_now_ns() - start_ns);
  }
  return bench_quantile(times, TRIP_COUNT, 0.5);
}

static double measure_tcp_trip(void) {
  int fds[2];
  char byte = 1, back;
  if (!connect_pair(fds)) return 0;
  pid_t pid = fork_partner(echo_bytes, fds);
  double trip_ns = pid > 0 ? time_trips(fds[0], fds[0], &byte, &back, 1) : 0;
  end_partner(pid);
  close(fds[0]);
  close(fds[1]);
  return trip_ns;
}

static double measure_wake(void) {
  int fds[2] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
  uint64_t word = 1, back;
  pid_t pid = fork_partner(echo_wakes, fds);
  double trip_ns = pid > 0 ? time_trips(fds[1], fds[0], &word, &back, sizeof word) : 0;
  end_partner(pid);
  close(fds[0]);
  close(fds[1]);
  return trip_ns / 2;
}

static double measure_small_copies(void) {
  static char from[SMALL_BYTES], to[SMALL_BYTES];
  uint64_t start_ns = moment_now_ns();
  for (int i = 0; i < SMALL_COPIES; i++) {
    memcpy(to, from, SMALL_BYTES);
    __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
  }
  return (double)SMALL_BYTES * SMALL_COPIES * 1e9 / (double)(moment_now_ns() - start_ns);
}

bool bench_limits_measure(uint32_t rounds, struct bench_limits *limits_out, struct complaint *complaint) {
  double values[5][ROUND_LIMIT];
  struct bench_copy copy;
  if (rounds > ROUND_LIMIT) rounds = ROUND_LIMIT;
  if (!bench_copy_init(&copy, BENCH_COPY_LIMIT_BYTES, complaint)) return false;
  for (uint32_t i = 0; i < rounds; i++) {
    values[0][i] = measure_small_copies();
    values[1][i] = bench_copy_run(&copy, BENCH_COPY_LIMIT_BYTES);
    values[2][i] = measure_stream();
    values[3][i] = measure_tcp_trip();
    values[4][i] = measure_wake();
  }
  bench_copy_fini(&copy);
  *limits_out =
      (struct bench_limits){bench_stat_of(values[0], rounds), bench_stat_of(values[1], rounds), bench_stat_of(values[2], rounds),
                            bench_stat_of(values[3], rounds), bench_stat_of(values[4], rounds)};
  if (limits_out->tcp.least > 0 && limits_out->tcp_trip_ns.least > 0 && limits_out->wake_ns.least > 0) return true;
  return complain(complaint, "the limits of this host could not be measured: %s", strerror(errno));
}
