/* Cuts regions into parts and reads the bodies of keys. Pure. */
#include "fabric_ucx/parts.h"

#include <string.h>

#include "base/checked.h"

void fabric_ucx_parts_cut(struct fabric_ucx_parts *parts, uint64_t part_bytes, uint64_t lead_bytes) {
  bool whole = parts->length <= part_bytes - lead_bytes;
  parts->part_bytes = whole ? parts->length : part_bytes;
  parts->lead_bytes = whole ? 0 : lead_bytes;
  parts->part_count = whole ? 1 : base_ceil_div_u64(parts->length + lead_bytes, part_bytes);
}

bool fabric_ucx_parts_check(const struct fabric_ucx_parts *parts) {
  uint64_t end, span;
  if (!parts->base_address || !base_add_u64(parts->base_address, parts->length, &end)) return false;
  if (!base_add_u64(parts->length, parts->lead_bytes, &span) || span > INT64_MAX) return false;
  if (!parts->length || parts->lead_bytes >= parts->part_bytes || parts->part_bytes > span) return false;
  return parts->part_count == base_ceil_div_u64(span, parts->part_bytes);
}

uint64_t fabric_ucx_parts_find(const struct fabric_ucx_parts *parts, uint64_t offset) {
  return (offset + parts->lead_bytes) / parts->part_bytes;
}

uint64_t fabric_ucx_parts_begin(const struct fabric_ucx_parts *parts, uint64_t index) {
  return index ? index * parts->part_bytes - parts->lead_bytes : 0;
}

uint64_t fabric_ucx_parts_end(const struct fabric_ucx_parts *parts, uint64_t index) {
  return base_min_u64(parts->length, (index + 1) * parts->part_bytes - parts->lead_bytes);
}

size_t fabric_ucx_packed_bytes(const uint8_t *lengths, uint64_t index) {
  uint16_t bytes;
  memcpy(&bytes, lengths + index * FABRIC_UCX_PACKED_LENGTH_BYTES, sizeof bytes);
  return bytes;
}

const uint8_t *fabric_ucx_parts_decode(const uint8_t *body, size_t body_bytes, struct fabric_ucx_parts *parts_out) {
  struct fabric_ucx_parts parts;
  if (body_bytes < sizeof parts) return NULL;
  memcpy(&parts, body, sizeof parts);
  size_t left = body_bytes - sizeof parts;
  if (!fabric_ucx_parts_check(&parts) || parts.part_count > left / FABRIC_UCX_PACKED_LENGTH_BYTES) return NULL;
  const uint8_t *lengths = body + sizeof parts;
  left -= parts.part_count * FABRIC_UCX_PACKED_LENGTH_BYTES;
  for (uint64_t i = 0; i < parts.part_count; i++) {
    size_t packed_bytes = fabric_ucx_packed_bytes(lengths, i);
    if (!packed_bytes || packed_bytes > left) return NULL;
    left -= packed_bytes;
  }
  if (left) return NULL;
  *parts_out = parts;
  return lengths;
}
