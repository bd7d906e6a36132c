/* Reading JSON models: looking keys up, remembering every one that is missing, and the reader of Hugging Face files. */
#ifndef TOOLS_MODEL_FILE_H
#define TOOLS_MODEL_FILE_H

#include <jansson.h>

#include "model.h"

enum { MODEL_WIDTH_LIMIT = 1 << 20 };

struct model_file {
  const json_t *root, *object; /* object: where the model's keys are, the root or its text_config */
  const char *source;
  char missing[512]; /* ", "-separated */
  bool wrong;        /* a complaint was written: a value is no good */
  struct complaint *complaint;
};

/** The value of a key; null counts as absent. */
const json_t *model_file_get(const json_t *object, const char *key);
/** Remember that a key, or what else @p what says, is missing. */
void model_file_miss(struct model_file *file, const char *what);
/** A whole number from 1 to @p most at the first of the NULL-ended @p keys that is there. Otherwise 0, and the keys are missing. */
uint32_t model_file_need(struct model_file *file, const json_t *object, const char *const *keys, uint32_t most);
/** The same, but 0 without complaint when no key is there, or the number is 0. */
uint32_t model_file_find(struct model_file *file, const json_t *object, const char *const *keys, uint32_t most);
/** A complaint about a value. Always false. */
__attribute__((format(printf, 2, 3))) bool model_file_refuse(struct model_file *file, const char *format, ...);
/** The dtype of the file, from dtype or torch_dtype; 0 when missing or wrong. */
uint32_t model_file_dtype(struct model_file *file);

/** Read a Hugging Face configuration into @p model. What is wrong or missing is in @p file. */
void model_config_read(struct model_file *file, struct model *model);

#define MODEL_KEYS(...)   \
  (const char *const[]) { \
    __VA_ARGS__, NULL     \
  }

#endif
