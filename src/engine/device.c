/* While anything is under way on the GPU the thread asks for its end: without a pause at first, since a copy takes tens of
 * microseconds, then at pauses that grow, since a computation may take a second. */
#include "engine/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"

enum { BUSY_ROUNDS = 200 };
#define PAUSE_LEAST_NS (20 * BASE_NS_PER_MS / 1000)
#define PAUSE_MOST_NS (1 * BASE_NS_PER_MS)

struct fence {
  struct base_list node;
  struct memory_device_order *order;
  int fd;
};

struct flight {
  struct transfer_job *job; /* NULL: the lane is free */
  uint64_t started_ns;
};

struct engine_device {
  struct memory_device *memory;
  struct copy_device *copies;
  void (*finish)(void *context, struct transfer_job *job);
  void *context;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct base_list jobs, fences; /* under the lock */
  bool stopping;
  struct flight flights[MEMORY_DEVICE_LANES]; /* the thread's, as all below */
  uint32_t flight_count;
  struct base_list watched;
};

/* ---- copies ---- */

static void finish_job(struct engine_device *device, struct transfer_job *job, uint64_t started_ns, kvf_error *error) {
  transfer_job_end(job, started_ns, error);
  device->finish(device->context, job);
}

/* False when the lanes are out: the job waits. */
static bool begin_job(struct engine_device *device, struct transfer_job *job) {
  uint32_t lane;
  kvf_error *error = NULL;
  struct copy_order order;
  const uint64_t now_ns = base_clock_ns();
  if (device->flight_count == MEMORY_DEVICE_LANES) return false;
  if (!transfer_job_begin(job, &order)) {
    finish_job(device, job, now_ns, NULL);
  } else if (copy_device_begin(device->copies, &order, &lane, &error) == KVF_OK) {
    device->flights[lane] = (struct flight){.job = job, .started_ns = now_ns};
    device->flight_count++;
  } else {
    finish_job(device, job, now_ns, error);
  }
  return true;
}

static bool poll_flights(struct engine_device *device) {
  bool did = false;
  for (uint32_t lane = 0; lane < MEMORY_DEVICE_LANES; lane++) {
    struct flight *flight = &device->flights[lane];
    kvf_error *error = NULL;
    if (!flight->job || copy_device_poll(device->copies, lane, &error) == COPY_BUSY) continue;
    struct transfer_job *job = flight->job;
    flight->job = NULL;
    device->flight_count--;
    did = true;
    finish_job(device, job, flight->started_ns, error);
  }
  return did;
}

/* ---- fences ---- */

static void end_fence(struct fence *fence, uint64_t count) {
  base_list_remove(&fence->node);
  if (write(fence->fd, &count, sizeof count) < 0) {} /* an eventfd at 0 takes it */
  close(fence->fd);
  memory_device_ops()->order_close(fence->order);
  base_free(fence);
}

static bool poll_fences(struct engine_device *device) {
  bool did = false;
  BASE_LIST_EACH(&device->watched, node) {
    struct fence *fence = BASE_CONTAINER(node, struct fence, node);
    struct memory_device_failure failure;
    enum memory_device_state state = memory_device_ops()->order_poll(fence->order, &failure);
    if (state == MEMORY_DEVICE_BUSY) continue;
    end_fence(fence, state == MEMORY_DEVICE_DONE ? 1 : 2);
    did = true;
  }
  return did;
}

static struct memory_device_order *open_order(struct engine_device *device, void *stream, void *event, kvf_error **error_out) {
  struct memory_device_failure failure;
  struct memory_device_order *order = NULL;
  if (!memory_device_ops()->order_open(device->memory, stream, event, &order, &failure))
    *error_out = base_error_add(memory_device_error(&failure), "handle", "%p", event ? event : stream);
  return order;
}

kvf_status engine_device_fence(struct engine_device *device, void *stream, void *event, int *fence_fd_out, kvf_error **error_out) {
  kvf_error *error = NULL;
  struct fence *fence = base_calloc(1, sizeof *fence);
  if (!fence) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a fence"), error_out);
  base_list_init(&fence->node);
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  fence->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (fence->fd < 0)
    error = BASE_ERROR_ERRNO("eventfd", errno);
  else
    fence->order = open_order(device, stream, event, &error);
  if (error) {
    if (fence->fd >= 0) close(fence->fd);
    if (fd >= 0) close(fd);
    base_free(fence);
    return base_error_give(error, error_out);
  }
  pthread_mutex_lock(&device->lock);
  base_list_push_back(&device->fences, &fence->node);
  pthread_cond_signal(&device->changed);
  pthread_mutex_unlock(&device->lock);
  *fence_fd_out = fd;
  return KVF_OK;
}

/* ---- the thread ---- */

/* What is new; sleeps without a limit when nothing is under way. False at the end. Lock held. */
static bool take_new(struct engine_device *device, uint64_t pause_ns, struct base_list *jobs_out) {
  bool idle = device->flight_count == 0 && base_list_empty(&device->watched) && base_list_empty(jobs_out);
  if (idle) {
    while (base_list_empty(&device->jobs) && base_list_empty(&device->fences) && !device->stopping)
      pthread_cond_wait(&device->changed, &device->lock);
  } else if (pause_ns && base_list_empty(&device->jobs) && !device->stopping) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t at_ns = (uint64_t)until.tv_sec * BASE_NS_PER_S + (uint64_t)until.tv_nsec + pause_ns;
    until = (struct timespec){.tv_sec = (time_t)(at_ns / BASE_NS_PER_S), .tv_nsec = (long)(at_ns % BASE_NS_PER_S)};
    pthread_cond_timedwait(&device->changed, &device->lock, &until);
  }
  base_list_splice(jobs_out, &device->jobs);
  base_list_splice(&device->watched, &device->fences);
  return !device->stopping || device->flight_count || !base_list_empty(jobs_out);
}

static bool begin_jobs(struct engine_device *device, struct base_list *jobs) {
  bool did = false;
  while (!base_list_empty(jobs)) {
    struct base_list *node = jobs->next;
    base_list_remove(node);
    if (!begin_job(device, BASE_CONTAINER(node, struct transfer_job, node))) {
      base_list_push_front(jobs, node);
      break;
    }
    did = true;
  }
  return did;
}

static void *run_device(void *argument) {
  struct engine_device *device = argument;
  struct base_list jobs;
  uint32_t rounds = 0;
  uint64_t pause_ns = 0;
  base_list_init(&jobs);
  for (;;) {
    pthread_mutex_lock(&device->lock);
    bool going = take_new(device, pause_ns, &jobs);
    pthread_mutex_unlock(&device->lock);
    if (!going) break;
    bool did = begin_jobs(device, &jobs);
    did = poll_flights(device) || did;
    did = poll_fences(device) || did;
    rounds = did ? 0 : rounds + 1;
    if (rounds < BUSY_ROUNDS)
      pause_ns = 0;
    else
      pause_ns = pause_ns ? base_min_u64(pause_ns * 2, PAUSE_MOST_NS) : PAUSE_LEAST_NS;
    if (rounds && !pause_ns) sched_yield();
  }
  /* Nobody waits for these any more: their rooms are over. */
  BASE_LIST_EACH(&device->watched, node) end_fence(BASE_CONTAINER(node, struct fence, node), 2);
  return NULL;
}

static int start_thread(struct engine_device *device) {
  sigset_t all, before;
  pthread_condattr_t attributes;
  pthread_mutex_init(&device->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&device->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = pthread_create(&device->thread, NULL, run_device, device);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failure;
}

static void free_device(struct engine_device *device) {
  copy_device_destroy(device->copies);
  memory_device_close(device->memory);
  base_free(device);
}

kvf_status engine_device_create(struct memory_device *memory, uint64_t piece_bytes,
                                void (*finish)(void *context, struct transfer_job *job), void *context,
                                struct engine_device **device_out, kvf_error **error_out) {
  struct engine_device *device = base_calloc(1, sizeof *device);
  if (!device) {
    memory_device_close(memory);
    return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the GPU's thread"), error_out);
  }
  *device = (struct engine_device){.memory = memory, .finish = finish, .context = context};
  base_list_init(&device->jobs);
  base_list_init(&device->fences);
  base_list_init(&device->watched);
  kvf_status status = copy_device_create(memory, piece_bytes, &device->copies, error_out);
  int failure = status == KVF_OK ? start_thread(device) : 0;
  if (failure) status = base_error_give(BASE_ERROR_ERRNO("pthread_create", failure), error_out);
  if (status != KVF_OK) {
    free_device(device);
    return status;
  }
  *device_out = device;
  return KVF_OK;
}

void engine_device_destroy(struct engine_device *device) {
  if (!device) return;
  pthread_mutex_lock(&device->lock);
  device->stopping = true;
  pthread_cond_signal(&device->changed);
  pthread_mutex_unlock(&device->lock);
  pthread_join(device->thread, NULL);
  pthread_cond_destroy(&device->changed);
  pthread_mutex_destroy(&device->lock);
  free_device(device);
}

void engine_device_submit(struct engine_device *device, struct transfer_job *job) {
  pthread_mutex_lock(&device->lock);
  base_list_init(&job->node);
  base_list_push_back(&device->jobs, &job->node);
  pthread_cond_signal(&device->changed);
  pthread_mutex_unlock(&device->lock);
}
