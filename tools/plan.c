/* `kvferry plan`: works a plan out and has it printed. Nothing is opened and nothing moves. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvferry/engine.h>

#include "command.h"

enum { OWN_OPTION_COUNT = 3, SHARED_OPTION_COUNT = 8, OPTION_TOTAL = OWN_OPTION_COUNT + SHARED_OPTION_COUNT };

static const char *const shared_options[SHARED_OPTION_COUNT] = {"model",  "layers", "heads", "prefill",
                                                                "decode", "fabric", "way",   "piece"};

/* What decides the way; "auto" takes the first. */
static const struct fabric_row {
  const char *name;
  uint64_t direct_min_row_bytes;
  bool cannot_direct;
} fabrics[] = {{"tcp", KVF_PLAN_DIRECT_ROW_TCP, false},
               {"shm", KVF_PLAN_DIRECT_ROW_SHM, false},
               {"ucx", KVF_PLAN_DIRECT_ROW_UCX, false},
               {"rdma", 0, true}};

struct plan_request {
  uint64_t tokens;
  bool json, dot;
};

static void list_options(struct plan_request *request, struct settings *settings, struct option *options) {
  struct option all[SETTINGS_OPTION_COUNT];
  size_t count = 0;
  settings_list(settings, all);
  for (size_t wanted = 0; wanted < SHARED_OPTION_COUNT; wanted++)
    for (size_t i = 0; i < SETTINGS_OPTION_COUNT; i++)
      if (!strcmp(all[i].name, shared_options[wanted])) options[count++] = all[i];
  options[count++] =
      (struct option){"tokens", "N", "of the request; 4096", OPTION_COUNT, &request->tokens, 0, KVF_PLAN_TOKEN_LIMIT};
  options[count++] = (struct option){"json", NULL, "as JSON", OPTION_FLAG, &request->json};
  options[count++] = (struct option){"dot", NULL, "as a Graphviz digraph", OPTION_FLAG, &request->dot};
  for (size_t i = 0; i < count; i++) {
    if (!strcmp(options[i].name, "layers")) options[i].help = "cut the model to N layers with one of each kind; 0 = all; 0";
    if (!strcmp(options[i].name, "fabric")) options[i].help = "tcp, shm, ucx or rdma, the first of a list; auto is tcp";
  }
}

static void print_help(const struct option *options) {
  printf(
      "kvferry plan - what the ranks of two instances hold, who sends what to whom, in how many writes, and why that way\n\n"
      "usage: kvferry plan [options]\n\n");
  options_print(stdout, options, OPTION_TOTAL);
  printf(
      "\nexamples:\n"
      "  kvferry plan --model gpt-oss-120b --prefill tp=2 --decode tp=4,page=64,layout=hnd\n"
      "  kvferry plan --model DeepSeek-V3 --prefill tp=1,cp=4 --decode tp=8 --dot | dot -Tsvg >plan.svg\n\n"
      "exit status: 0 planned, 1 the two instances do not fit, 2 wrong usage\n");
}

static const struct fabric_row *find_fabric(const char *names) {
  size_t length = strcspn(names, ",");
  if (!strcmp(names, "auto")) return &fabrics[0];
  for (size_t i = 0; i < sizeof fabrics / sizeof *fabrics; i++)
    if (strlen(fabrics[i].name) == length && !strncmp(fabrics[i].name, names, length)) return &fabrics[i];
  return NULL;
}

const kvf_plan_flow *plan_flow(const struct plan *plan, uint32_t prefill, uint32_t decode) {
  return &plan->flows[decode * plan->counts[ROLE_PREFILL] + prefill];
}

static bool print_error(kvf_error *error, uint32_t decode) {
  size_t bytes = kvf_error_format(error, NULL, 0) + 1;
  char *text = malloc(bytes);
  if (text) kvf_error_format(error, text, bytes);
  fprintf(stderr, "kvferry plan: decode-%u refuses the prefill instance\n%s\n", decode, text ? text : kvf_error_message(error));
  free(text);
  kvf_error_free(error);
  return false;
}

static bool compute_flows(struct plan *plan, const struct fabric_row *fabric) {
  kvf_rank_planes sources[SETTINGS_RANK_LIMIT];
  kvf_plan_options options = KVF_PLAN_OPTIONS_INIT;
  kvf_error *error = NULL;
  options.token_end = plan->tokens;
  options.piece_bytes = plan->piece_bytes;
  options.direct_min_row_bytes = fabric->direct_min_row_bytes;
  options.cannot_direct = fabric->cannot_direct;
  options.way = plan->settings->way;
  options.flow_bytes = sizeof *plan->flows;
  for (uint32_t i = 0; i < plan->counts[ROLE_PREFILL]; i++) sources[i] = geometry_view(&plan->sides[ROLE_PREFILL][i]);
  for (uint32_t decode = 0; decode < plan->counts[ROLE_DECODE]; decode++) {
    const kvf_rank_planes target = geometry_view(&plan->sides[ROLE_DECODE][decode]);
    if (kvf_plan_summarise(sources, plan->counts[ROLE_PREFILL], &target, decode, &options,
                           &plan->flows[decode * plan->counts[ROLE_PREFILL]], &error) != KVF_OK)
      return print_error(error, decode);
  }
  return true;
}

static bool make_plan(struct plan *plan, const struct fabric_row *fabric) {
  struct complaint complaint;
  for (int role = 0; role < 2; role++) {
    plan->counts[role] = settings_rank_count(plan->settings, (enum role)role);
    plan->sides[role] = geometry_init_side(plan->settings, (enum role)role, &complaint);
    if (plan->sides[role]) continue;
    fprintf(stderr, "kvferry plan: %s: %s\n", settings_role_name((enum role)role), complaint.text);
    return false;
  }
  plan->flows = calloc((size_t)plan->counts[ROLE_PREFILL] * plan->counts[ROLE_DECODE], sizeof *plan->flows);
  if (plan->flows) return compute_flows(plan, fabric);
  fprintf(stderr, "kvferry plan: out of memory\n");
  return false;
}

static int execute(const struct plan_request *request, const struct settings *settings, const struct fabric_row *fabric) {
  enum { DEFAULT_PIECE_BYTES = 256 << 10 }; /* the engine's */
  struct plan plan = {.settings = settings,
                      .fabric = fabric->name,
                      .tokens = request->tokens,
                      .piece_bytes = settings->piece_bytes ? settings->piece_bytes : DEFAULT_PIECE_BYTES};
  bool good = make_plan(&plan, fabric);
  if (good && request->json)
    good = plan_print_json(&plan, stdout);
  else if (good && request->dot)
    plan_print_dot(&plan, stdout);
  else if (good)
    plan_print_text(&plan, stdout);
  for (int role = 0; role < 2; role++) geometry_fini_side(plan.sides[role], plan.counts[role]);
  free(plan.flows);
  return good ? 0 : 1;
}

int command_plan(int argc, char **argv) {
  struct plan_request request = {.tokens = 4096};
  struct settings settings;
  struct option options[OPTION_TOTAL];
  struct complaint complaint;
  settings_init(&settings);
  settings.layers = 0;
  list_options(&request, &settings, options);
  enum options_result result = options_parse(options, OPTION_TOTAL, argc, argv, NULL, 0, NULL, &complaint);
  if (result == OPTIONS_HELP) {
    print_help(options);
    return 0;
  }
  if (result == OPTIONS_WRONG || !settings_resolve(&settings, &complaint)) return command_refuse("plan", complaint.text);
  if (request.json && request.dot) return command_refuse("plan", "--json and --dot exclude each other");
  const struct fabric_row *fabric = find_fabric(settings.fabric);
  if (!fabric) return command_refuse("plan", "--fabric takes auto, tcp, shm, ucx or rdma");
  return execute(&request, &settings, fabric);
}
