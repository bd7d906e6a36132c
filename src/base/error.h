/* Making errors. An error is owned by whoever holds it; base_error_create takes its cause over.
 * Out of memory gives a static error that kvf_error_free ignores, so making an error cannot fail. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <kvferry/error.h>

#define BASE_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

/* Make an error here; @p cause is consumed and may be NULL. */
#define BASE_ERROR(status, cause, ...) base_error_create((status), __FILE__, __LINE__, (cause), __VA_ARGS__)

kvf_error *base_error_create(kvf_status status, const char *file, uint32_t line, kvf_error *cause, const char *format, ...)
    BASE_PRINTF(5, 6);

/* Add a named field; silently dropped when memory is out. Returns @p error so that calls can be chained. */
kvf_error *base_error_add(kvf_error *error, const char *name, const char *format, ...) BASE_PRINTF(3, 4);

/* Like the first, with errno's text and number as the innermost facts: "bind: Address already in use" errno=98. */
#define BASE_ERROR_ERRNO(call, number) base_error_create_errno(__FILE__, __LINE__, (call), (number))
kvf_error *base_error_create_errno(const char *file, uint32_t line, const char *call, int number);

/* Hand @p error to @p error_out, or free it when nobody wants it; returns its status for `return base_error_give(...)`. */
kvf_status base_error_give(kvf_error *error, kvf_error **error_out);

/* A deep copy. NULL gives NULL. */
kvf_error *base_error_copy(const kvf_error *error);

#endif
