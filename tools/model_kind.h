/* Kinds of layers: what the usual architectures keep. Each function appends arrays to a kind. */
#ifndef TOOLS_MODEL_KIND_H
#define TOOLS_MODEL_KIND_H

#include "model.h"

struct model_attention {
  uint32_t heads, k_width, v_width, dtype;
  uint32_t window_tokens; /* 0 = all */
};

/* A gated linear attention layer: a convolution over q, k and v, and one k_width x v_width matrix a value head. */
struct model_linear {
  uint32_t k_heads, k_width, v_heads, v_width, kernel;
  uint32_t conv_dtype, state_dtype;
};

/* A Mamba-2 layer: a convolution over x, B and C, and one head_width x state_width matrix a head. */
struct model_mamba {
  uint32_t heads, head_width, groups, state_width, kernel;
  uint32_t conv_dtype, state_dtype;
};

/* A layer whose latent is kept for a window, and, with a ratio, as one entry for `ratio` tokens. */
struct model_compressed {
  uint32_t width, ratio, window_tokens, index_width; /* index_width 0: no index keys */
  uint32_t dtype;
};

/** A new empty kind, or NULL when there are too many. */
struct model_kind *model_kind_add(struct model *model, const char *name);
/** The kind @p index again as one of draft layers: every array in component DRAFT. */
struct model_kind *model_kind_add_draft(struct model *model, uint32_t index);
uint32_t model_kind_index(const struct model *model, const struct model_kind *kind);

void model_kind_put_attention(struct model_kind *kind, const struct model_attention *attention);
void model_kind_put_latent(struct model_kind *kind, uint32_t width, uint32_t dtype);
void model_kind_put_index(struct model_kind *kind, uint32_t width, uint32_t entry_tokens, uint32_t dtype);
void model_kind_put_linear(struct model_kind *kind, const struct model_linear *linear);
void model_kind_put_mamba(struct model_kind *kind, const struct model_mamba *mamba);
void model_kind_put_compressed(struct model_kind *kind, const struct model_compressed *compressed);

/** Append a layer. False when there are too many. */
bool model_add_layer(struct model *model, uint32_t id, uint32_t kind, bool draft);

#endif
