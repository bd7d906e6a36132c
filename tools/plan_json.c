/* The plan for programs: JSON, and a digraph for Graphviz. */
#include <jansson.h>
#include <kvferry/engine.h>

#include "plan.h"
#include "quantity.h"

static json_t *encode_ranks(const struct plan *plan, enum role role) {
  json_t *list = json_array();
  for (uint32_t rank = 0; rank < plan->counts[role]; rank++) {
    struct plan_holding holding;
    plan_describe_rank(plan, role, rank, &holding);
    json_array_append_new(
        list, json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:I, s:I}", "rank", (int)rank, "stage", (int)plan->sides[role][rank].stage,
                        "planes", (int)plan->sides[role][rank].plane_count, "layers", holding.layers, "heads", holding.heads,
                        "token_bytes", holding.token_bytes, "window_bytes", (json_int_t)holding.window_bytes, "state_bytes",
                        (json_int_t)holding.state_bytes));
  }
  return list;
}

static json_t *encode_components(const kvf_plan_flow *flow) {
  json_t *object = json_object();
  for (uint32_t i = 0; i < KVF_COMPONENT_LIMIT; i++) {
    char name[24];
    if (flow->component_bytes[i] == 0) continue;
    snprintf(name, sizeof name, i <= KVF_COMPONENT_DRAFT ? "%s" : "%s %u", model_component_name(i), i);
    json_object_set_new(object, name, json_integer((json_int_t)flow->component_bytes[i]));
  }
  return object;
}

static json_t *encode_flow(const struct plan *plan, uint32_t prefill, uint32_t decode) {
  const kvf_plan_flow *flow = plan_flow(plan, prefill, decode);
  char heads[256];
  return json_pack("{s:i, s:i, s:I, s:i, s:i, s:i, s:s, s:o, s:I, s:I, s:I, s:I, s:s, s:s}", "prefill", (int)prefill, "decode",
                   (int)decode, "bytes", (json_int_t)flow->bytes, "layers", (int)flow->layer_count, "layer_first",
                   (int)flow->layer_first, "layer_end", (int)flow->layer_end, "heads",
                   plan_describe_heads(flow, heads, sizeof heads), "components", encode_components(flow), "slices",
                   (json_int_t)flow->slices, "direct_writes", (json_int_t)flow->direct_writes, "pieces", (json_int_t)flow->pieces,
                   "row_bytes", (json_int_t)flow->row_bytes, "way", settings_way_name(flow->way), "reason", flow->reason);
}

static json_t *encode_flows(const struct plan *plan) {
  json_t *list = json_array();
  for (uint32_t prefill = 0; prefill < plan->counts[ROLE_PREFILL]; prefill++)
    for (uint32_t decode = 0; decode < plan->counts[ROLE_DECODE]; decode++)
      if (plan_flow(plan, prefill, decode)->bytes) json_array_append_new(list, encode_flow(plan, prefill, decode));
  return list;
}

static json_t *encode_arenas(const struct plan *plan) {
  json_t *list = json_array();
  for (uint32_t decode = 0; decode < plan->counts[ROLE_DECODE]; decode++) {
    struct plan_arena arena = plan_size_arena(plan, decode);
    json_array_append_new(list,
                          json_pack("{s:i, s:i, s:I, s:I}", "decode", (int)decode, "senders", (int)arena.senders, "least_bytes",
                                    (json_int_t)arena.least_bytes, "recommended_bytes", (json_int_t)arena.recommended_bytes));
  }
  return list;
}

bool plan_print_json(const struct plan *plan, FILE *out) {
  const struct plan_totals totals = plan_sum(plan);
  char layers[1024];
  json_t *root =
      json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "model", plan->settings->model.name,
                "layers", model_describe_layers(&plan->settings->model, layers, sizeof layers), "tokens", (json_int_t)plan->tokens,
                "fabric", plan->fabric, "piece_bytes", (json_int_t)plan->piece_bytes, "token_bytes",
                (json_int_t)model_token_bytes(&plan->settings->model), "bytes", (json_int_t)totals.bytes, "slices",
                (json_int_t)totals.slices, "direct_writes", (json_int_t)totals.direct_writes, "pieces", (json_int_t)totals.pieces,
                "prefill", encode_ranks(plan, ROLE_PREFILL), "decode", encode_ranks(plan, ROLE_DECODE), "flows", encode_flows(plan),
                "arenas", encode_arenas(plan));
  bool good = root && json_dumpf(root, out, JSON_INDENT(2)) == 0;
  fprintf(out, "\n");
  json_decref(root);
  return good;
}

static void print_cluster(const struct plan *plan, enum role role, FILE *out) {
  const struct side *side = &plan->settings->sides[role];
  const char *name = settings_role_name(role);
  fprintf(out, "  subgraph cluster_%s {\n    label=\"%s tp=%u pp=%u cp=%u page=%u %s\";\n", name, name, side->tp, side->pp,
          settings_cp(side), side->page_tokens, settings_layout_name(side->layout));
  for (uint32_t rank = 0; rank < plan->counts[role]; rank++) {
    struct plan_holding holding;
    plan_describe_rank(plan, role, rank, &holding);
    fprintf(out, "    %s_%u [label=\"%s-%u\\nlayers %s\\n%s\"];\n", name, rank, name, rank, holding.layers, holding.heads);
  }
  fprintf(out, "  }\n");
}

void plan_print_dot(const struct plan *plan, FILE *out) {
  char size[QUANTITY_TEXT_BYTES];
  fprintf(out,
          "digraph kvferry {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n");
  print_cluster(plan, ROLE_PREFILL, out);
  print_cluster(plan, ROLE_DECODE, out);
  for (uint32_t prefill = 0; prefill < plan->counts[ROLE_PREFILL]; prefill++)
    for (uint32_t decode = 0; decode < plan->counts[ROLE_DECODE]; decode++) {
      const kvf_plan_flow *flow = plan_flow(plan, prefill, decode);
      if (flow->bytes == 0) continue;
      fprintf(out, "  prefill_%u -> decode_%u [label=\"%s\\n%s, %llu %s\"];\n", prefill, decode,
              quantity_format_bytes((double)flow->bytes, size), settings_way_name(flow->way),
              (unsigned long long)(flow->way == KVF_WAY_DIRECT ? flow->direct_writes : flow->pieces),
              flow->way == KVF_WAY_DIRECT ? "writes" : "pieces");
    }
  fprintf(out, "}\n");
}
