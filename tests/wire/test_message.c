/* Every message: round trip, truncation, newer fields, limits, memory running out. The seed is printed; KVF_SEED repeats it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "wire/sample.h"

static uint64_t seed;
static struct sample sample;

/* A payload in memory of exactly its length, so that reading past its end is seen. */
static uint8_t *copy_exactly(const uint8_t *bytes, size_t length) {
  uint8_t *copy = malloc(length ? length : 1);
  memcpy(copy, bytes, length);
  return length ? copy : realloc(copy, 1);
}

static struct wire_buffer encode_sample(const struct sample_kind *kind, uint64_t sample_seed) {
  struct wire_buffer buffer = {0};
  sample_build(kind, &sample, sample_seed);
  kind->encode(&buffer, &sample.message);
  assert_false(buffer.failed);
  struct wire_frame frame;
  assert_int_equal(wire_frame_decode(buffer.bytes, WIRE_PAYLOAD_LIMIT_BYTES, &frame, NULL), KVF_OK);
  assert_int_equal(frame.type, kind->type);
  assert_int_equal(frame.payload_bytes, buffer.length - WIRE_FRAME_BYTES);
  return buffer;
}

static void assert_decodes_to_sample(const struct sample_kind *kind, const uint8_t *payload, size_t payload_bytes) {
  union sample_message again;
  struct wire_scratch scratch = {0};
  kvf_error *error = NULL;
  assert_int_equal(kind->decode(payload, payload_bytes, &scratch, &again, &error), KVF_OK);
  assert_null(error);
  char *expected = sample_describe(kind, &sample.message), *got = sample_describe(kind, &again);
  assert_string_equal(got, expected);
  free(expected);
  free(got);
  sample_release(kind, &again);
  wire_scratch_reset(&scratch);
}

static void every_message_comes_back_as_it_was(void **state) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    const struct sample_kind *kind = &sample_kinds[k];
    for (uint64_t i = 0; i < 300; i++) {
      struct wire_buffer buffer = encode_sample(kind, base_mix_u64(seed + i));
      uint8_t *payload = copy_exactly(buffer.bytes + WIRE_FRAME_BYTES, buffer.length - WIRE_FRAME_BYTES);
      assert_decodes_to_sample(kind, payload, buffer.length - WIRE_FRAME_BYTES);
      free(payload);
      wire_buffer_fini(&buffer);
      sample_release(kind, &sample.message);
    }
  }
}

/* A message that lacks its end: refused, the field named, nothing written to the caller, no memory taken for what is not there. */
static void assert_refused(const struct sample_kind *kind, const uint8_t *payload, size_t payload_bytes) {
  union sample_message again, before;
  memset(&again, 0x5a, sizeof again);
  before = again;
  struct wire_scratch scratch = {0};
  kvf_error *error = NULL;
  assert_int_equal(kind->decode(payload, payload_bytes, &scratch, &again, &error), KVF_PROTOCOL);
  assert_int_equal(kvf_error_status(error), KVF_PROTOCOL);
  const char *field = kvf_error_find(error, "field");
  assert_non_null(field);
  assert_non_null(strstr(kvf_error_message(error), field));
  assert_memory_equal(&again, &before, sizeof again);
  assert_null(scratch.memory[0]);
  kvf_error_free(error);
  wire_scratch_reset(&scratch);
  assert_int_equal(kind->decode(payload, payload_bytes, &scratch, &again, NULL), KVF_PROTOCOL);
  wire_scratch_reset(&scratch);
}

static void every_truncation_is_refused_by_name(void **state) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    const struct sample_kind *kind = &sample_kinds[k];
    for (uint64_t i = 0; i < 4; i++) {
      struct wire_buffer buffer = encode_sample(kind, base_mix_u64(seed + 1000 + i));
      for (size_t length = 0; length < buffer.length - WIRE_FRAME_BYTES; length++) {
        uint8_t *payload = copy_exactly(buffer.bytes + WIRE_FRAME_BYTES, length);
        assert_refused(kind, payload, length);
        free(payload);
      }
      wire_buffer_fini(&buffer);
      sample_release(kind, &sample.message);
    }
  }
}

/* C118: a later version's extra fields are ignored. */
static void fields_of_later_versions_are_ignored(void **state) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    const struct sample_kind *kind = &sample_kinds[k];
    struct wire_buffer buffer = encode_sample(kind, base_mix_u64(seed + 2000));
    size_t length = buffer.length - WIRE_FRAME_BYTES;
    uint8_t *payload = calloc(1, length + 40);
    memcpy(payload, buffer.bytes + WIRE_FRAME_BYTES, length);
    uint64_t random = seed;
    for (size_t i = 0; i < 40; i++) payload[length + i] = (uint8_t)base_random_next(&random);
    for (size_t extra = 1; extra <= 40; extra += 13) assert_decodes_to_sample(kind, payload, length + extra);
    free(payload);
    wire_buffer_fini(&buffer);
    sample_release(kind, &sample.message);
  }
}

/* C118: a missing field is named. */
static void the_missing_field_is_named(void **state) {
  struct wire_buffer buffer = {0};
  struct wire_hello hello = {.version_min = 1, .version_max = 1, .label = {"prefill-0", 9}, .library = {"0.1.0", 5}}, again;
  wire_hello_encode(&buffer, &hello);
  struct {
    size_t length;
    const char *field;
  } cases[] = {{0, "version_min"}, {3, "version_max"}, {4, "capabilities"}, {12, "incarnation"},
               {28, "expected"},   {44, "nonce"},      {76, "has_secret"},  {77, "heartbeat_ns"},
               {85, "label"},      {97, "label"},      {98, "library"},     {106, "library"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    kvf_error *error = NULL;
    struct wire_scratch scratch = {0};
    assert_int_equal(wire_hello_decode(buffer.bytes + WIRE_FRAME_BYTES, cases[i].length, &scratch, &again, &error), KVF_PROTOCOL);
    assert_string_equal(kvf_error_find(error, "field"), cases[i].field);
    kvf_error_free(error);
  }
  assert_int_equal(buffer.length, WIRE_FRAME_BYTES + 107);
  wire_buffer_fini(&buffer);
}

/* The n-th allocation fails, for every n: NO_MEMORY or the whole message, never a part. */
static void decoding_survives_every_failing_allocation(void **state) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    const struct sample_kind *kind = &sample_kinds[k];
    struct wire_buffer buffer = encode_sample(kind, base_mix_u64(seed + 3000));
    for (uint64_t n = 1; n < 2000; n++) {
      union sample_message again;
      struct wire_scratch scratch = {0};
      kvf_error *error = NULL;
      base_alloc_fail_after(n);
      kvf_status status = kind->decode(buffer.bytes + WIRE_FRAME_BYTES, buffer.length - WIRE_FRAME_BYTES, &scratch, &again, &error);
      base_alloc_fail_after(0);
      assert_true(status == KVF_OK || status == KVF_NO_MEMORY);
      if (status == KVF_OK) sample_release(kind, &again);
      kvf_error_free(error);
      wire_scratch_reset(&scratch);
    }
    wire_buffer_fini(&buffer);
    sample_release(kind, &sample.message);
  }
}

static void encoding_survives_every_failing_allocation(void **state) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    const struct sample_kind *kind = &sample_kinds[k];
    sample_build(kind, &sample, base_mix_u64(seed + 4000));
    for (uint64_t n = 1;; n++) {
      struct wire_buffer buffer = {0};
      wire_ready_encode(&buffer);
      base_alloc_fail_after(n);
      kind->encode(&buffer, &sample.message);
      base_alloc_fail_after(0);
      bool whole = !buffer.failed;
      if (!whole) assert_int_equal(buffer.length, WIRE_FRAME_BYTES);
      wire_buffer_fini(&buffer);
      if (whole) break;
      assert_true(n < 100);
    }
    sample_release(kind, &sample.message);
  }
}

/* Over a limit, the frame is taken back and the buffer says so; what was there before stays. */
#define ASSERT_TOO_MUCH(noun, ...)                                   \
  do {                                                               \
    struct wire_buffer buffer = {0};                                 \
    wire_ready_encode(&buffer);                                      \
    wire_##noun##_encode(&buffer, &(struct wire_##noun)__VA_ARGS__); \
    assert_true(buffer.failed);                                      \
    assert_int_equal(buffer.length, WIRE_FRAME_BYTES);               \
    wire_ready_encode(&buffer);                                      \
    assert_int_equal(buffer.length, WIRE_FRAME_BYTES);               \
    wire_buffer_fini(&buffer);                                       \
  } while (0)

static void what_is_over_a_limit_is_not_encoded(void **state) {
  char text[WIRE_LABEL_LIMIT_BYTES + 1] = {0};
  ASSERT_TOO_MUCH(hello, {.label = {text, sizeof text}});
  ASSERT_TOO_MUCH(hello, {.library = {text, sizeof text}});
  ASSERT_TOO_MUCH(layout, {.plane_count = WIRE_PLANE_LIMIT + 1});
  ASSERT_TOO_MUCH(offer, {.provider_count = WIRE_PROVIDER_LIMIT + 1});
  ASSERT_TOO_MUCH(expose, {.key_bytes = WIRE_BLOB_LIMIT_BYTES + 1});
  ASSERT_TOO_MUCH(expose, {.region = WIRE_REGION_LIMIT});
  ASSERT_TOO_MUCH(plan, {.cut_count = WIRE_CUT_LIMIT + 1});
  ASSERT_TOO_MUCH(open, {.page_list_count = KVF_PAGE_LIST_LIMIT + 1});
  ASSERT_TOO_MUCH(open, {.page_list_count = 1, .page_lists = {{.page_count = WIRE_PAGE_LIMIT + 1}}});
  ASSERT_TOO_MUCH(grant, {.grant_count = WIRE_BATCH_LIMIT + 1});
  ASSERT_TOO_MUCH(ack, {.ack_count = WIRE_BATCH_LIMIT + 1});
  ASSERT_TOO_MUCH(return, {.grant_count = WIRE_BATCH_LIMIT + 1});
  ASSERT_TOO_MUCH(final, {.aux_bytes = WIRE_AUX_LIMIT_BYTES + 1});
}

/* The count at @p count_at is set to @p count: refused before memory is taken, even where the payload would hold that many. */
static void assert_count_refused(const struct sample_kind *kind, size_t count_at, uint32_t count, size_t payload_bytes) {
  uint8_t *payload = calloc(1, payload_bytes);
  for (size_t i = 0; i < 4; i++) payload[count_at + i] = (uint8_t)(count >> (8 * i));
  assert_refused(kind, payload, payload_bytes);
  free(payload);
}

static const struct sample_kind *find_kind(uint8_t type) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    if (sample_kinds[k].type == type) return &sample_kinds[k];
  }
  fail();
  return NULL;
}

/* Where the count of the list at the end of a message is: nothing follows it when the list is empty. */
static size_t find_last_count(const struct sample_kind *kind) {
  static const union sample_message empty;
  struct wire_buffer buffer = {0};
  kind->encode(&buffer, &empty);
  size_t count_at = buffer.length - WIRE_FRAME_BYTES - 4;
  wire_buffer_fini(&buffer);
  return count_at;
}

static void counts_over_a_limit_are_refused(void **state) {
  enum { LAST = INT32_MAX };
  struct {
    uint8_t type;
    size_t count_at;
    uint32_t limit;
    size_t entry_bytes;
  } cases[] = {{WIRE_HELLO, 85, WIRE_LABEL_LIMIT_BYTES, 1},  {WIRE_HELLO, LAST, WIRE_LABEL_LIMIT_BYTES, 1},
               {WIRE_LAYOUT, LAST, WIRE_PLANE_LIMIT, 76},    {WIRE_OFFER, LAST, WIRE_PROVIDER_LIMIT, 8},
               {WIRE_EXPOSE, 0, WIRE_LABEL_LIMIT_BYTES, 1},  {WIRE_EXPOSE, LAST, WIRE_BLOB_LIMIT_BYTES, 1},
               {WIRE_PLAN, LAST, WIRE_CUT_LIMIT, 16},        {WIRE_OPEN, LAST, KVF_PAGE_LIST_LIMIT, 20},
               {WIRE_GRANT, LAST, WIRE_BATCH_LIMIT, 24},     {WIRE_ACK, LAST, WIRE_BATCH_LIMIT, 16},
               {WIRE_RETURN, LAST, WIRE_BATCH_LIMIT, 8},     {WIRE_FINAL, LAST, WIRE_AUX_LIMIT_BYTES, 1},
               {WIRE_REFUSE, 0, WIRE_ERROR_DEPTH_LIMIT, 12}, {WIRE_FAIL, 8, WIRE_ERROR_DEPTH_LIMIT, 12}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct sample_kind *kind = find_kind(cases[i].type);
    size_t count_at = cases[i].count_at == LAST ? find_last_count(kind) : cases[i].count_at;
    size_t room = count_at + 4 + (cases[i].limit + 1) * cases[i].entry_bytes + 64;
    assert_count_refused(kind, count_at, cases[i].limit + 1, room);
    assert_count_refused(kind, count_at, UINT32_MAX, room);
    assert_count_refused(kind, count_at, cases[i].limit, count_at + 4 + 1);
  }
}

static void send_error(const kvf_error *error, struct wire_refuse *refuse_out, size_t *payload_bytes_out) {
  struct wire_buffer buffer = {0};
  struct wire_scratch scratch = {0};
  wire_refuse_encode(&buffer, &(struct wire_refuse){.error = (kvf_error *)error});
  assert_false(buffer.failed);
  assert_int_equal(
      wire_refuse_decode(buffer.bytes + WIRE_FRAME_BYTES, buffer.length - WIRE_FRAME_BYTES, &scratch, refuse_out, NULL), KVF_OK);
  *payload_bytes_out = buffer.length - WIRE_FRAME_BYTES;
  wire_buffer_fini(&buffer);
}

static void errors_from_a_peer_are_marked_and_harmless(void **state) {
  kvf_error *error = BASE_ERROR(KVF_FABRIC, NULL, "line one\nline \x1b[31mtwo\xff");
  base_error_add(error, "na\tme", "%s", "va\rlue");
  struct wire_refuse refuse;
  size_t payload_bytes;
  send_error(error, &refuse, &payload_bytes);
  assert_int_equal(kvf_error_status(refuse.error), KVF_FABRIC);
  assert_string_equal(kvf_error_message(refuse.error), "line one?line ?[31mtwo?");
  assert_string_equal(kvf_error_find(refuse.error, "na?me"), "va?lue");
  assert_string_equal(kvf_error_file(refuse.error), "peer");
  assert_int_equal(kvf_error_line(refuse.error), 0);
  kvf_error_free(refuse.error);
  kvf_error_free(error);
}

static void an_error_over_the_limits_keeps_both_ends(void **state) {
  char long_text[3 * WIRE_TEXT_LIMIT_BYTES];
  memset(long_text, 'x', sizeof long_text);
  long_text[sizeof long_text - 1] = '\0';
  kvf_error *error = NULL;
  for (int i = 0; i < 20; i++) error = BASE_ERROR(KVF_SYSTEM, error, "%d %s", i, long_text);
  for (int i = 0; i < 50; i++) base_error_add(error, long_text, "%s", long_text);
  struct wire_refuse refuse;
  size_t payload_bytes;
  send_error(error, &refuse, &payload_bytes);
  assert_int_equal(kvf_error_field_count(refuse.error), WIRE_ERROR_FIELD_LIMIT);
  assert_int_equal(strlen(kvf_error_message(refuse.error)), WIRE_TEXT_LIMIT_BYTES);
  assert_memory_equal(kvf_error_message(refuse.error), "19 ", 3);
  size_t depth = 1;
  const kvf_error *link = refuse.error;
  for (; kvf_error_cause(link); link = kvf_error_cause(link)) depth++;
  assert_int_equal(depth, WIRE_ERROR_DEPTH_LIMIT);
  assert_memory_equal(kvf_error_message(link), "0 x", 3);
  kvf_error_free(refuse.error);
  kvf_error_free(error);
}

static void an_error_that_is_missing_or_unknown_is_still_an_error(void **state) {
  struct wire_refuse refuse;
  size_t payload_bytes;
  send_error(NULL, &refuse, &payload_bytes);
  assert_int_equal(kvf_error_status(refuse.error), KVF_INTERNAL);
  kvf_error_free(refuse.error);
  kvf_error *error = BASE_ERROR(12345, NULL, "from the future");
  send_error(error, &refuse, &payload_bytes);
  assert_int_equal(kvf_error_status(refuse.error), KVF_PEER_FAILED);
  assert_string_equal(kvf_error_find(refuse.error, "status"), "12345");
  kvf_error_free(refuse.error);
  kvf_error_free(error);
  const uint8_t no_error[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, no_link[] = {0, 0, 0, 0};
  assert_refused(find_kind(WIRE_REFUSE), no_error, sizeof no_error);
  assert_refused(find_kind(WIRE_REFUSE), no_link, sizeof no_link);
}

static void texts_of_an_error_are_bounded(void **state) {
  /* one link, status 1, a message of the limit or one byte more, no fields */
  for (uint32_t length = WIRE_TEXT_LIMIT_BYTES; length <= WIRE_TEXT_LIMIT_BYTES + 1; length++) {
    uint8_t payload[16 + WIRE_TEXT_LIMIT_BYTES + 1] = {1, 0, 0, 0, 1, 0, 0, 0, (uint8_t)length, (uint8_t)(length >> 8), 0, 0};
    struct wire_refuse refuse = {0};
    kvf_status status = wire_refuse_decode(payload, 16 + length, NULL, &refuse, NULL);
    assert_int_equal(status, length > WIRE_TEXT_LIMIT_BYTES ? KVF_PROTOCOL : KVF_OK);
    kvf_error_free(refuse.error);
  }
}

/* The first message of a stranger, as long as it can be, is within what is read from strangers. */
static void the_longest_hello_fits_the_unproven_limit(void **state) {
  char text[WIRE_LABEL_LIMIT_BYTES] = {0};
  struct wire_buffer buffer = {0};
  wire_hello_encode(&buffer, &(struct wire_hello){.label = {text, sizeof text}, .library = {text, sizeof text}});
  assert_false(buffer.failed);
  assert_true(buffer.length - WIRE_FRAME_BYTES <= WIRE_PAYLOAD_UNPROVEN_BYTES);
  wire_buffer_fini(&buffer);
}

int main(void) {
  const char *given = getenv("KVF_SEED");
  seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
  printf("KVF_SEED=%llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_message_comes_back_as_it_was),
      cmocka_unit_test(every_truncation_is_refused_by_name),
      cmocka_unit_test(fields_of_later_versions_are_ignored),
      cmocka_unit_test(the_missing_field_is_named),
      cmocka_unit_test(decoding_survives_every_failing_allocation),
      cmocka_unit_test(encoding_survives_every_failing_allocation),
      cmocka_unit_test(what_is_over_a_limit_is_not_encoded),
      cmocka_unit_test(counts_over_a_limit_are_refused),
      cmocka_unit_test(errors_from_a_peer_are_marked_and_harmless),
      cmocka_unit_test(an_error_over_the_limits_keeps_both_ends),
      cmocka_unit_test(an_error_that_is_missing_or_unknown_is_still_an_error),
      cmocka_unit_test(texts_of_an_error_are_bounded),
      cmocka_unit_test(the_longest_hello_fits_the_unproven_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
