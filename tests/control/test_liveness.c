/* Heartbeats between real processes: stopped, killed and woken ones, and what an idle engine costs. */
#include "node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEARTBEAT_MS = 100, PEER_COUNT = 8 };

#if defined(__SANITIZE_ADDRESS__)
enum { IDLE_LIMIT_PER_MILLE = 30 };
#else
enum { IDLE_LIMIT_PER_MILLE = 5 };
#endif

static void settle(struct node *node, struct control_session *session) {
  control_session_settled(session);
}

struct child {
  pid_t pid;
  char address[64];
};

/* Another process that listens, settles whatever comes, and lives until it is killed. */
static struct child start_child(uint8_t identity, uint64_t heartbeat_ms) {
  struct child child = {0};
  int channel[2];
  assert_int_equal(pipe(channel), 0);
  pid_t parent = getpid();
  child.pid = fork();
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    uv_loop_t loop;
    struct node node;
    uv_loop_init(&loop);
    node_open(&node, &loop, identity, (struct node_options){.heartbeat_ms = heartbeat_ms});
    node.on_up = settle;
    char text[64] = {0};
    snprintf(text, sizeof text, "%s", control_address(node.control));
    if (write(channel[1], text, sizeof text) != sizeof text) _exit(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
  }
  assert_true(child.pid > 0);
  close(channel[1]);
  assert_int_equal(read(channel[0], child.address, sizeof child.address), sizeof child.address);
  close(channel[0]);
  return child;
}

static void end_child(struct child *child) {
  kill(child->pid, SIGKILL);
  assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

static void a_stopped_process_is_lost_after_four_heartbeats(void **state) {
  struct child child = start_child(1, HEARTBEAT_MS);
  struct node node;
  node_open(&node, *state, 2, (struct node_options){.heartbeat_ms = HEARTBEAT_MS});
  node.on_up = settle;
  control_dial_stop(node_dial(&node, child.address));
  struct control_dial *dial = node_dial(&node, child.address);
  NODE_WAIT(*state, 3000, node.ups == 1);
  control_dial_stop(dial);
  node_turn_for(*state, 10 * HEARTBEAT_MS);
  assert_int_equal(node.downs, 0); /* idle is not dead */
  kill(child.pid, SIGSTOP);
  uint64_t start_ns = base_clock_ns();
  NODE_WAIT(*state, 20 * HEARTBEAT_MS, node.downs == 1);
  uint64_t took_ms = (base_clock_ns() - start_ns) / BASE_NS_PER_MS;
  print_message("lost after %llu ms at a heartbeat of %d ms\n", (unsigned long long)took_ms, HEARTBEAT_MS);
  assert_true(took_ms >= 3 * HEARTBEAT_MS - HEARTBEAT_MS / 2 && took_ms <= 6 * HEARTBEAT_MS);
  assert_int_equal(kvf_error_status(node.down_error), KVF_PEER_LOST);
  assert_non_null(kvf_error_find(node.down_error, "silent_ms"));
  assert_string_equal(kvf_error_find(node.down_error, "remote"), child.address);
  struct control_totals totals;
  control_totals_get(node.control, &totals);
  assert_true(totals.heartbeats_missed >= 5);
  end_child(&child);
  node_close(&node, *state);
}

/* With the default heartbeat, whoever of the two has dialled: suspect first, lost within a second, up again when it goes on. */
static void a_stopped_process_is_lost_within_a_second(void **state) {
  struct child child = start_child(1, 200);
  struct node node;
  node_open(&node, *state, 2, (struct node_options){0});
  node.on_up = settle;
  node_dial(&node, child.address);
  NODE_WAIT(*state, 3000, node.ups == 1);
  node_turn_for(*state, 300);
  assert_int_equal(control_session_silence_ns(node.session), 0);
  kill(child.pid, SIGSTOP);
  uint64_t start_ns = base_clock_ns();
  NODE_WAIT(*state, 700, control_session_silence_ns(node.session) > 300 * BASE_NS_PER_MS);
  assert_int_equal(node.downs, 0);
  NODE_WAIT(*state, 2000, node.downs == 1);
  uint64_t took_ms = (base_clock_ns() - start_ns) / BASE_NS_PER_MS;
  print_message("lost after %llu ms with defaults\n", (unsigned long long)took_ms);
  assert_true(took_ms <= 1000);
  kill(child.pid, SIGCONT);
  start_ns = base_clock_ns();
  NODE_WAIT(*state, 2000, node.ups == 2);
  print_message("up again after %llu ms\n", (unsigned long long)((base_clock_ns() - start_ns) / BASE_NS_PER_MS));
  end_child(&child);
  node_close(&node, *state);
}

/* Eight processes that want every core: an answering peer is late, not dead. */
static void a_busy_machine_condemns_nobody(void **state) {
  pid_t hogs[8];
  struct child child = start_child(1, 200);
  struct node node;
  node_open(&node, *state, 2, (struct node_options){0});
  node.on_up = settle;
  node_dial(&node, child.address);
  NODE_WAIT(*state, 3000, node.ups == 1);
  for (int i = 0; i < 8; i++) {
    hogs[i] = fork();
    if (hogs[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {
      }
    }
  }
  node_turn_for(*state, 3000);
  for (int i = 0; i < 8; i++) end_child(&(struct child){.pid = hogs[i]});
  assert_int_equal(node.downs, 0);
  end_child(&child);
  node_close(&node, *state);
}

static void a_killed_process_is_lost_at_once(void **state) {
  struct child child = start_child(1, 10000);
  struct node node;
  node_open(&node, *state, 2, (struct node_options){.heartbeat_ms = 10000});
  node_dial(&node, child.address);
  NODE_WAIT(*state, 3000, node.ups == 1);
  end_child(&child);
  uint64_t start_ns = base_clock_ns();
  NODE_WAIT(*state, 1000, node.downs == 1);
  assert_true(base_clock_ns() - start_ns < 200 * BASE_NS_PER_MS);
  assert_int_equal(kvf_error_status(node.down_error), KVF_PEER_LOST);
  node_close(&node, *state);
}

/* We were stopped ourselves: that the others were not heard meanwhile says nothing about them. */
static void waking_up_condemns_nobody(void **state) {
  struct child child = start_child(1, 10000);
  struct node node;
  node_open(&node, *state, 2, (struct node_options){.heartbeat_ms = 50});
  node.on_up = settle;
  node_dial(&node, child.address);
  NODE_WAIT(*state, 3000, node.ups == 1);
  node_turn_for(*state, 100);
  usleep(1000000); /* the loop stands still for twenty heartbeats */
  node_turn_for(*state, 500);
  assert_int_equal(node.downs, 0);
  end_child(&child);
  node_close(&node, *state);
}

/* A peer with the longer heartbeat is asked, one with a shorter asks: one PING and one PONG an interval for a pair, not two. */
static void an_idle_pair_exchanges_one_ping_per_interval(void **state) {
  struct node a, b;
  node_open(&a, *state, 1, (struct node_options){.heartbeat_ms = HEARTBEAT_MS});
  node_open(&b, *state, 2, (struct node_options){.heartbeat_ms = HEARTBEAT_MS});
  a.on_up = b.on_up = settle;
  node_dial(&b, control_address(a.control));
  NODE_WAIT(*state, 3000, a.ups && b.ups);
  struct control_totals before, after;
  control_totals_get(a.control, &before);
  node_turn_for(*state, 20 * HEARTBEAT_MS);
  control_totals_get(a.control, &after);
  uint64_t frames = (after.bytes_received - before.bytes_received) / (WIRE_FRAME_BYTES + 8);
  if (frames < 10 || frames > 22) fail_msg("%llu frames in 20 heartbeats", (unsigned long long)frames);
  assert_int_equal(after.heartbeats_missed, 0);
  node_close(&a, *state);
  node_close(&b, *state);
}

static int64_t cpu_us(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ll + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void end_wait(uv_timer_t *timer) {
  uv_stop(timer->loop);
}

static void idling_with_eight_peers_costs_next_to_nothing(void **state) {
  struct child children[PEER_COUNT];
  struct node node;
  uv_timer_t timer;
  for (int i = 0; i < PEER_COUNT; i++) children[i] = start_child((uint8_t)(10 + i), 200);
  node_open(&node, *state, 2, (struct node_options){.heartbeat_ms = 200});
  node.on_up = settle;
  for (int i = 0; i < PEER_COUNT; i++) node_dial(&node, children[i].address);
  NODE_WAIT(*state, 5000, node.ups == PEER_COUNT);
  uv_timer_init(*state, &timer);
  uv_timer_start(&timer, end_wait, 4000, 0);
  int64_t start_us = cpu_us();
  uint64_t start_ns = base_clock_ns();
  uv_run(*state, UV_RUN_DEFAULT);
  int64_t used_us = cpu_us() - start_us, wall_us = (int64_t)((base_clock_ns() - start_ns) / 1000);
  print_message("%.3f %% of a core with %d idle peers\n", 100.0 * (double)used_us / (double)wall_us, PEER_COUNT);
  assert_true(used_us * 1000 < wall_us * IDLE_LIMIT_PER_MILLE);
  assert_int_equal(node.downs, 0);
  uv_close((uv_handle_t *)&timer, NULL);
  node_close(&node, *state);
  for (int i = 0; i < PEER_COUNT; i++) end_child(&children[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      NODE_TEST(a_stopped_process_is_lost_after_four_heartbeats),
      NODE_TEST(a_stopped_process_is_lost_within_a_second),
      NODE_TEST(a_busy_machine_condemns_nobody),
      NODE_TEST(a_killed_process_is_lost_at_once),
      NODE_TEST(waking_up_condemns_nobody),
      NODE_TEST(an_idle_pair_exchanges_one_ping_per_interval),
      NODE_TEST(idling_with_eight_peers_costs_next_to_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
