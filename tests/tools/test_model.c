/* Models: the presets against the published bytes per token, and both JSON forms with what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <kvferry/plane.h>

#include "model.h"

static void presets_have_the_published_bytes_per_token(void **state) {
  static const struct {
    const char *name;
    uint64_t token_bytes;
    uint32_t layers;
  } known[] = {{"Qwen3-0.6B", 114688, 28},    {"Qwen3-8B", 147456, 36},        {"Qwen3-32B", 262144, 64},
               {"Qwen3-30B-A3B", 98304, 48},  {"Qwen3-235B-A22B", 192512, 94}, {"Llama-3.1-8B", 131072, 32},
               {"Llama-3.1-70B", 327680, 80}, {"Llama-3.1-405B", 516096, 126}, {"DeepSeek-V3", 70272, 61}};
  size_t count;
  model_presets(&count);
  assert_int_equal(count, sizeof known / sizeof *known);
  for (size_t i = 0; i < count; i++) {
    struct model model;
    struct complaint complaint;
    assert_true(model_query(known[i].name, &model, &complaint));
    assert_int_equal(model_token_bytes(&model), known[i].token_bytes);
    assert_int_equal(model.layers, known[i].layers);
  }
}

static void a_name_is_found_in_any_case_and_a_typo_is_answered(void **state) {
  struct model model;
  struct complaint complaint;
  assert_true(model_query("deepseek-v3", &model, &complaint));
  assert_true(model.mla);
  assert_int_equal(model_head_bytes(&model), 576 * 2);
  assert_false(model_query("Qwen3-8", &model, &complaint));
  assert_non_null(strstr(complaint.text, "did you mean Qwen3-8B"));
  assert_false(model_query("missing.json", &model, &complaint));
  assert_non_null(strstr(complaint.text, "missing.json"));
}

static void both_json_forms_are_read(void **state) {
  struct model model;
  struct complaint complaint;
  assert_true(model_parse("{\"name\":\"small\",\"layers\":3,\"kv_heads\":6,\"head_dim\":80,\"dtype\":\"fp8_e4m3\"}", "x.json",
                          &model, &complaint));
  assert_string_equal(model.name, "small");
  assert_int_equal(model_token_bytes(&model), 3 * 6 * 80 * 2);
  assert_true(
      model_parse("{\"num_hidden_layers\":32,\"num_key_value_heads\":8,\"hidden_size\":4096,\"num_attention_heads\":32,"
                  "\"torch_dtype\":\"bfloat16\"}",
                  "dir/config.json", &model, &complaint));
  assert_string_equal(model.name, "config.json");
  assert_int_equal(model.head_dim, 128);
  assert_int_equal(model_token_bytes(&model), 131072);
  assert_true(
      model_parse("{\"num_hidden_layers\":61,\"num_key_value_heads\":128,\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,"
                  "\"hidden_size\":7168,\"num_attention_heads\":128,\"torch_dtype\":\"bfloat16\"}",
                  "c.json", &model, &complaint));
  assert_true(model.mla);
  assert_int_equal(model_token_bytes(&model), 70272);
  assert_true(
      model_parse("{\"dtype\":\"float16\",\"text_config\":{\"num_hidden_layers\":2,\"num_key_value_heads\":4,\"head_dim\":64,"
                  "\"layer_types\":[\"full_attention\",\"full_attention\"]}}",
                  "c.json", &model, &complaint));
  assert_int_equal(model.dtype, KVF_DTYPE_F16);
}

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
      {"{\"num_hidden_layers\":2,\"num_key_value_heads\":2,\"head_dim\":8,\"dtype\":\"bf16\",\"layer_types\":[\"full_attention\","
       "\"sliding_attention\"]}",
       "layer 1 is sliding_attention"},
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
      cmocka_unit_test(a_name_is_found_in_any_case_and_a_typo_is_answered),
      cmocka_unit_test(both_json_forms_are_read),
      cmocka_unit_test(what_is_missing_or_wrong_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
