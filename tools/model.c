/* Models: the preset table and the two JSON forms. */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>
#include <kvferry/plane.h>

#include "suggest.h"

enum { LAYER_LIMIT = 4096, WIDTH_LIMIT = 1 << 20, PRESET_LIMIT = 32, FILE_LIMIT_BYTES = 4 << 20 };

static const struct model presets[] = {
    {"Qwen3-0.6B", 28, 8, 128, KVF_DTYPE_BF16, false},      {"Qwen3-8B", 36, 8, 128, KVF_DTYPE_BF16, false},
    {"Qwen3-32B", 64, 8, 128, KVF_DTYPE_BF16, false},       {"Qwen3-30B-A3B", 48, 4, 128, KVF_DTYPE_BF16, false},
    {"Qwen3-235B-A22B", 94, 4, 128, KVF_DTYPE_BF16, false}, {"Llama-3.1-8B", 32, 8, 128, KVF_DTYPE_BF16, false},
    {"Llama-3.1-70B", 80, 8, 128, KVF_DTYPE_BF16, false},   {"Llama-3.1-405B", 126, 8, 128, KVF_DTYPE_BF16, false},
    {"DeepSeek-V3", 61, 1, 576, KVF_DTYPE_BF16, true},
};

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

const struct model *model_presets(size_t *count_out) {
  *count_out = sizeof presets / sizeof *presets;
  return presets;
}

uint32_t model_head_bytes(const struct model *model) {
  return model->head_dim * model_dtype_bytes(model->dtype);
}

uint64_t model_token_bytes(const struct model *model) {
  return (uint64_t)model->layers * model->kv_heads * model_head_bytes(model) * (model->mla ? 1 : 2);
}

/* A whole number at the first of two keys that is there. */
static bool read_number(const json_t *object, const char *key, const char *other, uint32_t most, const char *source,
                        uint32_t *number_out, struct complaint *complaint) {
  const json_t *value = json_object_get(object, key);
  const char *found = key;
  if (!value && other) {
    value = json_object_get(object, other);
    found = other;
  }
  if (!value) return complain(complaint, "%s: the field %s%s%s is missing", source, key, other ? " or " : "", other ? other : "");
  if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > most)
    return complain(complaint, "%s: the field %s must be a whole number from 1 to %u", source, found, most);
  *number_out = (uint32_t)json_integer_value(value);
  return true;
}

static bool read_dtype(const json_t *object, const char *source, uint32_t *dtype_out, struct complaint *complaint) {
  const json_t *value = json_object_get(object, "dtype");
  if (!value) value = json_object_get(object, "torch_dtype");
  if (!value) return complain(complaint, "%s: the field dtype or torch_dtype is missing", source);
  const char *name = json_string_value(value);
  if (!name) return complain(complaint, "%s: the field dtype must be text such as \"bf16\"", source);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    if (strcasecmp(dtypes[i].name, name) && strcasecmp(dtypes[i].other, name)) continue;
    *dtype_out = dtypes[i].dtype;
    return true;
  }
  return complain(complaint, "%s: dtype \"%s\" is not one of bf16, f16, f32, fp8_e4m3, fp8_e5m2, int8, uint8", source, name);
}

static bool read_own_form(const json_t *object, const char *source, struct model *model, struct complaint *complaint) {
  model->mla = json_is_true(json_object_get(object, "mla"));
  if (!read_number(object, "layers", NULL, LAYER_LIMIT, source, &model->layers, complaint)) return false;
  if (!read_number(object, "kv_heads", NULL, WIDTH_LIMIT, source, &model->kv_heads, complaint)) return false;
  if (!read_number(object, "head_dim", NULL, WIDTH_LIMIT, source, &model->head_dim, complaint)) return false;
  if (model->mla && model->kv_heads != 1) return complain(complaint, "%s: mla needs kv_heads 1", source);
  return true;
}

/* Layers without a growing cache cannot be told apart here, and counting them would be wrong in silence. */
static bool check_layer_types(const json_t *object, const char *source, struct complaint *complaint) {
  const json_t *types = json_object_get(object, "layer_types");
  size_t index;
  json_t *type;
  json_array_foreach(types, index, type) {
    const char *name = json_string_value(type);
    if (name && strcmp(name, "full_attention"))
      return complain(complaint,
                      "%s: layer %zu is %s, and only full attention is replayed; give {\"layers\":…,\"kv_heads\":…,…} instead",
                      source, index, name);
  }
  return true;
}

static bool read_head_dim(const json_t *object, const char *source, struct model *model, struct complaint *complaint) {
  const json_t *given = json_object_get(object, "head_dim");
  if (given && !json_is_null(given)) return read_number(object, "head_dim", NULL, WIDTH_LIMIT, source, &model->head_dim, complaint);
  uint32_t hidden, heads;
  if (!json_object_get(object, "hidden_size") || !json_object_get(object, "num_attention_heads"))
    return complain(complaint, "%s: the field head_dim, or hidden_size and num_attention_heads, is missing", source);
  if (!read_number(object, "hidden_size", NULL, WIDTH_LIMIT, source, &hidden, complaint)) return false;
  if (!read_number(object, "num_attention_heads", NULL, WIDTH_LIMIT, source, &heads, complaint)) return false;
  if (hidden % heads)
    return complain(complaint, "%s: hidden_size %u is no multiple of num_attention_heads %u", source, hidden, heads);
  model->head_dim = hidden / heads;
  return true;
}

static bool read_hugging_face_form(const json_t *object, const char *source, struct model *model, struct complaint *complaint) {
  uint32_t latent, rope;
  if (!check_layer_types(object, source, complaint)) return false;
  if (!read_number(object, "num_hidden_layers", NULL, LAYER_LIMIT, source, &model->layers, complaint)) return false;
  model->mla = json_is_integer(json_object_get(object, "kv_lora_rank"));
  if (!model->mla) {
    if (!read_number(object, "num_key_value_heads", NULL, WIDTH_LIMIT, source, &model->kv_heads, complaint)) return false;
    return read_head_dim(object, source, model, complaint);
  }
  if (!read_number(object, "kv_lora_rank", NULL, WIDTH_LIMIT, source, &latent, complaint)) return false;
  if (!read_number(object, "qk_rope_head_dim", NULL, WIDTH_LIMIT, source, &rope, complaint)) return false;
  model->kv_heads = 1;
  model->head_dim = latent + rope;
  return true;
}

static void read_name(const json_t *object, const char *source, struct model *model) {
  const char *name = json_string_value(json_object_get(object, "name"));
  if (!name) name = json_string_value(json_object_get(object, "_name_or_path"));
  const char *slash = strrchr(source, '/');
  if (!name || !*name) name = slash ? slash + 1 : source;
  snprintf(model->name, sizeof model->name, "%s", name);
}

bool model_parse(const char *json_text, const char *source, struct model *model_out, struct complaint *complaint) {
  json_error_t error;
  json_t *root = json_loads(json_text, JSON_REJECT_DUPLICATES, &error);
  if (!root) return complain(complaint, "%s: line %d: %s", source, error.line, error.text);
  const json_t *object = root;
  struct model model = {0};
  bool good = json_is_object(root);
  if (!good) complain(complaint, "%s: a JSON object is expected", source);
  if (good) {
    read_name(root, source, &model);
    const json_t *text_config = json_object_get(root, "text_config");
    if (json_is_object(text_config)) object = text_config;
    bool hugging_face = json_object_get(object, "num_hidden_layers") || json_object_get(object, "num_key_value_heads");
    good =
        hugging_face ? read_hugging_face_form(object, source, &model, complaint) : read_own_form(object, source, &model, complaint);
    const json_t *dtype_holder = json_object_get(object, "dtype") || json_object_get(object, "torch_dtype") ? object : root;
    good = good && read_dtype(dtype_holder, source, &model.dtype, complaint);
  }
  json_decref(root);
  if (good) *model_out = model;
  return good;
}

static char *read_file(const char *path, struct complaint *complaint) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  if (!file) {
    complain(complaint, "%s: %s", path, strerror(errno));
    return NULL;
  }
  text = malloc(FILE_LIMIT_BYTES);
  size_t length = text ? fread(text, 1, FILE_LIMIT_BYTES, file) : 0;
  bool good = text && !ferror(file) && length < FILE_LIMIT_BYTES;
  fclose(file);
  if (good) {
    text[length] = 0;
    return text;
  }
  complain(complaint, "%s: cannot be read, or is larger than 4 MiB", path);
  free(text);
  return NULL;
}

static bool complain_unknown(const char *text, struct complaint *complaint) {
  const char *names[PRESET_LIMIT];
  size_t count = sizeof presets / sizeof *presets;
  for (size_t i = 0; i < count; i++) names[i] = presets[i].name;
  const char *meant = suggest_word(text, names, count);
  if (meant) return complain(complaint, "no model \"%s\"; did you mean %s? `kvferry models` lists them", text, meant);
  return complain(complaint, "no model \"%s\": `kvferry models` lists the presets, and a path must end in .json", text);
}

bool model_query(const char *text, struct model *model_out, struct complaint *complaint) {
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
    if (strcasecmp(presets[i].name, text)) continue;
    *model_out = presets[i];
    return true;
  }
  size_t length = strlen(text);
  if (length < 5 || strcasecmp(text + length - 5, ".json")) return complain_unknown(text, complaint);
  char *json_text = read_file(text, complaint);
  if (!json_text) return false;
  bool good = model_parse(json_text, text, model_out, complaint);
  free(json_text);
  return good;
}
