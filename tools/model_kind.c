/* Kinds of layers: the shapes of each architecture's arrays. Where each formula comes from is in docs/models.md. */
#include "model_kind.h"

#include <assert.h>
#include <stdio.h>

#include <kvferry/plane.h>

enum { CONV_FIRST, CONV_SECOND, CONV_THIRD, RECURRENT };                   /* parts of a linear or Mamba layer's state */
enum { LATENT_COMPRESSED, LATENT_WINDOW };                                 /* parts of a compressed layer's latent */
enum { PENDING_KV, PENDING_SCORE, INDEX_PENDING_KV, INDEX_PENDING_SCORE }; /* parts of a compressed layer's state */
enum { OVERLAP_RATIO = 4 }; /* at this ratio neighbouring entries overlap, so twice the tokens are pending */

struct model_kind *model_kind_add(struct model *model, const char *name) {
  if (model->kind_count == MODEL_KIND_LIMIT) return NULL;
  struct model_kind *kind = &model->kinds[model->kind_count++];
  *kind = (struct model_kind){0};
  snprintf(kind->name, sizeof kind->name, "%s", name);
  return kind;
}

struct model_kind *model_kind_add_draft(struct model *model, uint32_t index) {
  struct model_kind like = model->kinds[index], *kind = model_kind_add(model, "");
  if (!kind) return NULL;
  *kind = like;
  snprintf(kind->name, sizeof kind->name, "draft %.17s", like.name);
  for (uint32_t i = 0; i < kind->array_count; i++) kind->arrays[i].component = KVF_COMPONENT_DRAFT;
  return kind;
}

uint32_t model_kind_index(const struct model *model, const struct model_kind *kind) {
  return (uint32_t)(kind - model->kinds);
}

static struct model_array *put(struct model_kind *kind, uint32_t role, uint32_t component, uint32_t heads, uint32_t width,
                               uint32_t dtype) {
  assert(kind->array_count < MODEL_ARRAY_LIMIT);
  struct model_array *array = &kind->arrays[kind->array_count++];
  *array =
      (struct model_array){.role = role, .component = component, .heads = heads, .width = width, .dtype = dtype, .entry_tokens = 1};
  return array;
}

static struct model_array *put_state(struct model_kind *kind, uint32_t part, uint32_t heads, uint32_t width, uint32_t dtype) {
  struct model_array *array = put(kind, KVF_ROLE_STATE, KVF_COMPONENT_STATE, heads, width, dtype);
  array->part = part;
  array->per_request = true;
  return array;
}

void model_kind_put_attention(struct model_kind *kind, const struct model_attention *attention) {
  uint32_t component = attention->window_tokens ? KVF_COMPONENT_WINDOW : KVF_COMPONENT_MAIN;
  put(kind, KVF_ROLE_K, component, attention->heads, attention->k_width, attention->dtype)->window_tokens =
      attention->window_tokens;
  put(kind, KVF_ROLE_V, component, attention->heads, attention->v_width, attention->dtype)->window_tokens =
      attention->window_tokens;
}

void model_kind_put_latent(struct model_kind *kind, uint32_t width, uint32_t dtype) {
  put(kind, KVF_ROLE_LATENT, KVF_COMPONENT_MAIN, 1, width, dtype)->replicated = true;
}

void model_kind_put_index(struct model_kind *kind, uint32_t width, uint32_t entry_tokens, uint32_t dtype) {
  struct model_array *array = put(kind, KVF_ROLE_INDEX, KVF_COMPONENT_INDEX, 1, width, dtype);
  array->replicated = true;
  array->entry_tokens = entry_tokens;
}

/* A convolution of width `kernel` keeps the last kernel - 1 inputs of each channel. */
void model_kind_put_linear(struct model_kind *kind, const struct model_linear *linear) {
  uint32_t taps = linear->kernel - 1;
  put_state(kind, CONV_FIRST, linear->k_heads, linear->k_width * taps, linear->conv_dtype);
  put_state(kind, CONV_SECOND, linear->k_heads, linear->k_width * taps, linear->conv_dtype);
  put_state(kind, CONV_THIRD, linear->v_heads, linear->v_width * taps, linear->conv_dtype);
  put_state(kind, RECURRENT, linear->v_heads, linear->k_width * linear->v_width, linear->state_dtype);
}

void model_kind_put_mamba(struct model_kind *kind, const struct model_mamba *mamba) {
  uint32_t taps = mamba->kernel - 1;
  put_state(kind, CONV_FIRST, mamba->heads, mamba->head_width * taps, mamba->conv_dtype);
  put_state(kind, CONV_SECOND, mamba->groups, mamba->state_width * taps, mamba->conv_dtype);
  put_state(kind, CONV_THIRD, mamba->groups, mamba->state_width * taps, mamba->conv_dtype);
  put_state(kind, RECURRENT, mamba->heads, mamba->head_width * mamba->state_width, mamba->state_dtype);
}

/* What has arrived since the last whole entry: so many rows of values, and as many of scores. */
static void put_pending(struct model_kind *kind, uint32_t part, uint32_t ratio, uint32_t width) {
  uint32_t overlap = ratio == OVERLAP_RATIO ? 2 : 1;
  for (uint32_t i = 0; i < 2; i++) put_state(kind, part + i, overlap * ratio, overlap * width, KVF_DTYPE_F32)->replicated = true;
}

void model_kind_put_compressed(struct model_kind *kind, const struct model_compressed *compressed) {
  struct model_array *window = put(kind, KVF_ROLE_LATENT, KVF_COMPONENT_WINDOW, 1, compressed->width, compressed->dtype);
  window->part = LATENT_WINDOW;
  window->window_tokens = compressed->window_tokens;
  window->replicated = true;
  if (compressed->ratio == 0) return;
  struct model_array *entries = put(kind, KVF_ROLE_LATENT, KVF_COMPONENT_MAIN, 1, compressed->width, compressed->dtype);
  entries->part = LATENT_COMPRESSED;
  entries->entry_tokens = compressed->ratio;
  entries->replicated = true;
  put_pending(kind, PENDING_KV, compressed->ratio, compressed->width);
  if (compressed->index_width == 0) return;
  model_kind_put_index(kind, compressed->index_width, compressed->ratio, compressed->dtype);
  put_pending(kind, INDEX_PENDING_KV, compressed->ratio, compressed->index_width);
}

bool model_add_layer(struct model *model, uint32_t id, uint32_t kind, bool draft) {
  uint32_t count = model->layers + model->draft_layers;
  if (count == MODEL_LAYER_LIMIT || id > UINT16_MAX) return false;
  model->list[count] = (struct model_layer){(uint16_t)id, (uint8_t)kind, draft};
  if (draft)
    model->draft_layers++;
  else
    model->layers++;
  return true;
}
