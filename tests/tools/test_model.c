/* Models: the presets against the published bytes per token, both own JSON forms, and configurations of each family (with
 * made-up sizes), down to the single arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <kvferry/plane.h>

#include "model.h"

static void presets_have_the_published_bytes_per_token(void **state) {
  static const struct {
    const char *name, *layers;
    uint64_t token_bytes;
  } known[] = {{"Meta-Llama-3.1-8B", "0-31", 131072},
               {"Meta-Llama-3.1-70B", "0-79", 327680},
               {"Meta-Llama-3.1-405B", "0-125", 516096},
               {"Qwen3-0.6B", "0-27", 114688},
               {"Qwen3-8B", "0-35", 147456},
               {"Qwen3-32B", "0-63", 262144},
               {"Qwen3-30B-A3B", "0-47", 98304},
               {"Qwen3-235B-A22B", "0-93", 192512},
               {"Qwen3-Coder-480B-A35B-Instruct", "0-61", 253952},
               {"Mixtral-8x7B-v0.1", "0-31", 131072},
               {"MiniMax-M2.7", "0-61", 253952},
               {"DeepSeek-V3", "0-60 and draft 61", 70272},
               {"DeepSeek-V3.2", "0-60 and draft 61", 70272},
               {"Kimi-K2-Instruct", "0-60", 70272},
               {"GLM-5", "0-77 and draft 78", 89856},
               {"gpt-oss-120b", "0-35", 36864},
               {"gpt-oss-20b", "0-23", 24576},
               {"Qwen3.5-397B-A17B", "0-59 and draft 60", 30720},
               {"Qwen3.5-27B", "0-63 and draft 64", 65536},
               {"Qwen3.5-35B-A3B", "0-39 and draft 40", 20480},
               {"gemma-4-26B-A4B", "0-29", 20480},
               {"Gemma-4-31B-IT-NVFP4", "0-59", 81920},
               {"MiMo-V2-Flash", "0-47", 23040},
               {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0-51", 6144},
               {"Llama-3_3-Nemotron-Super-49B-v1", "0-79", 200704},
               {"DeepSeek-V4-Flash", "0-42 and draft 43", 0 /* not published as one number */},
               {"Kimi-K3", "0-92", 27648},
               {"Step-3.7-Flash", "0-44 and draft 45-47", 49152}};
  assert_int_equal(model_preset_count(), sizeof known / sizeof *known);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    struct model model;
    struct complaint complaint;
    char layers[256];
    assert_true(model_query(known[i].name, &model, &complaint));
    assert_string_equal(model.name, known[i].name);
    if (known[i].token_bytes && model_token_bytes(&model) != known[i].token_bytes)
      fail_msg("%s: %llu bytes", known[i].name, (unsigned long long)model_token_bytes(&model));
    assert_string_equal(model_describe_layers(&model, layers, sizeof layers), known[i].layers);
  }
}

/* "3,7,11": the main layers that hold an array of this role and component. */
static const char *list_holders(const struct model *model, uint32_t role, uint32_t component, char *text, size_t capacity) {
  *text = 0;
  for (uint32_t i = 0; i < model->layers; i++) {
    const struct model_kind *kind = model_layer_kind(model, i);
    for (uint32_t a = 0; a < kind->array_count; a++) {
      if (kind->arrays[a].role != role || kind->arrays[a].component != component) continue;
      size_t used = strlen(text);
      snprintf(text + used, capacity - used, "%s%u", used ? "," : "", model->list[i].id);
      break;
    }
  }
  return text;
}

static void layers_of_each_kind_are_the_published_ones(void **state) {
  static const struct {
    const char *name;
    uint32_t role, component;
    const char *layers;
  } rows[] = {
      {"Qwen3.5-35B", KVF_ROLE_K, KVF_COMPONENT_MAIN, "3,7,11,15,19,23,27,31,35,39"},
      {"gemma-4-26b", KVF_ROLE_V, KVF_COMPONENT_MAIN, "5,11,17,23,29"},
      {"MiMo-V2-Flash", KVF_ROLE_K, KVF_COMPONENT_MAIN, "0,5,11,17,23,29,35,41,47"},
      {"Nemotron-3-Nano-30B", KVF_ROLE_K, KVF_COMPONENT_MAIN, "5,12,19,26,33,42"},
      {"Nemotron-3-Nano-30B", KVF_ROLE_STATE, KVF_COMPONENT_STATE,
       "0,2,4,7,9,11,14,16,18,21,23,25,28,30,32,35,37,39,41,44,46,48,50"},
      {"Nemotron-Super-49B", KVF_ROLE_K, KVF_COMPONENT_MAIN,
       "0,1,2,3,4,5,8,9,10,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,52,71,72,73,"
       "74,"
       "75,76,77,78,79"},
      {"Kimi-K3", KVF_ROLE_LATENT, KVF_COMPONENT_MAIN, "3,7,11,15,19,23,27,31,35,39,43,47,51,55,59,63,67,71,75,79,83,87,91,92"},
      {"Step-3.7-Flash", KVF_ROLE_K, KVF_COMPONENT_MAIN, "0,4,8,12,16,20,24,28,32,36,40,44"},
      {"gpt-oss-20b", KVF_ROLE_K, KVF_COMPONENT_WINDOW, "0,2,4,6,8,10,12,14,16,18,20,22"},
      {"DeepSeek-V4-Flash", KVF_ROLE_INDEX, KVF_COMPONENT_INDEX, "2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct model model;
    struct complaint complaint;
    char text[512];
    assert_true(model_query(rows[i].name, &model, &complaint));
    assert_string_equal(list_holders(&model, rows[i].role, rows[i].component, text, sizeof text), rows[i].layers);
  }
}

static void windows_and_states_have_the_published_sizes(void **state) {
  struct model model;
  struct complaint complaint;
  assert_true(model_query("gpt-oss-120b", &model, &complaint));
  assert_int_equal(model_request_bytes(&model, KVF_COMPONENT_WINDOW), 2 * 18 * 8 * 64 * 2 * 128);
  assert_int_equal(model_request_bytes(&model, KVF_COMPONENT_STATE), 0);
  assert_true(model_query("Qwen3.5-397B", &model, &complaint));
  assert_int_equal(model_request_bytes(&model, KVF_COMPONENT_STATE),
                   45ull * ((2 * 16 * 128 + 64 * 128) * 3 * 2 + 64 * 128 * 128 * 4));
  assert_true(model_query("Nemotron-3-Nano-30B", &model, &complaint));
  assert_int_equal(model_request_bytes(&model, KVF_COMPONENT_STATE), 23ull * ((64 * 64 + 2 * 8 * 128) * 3 * 2 + 64 * 64 * 128 * 4));
  assert_true(model_query("Kimi-K3", &model, &complaint));
  assert_int_equal(model_request_bytes(&model, KVF_COMPONENT_STATE), 69ull * (3 * 96 * 128 * 3 * 2 + 96 * 128 * 128 * 4));
}

static void a_name_is_found_in_any_case_and_a_typo_is_answered(void **state) {
  struct model model;
  struct complaint complaint;
  assert_true(model_query("deepseek-v3", &model, &complaint));
  assert_true(model.mla);
  assert_int_equal(model_head_bytes(&model.kinds[0].arrays[0]), 576 * 2);
  assert_true(model_query("Llama-3.1-8B", &model, &complaint));
  assert_string_equal(model.name, "Meta-Llama-3.1-8B");
  assert_false(model_query("Qwen3-8", &model, &complaint));
  assert_non_null(strstr(complaint.text, "did you mean Qwen3-8B"));
  assert_false(model_query("missing.json", &model, &complaint));
  assert_non_null(strstr(complaint.text, "missing.json"));
}

static void a_cut_keeps_one_layer_of_each_kind_and_its_id(void **state) {
  static const struct {
    const char *name;
    uint32_t layers;
    const char *kept; /* NULL: refused */
  } rows[] = {{"Qwen3-8B", 2, "0-1"},
              {"gpt-oss-120b", 2, "0-1"},
              {"gemma-4-26b", 2, "0, 5"},
              {"gemma-4-26b", 3, "0-1, 5"},
              {"Qwen3.5-397B", 2, "0, 3 and draft 60"},
              {"DeepSeek-V4-Flash", 3, "0, 2-3 and draft 43"},
              {"DeepSeek-V4-Flash", 2, NULL},
              {"Nemotron-Super-49B", 8, "0-5, 8-9"},
              {"Nemotron-3-Nano-30B", 2, "0, 5"},
              {"Nemotron-3-Nano-30B", 31,
               "0-5, 7, 9, 11-12, 14, 16, 18-19, 21, 23, 25-26, 28, 30, 32-33, 35, 37, 39, 41-42, 44, 46, 48, 50"},
              {"Step-3.7-Flash", 2, "0-1 and draft 45-47"},
              {"Qwen3-0.6B", 29, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct model model;
    struct complaint complaint;
    char text[512];
    assert_true(model_query(rows[i].name, &model, &complaint));
    bool good = model_cut(&model, rows[i].layers, &complaint);
    assert_int_equal(good, rows[i].kept != NULL);
    if (good) assert_string_equal(model_describe_layers(&model, text, sizeof text), rows[i].kept);
  }
}

/* "0 K/0 4x80 bf16 +MAIN @0": one array a line, layers of the same kind once. */
static void print_model(const struct model *model, char *text, size_t capacity) {
  size_t used = (size_t)snprintf(text, capacity, "%s", "");
  for (uint32_t i = 0; i < model->layers + model->draft_layers; i++) {
    const struct model_kind *kind = model_layer_kind(model, i);
    used +=
        (size_t)snprintf(text + used, capacity - used, "%s%u%s", i ? "; " : "", model->list[i].id, model->list[i].draft ? "d" : "");
    for (uint32_t a = 0; a < kind->array_count; a++) {
      const struct model_array *array = &kind->arrays[a];
      used += (size_t)snprintf(text + used, capacity - used, " %s%s%.0u:%ux%u:%s", model_role_name(array->role),
                               array->part ? "." : "", array->part, array->heads, array->width, model_dtype_name(array->dtype));
      if (array->window_tokens) used += (size_t)snprintf(text + used, capacity - used, ":w%u", array->window_tokens);
      if (array->entry_tokens > 1) used += (size_t)snprintf(text + used, capacity - used, ":r%u", array->entry_tokens);
      used += (size_t)snprintf(text + used, capacity - used, ":%s@%u", model_component_name(array->component), array->page_list);
    }
  }
}

#define CONV_QKV " state:3x60:bf16:state@2 state.1:3x60:bf16:state@2 state.2:6x84:bf16:state@2"

static void each_family_of_configurations_is_read(void **state) {
  static const struct {
    const char *file, *expected;
  } rows[] = {
      {"llama",
       "0 K:4x80:bf16:main@0 V:4x80:bf16:main@0; 1 K:4x80:bf16:main@0 V:4x80:bf16:main@0; "
       "2 K:4x80:bf16:main@0 V:4x80:bf16:main@0"},
      {"mistral_window", "0 K:2x40:f16:w96:window@1 V:2x40:f16:w96:window@1; 1 K:2x40:f16:w96:window@1 V:2x40:f16:w96:window@1"},
      {"qwen2",
       "0 K:2x80:bf16:main@0 V:2x80:bf16:main@0; 1 K:2x80:bf16:main@0 V:2x80:bf16:main@0; "
       "2 K:2x80:bf16:main@0 V:2x80:bf16:main@0; 3 K:2x80:bf16:main@0 V:2x80:bf16:main@0"},
      {"qwen2_window",
       "0 K:2x80:bf16:main@0 V:2x80:bf16:main@0; 1 K:2x80:bf16:main@0 V:2x80:bf16:main@0; "
       "2 K:2x80:bf16:main@0 V:2x80:bf16:main@0; 3 K:2x80:bf16:w512:window@1 V:2x80:bf16:w512:window@1"},
      {"qwen3_moe",
       "0 K:5x48:bf16:main@0 V:5x48:bf16:main@0; 1 K:5x48:bf16:main@0 V:5x48:bf16:main@0; "
       "2 K:5x48:bf16:main@0 V:5x48:bf16:main@0; 3 K:5x48:bf16:main@0 V:5x48:bf16:main@0; "
       "4 K:5x48:bf16:main@0 V:5x48:bf16:main@0"},
      {"deepseek_v3",
       "0 latent:1x112:bf16:main@0; 1 latent:1x112:bf16:main@0; 2 latent:1x112:bf16:main@0; "
       "3 latent:1x112:bf16:main@0; 4d latent:1x112:bf16:draft@0"},
      {"deepseek_v32",
       "0 latent:1x112:bf16:main@0 index:1x24:bf16:index@0; 1 latent:1x112:bf16:main@0 index:1x24:bf16:index@0; "
       "2 latent:1x112:bf16:main@0 index:1x24:bf16:index@0; 3d latent:1x112:bf16:draft@0 index:1x24:bf16:draft@0; "
       "4d latent:1x112:bf16:draft@0 index:1x24:bf16:draft@0"},
      {"gpt_oss",
       "0 K:3x24:bf16:w40:window@1 V:3x24:bf16:w40:window@1; 1 K:3x24:bf16:main@0 V:3x24:bf16:main@0; "
       "2 K:3x24:bf16:w40:window@1 V:3x24:bf16:w40:window@1; 3 K:3x24:bf16:main@0 V:3x24:bf16:main@0"},
      {"gemma3",
       "0 K:2x56:bf16:w88:window@1 V:2x56:bf16:w88:window@1; 1 K:2x56:bf16:w88:window@1 V:2x56:bf16:w88:window@1; "
       "2 K:2x56:bf16:main@0 V:2x56:bf16:main@0; 3 K:2x56:bf16:w88:window@1 V:2x56:bf16:w88:window@1; "
       "4 K:2x56:bf16:w88:window@1 V:2x56:bf16:w88:window@1; 5 K:2x56:bf16:main@0 V:2x56:bf16:main@0"},
      {"gemma4",
       "0 K:4x32:bf16:w72:window@1 V:4x32:bf16:w72:window@1; 1 K:4x32:bf16:w72:window@1 V:4x32:bf16:w72:window@1; "
       "2 K:2x80:bf16:main@0 V:2x80:bf16:main@0; 3 K:4x32:bf16:w72:window@1 V:4x32:bf16:w72:window@1; "
       "4 K:4x32:bf16:w72:window@1 V:4x32:bf16:w72:window@1; 5 K:2x80:bf16:main@0 V:2x80:bf16:main@0; 6"},
      {"qwen3_next", "0" CONV_QKV " state.3:6x560:f32:state@2; 1" CONV_QKV " state.3:6x560:f32:state@2; "
                     "2 K:2x72:bf16:main@0 V:2x72:bf16:main@0; 3" CONV_QKV " state.3:6x560:f32:state@2; "
                     "4" CONV_QKV " state.3:6x560:f32:state@2; 5 K:2x72:bf16:main@0 V:2x72:bf16:main@0"},
      {"nemotron_h",
       "0 state:6x36:bf16:state@2 state.1:3x54:bf16:state@2 state.2:3x54:bf16:state@2 state.3:6x216:f32:state@2; 1; "
       "2 K:2x44:bf16:main@0 V:2x44:bf16:main@0; 3 state:6x36:bf16:state@2 state.1:3x54:bf16:state@2 "
       "state.2:3x54:bf16:state@2 state.3:6x216:f32:state@2; 4; 5"},
      {"mimo_v2",
       "0 K:2x52:bf16:main@0 V:2x36:bf16:main@0; 1 K:4x52:bf16:w30:window@1 V:4x36:bf16:w30:window@1; "
       "2 K:4x52:bf16:w30:window@1 V:4x36:bf16:w30:window@1; 3 K:2x52:bf16:main@0 V:2x36:bf16:main@0"},
      {"nemotron_nas", "0 K:2x60:bf16:main@0 V:2x60:bf16:main@0; 1; 2 K:4x60:bf16:main@0 V:4x60:bf16:main@0; 3"},
      {"kimi_linear",
       "0 state:6x42:bf16:state@2 state.1:6x42:bf16:state@2 state.2:6x42:bf16:state@2 state.3:6x196:f32:state@2; "
       "1 state:6x42:bf16:state@2 state.1:6x42:bf16:state@2 state.2:6x42:bf16:state@2 state.3:6x196:f32:state@2; "
       "2 latent:1x72:bf16:main@0; "
       "3 state:6x42:bf16:state@2 state.1:6x42:bf16:state@2 state.2:6x42:bf16:state@2 state.3:6x196:f32:state@2; "
       "4 latent:1x72:bf16:main@0"},
      {"step3p5",
       "0 K:2x26:bf16:main@0 V:2x26:bf16:main@0; 1 K:4x22:bf16:w50:window@1 V:4x22:bf16:w50:window@1; "
       "2 K:4x22:bf16:w50:window@1 V:4x22:bf16:w50:window@1; 3 K:4x22:bf16:w50:window@1 V:4x22:bf16:w50:window@1; "
       "4d K:4x22:bf16:w50:draft@1 V:4x22:bf16:w50:draft@1; 5d K:4x22:bf16:w50:draft@1 V:4x22:bf16:w50:draft@1"},
      {"deepseek_v4",
       "0 latent.1:1x60:bf16:w46:window@1; "
       "1 latent.1:1x60:bf16:w46:window@1 latent:1x60:bf16:r4:main@4 state:8x120:f32:state@2 state.1:8x120:f32:state@2 "
       "index:1x34:bf16:r4:index@4 state.2:8x68:f32:state@2 state.3:8x68:f32:state@2; "
       "2 latent.1:1x60:bf16:w46:window@1 latent:1x60:bf16:r16:main@5 state:16x60:f32:state@2 state.1:16x60:f32:state@2; "
       "3 latent.1:1x60:bf16:w46:window@1 latent:1x60:bf16:r4:main@4 state:8x120:f32:state@2 state.1:8x120:f32:state@2 "
       "index:1x34:bf16:r4:index@4 state.2:8x68:f32:state@2 state.3:8x68:f32:state@2; "
       "4d latent.1:1x60:bf16:w46:draft@1"},
      {"scales",
       "0 K:4x64:fp8_e4m3:main@0 V:4x48:fp8_e4m3:main@0 scale_k:4x1:f32:scale@3 scale_v:4x1:f32:scale@3; 1; "
       "2 K:2x64:fp8_e4m3:w100:window@1 V:2x64:fp8_e4m3:w100:window@1; 3 state:4x33:f32:state@2 state.1:1x7:fp8_e4m3:state@2; "
       "4 K:4x64:fp8_e4m3:main@0 V:4x48:fp8_e4m3:main@0 scale_k:4x1:f32:scale@3 scale_v:4x1:f32:scale@3; "
       "5d K:2x64:fp8_e4m3:w100:draft@1 V:2x64:fp8_e4m3:w100:draft@1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct model model;
    struct complaint complaint;
    char path[512], text[4096];
    snprintf(path, sizeof path, "%s/%s.json", getenv("KVF_CONFIGS"), rows[i].file);
    if (!model_query(path, &model, &complaint)) fail_msg("%s", complaint.text);
    print_model(&model, text, sizeof text);
    if (strcmp(text, rows[i].expected)) fail_msg("%s:\n%s\nexpected\n%s", rows[i].file, text, rows[i].expected);
  }
}

static void nested_state_dtype_and_draft_are_read(void **state) {
  struct model model;
  struct complaint complaint;
  char path[512], text[4096];
  snprintf(path, sizeof path, "%s/qwen3_5.json", getenv("KVF_CONFIGS"));
  if (!model_query(path, &model, &complaint)) fail_msg("%s", complaint.text);
  print_model(&model, text, sizeof text);
  assert_non_null(
      strstr(text, "0 state:3x40:bf16:state@2 state.1:3x40:bf16:state@2 state.2:6x56:bf16:state@2 state.3:6x560:bf16:state@2;"));
  assert_non_null(strstr(text, "; 4d K:2x72:bf16:draft@0 V:2x72:bf16:draft@0"));
}

static void the_short_form_is_read(void **state) {
  struct model model;
  struct complaint complaint;
  assert_true(model_parse("{\"name\":\"small\",\"layers\":3,\"kv_heads\":6,\"head_dim\":80,\"dtype\":\"fp8_e4m3\"}", "x.json",
                          &model, &complaint));
  assert_string_equal(model.name, "small");
  assert_int_equal(model_token_bytes(&model), 3 * 6 * 80 * 2);
  assert_true(model_parse("{\"layers\":3,\"kv_heads\":1,\"head_dim\":80,\"dtype\":\"bf16\",\"mla\":true}", "dir/x.json", &model,
                          &complaint));
  assert_string_equal(model.name, "x.json");
  assert_int_equal(model_token_bytes(&model), 3 * 80 * 2);
}

#define KINDS "{\"dtype\":\"bf16\",\"kinds\":{\"a\":[{\"role\":\"K\",\"heads\":2,\"width\":8}]},"

static void what_is_missing_or_wrong_is_named(void **state) {
  static const struct {
    const char *json, *named;
  } rows[] = {
      {"{\"layers\":3,\"kv_heads\":6,\"head_dim\":80}", "dtype"},
      {"{\"layers\":3,\"head_dim\":80,\"dtype\":\"bf16\"}", "kv_heads"},
      {"{\"kv_heads\":3,\"head_dim\":80,\"dtype\":\"bf16\"}", "layers"},
      {"{\"layers\":3,\"kv_heads\":2,\"dtype\":\"bf16\"}", "head_dim"},
      {"{\"layers\":0,\"kv_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\"}", "layers"},
      {"{\"layers\":3,\"kv_heads\":-2,\"head_dim\":8,\"dtype\":\"bf16\"}", "kv_heads"},
      {"{\"layers\":3,\"kv_heads\":2,\"head_dim\":8,\"dtype\":\"fp4\"}", "fp4"},
      {"{\"layers\":3,\"kv_heads\":2,\"head_dim\":8,\"dtype\":7}", "dtype"},
      {"{\"layers\":3,\"kv_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"mla\":true}", "mla"},
      {"{\"num_hidden_layers\":3,\"head_dim\":8,\"dtype\":\"bf16\"}", "num_key_value_heads"},
      {"{\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"dtype\":\"bf16\"}", "hidden_size"},
      {"{\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"hidden_size\":100,\"num_attention_heads\":3,\"dtype\":\"bf16\"}",
       "multiple"},
      {"{\"model_type\":\"new\"}",
       "(model_type \"new\"): missing: num_hidden_layers, dtype or torch_dtype, num_key_value_heads or "
       "num_attention_groups, head_dim, or hidden_size and num_attention_heads"},
      {"{\"num_hidden_layers\":2,\"num_key_value_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"layer_types\":[\"full_attention\","
       "\"sliding_attention\"]}",
       "missing: sliding_window or sliding_window_size"},
      {"{\"num_hidden_layers\":1,\"num_key_value_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"layer_types\":[\"holographic\"]}",
       "layer 0 is \"holographic\""},
      {"{\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"layer_types\":[\"full_attention\"]}",
       "1 entries for 3 layers"},
      {"{\"num_hidden_layers\":2,\"num_key_value_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"full_attention_interval\":2}",
       "linear_num_key_heads, linear_key_head_dim, linear_num_value_heads, linear_value_head_dim, linear_conv_kernel_dim"},
      {"{\"num_hidden_layers\":2,\"num_key_value_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"hybrid_override_pattern\":\"*?\"}",
       "layer 1 is '?'"},
      {"{\"num_hidden_layers\":2,\"kv_lora_rank\":8,\"dtype\":\"bf16\"}", "missing: qk_rope_head_dim"},
      {KINDS "\"layers\":[\"b\"]}", "\"b\" is none"},
      {KINDS "\"layers\":[]}", "no layer has a cache"},
      {KINDS "\"draft_layers\":[\"a\"]}", "missing: layers"},
      {"{\"dtype\":\"bf16\",\"kinds\":{\"a\":[{\"role\":\"Q\",\"heads\":2,\"width\":8}]},\"layers\":[\"a\"]}", "role \"Q\""},
      {"{\"dtype\":\"bf16\",\"kinds\":{\"a\":[{\"role\":\"K\",\"width\":8}]},\"layers\":[\"a\"]}", "heads"},
      {"{\"dtype\":\"bf16\",\"kinds\":{\"a\":[{\"role\":\"K\",\"heads\":1,\"width\":8},{\"role\":\"K\",\"heads\":1,\"width\":8}]},"
       "\"layers\":[\"a\"]}",
       "K part 0 twice"},
      {"[1]", "object"},
      {"{\"layers\":", "line 1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct model model;
    struct complaint complaint;
    assert_false(model_parse(rows[i].json, "m.json", &model, &complaint));
    assert_non_null(strstr(complaint.text, "m.json"));
    if (!strstr(complaint.text, rows[i].named))
      fail_msg("%s: \"%s\" does not name %s", rows[i].json, complaint.text, rows[i].named);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(presets_have_the_published_bytes_per_token),
      cmocka_unit_test(layers_of_each_kind_are_the_published_ones),
      cmocka_unit_test(windows_and_states_have_the_published_sizes),
      cmocka_unit_test(a_name_is_found_in_any_case_and_a_typo_is_answered),
      cmocka_unit_test(a_cut_keeps_one_layer_of_each_kind_and_its_id),
      cmocka_unit_test(each_family_of_configurations_is_read),
      cmocka_unit_test(nested_state_dtype_and_draft_are_read),
      cmocka_unit_test(the_short_form_is_read),
      cmocka_unit_test(what_is_missing_or_wrong_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
