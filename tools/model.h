/* Models: what a model keeps per token and per request, layer by layer.
 *
 * A layer is of one kind, and a kind is a list of arrays: K and V, a latent, index keys, scales, the parts of a recurrent state.
 * Layers keep their own global ids, so that holes, draft layers after the last one, and a model cut to a few layers are all
 * only lists of layers. Everything is held by value: a model is copied with an assignment. */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "complaint.h"

enum { MODEL_LAYER_LIMIT = 1024, MODEL_KIND_LIMIT = 24, MODEL_ARRAY_LIMIT = 8, MODEL_LIST_LIMIT = 16 };

/* Page lists: a room has one for each of these that its model uses; compressed arrays follow from MODEL_LIST_COMPRESSED on,
 * one list for each ratio. */
enum { MODEL_LIST_FULL, MODEL_LIST_WINDOW, MODEL_LIST_STATE, MODEL_LIST_SCALE, MODEL_LIST_COMPRESSED };

struct model_array {
  uint32_t role, part, component; /* as in kvf_plane */
  uint32_t heads;                 /* of the whole model */
  uint32_t width;                 /* elements of one head of one entry */
  uint32_t dtype;                 /* KVF_DTYPE_… */
  uint32_t entry_tokens;          /* tokens that one entry stands for; 1 unless the layer compresses */
  uint32_t window_tokens;         /* 0 = all tokens matter */
  uint32_t page_list;             /* set by model_finish */
  bool per_request;               /* one entry a request, whatever its length */
  bool replicated;                /* every tensor-parallel rank holds all heads */
};

struct model_kind {
  char name[24];
  uint32_t array_count; /* 0: a layer without a cache */
  struct model_array arrays[MODEL_ARRAY_LIMIT];
};

struct model_layer {
  uint16_t id; /* global */
  uint8_t kind;
  bool draft;
};

struct model_list {
  bool used, per_request;
  uint32_t entry_tokens, window_tokens;
};

struct model {
  char name[64];
  uint32_t layers, draft_layers; /* in the list, main layers first */
  struct model_layer list[MODEL_LAYER_LIMIT];
  uint32_t kind_count;
  struct model_kind kinds[MODEL_KIND_LIMIT];
  struct model_list page_lists[MODEL_LIST_LIMIT]; /* set by model_finish, as are the rest */
  uint32_t kv_heads, head_dim, dtype;             /* of the first array that grows with all tokens: for people */
  bool mla;
};

size_t model_preset_count(void);
const char *model_preset_name(size_t index);
/** Is it its name, or another usual one? In any case. */
bool model_preset_has_name(size_t index, const char *name);
void model_preset_make(size_t index, struct model *model_out);

/** A preset by its name or another usual one, in any case, or the JSON file at the path @p text. */
bool model_query(const char *text, struct model *model_out, struct complaint *complaint);

/** The JSON text of a model: one of kvferry's own two forms, or a Hugging Face config.json (docs/models.md).
 *  @p source names it in complaints and is the name of a model that gives none. */
bool model_parse(const char *json_text, const char *source, struct model *model_out, struct complaint *complaint);

/** Assign the page lists, fill in what is derived, and refuse what cannot be: two equal (layer, role, part), too many lists. */
bool model_finish(struct model *model, struct complaint *complaint);

/** Keep @p count main layers with at least one of each kind that has a cache, and all draft layers. */
bool model_cut(struct model *model, uint32_t count, struct complaint *complaint);
/** The fewest layers that model_cut can keep. */
uint32_t model_count_kinds(const struct model *model);
/** Another number of heads for every K and V and their scales. */
bool model_set_heads(struct model *model, uint32_t heads, struct complaint *complaint);

const struct model_kind *model_layer_kind(const struct model *model, uint32_t index);
uint32_t model_dtype_bytes(uint32_t dtype);
const char *model_dtype_name(uint32_t dtype);
bool model_dtype_find(const char *name, uint32_t *dtype_out);
const char *model_role_name(uint32_t role);
const char *model_component_name(uint32_t component);
/** Bytes of one head of one entry. */
uint32_t model_head_bytes(const struct model_array *array);
/** Bytes of one token over all layers of the whole model that grow with length: components MAIN only, as usually published. */
uint64_t model_token_bytes(const struct model *model);
/** Bytes that one request adds of component @p component whatever its length: states, and windows that are full. */
uint64_t model_request_bytes(const struct model *model, uint32_t component);
/** The components that some layer has, bit by KVF_COMPONENT_…. */
uint32_t model_components(const struct model *model);
/** "0, 3-5, 7 and draft 64", written into @p text. */
const char *model_describe_layers(const struct model *model, char *text, size_t capacity_bytes);

#endif
