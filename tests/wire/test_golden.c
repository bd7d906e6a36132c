/* Frames as release 0.1.0 sends them, kept in golden/: a description in lines that begin with '#', then the bytes in hex.
 * What is there must decode to its description for ever, and be what we encode until a change is meant. With KVF_UPDATE_GOLDEN=1
 * the files, and the corpus of the fuzzer that is made of them, are written anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/golden_path.h"
#include "wire/sample.h"

enum { SEEDS = 200, TYPICAL_BYTES = 600, FRAME_LIMIT_BYTES = 65536, CORPUS_FRAME = 0, CORPUS_PIECE = 255 };

struct golden {
  char *description;
  uint8_t bytes[FRAME_LIMIT_BYTES];
  size_t length;
};

static struct sample sample;
static struct golden golden;

static FILE *open_file(const char *folder, const char *name, const char *suffix, const char *mode) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
  FILE *file = fopen(path, mode);
  if (!file) print_error("cannot open %s\n", path);
  assert_non_null(file);
  return file;
}

static void write_golden(const char *name, const char *description, const uint8_t *bytes, size_t length) {
  FILE *file = open_file(WIRE_GOLDEN_PATH, name, ".hex", "w");
  for (const char *line = description; *line;) {
    size_t line_length = strcspn(line, "\n");
    fprintf(file, "#%.*s\n", (int)line_length, line);
    line += line_length + (line[line_length] == '\n');
  }
  for (size_t i = 0; i < length; i++) fprintf(file, "%02x%c", bytes[i], i % 32 == 31 || i + 1 == length ? '\n' : ' ');
  fclose(file);
}

static void write_corpus(const char *name, uint8_t selector, const uint8_t *bytes, size_t length) {
  FILE *file = open_file(WIRE_CORPUS_PATH, name, ".bin", "wb");
  fputc(selector, file);
  fwrite(bytes, 1, length, file);
  fclose(file);
}

static void read_golden(const char *name) {
  FILE *file = open_file(WIRE_GOLDEN_PATH, name, ".hex", "r");
  size_t description_length = 0, capacity = 0;
  char *line = NULL;
  free(golden.description);
  golden.length = 0;
  FILE *description = open_memstream(&golden.description, &description_length);
  while (getline(&line, &capacity, file) > 0) {
    if (*line == '#') {
      fputs(line + 1, description);
      continue;
    }
    int used = 0;
    unsigned byte;
    for (const char *at = line; sscanf(at, "%2x%n", &byte, &used) == 1; at += used) {
      assert_true(golden.length < sizeof golden.bytes);
      golden.bytes[golden.length++] = (uint8_t)byte;
    }
  }
  free(line);
  fclose(description);
  fclose(file);
}

static void update_message(const struct sample_kind *kind) {
  if (!getenv("KVF_UPDATE_GOLDEN")) return;
  struct wire_buffer buffer = {0};
  kind->encode(&buffer, &sample.message);
  char *description = sample_describe(kind, &sample.message);
  char frame_name[64];
  snprintf(frame_name, sizeof frame_name, "%s-frame", kind->name);
  write_golden(kind->name, description, buffer.bytes, buffer.length);
  write_corpus(kind->name, kind->type, buffer.bytes + WIRE_FRAME_BYTES, buffer.length - WIRE_FRAME_BYTES);
  write_corpus(frame_name, CORPUS_FRAME, buffer.bytes, buffer.length);
  free(description);
  wire_buffer_fini(&buffer);
}

static void assert_is_golden(const struct sample_kind *kind) {
  read_golden(kind->name);
  struct wire_frame frame;
  assert_true(golden.length >= WIRE_FRAME_BYTES);
  assert_int_equal(wire_frame_decode(golden.bytes, WIRE_PAYLOAD_LIMIT_BYTES, &frame, NULL), KVF_OK);
  assert_int_equal(frame.type, kind->type);
  assert_int_equal(frame.payload_bytes, golden.length - WIRE_FRAME_BYTES);

  union sample_message message;
  struct wire_scratch scratch = {0};
  struct wire_buffer buffer = {0};
  assert_int_equal(kind->decode(golden.bytes + WIRE_FRAME_BYTES, frame.payload_bytes, &scratch, &message, NULL), KVF_OK);
  char *description = sample_describe(kind, &message);
  assert_string_equal(description, golden.description);
  kind->encode(&buffer, &message);
  assert_int_equal(buffer.length, golden.length);
  assert_memory_equal(buffer.bytes, golden.bytes, golden.length);
  free(description);
  wire_buffer_fini(&buffer);
  sample_release(kind, &message);
  wire_scratch_reset(&scratch);
}

/* Of a fixed set of random messages the fullest that is still easy to read. */
static void build_typical(const struct sample_kind *kind) {
  uint64_t best = 0;
  size_t best_length = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct wire_buffer buffer = {0};
    sample_build(kind, &sample, seed);
    kind->encode(&buffer, &sample.message);
    sample_release(kind, &sample.message);
    if (buffer.length > best_length && buffer.length <= TYPICAL_BYTES) {
      best_length = buffer.length;
      best = seed;
    }
    wire_buffer_fini(&buffer);
  }
  sample_build(kind, &sample, best);
}

static void every_message_is_as_it_was_released(void **state) {
  for (size_t k = 0; k < sample_kind_count; k++) {
    const struct sample_kind *kind = &sample_kinds[k];
    if (kind->type == WIRE_HELLO) continue; /* has its own */
    build_typical(kind);
    update_message(kind);
    sample_release(kind, &sample.message);
    assert_is_golden(kind);
  }
}

/* C121: the hello of 0.1.0, field by field, without the help of any description. */
static void the_hello_of_the_first_release_is_understood(void **state) {
  const struct sample_kind *kind = &sample_kinds[0];
  assert_int_equal(kind->type, WIRE_HELLO);
  struct wire_hello *hello = &sample.message.message_hello;
  *hello = (struct wire_hello){.version_min = 1,
                               .version_max = 1,
                               .capabilities = 0x8000000000000003,
                               .has_secret = 1,
                               .heartbeat_ns = 200000000,
                               .label = {"prefill-0", 9},
                               .library = {"0.1.0", 5}};
  for (uint8_t i = 0; i < WIRE_INCARNATION_BYTES; i++) hello->incarnation[i] = i;
  for (uint8_t i = 0; i < WIRE_NONCE_BYTES; i++) hello->nonce[i] = 0xa0 + i;
  update_message(kind);
  assert_is_golden(kind);

  struct wire_hello old;
  struct wire_scratch scratch = {0};
  assert_int_equal(wire_hello_decode(golden.bytes + WIRE_FRAME_BYTES, golden.length - WIRE_FRAME_BYTES, &scratch, &old, NULL),
                   KVF_OK);
  assert_int_equal(old.version_min, 1);
  assert_int_equal(old.version_max, 1);
  assert_int_equal(old.capabilities, 0x8000000000000003);
  assert_int_equal(old.has_secret, 1);
  assert_int_equal(old.heartbeat_ns, 200000000);
  assert_int_equal(old.incarnation[15], 15);
  assert_int_equal(old.expected[0], 0);
  assert_int_equal(old.nonce[31], 0xbf);
  assert_int_equal(old.label.length, 9);
  assert_memory_equal(old.label.text, "prefill-0", 9);
  assert_int_equal(old.library.length, 5);
  assert_memory_equal(old.library.text, "0.1.0", 5);
}

static void ready_is_as_it_was_released(void **state) {
  struct wire_buffer buffer = {0};
  wire_ready_encode(&buffer);
  if (getenv("KVF_UPDATE_GOLDEN")) write_golden("READY", "", buffer.bytes, buffer.length);
  read_golden("READY");
  assert_int_equal(buffer.length, golden.length);
  assert_memory_equal(buffer.bytes, golden.bytes, golden.length);
  wire_buffer_fini(&buffer);
}

static void a_piece_header_is_as_it_was_released(void **state) {
  struct wire_piece piece = {.room = 0x1122334455667788,
                             .sequence = 7,
                             .attempt = 2,
                             .plan = 3,
                             .direct = 0,
                             .cut_first = 12,
                             .cut_count = 4,
                             .token_first = 4096,
                             .token_count = 256,
                             .grant = 91,
                             .grant_generation = 4,
                             .bytes = 262144,
                             .checksum = 0xdeadbeefcafef00d,
                             .opening = 77};
  uint8_t bytes[WIRE_PIECE_BYTES];
  wire_piece_encode(&piece, bytes);
  if (getenv("KVF_UPDATE_GOLDEN")) {
    write_golden("piece", "room=0x1122334455667788 sequence=7 grant=91 and more: see test_golden.c", bytes, sizeof bytes);
    write_corpus("piece", CORPUS_PIECE, bytes, sizeof bytes);
  }
  read_golden("piece");
  assert_int_equal(golden.length, sizeof bytes);
  assert_memory_equal(bytes, golden.bytes, sizeof bytes);
  struct wire_piece again;
  assert_int_equal(wire_piece_decode(golden.bytes, &again, NULL), KVF_OK);
  assert_int_equal(again.room, 0x1122334455667788);
  assert_int_equal(again.grant_generation, 4);
  assert_int_equal(again.checksum, 0xdeadbeefcafef00d);
  assert_int_equal(again.opening, 77);
}

static int free_golden(void **state) {
  free(golden.description);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_message_is_as_it_was_released),
      cmocka_unit_test(the_hello_of_the_first_release_is_understood),
      cmocka_unit_test(ready_is_as_it_was_released),
      cmocka_unit_test(a_piece_header_is_as_it_was_released),
  };
  return cmocka_run_group_tests(tests, NULL, free_golden);
}
