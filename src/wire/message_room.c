/* Messages of rooms: what is wanted, what may be written where, what has arrived, what has failed. On the wire a message is its
 * fields in the order written here. */
#include "wire/codec.h"

enum { CUT_BYTES = 16, GRANT_BYTES = 24, ACK_BYTES = 16, RETURN_BYTES = 8 };

void wire_plan_encode(struct wire_buffer *buffer, const struct wire_plan *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_PLAN);
  wire_put_u32(buffer, message->plan);
  if (wire_put_count(buffer, message->cut_count, WIRE_CUT_LIMIT)) {
    for (uint32_t i = 0; i < message->cut_count; i++) {
      wire_put_u32(buffer, message->cuts[i].source_plane);
      wire_put_u32(buffer, message->cuts[i].target_plane);
      wire_put_u32(buffer, message->cuts[i].head_first);
      wire_put_u32(buffer, message->cuts[i].head_count);
    }
  }
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_plan_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_plan *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("PLAN", payload, payload_bytes, scratch);
  struct wire_plan message = {0};
  message.plan = wire_get_u32(&reader, "plan");
  message.cut_count = wire_get_count(&reader, WIRE_CUT_LIMIT, CUT_BYTES, "cuts");
  struct wire_cut *cuts = wire_reader_alloc(&reader, message.cut_count, sizeof *cuts);
  for (uint32_t i = 0; !reader.error && i < message.cut_count; i++) {
    cuts[i].source_plane = wire_get_u32(&reader, "cuts");
    cuts[i].target_plane = wire_get_u32(&reader, "cuts");
    cuts[i].head_first = wire_get_u32(&reader, "cuts");
    cuts[i].head_count = wire_get_u32(&reader, "cuts");
  }
  message.cuts = cuts;
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_open_encode(struct wire_buffer *buffer, const struct wire_open *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_OPEN);
  wire_put_u64(buffer, message->room);
  wire_put_u32(buffer, message->opening);
  wire_put_u32(buffer, message->plan);
  wire_put_u32(buffer, message->receiver_count);
  wire_put_u64(buffer, message->token_first);
  wire_put_u64(buffer, message->token_end);
  wire_put_page_lists(buffer, message->page_lists, message->page_list_count);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_open_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_open *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("OPEN", payload, payload_bytes, scratch);
  struct wire_open message = {0};
  message.room = wire_get_u64(&reader, "room");
  message.opening = wire_get_u32(&reader, "opening");
  message.plan = wire_get_u32(&reader, "plan");
  message.receiver_count = wire_get_u32(&reader, "receiver_count");
  message.token_first = wire_get_u64(&reader, "token_first");
  message.token_end = wire_get_u64(&reader, "token_end");
  message.page_list_count = wire_get_page_lists(&reader, message.page_lists, "page_lists");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_grant_encode(struct wire_buffer *buffer, const struct wire_grant *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_GRANT);
  wire_put_u32(buffer, message->region);
  wire_put_u64(buffer, message->region_generation);
  wire_put_u64(buffer, message->region_base);
  wire_put_u64(buffer, message->region_bytes);
  wire_put_u32(buffer, message->want_sequence);
  if (wire_put_count(buffer, message->grant_count, WIRE_BATCH_LIMIT)) {
    for (uint32_t i = 0; i < message->grant_count; i++) {
      wire_put_u32(buffer, message->grants[i].id);
      wire_put_u32(buffer, message->grants[i].generation);
      wire_put_u64(buffer, message->grants[i].offset);
      wire_put_u64(buffer, message->grants[i].length);
    }
  }
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_grant_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                             struct wire_grant *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("GRANT", payload, payload_bytes, scratch);
  struct wire_grant message = {0};
  message.region = wire_get_u32(&reader, "region");
  message.region_generation = wire_get_u64(&reader, "region_generation");
  message.region_base = wire_get_u64(&reader, "region_base");
  message.region_bytes = wire_get_u64(&reader, "region_bytes");
  message.want_sequence = wire_get_u32(&reader, "want_sequence");
  message.grant_count = wire_get_count(&reader, WIRE_BATCH_LIMIT, GRANT_BYTES, "grants");
  struct wire_grant_entry *grants = wire_reader_alloc(&reader, message.grant_count, sizeof *grants);
  for (uint32_t i = 0; !reader.error && i < message.grant_count; i++) {
    grants[i].id = wire_get_u32(&reader, "grants");
    grants[i].generation = wire_get_u32(&reader, "grants");
    grants[i].offset = wire_get_u64(&reader, "grants");
    grants[i].length = wire_get_u64(&reader, "grants");
  }
  message.grants = grants;
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_ack_encode(struct wire_buffer *buffer, const struct wire_ack *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_ACK);
  if (wire_put_count(buffer, message->ack_count, WIRE_BATCH_LIMIT)) {
    for (uint32_t i = 0; i < message->ack_count; i++) {
      wire_put_u64(buffer, message->acks[i].room);
      wire_put_u32(buffer, message->acks[i].sequence);
      wire_put_u32(buffer, message->acks[i].scatter_us);
    }
  }
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_ack_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch, struct wire_ack *message_out,
                           kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("ACK", payload, payload_bytes, scratch);
  struct wire_ack message = {0};
  message.ack_count = wire_get_count(&reader, WIRE_BATCH_LIMIT, ACK_BYTES, "acks");
  struct wire_ack_entry *acks = wire_reader_alloc(&reader, message.ack_count, sizeof *acks);
  for (uint32_t i = 0; !reader.error && i < message.ack_count; i++) {
    acks[i].room = wire_get_u64(&reader, "acks");
    acks[i].sequence = wire_get_u32(&reader, "acks");
    acks[i].scatter_us = wire_get_u32(&reader, "acks");
  }
  message.acks = acks;
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_nack_encode(struct wire_buffer *buffer, const struct wire_nack *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_NACK);
  wire_put_u64(buffer, message->room);
  wire_put_u32(buffer, message->sequence);
  wire_put_u32(buffer, message->attempt);
  wire_put_error(buffer, message->error);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_nack_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_nack *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("NACK", payload, payload_bytes, scratch);
  struct wire_nack message = {0};
  message.room = wire_get_u64(&reader, "room");
  message.sequence = wire_get_u32(&reader, "sequence");
  message.attempt = wire_get_u32(&reader, "attempt");
  message.error = wire_get_error(&reader, "error");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_done_encode(struct wire_buffer *buffer, const struct wire_done *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_DONE);
  wire_put_u64(buffer, message->room);
  wire_put_u64(buffer, message->bytes);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_done_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_done *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("DONE", payload, payload_bytes, scratch);
  struct wire_done message = {0};
  message.room = wire_get_u64(&reader, "room");
  message.bytes = wire_get_u64(&reader, "bytes");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_want_encode(struct wire_buffer *buffer, const struct wire_want *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_WANT);
  wire_put_u32(buffer, message->level);
  wire_put_u32(buffer, message->sequence);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_want_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_want *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("WANT", payload, payload_bytes, scratch);
  struct wire_want message = {0};
  message.level = wire_get_u32(&reader, "level");
  message.sequence = wire_get_u32(&reader, "sequence");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_return_encode(struct wire_buffer *buffer, const struct wire_return *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_RETURN);
  if (wire_put_count(buffer, message->grant_count, WIRE_BATCH_LIMIT)) {
    for (uint32_t i = 0; i < message->grant_count; i++) {
      wire_put_u32(buffer, message->grants[i].id);
      wire_put_u32(buffer, message->grants[i].generation);
    }
  }
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_return_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                              struct wire_return *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("RETURN", payload, payload_bytes, scratch);
  struct wire_return message = {0};
  message.grant_count = wire_get_count(&reader, WIRE_BATCH_LIMIT, RETURN_BYTES, "grants");
  struct wire_return_entry *grants = wire_reader_alloc(&reader, message.grant_count, sizeof *grants);
  for (uint32_t i = 0; !reader.error && i < message.grant_count; i++) {
    grants[i].id = wire_get_u32(&reader, "grants");
    grants[i].generation = wire_get_u32(&reader, "grants");
  }
  message.grants = grants;
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_refresh_encode(struct wire_buffer *buffer, const struct wire_refresh *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_REFRESH);
  wire_put_u32(buffer, message->region);
  wire_put_u64(buffer, message->generation);
  wire_put_u32(buffer, message->reason);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_refresh_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                               struct wire_refresh *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("REFRESH", payload, payload_bytes, scratch);
  struct wire_refresh message = {0};
  message.region = wire_get_u32(&reader, "region");
  message.generation = wire_get_u64(&reader, "generation");
  message.reason = wire_get_u32(&reader, "reason");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_final_encode(struct wire_buffer *buffer, const struct wire_final *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_FINAL);
  wire_put_u64(buffer, message->room);
  wire_put_u32(buffer, message->opening);
  wire_put_u64(buffer, message->token_first);
  wire_put_u64(buffer, message->token_end);
  wire_put_u32(buffer, message->piece_count);
  wire_put_u64(buffer, message->bytes);
  wire_put_blob(buffer, message->aux, message->aux_bytes, WIRE_AUX_LIMIT_BYTES);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_final_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                             struct wire_final *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("FINAL", payload, payload_bytes, scratch);
  struct wire_final message = {0};
  message.room = wire_get_u64(&reader, "room");
  message.opening = wire_get_u32(&reader, "opening");
  message.token_first = wire_get_u64(&reader, "token_first");
  message.token_end = wire_get_u64(&reader, "token_end");
  message.piece_count = wire_get_u32(&reader, "piece_count");
  message.bytes = wire_get_u64(&reader, "bytes");
  struct wire_text aux = wire_get_text(&reader, WIRE_AUX_LIMIT_BYTES, "aux");
  message.aux = (const uint8_t *)aux.text;
  message.aux_bytes = aux.length;
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_fail_encode(struct wire_buffer *buffer, const struct wire_fail *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_FAIL);
  wire_put_u64(buffer, message->room);
  wire_put_u32(buffer, message->opening);
  wire_put_u32(buffer, message->by_receiver);
  wire_put_error(buffer, message->error);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_fail_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_fail *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("FAIL", payload, payload_bytes, scratch);
  struct wire_fail message = {0};
  message.room = wire_get_u64(&reader, "room");
  message.opening = wire_get_u32(&reader, "opening");
  message.by_receiver = wire_get_u32(&reader, "by_receiver");
  message.error = wire_get_error(&reader, "error");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_fail_ack_encode(struct wire_buffer *buffer, const struct wire_fail_ack *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_FAIL_ACK);
  wire_put_u64(buffer, message->room);
  wire_put_u32(buffer, message->opening);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_fail_ack_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                                struct wire_fail_ack *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("FAIL_ACK", payload, payload_bytes, scratch);
  struct wire_fail_ack message = {0};
  message.room = wire_get_u64(&reader, "room");
  message.opening = wire_get_u32(&reader, "opening");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}
