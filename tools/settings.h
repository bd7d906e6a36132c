/* Settings: what `replay` and `rank` are asked to do, parsed and checked once, read by everyone. */
#ifndef TOOLS_SETTINGS_H
#define TOOLS_SETTINGS_H

#include "model.h"
#include "options.h"
#include "workload.h"

enum role { ROLE_PREFILL, ROLE_DECODE };
enum verify { VERIFY_FULL, VERIFY_SAMPLE, VERIFY_OFF };
enum { SETTINGS_OPTION_COUNT = 26, SETTINGS_RANK_LIMIT = 64, SETTINGS_DEFAULT_LAYERS = 2, SETTINGS_LAYERS_UNSET = 1 << 30 };

/** One instance: how the model is split over its ranks, and its pages. Ranks are numbered tensor-parallel first, then context
 *  parallel, then by stage. */
struct side {
  uint32_t tp, pp;
  uint32_t page_tokens;
  uint32_t layout; /* KVF_LAYOUT_… */
  uint32_t cp,
      cp_block; /* context parallelism: cp_block consecutive entries on one of cp ranks, the next ones on the next; 0 = 1 */
  uint32_t stage_layers[SETTINGS_RANK_LIMIT]; /* main layers of each stage, when given; else all 0: an even split */
};

struct settings {
  struct side sides[2]; /* by role */
  const char *model_text, *trace_path, *fabric, *secret, *control_fault, *json_path;
  uint64_t requests, heads, layers, chunk_tokens, concurrency, max_tokens, seed;
  uint64_t arena_bytes, piece_bytes, gather_bytes, pool_bytes;
  double time_scale, deadline_s;
  uint32_t way, verify, memory;
  bool quiet, checksum;
  struct model model;    /* with layers and heads as asked */
  uint32_t model_layers; /* before --layers */
};

void settings_init(struct settings *settings);
/** The rows that both commands share, in @p options[SETTINGS_OPTION_COUNT]. */
void settings_list(struct settings *settings, struct option *options);
/** After parsing: look the model up and check what belongs together. */
bool settings_resolve(struct settings *settings, struct complaint *complaint);
/** Load or generate the trace and derive the workload. */
bool settings_make_workload(const struct settings *settings, struct workload *workload_out, struct complaint *complaint);

/** "tp=2,pp=1,page=16,layout=nhd,cp=1,cpblock=1,layers=7+8", keys in any order, none twice, others keep their value. */
bool settings_parse_side(const char *text, void *side, struct complaint *complaint);
const char *settings_layout_name(uint32_t layout);
const char *settings_way_name(uint32_t way);
const char *settings_verify_name(uint32_t verify);
const char *settings_role_name(enum role role);
uint32_t settings_cp(const struct side *side);
uint32_t settings_rank_count(const struct settings *settings, enum role role);

#endif
