/* What roles and dtypes are called in messages. */
#ifndef LAYOUT_NAME_H
#define LAYOUT_NAME_H

#include <stdint.h>

/* "K", "SCALE_V" …; "?" for a number that is none. */
const char *layout_role_name(uint32_t role);
/* "BF16", "FP8_E4M3" …; "?" for a number that is none. */
const char *layout_dtype_name(uint32_t dtype);

#endif
