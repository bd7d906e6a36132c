/* What an engine costs over time: nothing while idle, nothing more after many rooms. Figures are printed.
 * KVF_LONG=1 runs ten times as many rooms. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The sanitizers keep freed memory for a while. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { GROWTH_LIMIT_KIB = 65536 };
#else
enum { GROWTH_LIMIT_KIB = 2048 };
#endif

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Eight decode engines and one prefill engine in this process: the cost of all nine is a bound for that of one. */
static void idle_with_eight_peers_costs_next_to_nothing(void **state) {
  static struct rig rig;
  struct rig_options options = {.decode = {.tp = 8}, .heads = 8};
  rig_open(&rig, &options);
  rig_connect(&rig);
  rig_run_room(&rig, 1, 64, 0, 64);
  usleep(500000);
  double before = cpu_seconds();
  sleep(10);
  double share = (cpu_seconds() - before) / 10;
  printf("idle: 9 engines, 16 session ends: %.3f %% of a core in all, %.3f %% an engine\n", share * 100, share * 100 / 9);
  assert_true(share / 2 < 0.005); /* the prefill engine holds half of the session ends */
  rig_close(&rig);
}

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static uint32_t open_files(void) {
  uint32_t count = 0;
  for (int fd = 0; fd < 1024; fd++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    count += access(path, F_OK) == 0;
  }
  return count;
}

static void many_rooms_leave_nothing_behind(void **state) { /* C59 */
  static struct rig rig;
  struct rig_options options = {.prefill = {.tp = 2}, .engine = {.arena_bytes = 1 << 20}};
  uint64_t rooms = getenv("KVF_LONG") ? 100000 : 10000;
  rig_open(&rig, &options);
  rig_connect(&rig);
  /* Allocators keep what they once had: warm up, with the longest and the shortest prompt. */
  for (uint64_t room = 1; room <= 1000; room++) rig_run_room(&rig, room, room % 40, 0, 16);
  long before = resident_kib();
  uint32_t files = open_files();
  for (uint64_t room = 2000; room < 2000 + rooms; room++) {
    /* One in seven is given up by one of the two sides. */
    if (room % 7) {
      rig_run_room(&rig, room, room % 40, 0, 16);
      continue;
    }
    static struct rig_pages pages;
    rig_pages_draw(&rig, &rig.options.decode, 0, 20, &pages);
    kvf_send *send = rig_send_open(&rig.prefill[0], room);
    kvf_send *other = rig_send_open(&rig.prefill[1], room);
    kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], room, &pages, 0, 20);
    kvf_engine *engines[] = {rig.prefill[0].engine, rig.prefill[1].engine, rig.decode[0].engine};
    if (room % 2)
      kvf_recv_cancel(recv, NULL);
    else
      kvf_send_cancel(send, NULL);
    for (int i = 0; i < 3; i++) kvf_error_free(rig_wait(engines[i], i < 2 ? KVF_EVENT_SEND_END : KVF_EVENT_RECV_END).error);
    kvf_send_close(send);
    kvf_send_close(other);
    kvf_recv_close(recv);
  }
  long after = resident_kib();
  printf("%llu rooms: resident memory %ld KiB before, %ld KiB after\n", (unsigned long long)rooms, before, after);
  assert_true(after - before < GROWTH_LIMIT_KIB);
  assert_int_equal(open_files(), files);
  rig_close(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(idle_with_eight_peers_costs_next_to_nothing),
      cmocka_unit_test(many_rooms_leave_nothing_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
