/* Models: what follows from the list of layers. */
#include "model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <kvferry/plane.h>

static const struct dtype_row {
  uint32_t dtype, bytes;
  const char *name;
  const char *other; /* how configuration files spell it */
} dtypes[] = {
    {KVF_DTYPE_BF16, 2, "bf16", "bfloat16"},
    {KVF_DTYPE_F16, 2, "f16", "float16"},
    {KVF_DTYPE_F32, 4, "f32", "float32"},
    {KVF_DTYPE_FP8_E4M3, 1, "fp8_e4m3", "float8_e4m3fn"},
    {KVF_DTYPE_FP8_E5M2, 1, "fp8_e5m2", "float8_e5m2"},
    {KVF_DTYPE_INT8, 1, "int8", "int8"},
    {KVF_DTYPE_UINT8, 1, "uint8", "uint8"},
};

static const struct dtype_row *find_dtype(uint32_t dtype) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (dtypes[i].dtype == dtype) return &dtypes[i];
  return NULL;
}

uint32_t model_dtype_bytes(uint32_t dtype) {
  const struct dtype_row *row = find_dtype(dtype);
  return row ? row->bytes : 0;
}

const char *model_dtype_name(uint32_t dtype) {
  const struct dtype_row *row = find_dtype(dtype);
  return row ? row->name : "unknown";
}

bool model_dtype_find(const char *name, uint32_t *dtype_out) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcasecmp(dtypes[i].name, name) && strcasecmp(dtypes[i].other, name)) continue;
    *dtype_out = dtypes[i].dtype;
    return true;
  }
  return false;
}

const char *model_role_name(uint32_t role) {
  static const char *const names[] = {"", "K", "V", "latent", "index", "scale_k", "scale_v", "state"};
  return role >= KVF_ROLE_K && role <= KVF_ROLE_STATE ? names[role] : "unknown";
}

const char *model_component_name(uint32_t component) {
  static const char *const names[] = {"main", "window", "index", "scale", "state", "draft"};
  return component <= KVF_COMPONENT_DRAFT ? names[component] : "own";
}

const struct model_kind *model_layer_kind(const struct model *model, uint32_t index) {
  return &model->kinds[model->list[index].kind];
}

uint32_t model_head_bytes(const struct model_array *array) {
  return array->width * model_dtype_bytes(array->dtype);
}

static uint64_t entry_bytes(const struct model_array *array) {
  return (uint64_t)array->heads * model_head_bytes(array);
}

uint64_t model_token_bytes(const struct model *model) {
  double bytes = 0; /* an entry of several tokens has a fraction of its bytes a token */
  for (uint32_t i = 0; i < model->layers; i++) {
    const struct model_kind *kind = model_layer_kind(model, i);
    for (uint32_t a = 0; a < kind->array_count; a++)
      if (kind->arrays[a].component == KVF_COMPONENT_MAIN && !kind->arrays[a].per_request)
        bytes += (double)entry_bytes(&kind->arrays[a]) / kind->arrays[a].entry_tokens;
  }
  return (uint64_t)bytes;
}

uint64_t model_request_bytes(const struct model *model, uint32_t component) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < model->layers + model->draft_layers; i++) {
    const struct model_kind *kind = model_layer_kind(model, i);
    for (uint32_t a = 0; a < kind->array_count; a++) {
      const struct model_array *array = &kind->arrays[a];
      if (array->component != component) continue;
      bytes += entry_bytes(array) * (array->per_request ? 1 : array->window_tokens);
    }
  }
  return bytes;
}

uint32_t model_components(const struct model *model) {
  uint32_t components = 0;
  for (uint32_t i = 0; i < model->layers + model->draft_layers; i++) {
    const struct model_kind *kind = model_layer_kind(model, i);
    for (uint32_t a = 0; a < kind->array_count; a++) components |= 1u << kind->arrays[a].component;
  }
  return components;
}

static uint32_t find_list(struct model *model, const struct model_array *array) {
  uint32_t list = MODEL_LIST_COMPRESSED;
  if (array->per_request) return MODEL_LIST_STATE;
  if (array->entry_tokens == 1 && array->window_tokens) return MODEL_LIST_WINDOW;
  if (array->entry_tokens == 1)
    return array->role == KVF_ROLE_SCALE_K || array->role == KVF_ROLE_SCALE_V ? MODEL_LIST_SCALE : MODEL_LIST_FULL;
  while (list < MODEL_LIST_LIMIT && model->page_lists[list].used &&
         (model->page_lists[list].entry_tokens != array->entry_tokens ||
          !model->page_lists[list].window_tokens != !array->window_tokens))
    list++;
  return list;
}

static bool assign_list(struct model *model, struct model_array *array, struct complaint *complaint) {
  array->page_list = find_list(model, array);
  if (array->page_list == MODEL_LIST_LIMIT)
    return complain(complaint, "%s: more than %d page lists are needed", model->name, MODEL_LIST_LIMIT);
  struct model_list *list = &model->page_lists[array->page_list];
  list->used = true;
  list->per_request = array->per_request;
  list->entry_tokens = array->entry_tokens;
  if (array->window_tokens > list->window_tokens) list->window_tokens = array->window_tokens;
  return true;
}

static bool check_kind(const struct model *model, const struct model_kind *kind, struct complaint *complaint) {
  for (uint32_t i = 0; i < kind->array_count; i++)
    for (uint32_t j = 0; j < i; j++)
      if (kind->arrays[i].role == kind->arrays[j].role && kind->arrays[i].part == kind->arrays[j].part)
        return complain(complaint, "%s: kind \"%s\" has %s part %u twice", model->name, kind->name,
                        model_role_name(kind->arrays[i].role), kind->arrays[i].part);
  return true;
}

static const struct model_array *find_first(const struct model *model, uint32_t component) {
  for (uint32_t i = 0; i < model->layers; i++) {
    const struct model_kind *kind = model_layer_kind(model, i);
    for (uint32_t a = 0; a < kind->array_count; a++)
      if (kind->arrays[a].component == component) return &kind->arrays[a];
  }
  return NULL;
}

bool model_finish(struct model *model, struct complaint *complaint) {
  bool is_used[MODEL_KIND_LIMIT] = {false};
  memset(model->page_lists, 0, sizeof model->page_lists);
  for (uint32_t i = 0; i < model->layers + model->draft_layers; i++) is_used[model->list[i].kind] = true;
  for (uint32_t k = 0; k < model->kind_count; k++) {
    if (!check_kind(model, &model->kinds[k], complaint)) return false;
    for (uint32_t a = 0; is_used[k] && a < model->kinds[k].array_count; a++)
      if (!assign_list(model, &model->kinds[k].arrays[a], complaint)) return false;
  }
  const struct model_array *first = NULL;
  for (uint32_t component = 0; component < KVF_COMPONENT_LIMIT && !first; component++) first = find_first(model, component);
  if (!first) return complain(complaint, "%s: no layer has a cache", model->name);
  model->kv_heads = first->heads;
  model->head_dim = first->width;
  model->dtype = first->dtype;
  model->mla = first->role == KVF_ROLE_LATENT;
  return true;
}

uint32_t model_count_kinds(const struct model *model) {
  bool seen[MODEL_KIND_LIMIT] = {false};
  uint32_t count = 0;
  for (uint32_t i = 0; i < model->layers; i++) {
    uint32_t kind = model->list[i].kind;
    count += !seen[kind] && model->kinds[kind].array_count > 0;
    seen[kind] = true;
  }
  return count;
}

/* Marks the first layer of each kind, then the first others, layers without a cache last. */
static void choose_layers(const struct model *model, uint32_t count, bool *keep) {
  bool seen[MODEL_KIND_LIMIT] = {false};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < model->layers; i++) {
    uint32_t kind = model->list[i].kind;
    if (seen[kind] || model->kinds[kind].array_count == 0) continue;
    seen[kind] = keep[i] = true;
    kept++;
  }
  for (int with_cache = 1; with_cache >= 0; with_cache--)
    for (uint32_t i = 0; i < model->layers && kept < count; i++) {
      if (keep[i] || (model_layer_kind(model, i)->array_count > 0) != with_cache) continue;
      keep[i] = true;
      kept++;
    }
}

bool model_cut(struct model *model, uint32_t count, struct complaint *complaint) {
  bool keep[MODEL_LAYER_LIMIT] = {false};
  uint32_t kept = 0, total = model->layers + model->draft_layers, least = model_count_kinds(model);
  if (count > model->layers) return complain(complaint, "--layers %u: %s has %u", count, model->name, model->layers);
  if (count < least)
    return complain(complaint, "--layers %u: %s has %u kinds of layers with a cache, and one of each is kept; give %u or more",
                    count, model->name, least, least);
  choose_layers(model, count, keep);
  for (uint32_t i = 0; i < total; i++)
    if (keep[i] || model->list[i].draft) model->list[kept++] = model->list[i];
  model->layers = count;
  return model_finish(model, complaint);
}

bool model_set_heads(struct model *model, uint32_t heads, struct complaint *complaint) {
  bool changed = false;
  for (uint32_t k = 0; k < model->kind_count; k++)
    for (uint32_t a = 0; a < model->kinds[k].array_count; a++) {
      struct model_array *array = &model->kinds[k].arrays[a];
      if (array->replicated || array->per_request) continue;
      array->heads = heads;
      changed = true;
    }
  if (!changed) return complain(complaint, "--heads: %s has one latent instead of heads (MLA)", model->name);
  return model_finish(model, complaint);
}

static void append(char *text, size_t capacity_bytes, const char *more) {
  size_t used = strlen(text);
  if (used + 1 < capacity_bytes) snprintf(text + used, capacity_bytes - used, "%s", more);
}

const char *model_describe_layers(const struct model *model, char *text, size_t capacity_bytes) {
  uint32_t total = model->layers + model->draft_layers;
  *text = 0;
  for (uint32_t first = 0, last; first < total; first = last + 1) {
    char run[48];
    bool draft = model->list[first].draft, opens_draft = draft && (first == 0 || !model->list[first - 1].draft);
    for (last = first;
         last + 1 < total && model->list[last + 1].draft == draft && model->list[last + 1].id == model->list[last].id + 1;)
      last++;
    const char *joint = opens_draft ? (first ? " and draft " : "draft ") : first ? ", " : "";
    if (first == last)
      snprintf(run, sizeof run, "%s%u", joint, model->list[first].id);
    else
      snprintf(run, sizeof run, "%s%u-%u", joint, model->list[first].id, model->list[last].id);
    append(text, capacity_bytes, run);
  }
  return text;
}
