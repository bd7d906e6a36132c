/* The handshake's checks without a handshake: would these senders suit this receiver? */
#include "base/alloc.h"
#include "base/error.h"
#include "layout/cut.h"
#include "layout/name.h"

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

static kvf_error *describe_component(uint32_t component, bool mine, kvf_error *cause) {
  char text[32];
  const char *name = layout_component_name(component, text);
  kvf_error *error = BASE_ERROR(KVF_INCOMPATIBLE, cause, "only one side has the component %s", name);
  base_error_add(error, "component", "%s", name);
  base_error_add(error, "mine", "%s", mine ? "present" : "absent");
  return base_error_add(error, "yours", "%s", mine ? "absent" : "present");
}

kvf_status layout_components_compare(uint32_t mine, uint32_t theirs, uint32_t ignored_by_me, uint32_t ignored_by_them,
                                     uint32_t *moved_out, kvf_error **error_out) {
  uint32_t refused = (mine ^ theirs) & ~(ignored_by_me | ignored_by_them);
  kvf_error *error = NULL;
  for (uint32_t component = KVF_COMPONENT_LIMIT; component-- > 0;)
    if (refused >> component & 1) error = describe_component(component, mine >> component & 1, error);
  if (error) return base_error_give(error, error_out);
  *moved_out = mine & theirs;
  return KVF_OK;
}
