/* Reading JSON models: files, keys, and kvferry's own two forms. */
#include "model_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <kvferry/plane.h>

#include "model_kind.h"
#include "suggest.h"

enum { FILE_LIMIT_BYTES = 4 << 20, PRESET_LIMIT = 64 };

const json_t *model_file_get(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return value && !json_is_null(value) ? value : NULL;
}

void model_file_miss(struct model_file *file, const char *what) {
  size_t used = strlen(file->missing);
  snprintf(file->missing + used, sizeof file->missing - used, "%s%s", used ? ", " : "", what);
}

bool model_file_refuse(struct model_file *file, const char *format, ...) {
  char text[512];
  va_list arguments;
  if (file->wrong) return false; /* the first one counts */
  file->wrong = true;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return complain(file->complaint, "%s: %s", file->source, text);
}

static const json_t *find_key(const json_t *object, const char *const *keys, const char **key_out) {
  for (size_t i = 0; keys[i]; i++) {
    const json_t *value = model_file_get(object, keys[i]);
    *key_out = keys[i];
    if (value) return value;
  }
  return NULL;
}

static uint32_t read_number(struct model_file *file, const json_t *value, const char *key, uint32_t least, uint32_t most) {
  json_int_t number = json_integer_value(value);
  if (json_is_integer(value) && number >= least && number <= most) return (uint32_t)number;
  model_file_refuse(file, "the field %s must be a whole number from %u to %u", key, least, most);
  return 0;
}

uint32_t model_file_find(struct model_file *file, const json_t *object, const char *const *keys, uint32_t most) {
  const char *key;
  const json_t *value = find_key(object, keys, &key);
  return value ? read_number(file, value, key, 0, most) : 0;
}

uint32_t model_file_need(struct model_file *file, const json_t *object, const char *const *keys, uint32_t most) {
  const char *key;
  const json_t *value = find_key(object, keys, &key);
  char names[128] = "";
  if (value) return read_number(file, value, key, 1, most);
  for (size_t i = 0; keys[i]; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? " or " : "", keys[i]);
  }
  model_file_miss(file, names);
  return 0;
}

static uint32_t read_dtype(struct model_file *file, const json_t *value) {
  const char *name = json_string_value(value);
  uint32_t dtype = 0;
  if (!name)
    model_file_refuse(file, "the field dtype must be text such as \"bf16\"");
  else if (!model_dtype_find(name, &dtype))
    model_file_refuse(file, "dtype \"%s\" is not one of bf16, f16, f32, fp8_e4m3, fp8_e5m2, int8, uint8", name);
  return dtype;
}

uint32_t model_file_dtype(struct model_file *file) {
  const char *key, *const *keys = MODEL_KEYS("dtype", "torch_dtype");
  const json_t *value = find_key(file->object, keys, &key);
  if (!value) value = find_key(file->root, keys, &key);
  if (value) return read_dtype(file, value);
  model_file_miss(file, "dtype or torch_dtype");
  return 0;
}

/* {"layers":32,"kv_heads":8,"head_dim":128,"dtype":"bf16"}, with "mla":true for latents. */
static void read_short_form(struct model_file *file, struct model *model) {
  bool mla = json_is_true(json_object_get(file->object, "mla"));
  uint32_t layers = model_file_need(file, file->object, MODEL_KEYS("layers"), MODEL_LAYER_LIMIT);
  struct model_attention attention = {.heads = model_file_need(file, file->object, MODEL_KEYS("kv_heads"), MODEL_WIDTH_LIMIT),
                                      .k_width = model_file_need(file, file->object, MODEL_KEYS("head_dim"), MODEL_WIDTH_LIMIT),
                                      .dtype = model_file_dtype(file)};
  attention.v_width = attention.k_width;
  if (mla && attention.heads != 1) model_file_refuse(file, "mla needs kv_heads 1");
  struct model_kind *kind = model_kind_add(model, mla ? "latent" : "full");
  if (mla)
    model_kind_put_latent(kind, attention.k_width, attention.dtype);
  else
    model_kind_put_attention(kind, &attention);
  for (uint32_t i = 0; i < layers; i++) model_add_layer(model, i, 0, false);
}

static uint32_t read_role(struct model_file *file, const json_t *object) {
  const char *name = json_string_value(json_object_get(object, "role"));
  for (uint32_t role = KVF_ROLE_K; name && role <= KVF_ROLE_STATE; role++)
    if (!strcasecmp(name, model_role_name(role))) return role;
  if (name)
    model_file_refuse(file, "role \"%s\" is not one of K, V, latent, index, scale_k, scale_v, state", name);
  else
    model_file_miss(file, "role");
  return 0;
}

static uint32_t pick_component(const struct model_array *array) {
  if (array->per_request) return KVF_COMPONENT_STATE;
  if (array->role == KVF_ROLE_INDEX) return KVF_COMPONENT_INDEX;
  if (array->role == KVF_ROLE_SCALE_K || array->role == KVF_ROLE_SCALE_V) return KVF_COMPONENT_SCALE;
  return array->window_tokens ? KVF_COMPONENT_WINDOW : KVF_COMPONENT_MAIN;
}

static void read_array(struct model_file *file, const json_t *object, struct model_kind *kind) {
  const json_t *dtype = model_file_get(object, "dtype");
  struct model_array array = {
      .role = read_role(file, object),
      .part = model_file_find(file, object, MODEL_KEYS("part"), UINT16_MAX),
      .heads = model_file_need(file, object, MODEL_KEYS("heads"), MODEL_WIDTH_LIMIT),
      .width = model_file_need(file, object, MODEL_KEYS("width"), 1 << 24),
      .dtype = dtype ? read_dtype(file, dtype) : model_file_dtype(file),
      .entry_tokens = model_file_find(file, object, MODEL_KEYS("entry_tokens"), MODEL_WIDTH_LIMIT),
      .window_tokens = model_file_find(file, object, MODEL_KEYS("window"), 1 << 30),
  };
  array.per_request = array.role == KVF_ROLE_STATE;
  array.replicated = json_is_true(json_object_get(object, "replicated"));
  if (array.entry_tokens == 0) array.entry_tokens = 1;
  array.component = pick_component(&array);
  const json_t *component = model_file_get(object, "component");
  if (component) array.component = model_file_find(file, object, MODEL_KEYS("component"), KVF_COMPONENT_LIMIT - 1);
  if (kind->array_count == MODEL_ARRAY_LIMIT)
    model_file_refuse(file, "kind \"%s\" has more than %d arrays", kind->name, MODEL_ARRAY_LIMIT);
  else
    kind->arrays[kind->array_count++] = array;
}

static uint32_t find_kind(struct model_file *file, const struct model *model, const json_t *name) {
  const char *wanted = json_string_value(name);
  for (uint32_t i = 0; wanted && i < model->kind_count; i++)
    if (!strcmp(model->kinds[i].name, wanted)) return i;
  model_file_refuse(file, "layers and draft_layers are lists of names in kinds; \"%s\" is none", wanted ? wanted : "(no text)");
  return 0;
}

static void read_layer_list(struct model_file *file, struct model *model, const json_t *names, bool draft) {
  size_t index;
  json_t *name;
  json_array_foreach(names, index, name) {
    uint32_t kind = find_kind(file, model, name);
    if (draft && !file->wrong) {
      const struct model_kind *made = model_kind_add_draft(model, kind);
      if (!made) model_file_refuse(file, "more than %d kinds", MODEL_KIND_LIMIT);
      kind = made ? model_kind_index(model, made) : 0;
    }
    if (!file->wrong && !model_add_layer(model, model->layers + model->draft_layers, kind, draft))
      model_file_refuse(file, "more than %d layers", MODEL_LAYER_LIMIT);
  }
}

/* {"kinds":{"full":[{"role":"K","heads":8,"width":128},…],…},"layers":["full",…],"draft_layers":[…],"dtype":"bf16"} */
static void read_long_form(struct model_file *file, struct model *model) {
  const char *name;
  json_t *arrays, *array, *kinds = json_object_get(file->object, "kinds");
  size_t index;
  json_object_foreach(kinds, name, arrays) {
    struct model_kind *kind = model_kind_add(model, name);
    if (!kind) {
      model_file_refuse(file, "more than %d kinds", MODEL_KIND_LIMIT);
      return;
    }
    if (strlen(name) >= sizeof kind->name) model_file_refuse(file, "the name of kind \"%s\" is too long", name);
    json_array_foreach(arrays, index, array) read_array(file, array, kind);
  }
  if (!json_is_array(json_object_get(file->object, "layers"))) model_file_miss(file, "layers (a list of names in kinds)");
  read_layer_list(file, model, json_object_get(file->object, "layers"), false);
  read_layer_list(file, model, json_object_get(file->object, "draft_layers"), true);
}

static void read_name(const json_t *object, const char *source, struct model *model) {
  const char *name = json_string_value(json_object_get(object, "name"));
  if (!name) name = json_string_value(json_object_get(object, "_name_or_path"));
  const char *slash = strrchr(source, '/');
  if (!name || !*name) name = slash ? slash + 1 : source;
  snprintf(model->name, sizeof model->name, "%s", name);
}

static bool is_hugging_face(const json_t *object) {
  static const char *const keys[] = {"num_hidden_layers", "num_key_value_heads", "num_attention_heads", "model_type"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(object, keys[i])) return true;
  return false;
}

/* "model_type "x" is read as …" helps who has a file that nobody has thought of here. */
static bool complain_missing(const struct model_file *file) {
  const char *type = json_string_value(json_object_get(file->object, "model_type"));
  if (!type) return complain(file->complaint, "%s: missing: %s", file->source, file->missing);
  return complain(file->complaint, "%s (model_type \"%s\"): missing: %s", file->source, type, file->missing);
}

static bool read_model(struct model_file *file, struct model *model) {
  const json_t *text_config = json_object_get(file->root, "text_config");
  if (!json_is_object(file->root)) return model_file_refuse(file, "a JSON object is expected");
  file->object = json_is_object(text_config) ? text_config : file->root;
  read_name(file->root, file->source, model);
  if (is_hugging_face(file->object))
    model_config_read(file, model);
  else if (json_is_object(json_object_get(file->object, "kinds")))
    read_long_form(file, model);
  else
    read_short_form(file, model);
  if (file->wrong) return false;
  if (file->missing[0]) return complain_missing(file);
  return model_finish(model, file->complaint);
}

bool model_parse(const char *json_text, const char *source, struct model *model_out, struct complaint *complaint) {
  json_error_t error;
  struct model model = {0};
  json_t *root = json_loads(json_text, JSON_REJECT_DUPLICATES, &error);
  if (!root) return complain(complaint, "%s: line %d: %s", source, error.line, error.text);
  struct model_file file = {.root = root, .source = source, .complaint = complaint};
  bool good = read_model(&file, &model);
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
  size_t count = model_preset_count() < PRESET_LIMIT ? model_preset_count() : PRESET_LIMIT;
  for (size_t i = 0; i < count; i++) names[i] = model_preset_name(i);
  const char *meant = suggest_word(text, names, count);
  if (meant) return complain(complaint, "no model \"%s\"; did you mean %s? `kvferry models` lists them", text, meant);
  return complain(complaint, "no model \"%s\": `kvferry models` lists the presets, and a path must end in .json", text);
}

bool model_query(const char *text, struct model *model_out, struct complaint *complaint) {
  for (size_t i = 0; i < model_preset_count(); i++) {
    if (!model_preset_has_name(i, text)) continue;
    model_preset_make(i, model_out);
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
