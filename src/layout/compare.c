/* The handshake's check without a handshake: would these senders suit this receiver? */
#include "base/alloc.h"
#include "base/error.h"
#include "layout/cut.h"

static kvf_error *check_rank(const kvf_rank_planes *rank, const char *name, uint32_t index) {
  kvf_error *error = NULL;
  if (layout_planes_validate(rank->planes, rank->plane_count, &error) == KVF_OK) return NULL;
  kvf_status status = kvf_error_status(error);
  return base_error_add(BASE_ERROR(status, error, "the planes of a rank cannot be compared"), name, "%u", index);
}

kvf_status kvf_layout_compare(const kvf_rank_planes *sources, uint32_t source_count, const kvf_rank_planes *target,
                              uint32_t target_rank, kvf_error **error_out) {
  if ((!sources && source_count > 0) || !target)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "sources or target is NULL"), error_out);
  kvf_error *error = check_rank(target, "target", target_rank);
  for (uint32_t i = 0; i < source_count && !error; i++) error = check_rank(&sources[i], "source", i);
  if (error) return base_error_give(error, error_out);
  struct layout_cuts *cuts = base_calloc((size_t)source_count + 1, sizeof *cuts);
  if (!cuts) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to compare %u ranks", source_count), error_out);
  kvf_status status = layout_cuts_build(sources, source_count, target, target_rank, cuts, error_out);
  for (uint32_t i = 0; i < source_count; i++) layout_cuts_fini(&cuts[i]);
  base_free(cuts);
  return status;
}
