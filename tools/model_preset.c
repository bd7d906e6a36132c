/* Presets: published models, each a row of facts. Layers are written as letters with counts, "3LF": a lead, then a cycle as
 * often as it fits, and a tail that takes the place of the last ones. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <kvferry/plane.h>

#include "model_kind.h"

#define GQA(heads, width) \
  { heads, width, width, KVF_DTYPE_BF16, 0 }
#define SLIDING(heads, width, window) \
  { heads, width, width, KVF_DTYPE_BF16, window }
#define LINEAR(k_heads, v_heads) \
  { k_heads, 128, v_heads, 128, 4, KVF_DTYPE_BF16, KVF_DTYPE_F32 }
enum { DEEPSEEK_LATENT = 512 + 64, V4_WIDTH = 512, V4_WINDOW = 128, INDEX_WIDTH = 128 };

/* Letters of a layer. */
enum {
  FULL = 'F',
  WINDOW = 'W',
  LATENT = 'A',
  LINEAR_STATE = 'L',
  MAMBA = 'M',
  NO_CACHE = 'N',
  RATIO_0 = 'Z',
  RATIO_4 = 'C',
  RATIO_128 = 'H'
};

static const struct preset {
  const char *name, *other; /* the last part of the published path, and a usual shorter one */
  uint32_t layers;
  const char *lead, *cycle, *tail;
  const char *draft; /* one letter a draft layer */
  struct model_attention full, window;
  uint32_t index_width; /* of latent layers */
  struct model_linear linear;
  struct model_mamba mamba;
} presets[] = {
    {"Qwen3-0.6B", NULL, 28, .cycle = "F", .full = GQA(8, 128)},
    {"Qwen3-8B", NULL, 36, .cycle = "F", .full = GQA(8, 128)},
    {"Qwen3-32B", NULL, 64, .cycle = "F", .full = GQA(8, 128)},
    {"Qwen3-30B-A3B", NULL, 48, .cycle = "F", .full = GQA(4, 128)},
    {"Qwen3-235B-A22B", NULL, 94, .cycle = "F", .full = GQA(4, 128)},
    {"Qwen3-Coder-480B-A35B-Instruct", "Qwen3-Coder-480B", 62, .cycle = "F", .full = GQA(8, 128)},
    {"Meta-Llama-3.1-8B", "Llama-3.1-8B", 32, .cycle = "F", .full = GQA(8, 128)},
    {"Meta-Llama-3.1-70B", "Llama-3.1-70B", 80, .cycle = "F", .full = GQA(8, 128)},
    {"Meta-Llama-3.1-405B", "Llama-3.1-405B", 126, .cycle = "F", .full = GQA(8, 128)},
    {"Mixtral-8x7B-v0.1", "Mixtral-8x7B", 32, .cycle = "F", .full = GQA(8, 128)},
    {"MiniMax-M2.7", NULL, 62, .cycle = "F", .full = GQA(8, 128)},
    {"DeepSeek-V3", NULL, 61, .cycle = "A", .draft = "A"},
    {"DeepSeek-V3.2", NULL, 61, .cycle = "A", .draft = "A", .index_width = INDEX_WIDTH},
    {"Kimi-K2-Instruct", "Kimi-K2", 61, .cycle = "A"},
    {"GLM-5", NULL, 78, .cycle = "A", .draft = "A", .index_width = INDEX_WIDTH},
    {"gpt-oss-120b", NULL, 36, .cycle = "WF", .full = GQA(8, 64), .window = SLIDING(8, 64, 128)},
    {"gpt-oss-20b", NULL, 24, .cycle = "WF", .full = GQA(8, 64), .window = SLIDING(8, 64, 128)},
    {"Qwen3.5-397B-A17B", "Qwen3.5-397B", 60, .cycle = "3LF", .draft = "F", .full = GQA(2, 256), .linear = LINEAR(16, 64)},
    {"Qwen3.5-27B", NULL, 64, .cycle = "3LF", .draft = "F", .full = GQA(4, 256), .linear = LINEAR(16, 48)},
    {"Qwen3.5-35B-A3B", "Qwen3.5-35B", 40, .cycle = "3LF", .draft = "F", .full = GQA(2, 256), .linear = LINEAR(16, 32)},
    {"gemma-4-26B-A4B", "Gemma-4-26B", 30, .cycle = "5WF", .full = GQA(2, 512), .window = SLIDING(8, 256, 1024)},
    {"Gemma-4-31B-IT-NVFP4", "Gemma-4-31B", 60, .cycle = "5WF", .full = GQA(4, 512), .window = SLIDING(16, 256, 1024)},
    {"MiMo-V2-Flash", NULL, 48, .lead = "F4W", .cycle = "F5W", .full = {4, 192, 128, KVF_DTYPE_BF16, 0},
     .window = {8, 192, 128, KVF_DTYPE_BF16, 128}},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Nemotron-3-Nano-30B", 52,
     .cycle = "MNMNMFNMNMNMFNMNMNMFNMNMNMFNMNMNMFNMNMNMNMFNMNMNMNMN", .full = GQA(2, 128),
     .mamba = {64, 64, 8, 128, 4, KVF_DTYPE_BF16, KVF_DTYPE_F32}},
    {"Llama-3_3-Nemotron-Super-49B-v1", "Nemotron-Super-49B", 80, .cycle = "6F2N3FN30F10NF18N9F", .full = GQA(8, 128)},
    {"DeepSeek-V4-Flash", NULL, 43, .lead = "2ZC", .cycle = "HC", .draft = "Z"},
    {"Kimi-K3", NULL, 93, .cycle = "3LA", .tail = "A", .linear = LINEAR(96, 96)},
    {"Step-3.7-Flash", NULL, 45, .cycle = "F3W", .draft = "WWW", .full = GQA(8, 128), .window = SLIDING(8, 128, 512)},
};

enum { PRESET_COUNT = sizeof presets / sizeof *presets };

size_t model_preset_count(void) {
  return PRESET_COUNT;
}

const char *model_preset_name(size_t index) {
  return presets[index].name;
}

bool model_preset_has_name(size_t index, const char *name) {
  return !strcasecmp(presets[index].name, name) || (presets[index].other && !strcasecmp(presets[index].other, name));
}

static const char *name_letter(char letter) {
  switch (letter) {
    case FULL:
      return "full";
    case WINDOW:
      return "window";
    case LATENT:
      return "latent";
    case LINEAR_STATE:
      return "linear";
    case MAMBA:
      return "mamba";
    case RATIO_0:
      return "ratio 0";
    case RATIO_4:
      return "ratio 4";
    case RATIO_128:
      return "ratio 128";
    default:
      return "none";
  }
}

static void put_letter(struct model_kind *kind, const struct preset *preset, char letter) {
  struct model_compressed compressed = {V4_WIDTH, 0, V4_WINDOW, 0, KVF_DTYPE_BF16};
  switch (letter) {
    case FULL:
      model_kind_put_attention(kind, &preset->full);
      break;
    case WINDOW:
      model_kind_put_attention(kind, &preset->window);
      break;
    case LINEAR_STATE:
      model_kind_put_linear(kind, &preset->linear);
      break;
    case MAMBA:
      model_kind_put_mamba(kind, &preset->mamba);
      break;
    case LATENT:
      model_kind_put_latent(kind, DEEPSEEK_LATENT, KVF_DTYPE_BF16);
      if (preset->index_width) model_kind_put_index(kind, preset->index_width, 1, KVF_DTYPE_BF16);
      break;
    case RATIO_4:
      compressed.ratio = 4;
      compressed.index_width = INDEX_WIDTH;
      model_kind_put_compressed(kind, &compressed);
      break;
    case RATIO_128:
      compressed.ratio = 128; /* fall through */
    case RATIO_0:
      model_kind_put_compressed(kind, &compressed);
      break;
    default:
      break;
  }
}

/* The kind of a letter, made when it is first seen. */
static uint32_t find_kind(struct model *model, const struct preset *preset, char letter) {
  const char *name = name_letter(letter);
  for (uint32_t i = 0; i < model->kind_count; i++)
    if (!strcmp(model->kinds[i].name, name)) return i;
  struct model_kind *kind = model_kind_add(model, name);
  assert(kind);
  put_letter(kind, preset, letter);
  return model_kind_index(model, kind);
}

/* Writes the letters that "3LF" stands for, over and over when @p repeat, at most @p capacity. Returns how many. */
static uint32_t expand(const char *pattern, bool repeat, char *letters, uint32_t capacity) {
  uint32_t used = 0;
  const char *at = pattern;
  while (at && used < capacity && (*at || repeat)) {
    char *letter;
    if (!*at) at = pattern;
    unsigned long times = strtoul(at, &letter, 10); /* 0 without digits */
    for (unsigned long i = 0; i < (times ? times : 1) && used < capacity; i++) letters[used++] = *letter;
    at = letter + 1;
  }
  return used;
}

static void list_letters(const struct preset *preset, char *letters) {
  uint32_t lead = expand(preset->lead, false, letters, preset->layers);
  expand(preset->cycle, true, letters + lead, preset->layers - lead);
  size_t tail = preset->tail ? strlen(preset->tail) : 0;
  memcpy(letters + preset->layers - tail, preset->tail ? preset->tail : "", tail);
}

void model_preset_make(size_t index, struct model *model_out) {
  const struct preset *preset = &presets[index];
  char letters[MODEL_LAYER_LIMIT];
  struct complaint complaint;
  *model_out = (struct model){0};
  snprintf(model_out->name, sizeof model_out->name, "%s", preset->name);
  list_letters(preset, letters);
  for (uint32_t i = 0; i < preset->layers; i++) model_add_layer(model_out, i, find_kind(model_out, preset, letters[i]), false);
  for (uint32_t i = 0; preset->draft && preset->draft[i]; i++) {
    uint32_t like = find_kind(model_out, preset, preset->draft[i]);
    uint32_t draft = i ? model_out->kind_count - 1 : model_kind_index(model_out, model_kind_add_draft(model_out, like));
    model_add_layer(model_out, preset->layers + i, draft, true);
  }
  bool good = model_finish(model_out, &complaint);
  assert(good);
  (void)good;
}
