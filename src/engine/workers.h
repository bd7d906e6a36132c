/* The copy threads: they take jobs, run them, and hand them back to the I/O thread. */
#ifndef ENGINE_WORKERS_H
#define ENGINE_WORKERS_H

#include "transfer/transfer.h"

struct engine_workers;

/* @p wake is called from a copy thread when finished jobs wait to be taken. */
kvf_status engine_workers_create(uint32_t thread_count, void (*wake)(void *context), void *context, struct engine_workers **workers_out,
                                 kvf_error **error_out);
/* Runs what is queued, then ends the threads. */
void engine_workers_destroy(struct engine_workers *workers);
void engine_workers_submit(struct engine_workers *workers, struct transfer_job *job);
/* A job that was run elsewhere joins the finished ones. */
void engine_workers_finish(struct engine_workers *workers, struct transfer_job *job);
/* Move the finished jobs to @p jobs_out. */
void engine_workers_take(struct engine_workers *workers, struct base_list *jobs_out);

#endif
