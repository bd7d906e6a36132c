/* Collecting and telling gaps, double covers and mismatches. Bounded, so that a hopeless pair does not give a megabyte of text. */
#include "layout/complaint.h"

#include <stdio.h>

#include "base/error.h"
#include "layout/name.h"
#include "layout/order.h"

void layout_intervals_add(struct layout_intervals *intervals, const struct layout_interval *interval) {
  struct layout_interval *last = &intervals->last;
  bool continues = intervals->count > 0 && layout_order_same_array(last->plane, interval->plane) &&
                   last->head_end == interval->head_first && last->stages[0] == interval->stages[0] &&
                   last->stages[1] == interval->stages[1] && last->period == interval->period &&
                   last->entry_first == interval->entry_first && last->entry_end == interval->entry_end;
  if (continues)
    last->head_end = interval->head_end;
  else {
    *last = *interval;
    intervals->count++;
  }
  if (intervals->count <= LAYOUT_NAMED_LIMIT) intervals->named[intervals->count - 1] = *last;
}

void layout_mismatch_add(struct layout_complaints *complaints, enum layout_field field, const kvf_plane *mine,
                         const kvf_plane *yours, uint32_t source) {
  if (complaints->mismatch_count < LAYOUT_NAMED_LIMIT)
    complaints->mismatches[complaints->mismatch_count] =
        (struct layout_mismatch){.field = field, .mine = mine, .yours = yours, .source = source};
  complaints->mismatch_count++;
}

static void print_value(char *text, size_t capacity, enum layout_field field, const kvf_plane *plane) {
  if (field == LAYOUT_FIELD_DTYPE)
    snprintf(text, capacity, "%s", layout_dtype_name(plane->dtype));
  else
    snprintf(text, capacity, "%u", layout_field_value(plane, field));
}

static kvf_error *describe_mismatch(const struct layout_mismatch *mismatch, kvf_error *cause) {
  char array[64], mine[32], yours[32];
  const char *field = layout_field_name(mismatch->field);
  layout_array_name(mismatch->mine, array);
  print_value(mine, sizeof mine, mismatch->field, mismatch->mine);
  print_value(yours, sizeof yours, mismatch->field, mismatch->yours);
  kvf_error *error = BASE_ERROR(KVF_INCOMPATIBLE, cause, "%s %s differs", array, field);
  base_error_add(error, "property", "%s %s", array, field);
  base_error_add(error, "mine", "%s", mine);
  base_error_add(error, "yours", "%s", yours);
  return base_error_add(error, "source", "%u", mismatch->source);
}

static kvf_error *describe_mismatches(const struct layout_complaints *complaints) {
  uint64_t count = complaints->mismatch_count, named = count < LAYOUT_NAMED_LIMIT ? count : LAYOUT_NAMED_LIMIT;
  kvf_error *error = NULL;
  for (uint64_t i = named; i > 0; i--) error = describe_mismatch(&complaints->mismatches[i - 1], error);
  error =
      BASE_ERROR(KVF_INCOMPATIBLE, error, "the senders hold other data than this rank in %llu places", (unsigned long long)count);
  return base_error_add(error, "mismatch_count", "%llu", (unsigned long long)count);
}

static void name_intervals(kvf_error *error, const char *name, const char *count_name, const struct layout_intervals *intervals) {
  for (uint64_t i = 0; i < intervals->count && i < LAYOUT_NAMED_LIMIT; i++) {
    const struct layout_interval *interval = &intervals->named[i];
    char array[64], heads[32], stages[48] = "", entries[80] = "";
    uint32_t head_last = interval->head_end - 1;
    if (head_last == interval->head_first)
      snprintf(heads, sizeof heads, "head %u", head_last);
    else
      snprintf(heads, sizeof heads, "heads %u-%u", interval->head_first, head_last);
    if (interval->stages[0] != interval->stages[1])
      snprintf(stages, sizeof stages, " in stages %u and %u", interval->stages[0], interval->stages[1]);
    if (interval->period)
      snprintf(entries, sizeof entries, " entries %llu-%llu of every %llu", (unsigned long long)interval->entry_first,
               (unsigned long long)interval->entry_end - 1, (unsigned long long)interval->period);
    base_error_add(error, name, "%s %s%s%s", layout_array_name(interval->plane, array), heads, entries, stages);
  }
  if (intervals->count > 0) base_error_add(error, count_name, "%llu", (unsigned long long)intervals->count);
}

kvf_error *layout_complaints_error(const struct layout_complaints *complaints) {
  if (complaints->mismatch_count > 0) return describe_mismatches(complaints);
  if (complaints->gaps.count == 0 && complaints->doubles.count == 0) return NULL;
  kvf_error *error = BASE_ERROR(KVF_NOT_COVERED, NULL, "the sending ranks do not hold exactly once what this rank wants");
  name_intervals(error, "gap", "gap_count", &complaints->gaps);
  name_intervals(error, "double_cover", "double_cover_count", &complaints->doubles);
  return error;
}
