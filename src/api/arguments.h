/* Argument checks that several calls share. */
#ifndef API_ARGUMENTS_H
#define API_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* An option struct of another version: longer than ours is fine while the tail is zero, shorter while it reaches the fields that must be
 * there. Copies it into @p options_out[known_bytes], zero-filled. Errors: INVALID. */
kvf_status api_options_copy(const void *options, size_t known_bytes, size_t least_bytes, void *options_out, kvf_error **error_out);

/* INVALID: "engine is NULL". */
kvf_status api_null(const char *what, kvf_error **error_out);

#endif
