/* The plan for a person at a terminal. */
#include <string.h>

#include <kvferry/engine.h>

#include "plan.h"
#include "quantity.h"
#include "terminal.h"

enum { MATRIX_COLUMNS = 8 };

static void print_heading(FILE *out, const char *text) {
  fprintf(out, "\n%s%s%s\n", terminal_style(out, TERMINAL_BOLD), text, terminal_style(out, TERMINAL_PLAIN));
}

static void print_title(const struct plan *plan, FILE *out) {
  const struct model *model = &plan->settings->model;
  char count[QUANTITY_TEXT_BYTES], tokens[QUANTITY_TEXT_BYTES], layers[1024];
  fprintf(out, "%s%s%s, layers %s of %u: %s B a token in layers that grow with all tokens; a request of %s tokens over %s\n",
          terminal_style(out, TERMINAL_BOLD), model->name, terminal_style(out, TERMINAL_PLAIN),
          model_describe_layers(model, layers, sizeof layers), plan->settings->model_layers,
          quantity_format_count(model_token_bytes(model), count), quantity_format_count(plan->tokens, tokens), plan->fabric);
}

static void print_holdings(const struct plan *plan, FILE *out) {
  print_heading(out, "what each rank holds");
  fprintf(out, "  %-11s %5s  %11s  %10s  %10s  %s\n", "rank", "stage", "bytes/token", "windows", "state", "heads; layers");
  for (int role = 0; role < 2; role++)
    for (uint32_t rank = 0; rank < plan->counts[role]; rank++) {
      struct plan_holding holding;
      char window[QUANTITY_TEXT_BYTES], state[QUANTITY_TEXT_BYTES], name[24];
      plan_describe_rank(plan, (enum role)role, rank, &holding);
      snprintf(name, sizeof name, "%s-%u", settings_role_name((enum role)role), rank);
      fprintf(out,
              holding.heads[0] ? "  %-11s %5u  %11.0f  %10s  %10s  %s; layers %s\n" : "  %-11s %5u  %11.0f  %10s  %10s  nothing\n",
              name, plan->sides[role][rank].stage, holding.token_bytes,
              holding.window_bytes ? quantity_format_bytes((double)holding.window_bytes, window) : "-",
              holding.state_bytes ? quantity_format_bytes((double)holding.state_bytes, state) : "-", holding.heads, holding.layers);
    }
}

/* Columns [first, end) of the matrix. */
static void print_matrix_part(const struct plan *plan, uint32_t first, uint32_t end, FILE *out) {
  char text[QUANTITY_TEXT_BYTES];
  fprintf(out, "  %-11s", "");
  for (uint32_t decode = first; decode < end; decode++) {
    snprintf(text, sizeof text, "decode-%u", decode);
    fprintf(out, " %11s", text);
  }
  fprintf(out, "\n");
  for (uint32_t prefill = 0; prefill < plan->counts[ROLE_PREFILL]; prefill++) {
    snprintf(text, sizeof text, "prefill-%u", prefill);
    fprintf(out, "  %-11s", text);
    for (uint32_t decode = first; decode < end; decode++) {
      uint64_t bytes = plan_flow(plan, prefill, decode)->bytes;
      fprintf(out, " %11s", bytes ? quantity_format_bytes((double)bytes, text) : ".");
    }
    fprintf(out, "\n");
  }
}

static void print_matrix(const struct plan *plan, FILE *out) {
  print_heading(out, "who sends how much to whom");
  for (uint32_t first = 0; first < plan->counts[ROLE_DECODE]; first += MATRIX_COLUMNS) {
    uint32_t end = first + MATRIX_COLUMNS;
    print_matrix_part(plan, first, end < plan->counts[ROLE_DECODE] ? end : plan->counts[ROLE_DECODE], out);
  }
}

static void print_components(const kvf_plan_flow *flow, FILE *out) {
  char size[QUANTITY_TEXT_BYTES];
  uint32_t kinds = 0;
  for (uint32_t i = 0; i < KVF_COMPONENT_LIMIT; i++) kinds += flow->component_bytes[i] > 0;
  for (uint32_t i = 0; i < KVF_COMPONENT_LIMIT && kinds > 1; i++)
    if (flow->component_bytes[i])
      fprintf(out, "; %s %s", model_component_name(i), quantity_format_bytes((double)flow->component_bytes[i], size));
}

static void print_flow(const struct plan *plan, uint32_t prefill, uint32_t decode, FILE *out) {
  const kvf_plan_flow *flow = plan_flow(plan, prefill, decode);
  char size[QUANTITY_TEXT_BYTES], heads[256], pieces[QUANTITY_TEXT_BYTES], slices[QUANTITY_TEXT_BYTES], runs[QUANTITY_TEXT_BYTES];
  if (flow->bytes == 0) return;
  fprintf(out, "  prefill-%u -> decode-%u: %s, %u layers from %u to %u, %s", prefill, decode,
          quantity_format_bytes((double)flow->bytes, size), flow->layer_count, flow->layer_first, flow->layer_end - 1,
          plan_describe_heads(flow, heads, sizeof heads));
  print_components(flow, out);
  fprintf(out, "\n    writes: %s token by token, %s direct (runs from %s on), %s staged\n    %s\n",
          quantity_format_count(flow->slices, slices), quantity_format_count(flow->direct_writes, runs),
          quantity_format_bytes((double)flow->row_bytes, size), quantity_format_count(flow->pieces, pieces), flow->reason);
}

static void print_totals(const struct plan *plan, FILE *out) {
  const struct plan_totals totals = plan_sum(plan);
  struct plan_arena widest = {0};
  char size[QUANTITY_TEXT_BYTES], other[QUANTITY_TEXT_BYTES], third[QUANTITY_TEXT_BYTES], piece[QUANTITY_TEXT_BYTES];
  print_heading(out, "in all");
  fprintf(out, "  bytes   %s, %.0f a token\n", quantity_format_bytes((double)totals.bytes, size),
          plan->tokens ? (double)totals.bytes / (double)plan->tokens : 0);
  fprintf(out, "  writes  %s token by token, %s direct, %s staged\n", quantity_format_count(totals.slices, size),
          quantity_format_count(totals.direct_writes, other), quantity_format_count(totals.pieces, third));
  for (uint32_t decode = 0; decode < plan->counts[ROLE_DECODE]; decode++) {
    struct plan_arena arena = plan_size_arena(plan, decode);
    if (arena.senders > widest.senders) widest = arena;
  }
  if (widest.senders == 0) return;
  fprintf(out,
          "  arena   of a decode rank, for one sending instance with %u ranks that send to it and pieces of %s: at least %s (the\n"
          "          standing credits), %s recommended (the windows)\n",
          widest.senders, quantity_format_bytes((double)plan->piece_bytes, piece),
          quantity_format_bytes((double)widest.least_bytes, size), quantity_format_bytes((double)widest.recommended_bytes, other));
}

void plan_print_text(const struct plan *plan, FILE *out) {
  print_title(plan, out);
  print_holdings(plan, out);
  print_matrix(plan, out);
  print_heading(out, "flows");
  for (uint32_t prefill = 0; prefill < plan->counts[ROLE_PREFILL]; prefill++)
    for (uint32_t decode = 0; decode < plan->counts[ROLE_DECODE]; decode++) print_flow(plan, prefill, decode, out);
  print_totals(plan, out);
}
