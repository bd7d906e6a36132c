/* The tables of names. */
#include "layout/name.h"

#include <stddef.h>
#include <stdio.h>

static const char *const role_names[] = {
    [KVF_ROLE_K] = "K",
    [KVF_ROLE_V] = "V",
    [KVF_ROLE_LATENT] = "LATENT",
    [KVF_ROLE_INDEX] = "INDEX",
    [KVF_ROLE_SCALE_K] = "SCALE_K",
    [KVF_ROLE_SCALE_V] = "SCALE_V",
    [KVF_ROLE_STATE] = "STATE",
};

static const char *const dtype_names[] = {
    [KVF_DTYPE_BF16] = "BF16",         [KVF_DTYPE_F16] = "F16",   [KVF_DTYPE_F32] = "F32",     [KVF_DTYPE_FP8_E4M3] = "FP8_E4M3",
    [KVF_DTYPE_FP8_E5M2] = "FP8_E5M2", [KVF_DTYPE_INT8] = "INT8", [KVF_DTYPE_UINT8] = "UINT8",
};

static const char *const component_names[] = {
    [KVF_COMPONENT_MAIN] = "MAIN",   [KVF_COMPONENT_WINDOW] = "WINDOW", [KVF_COMPONENT_INDEX] = "INDEX",
    [KVF_COMPONENT_SCALE] = "SCALE", [KVF_COMPONENT_STATE] = "STATE",   [KVF_COMPONENT_DRAFT] = "DRAFT",
};

static const char *find_name(const char *const *names, size_t count, uint32_t number) {
  return number < count && names[number] ? names[number] : "?";
}

const char *layout_role_name(uint32_t role) {
  return find_name(role_names, sizeof role_names / sizeof *role_names, role);
}
const char *layout_dtype_name(uint32_t dtype) {
  return find_name(dtype_names, sizeof dtype_names / sizeof *dtype_names, dtype);
}

const char *layout_component_name(uint32_t component, char *text) {
  if (component < sizeof component_names / sizeof *component_names) return component_names[component];
  snprintf(text, 32, "component %u", component);
  return text;
}

const char *layout_array_name(const kvf_plane *plane, char *text) {
  int used = snprintf(text, 64, "layer %u %s", plane->layer, layout_role_name(plane->role));
  if (plane->part) snprintf(text + used, 64 - (size_t)used, " part %u", plane->part);
  return text;
}
