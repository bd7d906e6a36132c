/* What roles and dtypes are called in messages. */
#ifndef LAYOUT_NAME_H
#define LAYOUT_NAME_H

#include <kvferry/plane.h>

/* "K", "SCALE_V" …; "?" for a number that is none. */
const char *layout_role_name(uint32_t role);
/* "BF16", "FP8_E4M3" …; "?" for a number that is none. */
const char *layout_dtype_name(uint32_t dtype);

/* "WINDOW", "DRAFT" …; "component 9" for one of the caller's own. @p text holds at least 32 bytes. */
const char *layout_component_name(uint32_t component, char *text);
/* "layer 3 K", "layer 3 STATE part 1". @p text holds at least 64 bytes. */
const char *layout_array_name(const kvf_plane *plane, char *text);

#endif
