/* Checks that are the same over every provider. Pure. */
#include "fabric/piece.h"

#include <inttypes.h>

#include "base/checked.h"

uint64_t fabric_iov_bytes(const struct iovec *iov, size_t iov_count) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < iov_count; i++) {
    if (!base_add_u64(bytes, iov[i].iov_len, &bytes)) return UINT64_MAX;
  }
  return bytes;
}

kvf_status fabric_piece_check(const struct fabric_piece *piece, kvf_error **error_out) {
  kvf_error *error = NULL;
  if (!piece->header)
    error = BASE_ERROR(KVF_INVALID, NULL, "a piece needs a header");
  else if (piece->iov_count > FABRIC_IOV_LIMIT)
    error = BASE_ERROR(KVF_INVALID, NULL, "a piece may have %d vectors, not %zu", FABRIC_IOV_LIMIT, piece->iov_count);
  else if (!piece->in_place && fabric_iov_bytes(piece->iov, piece->iov_count) != piece->payload_bytes)
    error = BASE_ERROR(KVF_INVALID, NULL, "the vectors do not add up to the payload of %" PRIu64 " bytes", piece->payload_bytes);
  else if (piece->payload_bytes > INT64_MAX)
    error = BASE_ERROR(KVF_INVALID, NULL, "a payload of %" PRIu64 " bytes", piece->payload_bytes);
  return error ? base_error_give(error, error_out) : KVF_OK;
}

kvf_error *fabric_target_describe(kvf_error *error, const struct fabric_target *target, uint64_t expected, uint64_t region_bytes) {
  base_error_add(error, "region", "%" PRIu64, target->region);
  base_error_add(error, "generation", "%" PRIu64, target->generation);
  base_error_add(error, "expected", "%" PRIu64, expected);
  base_error_add(error, "offset", "%" PRIu64, target->offset);
  base_error_add(error, "length", "%" PRIu64, target->length);
  return base_error_add(error, "region_bytes", "%" PRIu64, region_bytes);
}

bool fabric_target_fits(const struct fabric_target *target, uint64_t region_bytes) {
  uint64_t end;
  return base_add_u64(target->offset, target->length, &end) && end <= region_bytes;
}

kvf_status fabric_region_split(uint64_t length, uint64_t limit_bytes, uint64_t page_bytes, uint64_t *part_bytes_out,
                               uint64_t *part_count_out, kvf_error **error_out) {
  kvf_error *error = NULL;
  if (length == 0 || page_bytes == 0 || (page_bytes & (page_bytes - 1)) != 0)
    error =
        BASE_ERROR(KVF_INVALID, NULL, "a region of %" PRIu64 " bytes in pages of %" PRIu64 " cannot be split", length, page_bytes);
  else if (limit_bytes < page_bytes && limit_bytes < length)
    error =
        BASE_ERROR(KVF_INVALID, NULL,
                   "the device registers at most %" PRIu64 " bytes at once, less than one page of the memory (%" PRIu64 " bytes)",
                   limit_bytes, page_bytes);
  if (error) {
    base_error_add(error, "limit", "%" PRIu64, limit_bytes);
    return base_error_give(base_error_add(error, "page_bytes", "%" PRIu64, page_bytes), error_out);
  }
  *part_bytes_out = limit_bytes >= length ? length : limit_bytes / page_bytes * page_bytes;
  *part_count_out = base_ceil_div_u64(length, *part_bytes_out);
  return KVF_OK;
}
