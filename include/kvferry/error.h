/* Errors: a chain of lines, outermost first. Each link has a status, one message, named fields, where it was raised
 * and at most one cause. The innermost link holds the foreign code (errno, a provider's own status). */
#ifndef KVFERRY_ERROR_H
#define KVFERRY_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvf_error kvf_error;

/** The status of this link. NULL gives KVF_OK. */
KVF_API kvf_status kvf_error_status(const kvf_error *error);
/** The message of this link, without its cause. NULL gives "". Owned by @p error. */
KVF_API const char *kvf_error_message(const kvf_error *error);
/** The next link inwards, or NULL. Owned by @p error. */
KVF_API const kvf_error *kvf_error_cause(const kvf_error *error);
/** Where it was raised; a link that came from another process says "peer". Owned by @p error. */
KVF_API const char *kvf_error_file(const kvf_error *error);
KVF_API uint32_t kvf_error_line(const kvf_error *error);

/** Named fields of this link: room, peer, rank, layer, page, address, length, grant, generation, attempt … */
KVF_API size_t kvf_error_field_count(const kvf_error *error);
/** Field @p index. Both strings are owned by @p error. Errors: INVALID (no such field). */
KVF_API kvf_status kvf_error_field(const kvf_error *error, size_t index, const char **name_out, const char **value_out);
/** The value of the field @p name on the outermost link that has it, or NULL. */
KVF_API const char *kvf_error_find(const kvf_error *error, const char *name);

/** Write the whole chain into @p text, one line a link, always ended by a NUL when @p capacity_bytes > 0.
 *  Returns the bytes that the full text needs without its NUL, like snprintf. */
KVF_API size_t kvf_error_format(const kvf_error *error, char *text, size_t capacity_bytes);

/** Free an error and its causes. NULL is fine. */
KVF_API void kvf_error_free(kvf_error *error);

#ifdef __cplusplus
}
#endif
#endif
