/* `kvferry models`: the presets, or the models named. */
#include <stdio.h>

#include <jansson.h>
#include <kvferry/plane.h>

#include "command.h"
#include "model.h"
#include "options.h"
#include "quantity.h"
#include "terminal.h"

enum { WORD_LIMIT = 64 };

static bool has_component(const struct model *model, uint32_t component) {
  for (uint32_t k = 0; k < model->kind_count; k++)
    for (uint32_t a = 0; a < model->kinds[k].array_count; a++)
      if (model->kinds[k].arrays[a].component == component) return true;
  return false;
}

/* What there is beside K and V that grow with all tokens. */
static void print_rest(const struct model *model) {
  const uint64_t window = model_request_bytes(model, KVF_COMPONENT_WINDOW), state = model_request_bytes(model, KVF_COMPONENT_STATE);
  char size[QUANTITY_TEXT_BYTES];
  if (model->mla) printf("  MLA");
  for (uint32_t list = MODEL_LIST_COMPRESSED; list < MODEL_LIST_LIMIT && model->page_lists[list].used; list++)
    printf("  1/%u", model->page_lists[list].entry_tokens);
  if (window)
    printf("  window %u: %s", model->page_lists[MODEL_LIST_WINDOW].window_tokens, quantity_format_bytes((double)window, size));
  if (state) printf("  state: %s", quantity_format_bytes((double)state, size));
  if (has_component(model, KVF_COMPONENT_INDEX)) printf("  index");
  if (model->draft_layers) printf("  draft layers: %u", model->draft_layers);
  printf("\n");
}

/* The numbers of heads that are split over tensor-parallel ranks, each once. */
static json_t *list_split_heads(const struct model *model) {
  json_t *list = json_array();
  for (uint32_t k = 0; k < model->kind_count; k++)
    for (uint32_t a = 0; a < model->kinds[k].array_count; a++) {
      const struct model_array *array = &model->kinds[k].arrays[a];
      bool known = array->replicated;
      for (size_t i = 0; i < json_array_size(list); i++)
        known = known || json_integer_value(json_array_get(list, i)) == array->heads;
      if (!known) json_array_append_new(list, json_integer(array->heads));
    }
  return list;
}

static json_t *encode_model(const struct model *model) {
  return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:s, s:b, s:I, s:I, s:I}", "name", model->name, "layers",
                   (int)model->layers, "draft_layers", (int)model->draft_layers, "kinds", (int)model_count_kinds(model), "kv_heads",
                   (int)model->kv_heads, "head_dim", (int)model->head_dim, "split_heads", list_split_heads(model), "dtype",
                   model_dtype_name(model->dtype), "mla", (int)model->mla, "token_bytes", (json_int_t)model_token_bytes(model),
                   "window_bytes", (json_int_t)model_request_bytes(model, KVF_COMPONENT_WINDOW), "state_bytes",
                   (json_int_t)model_request_bytes(model, KVF_COMPONENT_STATE));
}

/* The words of the command line, or all presets. */
struct choice {
  const char *words[WORD_LIMIT];
  size_t count; /* 0: all presets */
};

static size_t count_models(const struct choice *choice) {
  return choice->count ? choice->count : model_preset_count();
}

static bool load_model(const struct choice *choice, size_t index, struct model *model, struct complaint *complaint) {
  if (choice->count) return model_query(choice->words[index], model, complaint);
  model_preset_make(index, model);
  return true;
}

static bool print_json(const struct choice *choice, struct complaint *complaint) {
  json_t *list = json_array();
  bool good = true;
  for (size_t i = 0; good && i < count_models(choice); i++) {
    struct model model;
    good = load_model(choice, i, &model, complaint);
    if (good) json_array_append_new(list, encode_model(&model));
  }
  if (good && json_dumpf(list, stdout, JSON_INDENT(2)) != 0) good = complain(complaint, "cannot write");
  if (good) printf("\n");
  json_decref(list);
  return good;
}

static bool print_table(const struct choice *choice, struct complaint *complaint) {
  printf("%s%-36s %6s %8s %8s %8s %12s%s\n", terminal_style(stdout, TERMINAL_BOLD), "model", "layers", "KV heads", "head_dim",
         "dtype", "bytes/token", terminal_style(stdout, TERMINAL_PLAIN));
  for (size_t i = 0; i < count_models(choice); i++) {
    struct model model;
    if (!load_model(choice, i, &model, complaint)) return false;
    printf("%-36s %6u %8u %8u %8s %12llu", model.name, model.layers, model.kv_heads, model.head_dim, model_dtype_name(model.dtype),
           (unsigned long long)model_token_bytes(&model));
    print_rest(&model);
  }
  printf(
      "\nbytes/token: of the layers that grow with all tokens. Windows (when full) and states are bytes a request.\n"
      "Another model: FILE.json, a Hugging Face config.json or kvferry's own form (docs/models.md)\n");
  return true;
}

int command_models(int argc, char **argv) {
  bool json = false;
  struct complaint complaint;
  struct choice choice = {.count = 0};
  const struct option options[] = {{"json", NULL, "as JSON", OPTION_FLAG, &json}};
  enum options_result result = options_parse(options, 1, argc, argv, choice.words, WORD_LIMIT, &choice.count, &complaint);
  if (result == OPTIONS_HELP) {
    printf(
        "kvferry models - the model geometries known by name, or those of the models named\n\n"
        "usage: kvferry models [options] [NAME|FILE.json …]\n\n");
    options_print(stdout, options, 1);
    return 0;
  }
  if (result == OPTIONS_WRONG) return command_refuse("models", complaint.text);
  bool good = json ? print_json(&choice, &complaint) : print_table(&choice, &complaint);
  return good ? 0 : command_refuse("models", complaint.text);
}
