/* Messages of a session: who we are, what we hold, how to reach it. On the wire a message is its fields in the order written here.
 */
#include "wire/codec.h"

enum { PLANE_BYTES = 108, PROVIDER_BYTES_MIN = 8 };

void wire_hello_encode(struct wire_buffer *buffer, const struct wire_hello *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_HELLO);
  wire_put_u16(buffer, message->version_min);
  wire_put_u16(buffer, message->version_max);
  wire_put_u64(buffer, message->capabilities);
  wire_put_bytes(buffer, message->incarnation, sizeof message->incarnation);
  wire_put_bytes(buffer, message->expected, sizeof message->expected);
  wire_put_bytes(buffer, message->nonce, sizeof message->nonce);
  wire_put_u8(buffer, message->has_secret);
  wire_put_u64(buffer, message->heartbeat_ns);
  wire_put_text(buffer, message->label, WIRE_LABEL_LIMIT_BYTES);
  wire_put_text(buffer, message->library, WIRE_LABEL_LIMIT_BYTES);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_hello_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                             struct wire_hello *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("HELLO", payload, payload_bytes, scratch);
  struct wire_hello message = {0};
  message.version_min = wire_get_u16(&reader, "version_min");
  message.version_max = wire_get_u16(&reader, "version_max");
  message.capabilities = wire_get_u64(&reader, "capabilities");
  wire_get_bytes(&reader, message.incarnation, sizeof message.incarnation, "incarnation");
  wire_get_bytes(&reader, message.expected, sizeof message.expected, "expected");
  wire_get_bytes(&reader, message.nonce, sizeof message.nonce, "nonce");
  message.has_secret = wire_get_u8(&reader, "has_secret");
  message.heartbeat_ns = wire_get_u64(&reader, "heartbeat_ns");
  message.label = wire_get_text(&reader, WIRE_LABEL_LIMIT_BYTES, "label");
  message.library = wire_get_text(&reader, WIRE_LABEL_LIMIT_BYTES, "library");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_auth_encode(struct wire_buffer *buffer, const struct wire_auth *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_AUTH);
  wire_put_bytes(buffer, message->mac, sizeof message->mac);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_auth_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_auth *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("AUTH", payload, payload_bytes, scratch);
  struct wire_auth message = {0};
  wire_get_bytes(&reader, message.mac, sizeof message.mac, "mac");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

static void put_plane(struct wire_buffer *buffer, const kvf_plane *plane, uint32_t region) {
  wire_put_u32(buffer, plane->layer);
  wire_put_u32(buffer, plane->role);
  wire_put_u32(buffer, plane->dtype);
  wire_put_u32(buffer, plane->page_list);
  wire_put_u32(buffer, plane->heads_total);
  wire_put_u32(buffer, plane->head_first);
  wire_put_u32(buffer, plane->head_count);
  wire_put_u32(buffer, plane->head_bytes);
  wire_put_u32(buffer, plane->page_tokens);
  wire_put_u32(buffer, plane->page_count);
  wire_put_u64(buffer, plane->page_stride_bytes);
  wire_put_u64(buffer, plane->token_stride_bytes);
  wire_put_u64(buffer, plane->head_stride_bytes);
  wire_put_u64(buffer, plane->address);
  wire_put_u32(buffer, plane->part);
  wire_put_u32(buffer, plane->component);
  wire_put_u32(buffer, plane->entry_tokens);
  wire_put_u32(buffer, plane->window_tokens);
  wire_put_u32(buffer, plane->per_request);
  wire_put_u32(buffer, plane->token_parts);
  wire_put_u32(buffer, plane->token_part);
  wire_put_u32(buffer, plane->token_block);
  wire_put_u32(buffer, region);
}

static void get_plane(struct wire_reader *reader, kvf_plane *plane_out, uint32_t *region_out) {
  plane_out->layer = wire_get_u32(reader, "planes");
  plane_out->role = wire_get_u32(reader, "planes");
  plane_out->dtype = wire_get_u32(reader, "planes");
  plane_out->page_list = wire_get_u32(reader, "planes");
  plane_out->heads_total = wire_get_u32(reader, "planes");
  plane_out->head_first = wire_get_u32(reader, "planes");
  plane_out->head_count = wire_get_u32(reader, "planes");
  plane_out->head_bytes = wire_get_u32(reader, "planes");
  plane_out->page_tokens = wire_get_u32(reader, "planes");
  plane_out->page_count = wire_get_u32(reader, "planes");
  plane_out->page_stride_bytes = wire_get_u64(reader, "planes");
  plane_out->token_stride_bytes = wire_get_u64(reader, "planes");
  plane_out->head_stride_bytes = wire_get_u64(reader, "planes");
  plane_out->address = wire_get_u64(reader, "planes");
  plane_out->part = wire_get_u32(reader, "planes");
  plane_out->component = wire_get_u32(reader, "planes");
  plane_out->entry_tokens = wire_get_u32(reader, "planes");
  plane_out->window_tokens = wire_get_u32(reader, "planes");
  plane_out->per_request = wire_get_u32(reader, "planes");
  plane_out->token_parts = wire_get_u32(reader, "planes");
  plane_out->token_part = wire_get_u32(reader, "planes");
  plane_out->token_block = wire_get_u32(reader, "planes");
  *region_out = wire_get_u32(reader, "planes");
}

void wire_layout_encode(struct wire_buffer *buffer, const struct wire_layout *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_LAYOUT);
  wire_put_u32(buffer, message->rank);
  wire_put_u32(buffer, message->rank_count);
  wire_put_u32(buffer, message->stage);
  wire_put_u32(buffer, message->components);
  wire_put_u32(buffer, message->ignored);
  wire_put_u64(buffer, message->piece_bytes);
  wire_put_u64(buffer, message->arena_bytes);
  if (wire_put_count(buffer, message->plane_count, WIRE_PLANE_LIMIT)) {
    for (uint32_t i = 0; i < message->plane_count; i++) put_plane(buffer, &message->planes[i], message->plane_regions[i]);
  }
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_layout_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                              struct wire_layout *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("LAYOUT", payload, payload_bytes, scratch);
  struct wire_layout message = {0};
  message.rank = wire_get_u32(&reader, "rank");
  message.rank_count = wire_get_u32(&reader, "rank_count");
  message.stage = wire_get_u32(&reader, "stage");
  message.components = wire_get_u32(&reader, "components");
  message.ignored = wire_get_u32(&reader, "ignored");
  message.piece_bytes = wire_get_u64(&reader, "piece_bytes");
  message.arena_bytes = wire_get_u64(&reader, "arena_bytes");
  message.plane_count = wire_get_count(&reader, WIRE_PLANE_LIMIT, PLANE_BYTES, "planes");
  kvf_plane *planes = wire_reader_alloc(&reader, message.plane_count, sizeof *planes);
  uint32_t *regions = wire_reader_alloc(&reader, message.plane_count, sizeof *regions);
  for (uint32_t i = 0; !reader.error && i < message.plane_count; i++) get_plane(&reader, &planes[i], &regions[i]);
  message.planes = planes;
  message.plane_regions = regions;
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_offer_encode(struct wire_buffer *buffer, const struct wire_offer *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_OFFER);
  wire_put_u64(buffer, message->token);
  if (wire_put_count(buffer, message->provider_count, WIRE_PROVIDER_LIMIT)) {
    for (uint32_t i = 0; i < message->provider_count; i++) {
      wire_put_text(buffer, message->providers[i].name, WIRE_LABEL_LIMIT_BYTES);
      wire_put_blob(buffer, message->providers[i].address, message->providers[i].address_bytes, WIRE_BLOB_LIMIT_BYTES);
    }
  }
  wire_frame_end(buffer, frame_at);
}

/* Bytes that borrow from the payload. */
static const uint8_t *get_blob(struct wire_reader *reader, uint32_t *length_out, const char *field) {
  struct wire_text blob = wire_get_text(reader, WIRE_BLOB_LIMIT_BYTES, field);
  *length_out = blob.length;
  return (const uint8_t *)blob.text;
}

kvf_status wire_offer_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                             struct wire_offer *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("OFFER", payload, payload_bytes, scratch);
  struct wire_offer message = {0};
  message.token = wire_get_u64(&reader, "token");
  message.provider_count = wire_get_count(&reader, WIRE_PROVIDER_LIMIT, PROVIDER_BYTES_MIN, "providers");
  for (uint32_t i = 0; i < message.provider_count; i++) {
    message.providers[i].name = wire_get_text(&reader, WIRE_LABEL_LIMIT_BYTES, "providers.name");
    message.providers[i].address = get_blob(&reader, &message.providers[i].address_bytes, "providers.address");
  }
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_expose_encode(struct wire_buffer *buffer, const struct wire_expose *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_EXPOSE);
  wire_put_text(buffer, message->provider, WIRE_LABEL_LIMIT_BYTES);
  wire_put_u32(buffer, message->region);
  wire_put_u64(buffer, message->generation);
  wire_put_u64(buffer, message->region_bytes);
  wire_put_blob(buffer, message->key, message->key_bytes, WIRE_BLOB_LIMIT_BYTES);
  if (message->region >= WIRE_REGION_LIMIT) buffer->failed = true;
  wire_frame_end(buffer, frame_at);
}

/* Region numbers index a table on our side: the limit keeps a peer from growing it. */
static uint32_t get_region(struct wire_reader *reader) {
  uint32_t region = wire_get_u32(reader, "region");
  if (region >= WIRE_REGION_LIMIT) wire_reader_refuse(reader, "region", "over its limit");
  return region;
}

kvf_status wire_expose_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                              struct wire_expose *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("EXPOSE", payload, payload_bytes, scratch);
  struct wire_expose message = {0};
  message.provider = wire_get_text(&reader, WIRE_LABEL_LIMIT_BYTES, "provider");
  message.region = get_region(&reader);
  message.generation = wire_get_u64(&reader, "generation");
  message.region_bytes = wire_get_u64(&reader, "region_bytes");
  message.key = get_blob(&reader, &message.key_bytes, "key");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_revoke_encode(struct wire_buffer *buffer, const struct wire_revoke *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_REVOKE);
  wire_put_u32(buffer, message->region);
  wire_put_u64(buffer, message->generation);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_revoke_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                              struct wire_revoke *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("REVOKE", payload, payload_bytes, scratch);
  struct wire_revoke message = {0};
  message.region = wire_get_u32(&reader, "region");
  message.generation = wire_get_u64(&reader, "generation");
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_ready_encode(struct wire_buffer *buffer) {
  wire_frame_end(buffer, wire_frame_begin(buffer, WIRE_READY));
}

void wire_refuse_encode(struct wire_buffer *buffer, const struct wire_refuse *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_REFUSE);
  wire_put_error(buffer, message->error);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_refuse_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                              struct wire_refuse *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("REFUSE", payload, payload_bytes, scratch);
  struct wire_refuse message = {.error = wire_get_error(&reader, "error")};
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

static void put_ping(struct wire_buffer *buffer, const struct wire_ping *message, uint8_t type) {
  size_t frame_at = wire_frame_begin(buffer, type);
  wire_put_u64(buffer, message->sequence);
  wire_frame_end(buffer, frame_at);
}

void wire_ping_encode(struct wire_buffer *buffer, const struct wire_ping *message) {
  put_ping(buffer, message, WIRE_PING);
}
void wire_pong_encode(struct wire_buffer *buffer, const struct wire_ping *message) {
  put_ping(buffer, message, WIRE_PONG);
}

kvf_status wire_ping_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch,
                            struct wire_ping *message_out, kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("PING", payload, payload_bytes, scratch);
  struct wire_ping message = {.sequence = wire_get_u64(&reader, "sequence")};
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}

void wire_bye_encode(struct wire_buffer *buffer, const struct wire_bye *message) {
  size_t frame_at = wire_frame_begin(buffer, WIRE_BYE);
  wire_put_u32(buffer, message->draining);
  wire_frame_end(buffer, frame_at);
}

kvf_status wire_bye_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch, struct wire_bye *message_out,
                           kvf_error **error_out) {
  struct wire_reader reader = wire_reader_open("BYE", payload, payload_bytes, scratch);
  struct wire_bye message = {.draining = wire_get_u32(&reader, "draining")};
  if (!reader.error) *message_out = message;
  return wire_reader_close(&reader, error_out);
}
