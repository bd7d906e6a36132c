/* Copies, on a copy thread. */
#include "copy/checksum.h"
#include "transfer/inside.h"

static void count_slices(struct transfer_job *job) {
  if (job->kind != TRANSFER_SCATTER) job->slices = layout_piece_slices(job->link, LAYOUT_SOURCE, job->source_pages, &job->piece);
}

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
  count_slices(job);
}

bool transfer_job_begin(struct transfer_job *job, struct copy_order *order_out) {
  static const enum copy_kind kinds[] = {[TRANSFER_GATHER] = COPY_GATHER, [TRANSFER_SCATTER] = COPY_SCATTER, [TRANSFER_PAIRS] = COPY_PAIRS};
  *order_out = (struct copy_order){.kind = kinds[job->kind],
                                   .link = job->link,
                                   .source_pages = job->source_pages,
                                   .target_pages = job->target_pages,
                                   .piece = job->piece,
                                   .packed = (uintptr_t)job->packed};
  if (!job->check || job->kind != TRANSFER_SCATTER) return true;
  job->found = copy_checksum(job->packed, job->packed_bytes);
  return job->found == job->checksum;
}

void transfer_job_end(struct transfer_job *job, uint64_t started_ns, kvf_error *error) {
  if (!error && job->check && job->kind == TRANSFER_GATHER) job->checksum = copy_checksum(job->packed, job->packed_bytes);
  job->error = error;
  job->elapsed_ns = base_clock_ns() - started_ns;
  count_slices(job);
}
