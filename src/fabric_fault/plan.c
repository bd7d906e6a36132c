/* When something goes wrong: by count, or by chance from a seed, so that a run can be repeated. */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "fabric/settings.h"
#include "fabric_fault/inside.h"

static const char *const point_names[FAULT_POINT_COUNT] = {
#define FAULT_POINT_NAME(name) #name,
    FAULT_POINTS(FAULT_POINT_NAME)
#undef FAULT_POINT_NAME
};

static uint64_t *find_number(struct fault_plan *plan, const char *key) {
  for (int i = 0; i < FAULT_POINT_COUNT; i++) {
    if (strcmp(key, point_names[i]) == 0) return &plan->first[i];
  }
  if (strcmp(key, "count") == 0) return &plan->count;
  if (strcmp(key, "chance") == 0) return &plan->chance;
  if (strcmp(key, "seed") == 0) return &plan->random;
  return NULL;
}

kvf_status fault_plan_parse(struct fault_plan *plan, const char *settings, char *inner, size_t inner_bytes, char *rest,
                            size_t rest_bytes, kvf_error **error_out) {
  struct fabric_setting setting;
  kvf_error *error = NULL;
  size_t used = 0;
  *plan = (struct fault_plan){.count = 1};
  inner[0] = rest[0] = '\0';
  while (fabric_settings_next(&settings, &setting, &error)) {
    uint64_t *number = find_number(plan, setting.key);
    if (number) {
      uint64_t limit = number == &plan->chance ? 1000 : INT64_MAX;
      kvf_status status = fabric_setting_number(&setting, limit, number, error_out);
      if (status != KVF_OK) return status;
    } else if (strcmp(setting.key, "inner") == 0) {
      snprintf(inner, inner_bytes, "%s", setting.value);
    } else {
      int length = snprintf(rest + used, rest_bytes - used, "%s%s=%s", used ? "," : "", setting.key, setting.value);
      used += (size_t)length;
      if (used >= rest_bytes) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the settings are too long"), error_out);
    }
  }
  return error ? base_error_give(error, error_out) : KVF_OK;
}

bool fault_plan_hits(struct fault_plan *plan, enum fault_point point) {
  uint64_t first = plan->first[point];
  uint64_t seen = ++plan->seen[point];
  if (first == 0 || seen < first) return false;
  if (plan->chance) return base_random_next(&plan->random) % 1000 < plan->chance;
  return seen - first < plan->count;
}

kvf_error *fault_plan_error(kvf_status status, const char *message) {
  kvf_error *error = BASE_ERROR(KVF_FABRIC, NULL, "fault_inject: Endpoint timeout");
  base_error_add(error, "provider", "fault");
  base_error_add(error, "fault_status", "%d", -80);
  return BASE_ERROR(status, error, "%s", message);
}
