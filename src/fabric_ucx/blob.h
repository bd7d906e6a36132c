/* The frame around what UCX calls addresses and keys. UCX trusts such bytes and may crash on wrong ones, so nothing reaches it
 * unless the frame's kind, length and checksum are right. The checksum finds accidents; authenticity is the control plane's duty.
 *
 *   magic 4 | version 1 | kind 1 | body_bytes 2 | crc32 4 | zero 4 | incarnation 16 | body …      (little endian, as is UCX's) */
#ifndef FABRIC_UCX_BLOB_H
#define FABRIC_UCX_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FABRIC_UCX_BLOB_HEAD_BYTES = 32 };

/* The address of a provider in one or the other mode, or a key. */
enum fabric_ucx_blob_kind { FABRIC_UCX_BLOB_MESSAGE = 1, FABRIC_UCX_BLOB_ONE_SIDED = 2, FABRIC_UCX_BLOB_KEY = 3 };

/* Write the frame in front of the body that lies already at bytes + FABRIC_UCX_BLOB_HEAD_BYTES. Returns all bytes. */
size_t fabric_ucx_blob_seal(uint8_t *bytes, enum fabric_ucx_blob_kind kind, const uint8_t *incarnation, size_t body_bytes);

/* NULL when anything about it is wrong; else the body, inside @p bytes. */
const uint8_t *fabric_ucx_blob_open(const uint8_t *bytes, size_t length, enum fabric_ucx_blob_kind kind, uint8_t *incarnation_out,
                                    size_t *body_bytes_out);

#endif
