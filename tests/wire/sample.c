/* Random messages: counts small but often zero, numbers of every width, texts of any length up to their limits. */
#include "wire/sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

static void *take(struct sample *sample, size_t bytes) {
  size_t at = (sample->used + 15) & ~(size_t)15;
  if (bytes > sizeof sample->memory - at) abort();
  sample->used = at + bytes;
  return sample->memory + at;
}

/* Any number of bits, so that short and long encodings both occur. */
static uint64_t number(struct sample *sample) {
  unsigned bits = (unsigned)(base_random_next(&sample->random) % 65);
  return bits ? base_random_next(&sample->random) >> (64 - bits) : 0;
}
static uint32_t number32(struct sample *sample) {
  return (uint32_t)(number(sample) >> (base_random_next(&sample->random) % 33));
}
static uint32_t below(struct sample *sample, uint32_t limit) {
  return (uint32_t)(base_random_next(&sample->random) % limit);
}
static uint32_t some(struct sample *sample, uint32_t most) {
  return below(sample, 4) ? below(sample, most + 1) : 0;
}

static void *random_bytes(struct sample *sample, size_t length) {
  uint8_t *bytes = take(sample, length);
  for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)base_random_next(&sample->random);
  return bytes;
}

static struct wire_text random_text(struct sample *sample, uint32_t most) {
  uint32_t length = some(sample, most);
  return (struct wire_text){.text = random_bytes(sample, length), .length = length};
}

static const char *printable(struct sample *sample, uint32_t most) {
  uint32_t length = some(sample, most);
  char *text = take(sample, length + 1);
  for (uint32_t i = 0; i < length; i++) text[i] = (char)(0x20 + below(sample, 0x5f));
  text[length] = '\0';
  return text;
}

static kvf_error *random_error(struct sample *sample) {
  kvf_error *error = NULL;
  for (uint32_t depth = 1 + below(sample, WIRE_ERROR_DEPTH_LIMIT); depth > 0; depth--) {
    kvf_status status = 1 + (kvf_status)below(sample, KVF_UNKNOWN_ROOM);
    error = BASE_ERROR(status, error, "%s", printable(sample, 200));
    for (uint32_t fields = some(sample, 6); fields > 0; fields--)
      base_error_add(error, printable(sample, WIRE_LABEL_LIMIT_BYTES), "%s", printable(sample, 100));
  }
  return error;
}

static void print_bytes(FILE *out, const char *name, const void *bytes, size_t length) {
  fprintf(out, "%s=", name);
  for (size_t i = 0; i < length; i++) fprintf(out, "%02x", ((const uint8_t *)bytes)[i]);
  fputc('\n', out);
}
static void print_text(FILE *out, const char *name, struct wire_text text) {
  print_bytes(out, name, text.text, text.length);
}

static void print_error(FILE *out, const kvf_error *error) {
  size_t need = kvf_error_format(error, NULL, 0);
  char *text = malloc(need + 1);
  kvf_error_format(error, text, need + 1);
  fprintf(out, "error=%s\n", text);
  free(text);
}

#define N32(field) fprintf(out, #field "=%" PRIu32 "\n", (uint32_t)message->field)
#define N64(field) fprintf(out, #field "=%" PRIu64 "\n", message->field)

static void build_hello(struct sample *sample, struct wire_hello *message) {
  message->version_min = (uint16_t)number(sample);
  message->version_max = (uint16_t)number(sample);
  message->capabilities = number(sample);
  memcpy(message->incarnation, random_bytes(sample, sizeof message->incarnation), sizeof message->incarnation);
  memcpy(message->expected, random_bytes(sample, sizeof message->expected), sizeof message->expected);
  memcpy(message->nonce, random_bytes(sample, sizeof message->nonce), sizeof message->nonce);
  message->has_secret = (uint8_t)below(sample, 2);
  message->heartbeat_ns = number(sample);
  message->label = random_text(sample, WIRE_LABEL_LIMIT_BYTES);
  message->library = random_text(sample, WIRE_LABEL_LIMIT_BYTES);
}
static void describe_hello(FILE *out, const struct wire_hello *message) {
  N32(version_min), N32(version_max), N64(capabilities), N32(has_secret), N64(heartbeat_ns);
  print_bytes(out, "incarnation", message->incarnation, sizeof message->incarnation);
  print_bytes(out, "expected", message->expected, sizeof message->expected);
  print_bytes(out, "nonce", message->nonce, sizeof message->nonce);
  print_text(out, "label", message->label);
  print_text(out, "library", message->library);
}

static void build_auth(struct sample *sample, struct wire_auth *message) {
  memcpy(message->mac, random_bytes(sample, sizeof message->mac), sizeof message->mac);
}
static void describe_auth(FILE *out, const struct wire_auth *message) {
  print_bytes(out, "mac", message->mac, sizeof message->mac);
}

static void build_layout(struct sample *sample, struct wire_layout *message) {
  message->rank = number32(sample);
  message->rank_count = number32(sample);
  message->stage = number32(sample);
  message->components = number32(sample);
  message->ignored = number32(sample);
  message->piece_bytes = number(sample);
  message->arena_bytes = number(sample);
  message->plane_count = some(sample, 20);
  /* A plane is numbers only, without padding: random bytes are random planes. */
  message->planes = random_bytes(sample, message->plane_count * sizeof(kvf_plane));
  message->plane_regions = random_bytes(sample, message->plane_count * sizeof(uint32_t));
}
static void describe_layout(FILE *out, const struct wire_layout *message) {
  N32(rank), N32(rank_count), N32(stage), N32(components), N32(ignored), N64(piece_bytes), N64(arena_bytes), N32(plane_count);
  for (uint32_t i = 0; i < message->plane_count; i++) {
    const kvf_plane *plane = &message->planes[i];
    fprintf(out, "plane=%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,", plane->layer, plane->role, plane->dtype, plane->page_list,
            plane->heads_total, plane->head_first, plane->head_count, plane->head_bytes, plane->page_tokens, plane->page_count);
    fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", plane->page_stride_bytes, plane->token_stride_bytes,
            plane->head_stride_bytes, plane->address);
    fprintf(out, "%u,%u,%u,%u,%u,%u,%u,%u,%u\n", plane->part, plane->component, plane->entry_tokens, plane->window_tokens,
            plane->per_request, plane->token_parts, plane->token_part, plane->token_block, message->plane_regions[i]);
  }
}

static void build_offer(struct sample *sample, struct wire_offer *message) {
  message->token = number(sample);
  message->provider_count = some(sample, WIRE_PROVIDER_LIMIT);
  for (uint32_t i = 0; i < message->provider_count; i++) {
    message->providers[i].name = random_text(sample, WIRE_LABEL_LIMIT_BYTES);
    message->providers[i].address_bytes = some(sample, 300);
    message->providers[i].address = random_bytes(sample, message->providers[i].address_bytes);
  }
}
static void describe_offer(FILE *out, const struct wire_offer *message) {
  N64(token), N32(provider_count);
  for (uint32_t i = 0; i < message->provider_count; i++) {
    print_text(out, "name", message->providers[i].name);
    print_bytes(out, "address", message->providers[i].address, message->providers[i].address_bytes);
  }
}

static void build_expose(struct sample *sample, struct wire_expose *message) {
  message->provider = random_text(sample, WIRE_LABEL_LIMIT_BYTES);
  message->region = below(sample, WIRE_REGION_LIMIT);
  message->generation = number(sample);
  message->region_bytes = number(sample);
  message->key_bytes = some(sample, 500);
  message->key = random_bytes(sample, message->key_bytes);
}
static void describe_expose(FILE *out, const struct wire_expose *message) {
  print_text(out, "provider", message->provider);
  N32(region), N64(generation), N64(region_bytes);
  print_bytes(out, "key", message->key, message->key_bytes);
}

static void build_revoke(struct sample *sample, struct wire_revoke *message) {
  *message = (struct wire_revoke){.region = number32(sample), .generation = number(sample)};
}
static void describe_revoke(FILE *out, const struct wire_revoke *message) {
  N32(region), N64(generation);
}

static void build_refuse(struct sample *sample, struct wire_refuse *message) {
  message->error = random_error(sample);
}
static void describe_refuse(FILE *out, const struct wire_refuse *message) {
  print_error(out, message->error);
}

static void build_ping(struct sample *sample, struct wire_ping *message) {
  message->sequence = number(sample);
}
static void describe_ping(FILE *out, const struct wire_ping *message) {
  N64(sequence);
}

static void build_bye(struct sample *sample, struct wire_bye *message) {
  message->draining = below(sample, 2);
}
static void describe_bye(FILE *out, const struct wire_bye *message) {
  N32(draining);
}

static void build_plan(struct sample *sample, struct wire_plan *message) {
  message->plan = number32(sample);
  message->cut_count = some(sample, 50);
  message->cuts = random_bytes(sample, message->cut_count * sizeof *message->cuts);
}
static void describe_plan(FILE *out, const struct wire_plan *message) {
  N32(plan), N32(cut_count);
  for (uint32_t i = 0; i < message->cut_count; i++) {
    const struct wire_cut *cut = &message->cuts[i];
    fprintf(out, "cut=%u,%u,%u,%u\n", cut->source_plane, cut->target_plane, cut->head_first, cut->head_count);
  }
}

/* Runs up and lone pages, near and far, up to the last page number there is. */
static void build_pages(struct sample *sample, uint32_t *pages, uint32_t page_count) {
  for (uint32_t i = 0; i < page_count; i++) {
    bool follow = i > 0 && below(sample, 3) && pages[i - 1] != UINT32_MAX;
    pages[i] = follow ? pages[i - 1] + 1 : below(sample, 10) ? number32(sample) : UINT32_MAX - below(sample, 4);
  }
}
static void build_open(struct sample *sample, struct wire_open *message) {
  message->room = number(sample);
  message->opening = number32(sample);
  message->plan = number32(sample);
  message->receiver_count = number32(sample);
  message->token_first = number(sample);
  message->token_end = number(sample);
  message->page_list_count = some(sample, KVF_PAGE_LIST_LIMIT);
  for (uint32_t i = 0; i < message->page_list_count; i++) {
    kvf_page_list *list = &message->page_lists[i];
    *list = (kvf_page_list){.page_list = number32(sample), .page_count = some(sample, 60), .first_token = number(sample)};
    uint32_t *pages = take(sample, list->page_count * sizeof *pages);
    build_pages(sample, pages, list->page_count);
    list->pages = pages;
  }
}
static void describe_open(FILE *out, const struct wire_open *message) {
  N64(room), N32(opening), N32(plan), N32(receiver_count), N64(token_first), N64(token_end), N32(page_list_count);
  for (uint32_t i = 0; i < message->page_list_count; i++) {
    const kvf_page_list *list = &message->page_lists[i];
    fprintf(out, "page_list=%u first_token=%" PRIu64 " pages=", list->page_list, list->first_token);
    for (uint32_t page = 0; page < list->page_count; page++) fprintf(out, "%s%u", page ? "," : "", list->pages[page]);
    fputc('\n', out);
  }
}

static void build_grant(struct sample *sample, struct wire_grant *message) {
  message->region = number32(sample);
  message->region_generation = number(sample);
  message->region_base = number(sample);
  message->region_bytes = number(sample);
  message->want_sequence = number32(sample);
  message->grant_count = some(sample, 30);
  message->grants = random_bytes(sample, message->grant_count * sizeof *message->grants);
}
static void describe_grant(FILE *out, const struct wire_grant *message) {
  N32(region), N64(region_generation), N64(region_base), N64(region_bytes), N32(want_sequence), N32(grant_count);
  for (uint32_t i = 0; i < message->grant_count; i++) {
    const struct wire_grant_entry *grant = &message->grants[i];
    fprintf(out, "grant=%u,%u,%" PRIu64 ",%" PRIu64 "\n", grant->id, grant->generation, grant->offset, grant->length);
  }
}

static void build_ack(struct sample *sample, struct wire_ack *message) {
  message->ack_count = some(sample, 30);
  message->acks = random_bytes(sample, message->ack_count * sizeof *message->acks);
}
static void describe_ack(FILE *out, const struct wire_ack *message) {
  N32(ack_count);
  for (uint32_t i = 0; i < message->ack_count; i++) {
    const struct wire_ack_entry *ack = &message->acks[i];
    fprintf(out, "ack=%" PRIu64 ",%u,%u\n", ack->room, ack->sequence, ack->scatter_us);
  }
}

static void build_nack(struct sample *sample, struct wire_nack *message) {
  *message = (struct wire_nack){.room = number(sample), .sequence = number32(sample), .attempt = number32(sample)};
  message->error = random_error(sample);
}
static void describe_nack(FILE *out, const struct wire_nack *message) {
  N64(room), N32(sequence), N32(attempt);
  print_error(out, message->error);
}

static void build_done(struct sample *sample, struct wire_done *message) {
  *message = (struct wire_done){.room = number(sample), .bytes = number(sample)};
}
static void describe_done(FILE *out, const struct wire_done *message) {
  N64(room), N64(bytes);
}

static void build_want(struct sample *sample, struct wire_want *message) {
  message->level = number32(sample);
  message->sequence = number32(sample);
}
static void describe_want(FILE *out, const struct wire_want *message) {
  N32(level), N32(sequence);
}

static void build_return(struct sample *sample, struct wire_return *message) {
  message->grant_count = some(sample, 30);
  message->grants = random_bytes(sample, message->grant_count * sizeof *message->grants);
}
static void describe_return(FILE *out, const struct wire_return *message) {
  N32(grant_count);
  for (uint32_t i = 0; i < message->grant_count; i++)
    fprintf(out, "grant=%u,%u\n", message->grants[i].id, message->grants[i].generation);
}

static void build_refresh(struct sample *sample, struct wire_refresh *message) {
  *message = (struct wire_refresh){.region = number32(sample), .generation = number(sample), .reason = number32(sample)};
}
static void describe_refresh(FILE *out, const struct wire_refresh *message) {
  N32(region), N64(generation), N32(reason);
}

static void build_final(struct sample *sample, struct wire_final *message) {
  message->room = number(sample);
  message->opening = number32(sample);
  message->token_first = number(sample);
  message->token_end = number(sample);
  message->piece_count = number32(sample);
  message->bytes = number(sample);
  message->aux_bytes = some(sample, 400);
  message->aux = random_bytes(sample, message->aux_bytes);
}
static void describe_final(FILE *out, const struct wire_final *message) {
  N64(room), N32(opening), N64(token_first), N64(token_end), N32(piece_count), N64(bytes);
  print_bytes(out, "aux", message->aux, message->aux_bytes);
}

static void build_fail(struct sample *sample, struct wire_fail *message) {
  *message = (struct wire_fail){.room = number(sample), .opening = number32(sample), .by_receiver = number32(sample), .error = random_error(sample)};
}
static void describe_fail(FILE *out, const struct wire_fail *message) {
  N64(room), N32(opening), N32(by_receiver);
  print_error(out, message->error);
}

static void build_fail_ack(struct sample *sample, struct wire_fail_ack *message) {
  message->room = number(sample);
  message->opening = number32(sample);
}
static void describe_fail_ack(FILE *out, const struct wire_fail_ack *message) {
  N64(room), N32(opening);
}

/* The same four functions for every message, with the union in place of the message's own type. */
#define WRAP(noun)                                                                                                \
  static void build_any_##noun(struct sample *sample) {                                                           \
    build_##noun(sample, &sample->message.message_##noun);                                                        \
  }                                                                                                               \
  static void encode_any_##noun(struct wire_buffer *buffer, const union sample_message *message) {                \
    wire_##noun##_encode(buffer, &message->message_##noun);                                                       \
  }                                                                                                               \
  static kvf_status decode_any_##noun(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch, \
                                      union sample_message *message_out, kvf_error **error_out) {                 \
    return wire_##noun##_decode(payload, payload_bytes, scratch, &message_out->message_##noun, error_out);        \
  }                                                                                                               \
  static void describe_any_##noun(FILE *out, const union sample_message *message) {                               \
    describe_##noun(out, &message->message_##noun);                                                               \
  }
WIRE_MESSAGES(WRAP)
#undef WRAP

static void encode_any_pong(struct wire_buffer *buffer, const union sample_message *message) {
  wire_pong_encode(buffer, &message->message_ping);
}

static kvf_error **refuse_error(union sample_message *message) {
  return &message->message_refuse.error;
}
static kvf_error **nack_error(union sample_message *message) {
  return &message->message_nack.error;
}
static kvf_error **fail_error(union sample_message *message) {
  return &message->message_fail.error;
}

#define KIND(TYPE, noun, error) \
  { #TYPE, WIRE_##TYPE, build_any_##noun, encode_any_##noun, decode_any_##noun, describe_any_##noun, error }
const struct sample_kind sample_kinds[] = {
    KIND(HELLO, hello, NULL),
    KIND(AUTH, auth, NULL),
    KIND(LAYOUT, layout, NULL),
    KIND(OFFER, offer, NULL),
    KIND(EXPOSE, expose, NULL),
    KIND(REVOKE, revoke, NULL),
    KIND(REFUSE, refuse, refuse_error),
    KIND(PING, ping, NULL),
    {"PONG", WIRE_PONG, build_any_ping, encode_any_pong, decode_any_ping, describe_any_ping, NULL},
    KIND(BYE, bye, NULL),
    KIND(PLAN, plan, NULL),
    KIND(OPEN, open, NULL),
    KIND(GRANT, grant, NULL),
    KIND(ACK, ack, NULL),
    KIND(NACK, nack, nack_error),
    KIND(DONE, done, NULL),
    KIND(WANT, want, NULL),
    KIND(RETURN, return, NULL),
    KIND(REFRESH, refresh, NULL),
    KIND(FINAL, final, NULL),
    KIND(FAIL, fail, fail_error),
    KIND(FAIL_ACK, fail_ack, NULL),
};
const size_t sample_kind_count = sizeof sample_kinds / sizeof sample_kinds[0];

void sample_build(const struct sample_kind *kind, struct sample *sample, uint64_t seed) {
  memset(&sample->message, 0, sizeof sample->message);
  sample->random = seed;
  sample->used = 0;
  kind->build(sample);
}

void sample_release(const struct sample_kind *kind, union sample_message *message) {
  if (kind->error) kvf_error_free(*kind->error(message));
}

char *sample_describe(const struct sample_kind *kind, const union sample_message *message) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  kind->describe(out, message);
  fclose(out);
  return text;
}
