/* The two UCX providers between processes of which one is killed or stopped. The other side is this program again, started anew
 * with a role, because UCX does not survive a fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "fabric_ucx/ucx.h"
#include "ucx_side.h"

enum { AREA_BYTES = 4 << 20, PIECE_BYTES = 1 << 20, CHANNEL_FD = 3, PIECE_LIMIT = 16 };

/* What a receiver tells a sender out of band. */
struct invitation {
  size_t address_bytes, key_bytes;
  uint8_t address[FABRIC_ADDRESS_LIMIT_BYTES];
  uint8_t key[FABRIC_KEY_LIMIT_BYTES];
};

static const struct mode {
  const char *name;
  const struct fabric_ops *ops;
  const char *settings;
  int kill_rounds; /* over shared memory a death is noticed by a keepalive of one second */
} modes[] = {{"message", &fabric_ucx_ops, NULL, 20}, {"one-sided", &fabric_rdma_ops, "emulate=1", 6}};

struct child {
  pid_t pid;
  int channel;
};

static struct child start_child(const char *role, const struct mode *mode) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(pair[1], CHANNEL_FD) < 0) _exit(90);
    execl("/proc/self/exe", "ucx_faults", role, mode->name, (char *)NULL);
    _exit(91);
  }
  assert_true(pid > 0);
  close(pair[1]);
  return (struct child){pid, pair[0]};
}

static void end_child(struct child *child, int signal_number) {
  int status;
  kill(child->pid, signal_number);
  assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
  close(child->channel);
}

static void invite(struct ucx_side *side, int channel) {
  struct invitation invitation = {0};
  const struct fabric_ops *ops = side->fabric->ops;
  invitation.address_bytes = ops->address(side->fabric, invitation.address);
  invitation.key_bytes = ops->region_key(side->region, invitation.key);
  assert_int_equal(send(channel, &invitation, sizeof invitation, MSG_NOSIGNAL), sizeof invitation);
}

static void follow(struct ucx_side *side, const struct invitation *invitation) {
  uint64_t ready = side->ready_count + 1;
  assert_int_equal(ucx_side_connect(side, invitation->address, invitation->address_bytes, NULL), KVF_OK);
  assert_true(ucx_side_run(side, NULL, &side->ready_count, ready, 5000));
  if (!invitation->key_bytes) return;
  assert_int_equal(
      side->fabric->ops->key_import(side->endpoint, UCX_SIDE_REGION, 1, AREA_BYTES, invitation->key, invitation->key_bytes, NULL),
      KVF_OK);
}

/* Send until as many pieces are under way as this test wants. */
static void fill(struct ucx_side *side, const uint8_t *payload, uint64_t *posted) {
  static const uint64_t sizes[] = {PIECE_BYTES, 70000, 3000, 300000};
  for (; *posted - side->sent_count < PIECE_LIMIT; (*posted)++) {
    uint64_t length = sizes[*posted % 4];
    kvf_status status = ucx_side_send(side, payload, length, *posted % 3 * 1000, 1, 1 + *posted % 5, NULL);
    if (status == KVF_PEER_LOST) return;
    assert_int_equal(status, KVF_OK);
  }
}

static int be_sender(const struct mode *mode) {
  static uint8_t payload[PIECE_BYTES];
  struct ucx_side side;
  struct invitation invitation;
  uint64_t posted = 0;
  memset(payload, 0x5a, sizeof payload);
  if (recv(CHANNEL_FD, &invitation, sizeof invitation, 0) != sizeof invitation) return 1;
  if (ucx_side_open(&side, mode->ops, mode->settings, NULL)) return 2;
  follow(&side, &invitation);
  for (;;) {
    fill(&side, payload, &posted);
    ucx_side_run(&side, NULL, &side.sent_count, side.sent_count + 1, 20);
  }
}

static int be_receiver(const struct mode *mode) {
  struct ucx_side side;
  if (ucx_side_open(&side, mode->ops, mode->settings, NULL)) return 2;
  ucx_side_expose(&side, AREA_BYTES);
  side.fabric->ops->token_admit(side.fabric, UCX_SIDE_TOKEN, NULL);
  invite(&side, CHANNEL_FD);
  for (;;) ucx_side_idle(&side, NULL, 1000);
}

static void kill_one_sender(struct ucx_side *receiver, const struct mode *mode, bool early, uint64_t delay_us) {
  struct child child = start_child("sender", mode);
  uint64_t landed = receiver->landed_count;
  invite(receiver, child.channel);
  if (!early) assert_true(ucx_side_run(receiver, NULL, &receiver->landed_count, landed + 3, 10000));
  /* Counted from here: this sender may first have taken the token over from one that was killed early. */
  uint64_t lost = receiver->lost_count;
  uint64_t until_ns = base_clock_ns() + delay_us * 1000;
  while (base_clock_ns() < until_ns) receiver->fabric->ops->progress(receiver->fabric);
  end_child(&child, SIGKILL);
  if (early) {
    ucx_side_idle(receiver, NULL, 50);
    return;
  }
  assert_true(ucx_side_run(receiver, NULL, &receiver->lost_count, lost + 1, 6000));
  /* Nothing is written any more. */
  landed = receiver->landed_count;
  memset(receiver->memory.address, 0x11, AREA_BYTES);
  ucx_side_idle(receiver, NULL, 30);
  assert_int_equal(receiver->landed_count, landed);
  const uint8_t *area = receiver->memory.address;
  assert_memory_equal(area, area + 1, AREA_BYTES - 1);
  assert_int_equal(area[0], 0x11);
}

static void a_killed_sender_harms_nobody(void **state) {
  const struct mode *mode = *state;
  struct ucx_side receiver;
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : base_clock_ns();
  print_message("KVF_SEED=%llu\n", (unsigned long long)seed);
  assert_int_equal(ucx_side_open(&receiver, mode->ops, mode->settings, NULL), KVF_OK);
  ucx_side_expose(&receiver, AREA_BYTES);
  receiver.place_parts = 3;
  assert_int_equal(mode->ops->token_admit(receiver.fabric, UCX_SIDE_TOKEN, NULL), KVF_OK);
  for (int round = 0; round < mode->kill_rounds; round++)
    kill_one_sender(&receiver, mode, round % 5 == 4, base_random_next(&seed) % 20000);
  ucx_side_close(&receiver);
}

static void open_sender(struct ucx_side *sender, const struct mode *mode, struct child *receiver,
                        struct invitation *invitation_out) {
  *receiver = start_child("receiver", mode);
  assert_int_equal(recv(receiver->channel, invitation_out, sizeof *invitation_out, 0), sizeof *invitation_out);
  assert_int_equal(ucx_side_open(sender, mode->ops, mode->settings, NULL), KVF_OK);
  follow(sender, invitation_out);
}

static void a_killed_receiver_ends_the_endpoint(void **state) {
  const struct mode *mode = *state;
  static uint8_t payload[PIECE_BYTES];
  struct ucx_side sender;
  struct child receiver;
  struct invitation invitation;
  uint64_t posted = 0;
  open_sender(&sender, mode, &receiver, &invitation);
  fill(&sender, payload, &posted);
  ucx_side_run(&sender, NULL, &sender.sent_count, 3, 1000);
  end_child(&receiver, SIGKILL);
  uint64_t deadline_ns = base_clock_ns() + 6 * BASE_NS_PER_S;
  while (!sender.down_count && base_clock_ns() < deadline_ns) {
    fill(&sender, payload, &posted);
    ucx_side_run(&sender, NULL, &sender.down_count, 1, 10);
  }
  assert_int_equal(sender.down_count, 1);
  assert_int_equal(sender.down_status, KVF_PEER_LOST);
  assert_int_equal(sender.sent_count, posted);
  assert_int_equal(sender.cancelled_count, 0);
  assert_false(sender.sent_after_down);
  if (sender.broken_count) assert_int_equal(sender.broken_status, KVF_PEER_LOST);
  sender.fabric->ops->disconnect(sender.endpoint);
  ucx_side_idle(&sender, NULL, 20);
  ucx_side_close(&sender);
}

static void a_stopped_receiver_holds_nothing_back(void **state) {
  /* UCX 1.13 itself may crash here, in its TCP transport (docs/fabrics.md). */
  if (!getenv("KVF_LONG")) skip();
  const struct mode *mode = *state;
  static uint8_t payload[PIECE_BYTES];
  struct ucx_side sender;
  struct child receiver;
  struct invitation invitation;
  uint64_t posted = 0;
  open_sender(&sender, mode, &receiver, &invitation);
  kill(receiver.pid, SIGSTOP);
  fill(&sender, payload, &posted);
  ucx_side_idle(&sender, NULL, 200);
  uint64_t before = sender.sent_count, start_ns = base_clock_ns();
  sender.fabric->ops->disconnect(sender.endpoint);
  assert_true(ucx_side_run(&sender, NULL, &sender.sent_count, posted, 500));
  print_message("%llu of %llu pieces cancelled in %llu us\n", (unsigned long long)(posted - before), (unsigned long long)posted,
                (unsigned long long)(base_clock_ns() - start_ns) / 1000);
  assert_int_equal(sender.cancelled_count, posted - before);
  assert_int_equal(sender.down_count, 0);
  kill(receiver.pid, SIGCONT);
  follow(&sender, &invitation);
  fill(&sender, payload, &posted);
  assert_true(ucx_side_run(&sender, NULL, &sender.sent_count, posted, 5000));
  end_child(&receiver, SIGKILL);
  ucx_side_close(&sender);
}

static const struct mode *find_mode(const char *name) {
  return &modes[strcmp(name, modes[0].name) != 0];
}

#define IN_BOTH(test)                                          \
  {#test " (message)", test, NULL, NULL, (void *)&modes[0]}, { \
#test " (one-sided)", test, NULL, NULL, (void *)&modes[1]  \
  }

int main(int argc, char **argv) {
  struct ucx_side probe;
  if (argc == 3 && !strcmp(argv[1], "sender")) return be_sender(find_mode(argv[2]));
  if (argc == 3 && !strcmp(argv[1], "receiver")) return be_receiver(find_mode(argv[2]));
  if (ucx_side_open(&probe, &fabric_ucx_ops, NULL, NULL) == KVF_UNAVAILABLE) {
    puts("UCX is not installed here");
    return 77;
  }
  ucx_side_close(&probe);
  const struct CMUnitTest tests[] = {
      IN_BOTH(a_killed_sender_harms_nobody),
      IN_BOTH(a_killed_receiver_ends_the_endpoint),
      IN_BOTH(a_stopped_receiver_holds_nothing_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
