/* One queue, one lock, one condition; a job is large enough (tens of microseconds) that this is not felt. */
#include "engine/workers.h"

#include <pthread.h>
#include <signal.h>

#include "base/alloc.h"

struct engine_workers {
  pthread_mutex_t lock;
  pthread_cond_t has_jobs;
  struct base_list jobs, finished;
  bool stopping;
  void (*wake)(void *context);
  void *context;
  const struct copy_backend *backend;
  uint32_t thread_count;
  pthread_t threads[];
};

/* Lock held. */
static void add_finished(struct engine_workers *workers, struct base_list *node) {
  bool first = base_list_empty(&workers->finished);
  base_list_push_back(&workers->finished, node);
  if (first) workers->wake(workers->context);
}

static void *run_worker(void *argument) {
  struct engine_workers *workers = argument;
  pthread_mutex_lock(&workers->lock);
  for (;;) {
    while (base_list_empty(&workers->jobs) && !workers->stopping) pthread_cond_wait(&workers->has_jobs, &workers->lock);
    struct base_list *node = base_list_pop_front(&workers->jobs);
    if (!node) break;
    pthread_mutex_unlock(&workers->lock);
    transfer_job_run(BASE_CONTAINER(node, struct transfer_job, node), workers->backend);
    pthread_mutex_lock(&workers->lock);
    add_finished(workers, node);
  }
  pthread_mutex_unlock(&workers->lock);
  return NULL;
}

kvf_status engine_workers_create(uint32_t thread_count, void (*wake)(void *context), void *context, struct engine_workers **workers_out,
                                 kvf_error **error_out) {
  struct engine_workers *workers = base_calloc(1, sizeof *workers + thread_count * sizeof workers->threads[0]);
  if (!workers) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the copy threads"), error_out);
  pthread_mutex_init(&workers->lock, NULL);
  pthread_cond_init(&workers->has_jobs, NULL);
  base_list_init(&workers->jobs);
  base_list_init(&workers->finished);
  workers->wake = wake;
  workers->context = context;
  workers->backend = copy_host_backend();
  /* Signals belong to the application's own threads. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  while (!failure && workers->thread_count < thread_count) {
    failure = pthread_create(&workers->threads[workers->thread_count], NULL, run_worker, workers);
    if (!failure) workers->thread_count++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failure) {
    engine_workers_destroy(workers);
    return base_error_give(BASE_ERROR_ERRNO("pthread_create", failure), error_out);
  }
  *workers_out = workers;
  return KVF_OK;
}

void engine_workers_destroy(struct engine_workers *workers) {
  if (!workers) return;
  pthread_mutex_lock(&workers->lock);
  workers->stopping = true;
  pthread_cond_broadcast(&workers->has_jobs);
  pthread_mutex_unlock(&workers->lock);
  for (uint32_t i = 0; i < workers->thread_count; i++) pthread_join(workers->threads[i], NULL);
  pthread_cond_destroy(&workers->has_jobs);
  pthread_mutex_destroy(&workers->lock);
  base_free(workers);
}

void engine_workers_submit(struct engine_workers *workers, struct transfer_job *job) {
  pthread_mutex_lock(&workers->lock);
  base_list_init(&job->node);
  base_list_push_back(&workers->jobs, &job->node);
  pthread_cond_signal(&workers->has_jobs);
  pthread_mutex_unlock(&workers->lock);
}

void engine_workers_finish(struct engine_workers *workers, struct transfer_job *job) {
  pthread_mutex_lock(&workers->lock);
  base_list_init(&job->node);
  add_finished(workers, &job->node);
  pthread_mutex_unlock(&workers->lock);
}

void engine_workers_take(struct engine_workers *workers, struct base_list *jobs_out) {
  pthread_mutex_lock(&workers->lock);
  base_list_splice(jobs_out, &workers->finished);
  pthread_mutex_unlock(&workers->lock);
}
