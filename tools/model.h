/* Models: the shape of a KV cache, from a preset or a JSON file. One shape for every layer. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "complaint.h"

struct model {
  char name[64];
  uint32_t layers;
  uint32_t kv_heads; /* 1 for MLA */
  uint32_t head_dim; /* elements of one head of one token; latent + rope for MLA */
  uint32_t dtype;    /* KVF_DTYPE_… */
  bool mla;
};

/** The presets, in a fixed order. */
const struct model *model_presets(size_t *count_out);

/** A preset by name in any case, or the JSON file at the path @p text. A complaint names what is missing. */
bool model_query(const char *text, struct model *model_out, struct complaint *complaint);

/** The JSON text of a model: {"name","layers","kv_heads","head_dim","dtype"} or a Hugging Face config.json.
 *  @p source names it in complaints and is the name of a model that gives none. */
bool model_parse(const char *json_text, const char *source, struct model *model_out, struct complaint *complaint);

uint32_t model_dtype_bytes(uint32_t dtype);
const char *model_dtype_name(uint32_t dtype);
/** Bytes of one head of one token. */
uint32_t model_head_bytes(const struct model *model);
/** Bytes of one token over all layers of the whole model. */
uint64_t model_token_bytes(const struct model *model);

#endif
