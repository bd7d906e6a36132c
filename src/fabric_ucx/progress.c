/* Turns the workers, and between turns does what their callbacks left to do.
 *
 * Order matters: settle runs before the workers too, so that what the caller has dropped is closed before another byte of it can be
 * written. The workers write into memory only from inside this function, so a drop is complete when it returns. */
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric_ucx/instance.h"
#include "fabric_ucx/receiver.h"
#include "fabric_ucx/sender.h"

enum { TURN_LIMIT = 64, SETTLE_LIMIT = 8, TICK_NS = 20000000 };

int fabric_ucx_event_fd(struct fabric *base) {
  return fabric_ucx_of(base)->event_fd;
}

static bool settle(struct fabric_ucx *fabric) {
  bool did = false;
  for (int i = 0; i < SETTLE_LIMIT && fabric->kicked; i++) {
    fabric->kicked = false;
    did = true;
    if (fabric->broken) {
      fabric->broken = false;
      fabric_ucx_sender_unsettle_broken(fabric);
      fabric_ucx_receiver_unsettle_broken(fabric);
    }
    fabric_ucx_sender_settle(fabric);
    fabric_ucx_receiver_settle(fabric);
  }
  return did;
}

static bool turn_workers(struct fabric_ucx *fabric) {
  for (int turn = 0; turn < TURN_LIMIT; turn++) {
    unsigned count = 0;
    for (size_t i = 0; i < fabric->worker_count; i++) count += fabric->library.ucp_worker_progress(fabric->workers[i]);
    if (!count) return turn > 0;
  }
  return true;
}

/* Deadlines are looked at by a slow tick, which runs only while somebody has one. */
static void set_tick(struct fabric_ucx *fabric) {
  bool wanted = !base_list_empty(&fabric->unsettled_endpoints) || !base_list_empty(&fabric->unsettled_connections);
  if (wanted == fabric->ticking) return;
  struct itimerspec interval = {{0, wanted ? TICK_NS : 0}, {0, wanted ? TICK_NS : 0}};
  if (!timerfd_settime(fabric->timer_fd, 0, &interval, NULL)) fabric->ticking = wanted;
}

static void read_tick(struct fabric_ucx *fabric) {
  uint64_t ticks;
  if (fabric->ticking && read(fabric->timer_fd, &ticks, sizeof ticks) == sizeof ticks) fabric->kicked = true;
}

bool fabric_ucx_progress(struct fabric *base) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  read_tick(fabric);
  bool did = settle(fabric);
  did |= turn_workers(fabric);
  did |= settle(fabric);
  set_tick(fabric);
  return did;
}

bool fabric_ucx_arm(struct fabric *base) {
  struct fabric_ucx *fabric = fabric_ucx_of(base);
  if (fabric->kicked) return false;
  for (size_t i = 0; i < fabric->worker_count; i++) {
    if (fabric->library.ucp_worker_arm(fabric->workers[i]) != UCS_OK) return false;
  }
  return true;
}
