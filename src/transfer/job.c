/* Copies, on a copy thread. */
#include "copy/checksum.h"
#include "transfer/inside.h"

void transfer_job_run(struct transfer_job *job, const struct copy_backend *backend) {
  uint64_t started_ns = base_clock_ns();
  switch (job->kind) {
    case TRANSFER_GATHER:
      copy_piece_gather(backend, job->packed, job->link, job->source_pages, &job->piece);
      if (job->check) job->checksum = copy_checksum(job->packed, job->packed_bytes);
      break;
    case TRANSFER_SCATTER:
      /* Before the scatter, so that no damaged byte reaches a page; it brings the piece into the cache for it. */
      if (job->check) job->found = copy_checksum(job->packed, job->packed_bytes);
      if (job->check && job->found != job->checksum) break;
      copy_piece_scatter(backend, job->packed, job->link, job->target_pages, &job->piece);
      break;
    case TRANSFER_PAIRS:
      copy_piece_pairs(backend, job->link, job->source_pages, job->target_pages, &job->piece);
      break;
  }
  job->elapsed_ns = base_clock_ns() - started_ns;
  if (job->kind != TRANSFER_SCATTER) job->slices = layout_piece_slices(job->link, LAYOUT_SOURCE, job->source_pages, &job->piece);
}
