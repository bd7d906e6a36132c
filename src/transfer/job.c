/* Copies, on a copy thread. */
#include "transfer/inside.h"

void transfer_job_run(struct transfer_job *job, const struct copy_backend *backend) {
  uint64_t started_ns = base_clock_ns();
  switch (job->kind) {
    case TRANSFER_GATHER:
      copy_piece_gather(backend, job->packed, job->link, job->source_pages, &job->piece);
      break;
    case TRANSFER_SCATTER:
      copy_piece_scatter(backend, job->packed, job->link, job->target_pages, &job->piece);
      break;
    case TRANSFER_PAIRS:
      copy_piece_pairs(backend, job->link, job->source_pages, job->target_pages, &job->piece);
      break;
  }
  job->elapsed_ns = base_clock_ns() - started_ns;
  if (job->kind != TRANSFER_SCATTER) job->slices = layout_piece_slices(job->link, LAYOUT_SOURCE, job->source_pages, &job->piece);
}
