/* Settings: the option rows, the side grammar and the cross checks. */
#include "settings.h"

#include <string.h>

#include <kvferry/engine.h>
#include <kvferry/plane.h>

#include "quantity.h"
#include "synthetic.h"

enum { RANK_LIMIT = SETTINGS_RANK_LIMIT, PAGE_LIMIT_TOKENS = 65536 };

static const char *const memory_names[] = {"host", "cuda", NULL};
static const char *const way_names[] = {"auto", "staged", "direct", NULL};
static const char *const verify_names[] = {"full", "sample", "off", NULL};

const char *settings_layout_name(uint32_t layout) {
  return layout == KVF_LAYOUT_HND ? "hnd" : "nhd";
}
const char *settings_way_name(uint32_t way) {
  return way <= KVF_WAY_DIRECT ? way_names[way] : "unknown";
}
const char *settings_verify_name(uint32_t verify) {
  return verify <= VERIFY_OFF ? verify_names[verify] : "unknown";
}
const char *settings_role_name(enum role role) {
  return role == ROLE_PREFILL ? "prefill" : "decode";
}
uint32_t settings_cp(const struct side *side) {
  return side->cp ? side->cp : 1;
}
uint32_t settings_rank_count(const struct settings *settings, enum role role) {
  const struct side *side = &settings->sides[role];
  return side->tp * side->pp * settings_cp(side);
}

static bool parse_side_number(const char *key, const char *text, uint32_t most, uint32_t *number_out, struct complaint *complaint) {
  uint64_t number;
  if (!quantity_parse_count(text, &number) || number < 1 || number > most)
    return complain(complaint, "%s=%s: a number from 1 to %u is expected", key, text, most);
  *number_out = (uint32_t)number;
  return true;
}

/* "7+8": the main layers of each stage. */
static bool parse_stage_layers(char *text, struct side *side, struct complaint *complaint) {
  char *rest = text;
  uint32_t stages = 0;
  memset(side->stage_layers, 0, sizeof side->stage_layers);
  for (char *word = strsep(&rest, "+"); word; word = strsep(&rest, "+")) {
    if (stages == RANK_LIMIT) return complain(complaint, "layers: at most %d stages", RANK_LIMIT);
    if (!parse_side_number("layers", word, MODEL_LAYER_LIMIT, &side->stage_layers[stages++], complaint)) return false;
  }
  side->pp = stages;
  return true;
}

static bool parse_side_pair(const char *key, char *value, struct side *side, struct complaint *complaint) {
  if (!strcmp(key, "tp")) return parse_side_number(key, value, RANK_LIMIT, &side->tp, complaint);
  if (!strcmp(key, "pp")) return parse_side_number(key, value, RANK_LIMIT, &side->pp, complaint);
  if (!strcmp(key, "page")) return parse_side_number(key, value, PAGE_LIMIT_TOKENS, &side->page_tokens, complaint);
  if (!strcmp(key, "cp")) return parse_side_number(key, value, RANK_LIMIT, &side->cp, complaint);
  if (!strcmp(key, "cpblock")) return parse_side_number(key, value, PAGE_LIMIT_TOKENS, &side->cp_block, complaint);
  if (!strcmp(key, "layers")) return parse_stage_layers(value, side, complaint);
  if (strcmp(key, "layout"))
    return complain(complaint, "unknown key \"%s\"; known are tp, pp, page, layout, cp, cpblock and layers", key);
  if (strcmp(value, "nhd") && strcmp(value, "hnd")) return complain(complaint, "layout=%s: nhd or hnd is expected", value);
  side->layout = *value == 'h' ? KVF_LAYOUT_HND : KVF_LAYOUT_NHD;
  return true;
}

bool settings_parse_side(const char *text, void *target, struct complaint *complaint) {
  struct side *side = target, parsed = *side;
  char copy[256], seen[256] = ",";
  if (strlen(text) >= sizeof copy) return complain(complaint, "\"%s\" is too long", text);
  strcpy(copy, text);
  char *rest = copy;
  for (char *pair = strsep(&rest, ","); pair; pair = strsep(&rest, ",")) {
    char mark[64];
    char *equals = strchr(pair, '=');
    if (!equals) return complain(complaint, "\"%s\": key=value is expected, for example tp=2,pp=1,page=16,layout=nhd", pair);
    *equals = 0;
    snprintf(mark, sizeof mark, ",%s,", pair);
    if (strstr(seen, mark)) return complain(complaint, "\"%s\" is given twice", pair);
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s,", pair);
    if (!strcmp(pair, "pp") && !strstr(seen, ",layers,")) memset(parsed.stage_layers, 0, sizeof parsed.stage_layers);
    uint32_t stages = parsed.pp;
    if (!parse_side_pair(pair, equals + 1, &parsed, complaint)) return false;
    if (strstr(seen, ",pp,") && strstr(seen, ",layers,") && parsed.pp != stages)
      return complain(complaint, "pp and layers speak of %u and %u stages", stages, parsed.pp);
  }
  if ((uint64_t)parsed.tp * parsed.pp * settings_cp(&parsed) > RANK_LIMIT)
    return complain(complaint, "tp*pp*cp: at most %d ranks a side", RANK_LIMIT);
  *side = parsed;
  return true;
}

void settings_init(struct settings *settings) {
  *settings = (struct settings){
      .sides = {{.tp = 2, .pp = 1, .page_tokens = 16, .layout = KVF_LAYOUT_NHD},
                {.tp = 4, .pp = 1, .page_tokens = 16, .layout = KVF_LAYOUT_NHD}},
      .model_text = "Qwen3-8B",
      .trace_path = "synthetic",
      .fabric = "auto",
      .requests = 100,
      .layers = SETTINGS_LAYERS_UNSET,
      .chunk_tokens = 2048,
      .concurrency = 4,
      .seed = 1,
      .pool_bytes = 2ull << 30,
      .deadline_s = 120,
  };
}

void settings_list(struct settings *settings, struct option *options) {
  const struct option rows[SETTINGS_OPTION_COUNT] = {
      {"model", "NAME|FILE.json", "a preset (see `kvferry models`) or a file; Qwen3-8B", OPTION_TEXT, &settings->model_text},
      {"layers", "N",
       "cut the model to N layers with one of each kind, and its draft layers; 0 = all\n2, or as many as there are kinds",
       OPTION_COUNT, &settings->layers, 0, 4096},
      {"heads", "N", "another number of KV heads", OPTION_COUNT, &settings->heads, 1, 65536},
      {"prefill", "SIDE",
       "tp=2,pp=1,page=16,layout=nhd: ranks, tokens per page, page layout (nhd or hnd)\n"
       "of the prefill instance; layers=7+8 for the stages' layers, cp=4,cpblock=16 for\ncontext parallelism",
       OPTION_OWN, &settings->sides[ROLE_PREFILL], .parse = settings_parse_side},
      {"decode", "SIDE", "the same of the decode instance; tp=4,pp=1,page=16,layout=nhd", OPTION_OWN, &settings->sides[ROLE_DECODE],
       .parse = settings_parse_side},
      {"trace", "FILE|synthetic", "requests, one JSON object a line; or made up", OPTION_TEXT, &settings->trace_path},
      {"requests", "N", "the first N requests of the trace; 100", OPTION_COUNT, &settings->requests, 1, 10000000},
      {"max-tokens", "N", "cut longer prompts; 0 = never", OPTION_COUNT, &settings->max_tokens},
      {"time-scale", "X", "1 = arrivals as in the trace, 0.1 = ten times faster, 0 = at once; 0", OPTION_REAL,
       &settings->time_scale},
      {"chunk-tokens", "N", "tokens that prefill computes and posts at a time; 2048", OPTION_COUNT, &settings->chunk_tokens, 1,
       1 << 24},
      {"concurrency", "N", "rooms that a rank has open at most; 4", OPTION_COUNT, &settings->concurrency, 1, 4096},
      {"verify", "full|sample|off", "check every byte, one token of 16, or nothing; full", OPTION_CHOICE, &settings->verify,
       .choices = verify_names},
      {"seed", "N", "of everything random; 1", OPTION_COUNT, &settings->seed, 0, INT64_MAX},
      {"fabric", "NAMES", "auto, or a list in order of preference: shm, ucx, tcp, rdma; auto", OPTION_TEXT, &settings->fabric},
      {"way", "auto|staged|direct", "how the bytes go; auto", OPTION_CHOICE, &settings->way, .choices = way_names},
      {"memory", "host|cuda", "where the caches lie; host", OPTION_CHOICE, &settings->memory, .choices = memory_names},
      {"arena", "SIZE", "receive staging of a rank; the library's default", OPTION_SIZE, &settings->arena_bytes, 1},
      {"gather", "SIZE", "send staging of a rank; the library's default", OPTION_SIZE, &settings->gather_bytes, 1},
      {"piece", "SIZE", "largest bulk write; the library's default", OPTION_SIZE, &settings->piece_bytes, 1},
      {"pool", "SIZE", "most memory that an instance's cache may take; 2GiB", OPTION_SIZE, &settings->pool_bytes, 1},
      {"deadline", "SECONDS", "a room fails after this long; 120", OPTION_REAL, &settings->deadline_s},
      {"secret", "TEXT", "shared secret of both sides", OPTION_TEXT, &settings->secret},
      {"control-fault", "RULES", "lose, repeat or delay control messages: drop:OPEN:out:1,…; see docs/testing.md", OPTION_TEXT,
       &settings->control_fault},
      {"checksum", NULL, "a checksum over each piece, checked before it is scattered; staged pieces only", OPTION_FLAG, &settings->checksum},
      {"json", "FILE", "write the report as JSON; - is standard output", OPTION_TEXT, &settings->json_path},
      {"quiet", NULL, "no progress and no table", OPTION_FLAG, &settings->quiet},
  };
  memcpy(options, rows, sizeof rows);
}

/* Two layers, or one of each kind, unless asked. */
static bool cut_model(struct settings *settings, struct complaint *complaint) {
  struct model *model = &settings->model;
  if (settings->layers == SETTINGS_LAYERS_UNSET) {
    uint32_t kinds = model_count_kinds(model);
    settings->layers = kinds > SETTINGS_DEFAULT_LAYERS ? kinds : SETTINGS_DEFAULT_LAYERS;
    if (settings->layers > model->layers) settings->layers = model->layers;
  }
  return settings->layers == 0 || model_cut(model, (uint32_t)settings->layers, complaint);
}

static bool resolve_model(struct settings *settings, struct complaint *complaint) {
  struct model *model = &settings->model;
  if (!model_query(settings->model_text, model, complaint)) return false;
  settings->model_layers = model->layers;
  if (!cut_model(settings, complaint)) return false;
  return !settings->heads || model_set_heads(model, (uint32_t)settings->heads, complaint);
}

static bool check_stages(const struct settings *settings, enum role role, struct complaint *complaint) {
  const struct side *side = &settings->sides[role];
  uint32_t sum = 0;
  if (side->pp > settings->model.layers)
    return complain(complaint, "--%s: %u pipeline stages need as many layers, and there are %u; raise --layers",
                    settings_role_name(role), side->pp, settings->model.layers);
  for (uint32_t stage = 0; stage < side->pp; stage++) sum += side->stage_layers[stage];
  if (sum != 0 && sum != settings->model.layers)
    return complain(complaint, "--%s: layers adds up to %u, and the model has %u here (--layers)", settings_role_name(role), sum,
                    settings->model.layers);
  return true;
}

bool settings_resolve(struct settings *settings, struct complaint *complaint) {
  if (!resolve_model(settings, complaint)) return false;
  for (int role = 0; role < 2; role++)
    if (!check_stages(settings, (enum role)role, complaint)) return false;
  if (settings->deadline_s <= 0 || settings->deadline_s > 86400)
    return complain(complaint, "--deadline must be above 0 and at most 86400 seconds");
  return true;
}

bool settings_make_workload(const struct settings *settings, struct workload *workload_out, struct complaint *complaint) {
  struct trace trace = {0};
  const struct workload_options options = {settings->seed, settings->max_tokens, settings->time_scale};
  bool good = strcmp(settings->trace_path, "synthetic") ? trace_load(settings->trace_path, settings->requests, &trace, complaint)
                                                        : synthetic_generate(settings->requests, settings->seed, &trace, complaint);
  good = good && workload_create(&trace, &options, workload_out, complaint);
  trace_fini(&trace);
  return good;
}
