/* Hugging Face configurations: which kind each layer is of, from whichever key the family uses, and the shapes of the kinds.
 * The keys are listed in docs/models.md. A family is told by its keys, not by its name. */
#include <stdio.h>
#include <string.h>

#include <kvferry/plane.h>

#include "model_file.h"
#include "model_kind.h"

enum { STATE_WIDTH_LIMIT = 1 << 13, KERNEL_LIMIT = 256 }; /* products of these fit 32 bits */

/* What a layer does with tokens. */
enum layer_sort { SORT_NONE, SORT_FULL, SORT_WINDOW, SORT_LINEAR, SORT_MAMBA, SORT_KDA, SORT_COMPRESSED };

struct layer {
  enum layer_sort sort;
  uint32_t detail; /* full and window: KV heads when the layer has its own, else 0; compressed: the ratio */
};

struct config {
  struct model_file *file;
  const json_t *object;
  uint32_t layer_count; /* main layers */
  uint32_t listed;      /* layers[] that are known: more when the lists go on with draft layers */
  uint32_t dtype;
  struct layer layers[MODEL_LAYER_LIMIT];
};

static uint32_t need(const struct config *config, const char *key) {
  return model_file_need(config->file, config->object, MODEL_KEYS(key), MODEL_WIDTH_LIMIT);
}

static uint32_t need_width(const struct config *config, const char *key) {
  return model_file_need(config->file, config->object, MODEL_KEYS(key), STATE_WIDTH_LIMIT);
}

static uint32_t find(const struct config *config, const char *key) {
  return model_file_find(config->file, config->object, MODEL_KEYS(key), MODEL_WIDTH_LIMIT);
}

static void set_all(struct config *config, enum layer_sort sort) {
  for (uint32_t i = 0; i < config->layer_count; i++) config->layers[i] = (struct layer){sort, 0};
  config->listed = config->layer_count;
}

/* A list with at least an entry for each main layer; entries beyond are of draft layers. */
static bool open_list(struct config *config, const char *key, size_t size) {
  if (size < config->layer_count || size > MODEL_LAYER_LIMIT)
    return model_file_refuse(config->file, "%s has %zu entries for %u layers", key, size, config->layer_count);
  config->listed = (uint32_t)size;
  return true;
}

static enum layer_sort sort_of_name(const char *name) {
  static const struct {
    const char *name;
    enum layer_sort sort;
  } names[] = {{"full_attention", SORT_FULL},
               {"attention", SORT_FULL},
               {"global_attention", SORT_FULL},
               {"sliding_attention", SORT_WINDOW},
               {"local_attention", SORT_WINDOW},
               {"linear_attention", SORT_LINEAR},
               {"mamba", SORT_MAMBA},
               {"mamba2", SORT_MAMBA},
               {"moe", SORT_NONE},
               {"mlp", SORT_NONE}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].name, name)) return names[i].sort;
  return SORT_COMPRESSED; /* stands for "unknown" here: no name means it */
}

static void read_names(struct config *config, const char *key) {
  const json_t *list = json_object_get(config->object, key);
  size_t index;
  json_t *entry;
  if (!open_list(config, key, json_array_size(list))) return;
  json_array_foreach(list, index, entry) {
    const char *name = json_string_value(entry) ? json_string_value(entry) : "(no text)";
    config->layers[index].sort = sort_of_name(name);
    if (config->layers[index].sort == SORT_COMPRESSED)
      model_file_refuse(config->file, "%s: layer %zu is \"%s\", which is not known here; describe the model with kinds instead",
                        key, index, name);
  }
}

/* "ME*-": Mamba, experts, attention, MLP. */
static void read_letters(struct config *config, const char *key) {
  const char *letters = json_string_value(json_object_get(config->object, key));
  if (!letters) letters = "";
  if (!open_list(config, key, strlen(letters))) return;
  for (size_t i = 0; letters[i]; i++) {
    config->layers[i].sort = letters[i] == 'M' ? SORT_MAMBA : letters[i] == '*' ? SORT_FULL : SORT_NONE;
    if (!strchr("M*E-", letters[i])) model_file_refuse(config->file, "%s: layer %zu is '%c', not M, *, E or -", key, i, letters[i]);
  }
}

static void read_flags(struct config *config, const char *key) {
  const json_t *list = json_object_get(config->object, key);
  size_t index;
  json_t *entry;
  if (!open_list(config, key, json_array_size(list))) return;
  json_array_foreach(list, index, entry) config->layers[index].sort = json_integer_value(entry) ? SORT_WINDOW : SORT_FULL;
}

static void read_ratios(struct config *config, const char *key) {
  const json_t *list = json_object_get(config->object, key);
  size_t index;
  json_t *entry;
  if (!open_list(config, key, json_array_size(list))) return;
  json_array_foreach(list, index, entry) {
    json_int_t ratio = json_integer_value(entry);
    if (!json_is_integer(entry) || ratio < 0 || ratio > MODEL_WIDTH_LIMIT)
      model_file_refuse(config->file, "%s: layer %zu has no ratio", key, index);
    config->layers[index] = (struct layer){SORT_COMPRESSED, (uint32_t)ratio};
  }
}

static void read_block(struct config *config, size_t index, const json_t *attention) {
  struct layer *layer = &config->layers[index];
  if (json_is_true(json_object_get(attention, "no_op")) || json_is_true(json_object_get(attention, "replace_with_linear"))) {
    layer->sort = SORT_NONE;
    return;
  }
  uint32_t heads = need(config, "num_attention_heads");
  uint32_t group = model_file_need(config->file, attention, MODEL_KEYS("n_heads_in_group"), MODEL_WIDTH_LIMIT);
  if (model_file_get(attention, "window_length"))
    model_file_refuse(config->file, "block_configs: layer %zu has a window_length, which is not known here", index);
  if (group && heads % group) model_file_refuse(config->file, "block_configs: %u heads are no groups of %u", heads, group);
  *layer = (struct layer){SORT_FULL, group ? heads / group : 0};
}

static void read_blocks(struct config *config, const char *key) {
  const json_t *list = json_object_get(config->object, key);
  size_t index;
  json_t *entry;
  if (!open_list(config, key, json_array_size(list))) return;
  json_array_foreach(list, index, entry) read_block(config, index, json_object_get(entry, "attention"));
}

/* Kimi linear counts its layers from 1. */
static void read_kimi_lists(struct config *config, const json_t *linear) {
  const json_t *list = json_object_get(linear, "full_attn_layers");
  size_t index;
  json_t *entry;
  set_all(config, SORT_KDA);
  if (!json_is_array(list)) model_file_miss(config->file, "linear_attn_config.full_attn_layers");
  json_array_foreach(list, index, entry) {
    json_int_t number = json_integer_value(entry);
    if (number < 1 || number > config->layer_count)
      model_file_refuse(config->file, "full_attn_layers: %lld is no layer from 1 to %u", (long long)number, config->layer_count);
    else
      config->layers[number - 1].sort = SORT_FULL;
  }
}

/* Every n-th layer is a full one, the others are @p sort. */
static void set_interval(struct config *config, uint32_t interval, enum layer_sort sort) {
  set_all(config, sort);
  for (uint32_t i = interval; interval && i <= config->layer_count; i += interval) config->layers[i - 1].sort = SORT_FULL;
}

static bool is_type(const struct config *config, const char *type) {
  const char *name = json_string_value(json_object_get(config->object, "model_type"));
  return name && !strcmp(name, type);
}

/* A plain model with a window: Mistral has it in all layers, Qwen2 from max_window_layers on and only when switched on,
 * Gemma 2 in every other one. */
static void read_plain(struct config *config) {
  const json_t *use = json_object_get(config->object, "use_sliding_window");
  bool has_window = find(config, "sliding_window") && (!use || json_is_true(use));
  set_all(config, SORT_FULL);
  if (!has_window) return;
  uint32_t first = use ? find(config, "max_window_layers") : 0, step = is_type(config, "gemma2") ? 2 : 1;
  for (uint32_t i = first; i < config->layer_count; i += step) config->layers[i].sort = SORT_WINDOW;
}

static void read_sorts(struct config *config) {
  static const struct {
    const char *key;
    void (*read)(struct config *config, const char *key);
  } lists[] = {{"block_configs", read_blocks},       {"hybrid_override_pattern", read_letters}, {"layers_block_type", read_names},
               {"hybrid_layer_pattern", read_flags}, {"compress_ratios", read_ratios},          {"layer_types", read_names}};
  const json_t *kimi = model_file_get(config->object, "linear_attn_config");
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (model_file_get(config->object, lists[i].key)) {
      lists[i].read(config, lists[i].key);
      return;
    }
  if (kimi)
    read_kimi_lists(config, kimi);
  else if (find(config, "full_attention_interval"))
    set_interval(config, find(config, "full_attention_interval"), SORT_LINEAR);
  else if (find(config, "sliding_window_pattern"))
    set_interval(config, find(config, "sliding_window_pattern"), SORT_WINDOW);
  else
    read_plain(config);
}

/* Gemma's last layers may use the keys and values of earlier ones. */
static void drop_shared(struct config *config) {
  uint32_t shared = find(config, "num_kv_shared_layers");
  if (shared > config->layer_count) {
    model_file_refuse(config->file, "num_kv_shared_layers is more than all layers");
    return;
  }
  for (uint32_t i = config->layer_count - shared; i < config->layer_count; i++) config->layers[i].sort = SORT_NONE;
}

static uint32_t read_head_dim(const struct config *config) {
  if (model_file_get(config->object, "head_dim")) return need(config, "head_dim");
  if (!model_file_get(config->object, "hidden_size") || !model_file_get(config->object, "num_attention_heads")) {
    model_file_miss(config->file, "head_dim, or hidden_size and num_attention_heads");
    return 0;
  }
  uint32_t hidden = need(config, "hidden_size"), heads = need(config, "num_attention_heads");
  if (heads && hidden % heads)
    model_file_refuse(config->file, "hidden_size %u is no multiple of num_attention_heads %u", hidden, heads);
  return heads ? hidden / heads : 0;
}

static uint32_t first_of(uint32_t a, uint32_t b) {
  return a ? a : b;
}

static uint32_t need_heads(const struct config *config) {
  return model_file_need(config->file, config->object, MODEL_KEYS("num_key_value_heads", "num_attention_groups"),
                         MODEL_WIDTH_LIMIT);
}

static void put_full(const struct config *config, struct model_kind *kind, uint32_t own_heads) {
  if (model_file_get(config->object, "kv_lora_rank")) {
    model_kind_put_latent(kind, need(config, "kv_lora_rank") + need(config, "qk_rope_head_dim"), config->dtype);
    uint32_t index = find(config, "index_head_dim");
    if (index) model_kind_put_index(kind, index, 1, config->dtype);
    return;
  }
  struct model_attention attention = {.dtype = config->dtype};
  attention.heads = first_of(own_heads, find(config, "num_global_key_value_heads"));
  if (!attention.heads) attention.heads = need_heads(config);
  attention.k_width = first_of(find(config, "global_head_dim"), 0);
  if (!attention.k_width) attention.k_width = read_head_dim(config);
  attention.v_width = first_of(find(config, "v_head_dim"), attention.k_width);
  model_kind_put_attention(kind, &attention);
}

static void put_window(const struct config *config, struct model_kind *kind) {
  const json_t *other = model_file_get(config->object, "attention_other_setting");
  struct model_attention attention = {.dtype = config->dtype};
  attention.window_tokens =
      model_file_need(config->file, config->object, MODEL_KEYS("sliding_window", "sliding_window_size"), 1 << 30);
  attention.heads = first_of(find(config, "swa_num_key_value_heads"),
                             model_file_find(config->file, other, MODEL_KEYS("num_attention_groups"), MODEL_WIDTH_LIMIT));
  if (!attention.heads) attention.heads = need_heads(config);
  attention.k_width =
      first_of(find(config, "swa_head_dim"), model_file_find(config->file, other, MODEL_KEYS("head_dim"), MODEL_WIDTH_LIMIT));
  if (!attention.k_width) attention.k_width = read_head_dim(config);
  attention.v_width = first_of(find(config, "swa_v_head_dim"), first_of(find(config, "v_head_dim"), attention.k_width));
  model_kind_put_attention(kind, &attention);
}

/* The recurrent states are kept in f32 unless the file says otherwise. */
static uint32_t read_state_dtype(const struct config *config) {
  const json_t *value = model_file_get(config->object, "mamba_ssm_dtype");
  uint32_t dtype = KVF_DTYPE_F32;
  if (!value) value = model_file_get(config->object, "mamba_ssm_cache_dtype");
  if (json_is_string(value) && !model_dtype_find(json_string_value(value), &dtype))
    model_file_refuse(config->file, "the dtype of the state, \"%s\", is not known", json_string_value(value));
  return dtype;
}

static uint32_t need_kernel(const struct config *config, const json_t *object, const char *key) {
  uint32_t kernel = model_file_need(config->file, object, MODEL_KEYS(key), KERNEL_LIMIT);
  if (kernel == 1) model_file_refuse(config->file, "%s 1 keeps no state", key);
  return kernel;
}

static void put_linear(const struct config *config, struct model_kind *kind) {
  struct model_linear linear = {.k_heads = need(config, "linear_num_key_heads"),
                                .k_width = need_width(config, "linear_key_head_dim"),
                                .v_heads = need(config, "linear_num_value_heads"),
                                .v_width = need_width(config, "linear_value_head_dim"),
                                .kernel = need_kernel(config, config->object, "linear_conv_kernel_dim"),
                                .conv_dtype = config->dtype,
                                .state_dtype = read_state_dtype(config)};
  model_kind_put_linear(kind, &linear);
}

static void put_kda(const struct config *config, struct model_kind *kind) {
  const json_t *own = model_file_get(config->object, "linear_attn_config");
  uint32_t heads = model_file_need(config->file, own, MODEL_KEYS("num_heads"), STATE_WIDTH_LIMIT);
  uint32_t width = model_file_need(config->file, own, MODEL_KEYS("head_dim"), STATE_WIDTH_LIMIT);
  struct model_linear linear = {.k_heads = heads,
                                .k_width = width,
                                .v_heads = heads,
                                .v_width = width,
                                .kernel = need_kernel(config, own, "short_conv_kernel_size"),
                                .conv_dtype = config->dtype,
                                .state_dtype = read_state_dtype(config)};
  model_kind_put_linear(kind, &linear);
}

static void put_mamba(const struct config *config, struct model_kind *kind) {
  struct model_mamba mamba = {
      .heads = need(config, "mamba_num_heads"),
      .head_width = need_width(config, "mamba_head_dim"),
      .groups = model_file_need(config->file, config->object, MODEL_KEYS("n_groups", "mamba_n_groups"), MODEL_WIDTH_LIMIT),
      .state_width =
          model_file_need(config->file, config->object, MODEL_KEYS("ssm_state_size", "mamba_d_state"), STATE_WIDTH_LIMIT),
      .kernel = need_kernel(config, config->object, "conv_kernel"),
      .conv_dtype = config->dtype,
      .state_dtype = read_state_dtype(config)};
  model_kind_put_mamba(kind, &mamba);
}

/* At ratio 4 an indexer picks entries; at higher ratios all are read. */
static void put_compressed(const struct config *config, struct model_kind *kind, uint32_t ratio) {
  enum { INDEXED_RATIO = 4 };
  struct model_compressed compressed = {
      .width = need(config, "head_dim"),
      .ratio = ratio,
      .window_tokens = model_file_need(config->file, config->object, MODEL_KEYS("sliding_window", "window_size"), 1 << 30),
      .index_width = ratio == INDEXED_RATIO ? need(config, "index_head_dim") : 0,
      .dtype = config->dtype};
  model_kind_put_compressed(kind, &compressed);
}

static void put_layer(const struct config *config, struct model_kind *kind, const struct layer *layer) {
  switch (layer->sort) {
    case SORT_NONE:
      break;
    case SORT_FULL:
      put_full(config, kind, layer->detail);
      break;
    case SORT_WINDOW:
      put_window(config, kind);
      break;
    case SORT_LINEAR:
      put_linear(config, kind);
      break;
    case SORT_MAMBA:
      put_mamba(config, kind);
      break;
    case SORT_KDA:
      put_kda(config, kind);
      break;
    case SORT_COMPRESSED:
      put_compressed(config, kind, layer->detail);
      break;
  }
}

/* The kind of a layer, made when it is first seen; UINT32_MAX once something is wrong or missing, and nothing is made then. */
static uint32_t find_kind(const struct config *config, struct model *model, const struct layer *layer) {
  static const char *const names[] = {"none", "full", "window", "linear", "mamba", "linear", "ratio"};
  char name[24];
  snprintf(name, sizeof name, "%s", names[layer->sort]);
  if (layer->detail || layer->sort == SORT_COMPRESSED) snprintf(name, sizeof name, "%s %u", names[layer->sort], layer->detail);
  for (uint32_t i = 0; i < model->kind_count; i++)
    if (!strcmp(model->kinds[i].name, name)) return i;
  struct model_kind *kind = model_kind_add(model, name);
  if (!kind)
    model_file_refuse(config->file, "more than %d kinds of layers", MODEL_KIND_LIMIT);
  else
    put_layer(config, kind, layer);
  return config->file->wrong || config->file->missing[0] ? UINT32_MAX : model_kind_index(model, kind);
}

/* A draft layer is what the lists say of it, or else like the last full one. */
static void add_drafts(const struct config *config, struct model *model) {
  uint32_t count = model_file_find(config->file, config->object, MODEL_KEYS("num_nextn_predict_layers", "mtp_num_hidden_layers"),
                                   MODEL_LAYER_LIMIT);
  const struct layer full = {SORT_FULL, 0};
  for (uint32_t i = 0; i < count; i++) {
    const struct layer *layer = config->layer_count + i < config->listed ? &config->layers[config->layer_count + i] : &full;
    uint32_t like = find_kind(config, model, layer);
    if (like == UINT32_MAX) return;
    const struct model_kind *draft = model_kind_add_draft(model, like);
    if (!draft || !model_add_layer(model, config->layer_count + i, model_kind_index(model, draft), true)) {
      model_file_refuse(config->file, "too many draft layers");
      return;
    }
  }
}

void model_config_read(struct model_file *file, struct model *model) {
  struct config config = {.file = file, .object = file->object};
  config.layer_count = model_file_need(file, file->object, MODEL_KEYS("num_hidden_layers"), MODEL_LAYER_LIMIT);
  config.dtype = model_file_dtype(file);
  read_sorts(&config);
  drop_shared(&config);
  if (file->wrong) return;
  if (config.layer_count == 0) { /* go on, to name what else is missing */
    find_kind(&config, model, &(struct layer){SORT_FULL, 0});
    return;
  }
  for (uint32_t i = 0; i < config.layer_count; i++) {
    uint32_t kind = find_kind(&config, model, &config.layers[i]);
    if (kind == UINT32_MAX) return;
    model_add_layer(model, i, kind, false);
  }
  add_drafts(&config, model);
}
