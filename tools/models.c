/* `kvferry models`: the presets. */
#include <stdio.h>

#include <jansson.h>

#include "command.h"
#include "model.h"
#include "options.h"
#include "terminal.h"

static int print_json(const struct model *models, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:i, s:i, s:i, s:s, s:b, s:I}", "name", models[i].name, "layers", (int)models[i].layers, "kv_heads",
                        (int)models[i].kv_heads, "head_dim", (int)models[i].head_dim, "dtype", model_dtype_name(models[i].dtype),
                        "mla", (int)models[i].mla, "token_bytes", (json_int_t)model_token_bytes(&models[i])));
  int status = list && json_dumpf(list, stdout, JSON_INDENT(2)) == 0 ? 0 : 1;
  printf("\n");
  json_decref(list);
  return status;
}

static int print_table(const struct model *models, size_t count) {
  printf("%s%-18s %6s %8s %8s %6s %12s%s\n", terminal_style(stdout, TERMINAL_BOLD), "model", "layers", "KV heads", "head_dim",
         "dtype", "bytes/token", terminal_style(stdout, TERMINAL_PLAIN));
  for (size_t i = 0; i < count; i++)
    printf("%-18s %6u %8u %8u %6s %12llu%s\n", models[i].name, models[i].layers, models[i].kv_heads, models[i].head_dim,
           model_dtype_name(models[i].dtype), (unsigned long long)model_token_bytes(&models[i]), models[i].mla ? "  MLA" : "");
  printf(
      "\nAnother model: --model FILE.json with {\"name\",\"layers\",\"kv_heads\",\"head_dim\",\"dtype\"} or a Hugging Face "
      "config.json\n");
  return 0;
}

int command_models(int argc, char **argv) {
  bool json = false;
  struct complaint complaint;
  size_t count;
  const struct model *models = model_presets(&count);
  const struct option options[] = {{"json", NULL, "as JSON", OPTION_FLAG, &json}};
  enum options_result result = options_parse(options, 1, argc, argv, NULL, 0, NULL, &complaint);
  if (result == OPTIONS_HELP) {
    printf("kvferry models - the model geometries that replay knows by name\n\nusage: kvferry models [options]\n\n");
    options_print(stdout, options, 1);
    return 0;
  }
  if (result == OPTIONS_WRONG) return command_refuse("models", complaint.text);
  return json ? print_json(models, count) : print_table(models, count);
}
