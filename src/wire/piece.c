/* The piece header: twelve words, the last one a mix of the others, so that no single damaged or shifted word is believed.
 *
 *   offset  0  magic "KVFP", direct     32  cut_count, token_count      64  checksum of the payload
 *           8  room                     40  token_first                 72  opening, 0
 *          16  sequence, attempt        48  grant, grant_generation     80  0
 *          24  plan, cut_first          56  bytes                       88  check word
 * Pairs are 4 bytes each. The zeros are covered by the check word and otherwise ignored, for fields of later versions. */
#include "base/random.h"
#include "wire/codec.h"

static const uint32_t piece_magic = 0x5046564b; /* "KVFP" */
enum { CHECK_AT = WIRE_PIECE_BYTES - 8 };

static uint64_t mix_words(const uint8_t bytes[WIRE_PIECE_BYTES]) {
  uint64_t check = 0;
  for (size_t at = 0; at < CHECK_AT; at += 8) check = base_mix_u64(check ^ wire_load(bytes + at, 8));
  return check;
}

void wire_piece_encode(const struct wire_piece *piece, uint8_t bytes_out[WIRE_PIECE_BYTES]) {
  wire_store(bytes_out, piece_magic, 4);
  wire_store(bytes_out + 4, piece->direct, 4);
  wire_store(bytes_out + 8, piece->room, 8);
  wire_store(bytes_out + 16, piece->sequence, 4);
  wire_store(bytes_out + 20, piece->attempt, 4);
  wire_store(bytes_out + 24, piece->plan, 4);
  wire_store(bytes_out + 28, piece->cut_first, 4);
  wire_store(bytes_out + 32, piece->cut_count, 4);
  wire_store(bytes_out + 36, piece->token_count, 4);
  wire_store(bytes_out + 40, piece->token_first, 8);
  wire_store(bytes_out + 48, piece->grant, 4);
  wire_store(bytes_out + 52, piece->grant_generation, 4);
  wire_store(bytes_out + 56, piece->bytes, 8);
  wire_store(bytes_out + 64, piece->checksum, 8);
  wire_store(bytes_out + 72, piece->opening, 4);
  wire_store(bytes_out + 76, 0, 4);
  wire_store(bytes_out + 80, 0, 8);
  wire_store(bytes_out + CHECK_AT, mix_words(bytes_out), 8);
}

kvf_status wire_piece_decode(const uint8_t bytes[WIRE_PIECE_BYTES], struct wire_piece *piece_out, kvf_error **error_out) {
  uint32_t direct = (uint32_t)wire_load(bytes + 4, 4);
  const char *why = NULL;
  if (wire_load(bytes, 4) != piece_magic)
    why = "these bytes are not a piece header";
  else if (wire_load(bytes + CHECK_AT, 8) != mix_words(bytes))
    why = "a piece header is damaged: its check word does not match";
  else if (direct > 1)
    why = "a piece is neither staged nor direct";
  if (why) return base_error_give(BASE_ERROR(KVF_PROTOCOL, NULL, "%s", why), error_out);
  *piece_out = (struct wire_piece){
      .room = wire_load(bytes + 8, 8),
      .sequence = (uint32_t)wire_load(bytes + 16, 4),
      .attempt = (uint32_t)wire_load(bytes + 20, 4),
      .opening = (uint32_t)wire_load(bytes + 72, 4),
      .plan = (uint32_t)wire_load(bytes + 24, 4),
      .direct = direct,
      .cut_first = (uint32_t)wire_load(bytes + 28, 4),
      .cut_count = (uint32_t)wire_load(bytes + 32, 4),
      .token_first = wire_load(bytes + 40, 8),
      .token_count = (uint32_t)wire_load(bytes + 36, 4),
      .grant = (uint32_t)wire_load(bytes + 48, 4),
      .grant_generation = (uint32_t)wire_load(bytes + 52, 4),
      .bytes = wire_load(bytes + 56, 8),
      .checksum = wire_load(bytes + 64, 8),
  };
  return KVF_OK;
}
