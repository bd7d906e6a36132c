/* Regions that a device does not register in one go: cut into parts, written across the cuts, revoked as a whole, and refused where
 * a key cannot name all parts. The emulation allocates each part as shared memory of its own, so a put under a neighbour's key
 * would miss; a stand-in for UCX shows what a device is asked to register. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "fabric_ucx/page.h"
#include "fabric_ucx/parts.h"
#include "fabric_ucx/ucx.h"
#include "ucx_side.h"
#include "ucx_stub.h"

#define MIB (1ull << 20)

static uint64_t read_seed(void) {
  const char *text = getenv("KVF_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : base_clock_ns();
  print_message("KVF_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

static void open_side(struct ucx_side *side, const char *settings) {
  assert_int_equal(ucx_side_open(side, &fabric_rdma_ops, settings, NULL), KVF_OK);
}

static struct fabric_exposure exposure_of(const struct ucx_side *side, uint64_t offset, uint64_t length) {
  return (struct fabric_exposure){.region = UCX_SIDE_REGION,
                                  .generation = side->generation,
                                  .address = (uint8_t *)side->memory.address + offset,
                                  .length = length,
                                  .memory_fd = -1};
}

/* What the key of an exposed region says. */
static struct fabric_ucx_parts parts_of(const struct fabric_region *region) {
  uint8_t key[FABRIC_KEY_LIMIT_BYTES], incarnation[16];
  size_t body_bytes;
  struct fabric_ucx_parts parts;
  size_t length = region->ops->region_key(region, key);
  const uint8_t *body = fabric_ucx_blob_open(key, length, FABRIC_UCX_BLOB_KEY, incarnation, &body_bytes);
  assert_non_null(body);
  assert_non_null(fabric_ucx_parts_decode(body, body_bytes, &parts));
  return parts;
}

/* The parts follow each other without a gap and are all of the region; none is longer than @p limit. */
static void expect_parts(const struct fabric_ucx_parts *parts, uint64_t count, uint64_t limit, uint64_t length) {
  uint64_t at = 0;
  assert_int_equal(parts->part_count, count);
  assert_int_equal(parts->length, length);
  for (uint64_t i = 0; i < count; i++) {
    assert_int_equal(fabric_ucx_parts_begin(parts, i), at);
    uint64_t end = fabric_ucx_parts_end(parts, i);
    assert_true(end > at && end - at <= limit);
    assert_int_equal(fabric_ucx_parts_find(parts, at), i);
    assert_int_equal(fabric_ucx_parts_find(parts, end - 1), i);
    at = end;
  }
  assert_int_equal(at, length);
}

static void write_all(struct ucx_side *sender, struct ucx_side *receiver, const uint8_t *payload, uint64_t length, uint64_t offset,
                      size_t vectors) {
  uint64_t landed = receiver->landed_count + 1, sent = sender->sent_count + 1;
  assert_int_equal(ucx_side_send(sender, payload, length, offset, receiver->generation, vectors, NULL), KVF_OK);
  assert_true(ucx_side_run(sender, receiver, &receiver->landed_count, landed, 5000));
  assert_true(ucx_side_run(sender, receiver, &sender->sent_count, sent, 5000));
  assert_int_equal(sender->broken_count, 0);
}

/* A region of 3.5 MiB where the limit is 1 MiB. */
enum { AREA_BYTES = 3584 << 10, WRITE_BYTES = 4096 };
static const uint64_t offsets[] = {0, MIB - 2048, MIB, 3 * MIB, AREA_BYTES - WRITE_BYTES};

static void writes_land_on_both_sides_of_every_cut(void **state) { /* C01 */
  struct ucx_side sender, receiver;
  static uint8_t payload[WRITE_BYTES], expected[AREA_BYTES];
  uint64_t seed = read_seed();
  open_side(&sender, "emulate=1");
  open_side(&receiver, "emulate=1,region_limit=1048576");
  ucx_side_expose(&receiver, AREA_BYTES);
  struct fabric_ucx_parts parts = parts_of(receiver.region);
  expect_parts(&parts, 4, MIB, AREA_BYTES);
  ucx_side_join(&sender, &receiver);
  memset(receiver.memory.address, 0x11, AREA_BYTES);
  memset(expected, 0x11, AREA_BYTES);
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    for (size_t k = 0; k < WRITE_BYTES; k++) payload[k] = (uint8_t)(base_random_next(&seed) >> 11);
    write_all(&sender, &receiver, payload, WRITE_BYTES, offsets[i], 1);
    memcpy(expected + offsets[i], payload, WRITE_BYTES);
    assert_memory_equal(receiver.memory.address, expected, AREA_BYTES);
  }
  /* All four parts at once, with vectors that end elsewhere. */
  for (size_t k = 0; k < AREA_BYTES; k++) expected[k] = (uint8_t)(base_random_next(&seed) >> 11);
  write_all(&sender, &receiver, expected, AREA_BYTES, 0, 3);
  assert_memory_equal(receiver.memory.address, expected, AREA_BYTES);
  assert_int_equal(ucx_side_send(&sender, payload, WRITE_BYTES, AREA_BYTES - WRITE_BYTES + 1, 1, 1, NULL), KVF_OUT_OF_RANGE);
  ucx_side_close(&sender);
  ucx_side_close(&receiver);
}

static void revoking_a_region_revokes_every_part(void **state) {
  struct ucx_side sender, receiver;
  static uint8_t payload[WRITE_BYTES];
  uint8_t key[FABRIC_KEY_LIMIT_BYTES];
  open_side(&sender, "emulate=1");
  open_side(&receiver, "emulate=1,region_limit=1048576");
  ucx_side_expose(&receiver, AREA_BYTES);
  ucx_side_join(&sender, &receiver);
  const struct fabric_ops *ops = receiver.fabric->ops;
  ops->region_revoke(receiver.region);
  /* Not told yet: written, but none is accepted. */
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
    assert_int_equal(ucx_side_send(&sender, payload, WRITE_BYTES, offsets[i], 1, 1, NULL), KVF_OK);
  assert_true(ucx_side_run(&sender, &receiver, &sender.sent_count, sizeof offsets / sizeof *offsets, 5000));
  ucx_side_idle(&sender, &receiver, 50);
  assert_int_equal(receiver.landed_count, 0);
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
    assert_int_equal(ucx_side_send(&sender, payload, WRITE_BYTES, offsets[i], 1, 1, NULL), KVF_KEY_REVOKED);
  /* The next generation, of all parts again. */
  ucx_side_expose(&receiver, AREA_BYTES);
  size_t length = ops->region_key(receiver.region, key);
  assert_int_equal(ops->key_import(sender.endpoint, UCX_SIDE_REGION, 2, AREA_BYTES, key, length, NULL), KVF_OK);
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) write_all(&sender, &receiver, payload, WRITE_BYTES, offsets[i], 1);
  ucx_side_close(&sender);
  ucx_side_close(&receiver);
}

/* Regions that begin and end anywhere in memory that lies in parts, and writes anywhere in them, against a plain copy. */
static void any_range_of_cut_memory_can_be_exposed(void **state) {
  enum { MEMORY_BYTES = 1 << 20, PART_BYTES = 64 << 10, ROUNDS = 12, WRITES = 25 };
  struct ucx_side sender, receiver;
  static uint8_t payload[MEMORY_BYTES], expected[MEMORY_BYTES];
  uint8_t key[FABRIC_KEY_LIMIT_BYTES];
  uint64_t seed = read_seed();
  open_side(&sender, "emulate=1");
  open_side(&receiver, "emulate=1,region_limit=65536");
  ucx_side_expose(&receiver, MEMORY_BYTES);
  ucx_side_join(&sender, &receiver);
  const struct fabric_ops *ops = receiver.fabric->ops;
  memset(receiver.memory.address, 0, MEMORY_BYTES);
  for (size_t i = 0; i < MEMORY_BYTES; i++) payload[i] = (uint8_t)(base_random_next(&seed) >> 11);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t begin = base_random_next(&seed) % MEMORY_BYTES;
    uint64_t length = 1 + base_random_next(&seed) % base_min_u64(MEMORY_BYTES - begin, round % 3 ? MEMORY_BYTES : PART_BYTES);
    ops->region_revoke(receiver.region);
    receiver.generation++;
    struct fabric_exposure exposure = exposure_of(&receiver, begin, length);
    assert_int_equal(ops->region_expose(receiver.fabric, &exposure, &receiver.region, NULL), KVF_OK);
    struct fabric_ucx_parts parts = parts_of(receiver.region);
    expect_parts(&parts, (begin + length - 1) / PART_BYTES - begin / PART_BYTES + 1, PART_BYTES, length);
    size_t key_bytes = ops->region_key(receiver.region, key);
    assert_int_equal(ops->key_import(sender.endpoint, UCX_SIDE_REGION, receiver.generation, length, key, key_bytes, NULL), KVF_OK);
    for (int i = 0; i < WRITES; i++) {
      uint64_t at = base_random_next(&seed) % length, bytes = 1 + base_random_next(&seed) % (length - at);
      uint64_t from = base_random_next(&seed) % (MEMORY_BYTES - bytes + 1);
      write_all(&sender, &receiver, payload + from, bytes, at, 1 + base_random_next(&seed) % 9);
      memcpy(expected + begin + at, payload + from, bytes);
    }
    assert_memory_equal(receiver.memory.address, expected, MEMORY_BYTES);
  }
  ucx_side_close(&sender);
  ucx_side_close(&receiver);
}

static void expect_field(const kvf_error *error, const char *name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  const char *found = kvf_error_find(error, name);
  assert_non_null(found);
  assert_string_equal(found, text);
}

static void limits_that_are_no_whole_pages(void **state) { /* C12 */
  static const struct {
    const char *settings;
    uint64_t limit;
  } rounded[] = {{"emulate=1,page=2097152,region_limit=3145728", 3 * MIB},
                 {"emulate=1,page=2097152,region_limit=2101248", 2 * MIB + 4096}};
  struct ucx_side side;
  for (size_t i = 0; i < 2; i++) {
    open_side(&side, rounded[i].settings);
    ucx_side_expose(&side, 10 * MIB);
    struct fabric_ucx_parts parts = parts_of(side.region);
    assert_int_equal(parts.part_bytes, 2 * MIB);
    expect_parts(&parts, 5, 2 * MIB, 10 * MIB);
    ucx_side_close(&side);
  }
  kvf_error *error = NULL;
  char text[512];
  open_side(&side, "emulate=1,page=2097152,region_limit=1048576");
  assert_int_equal(side.fabric->ops->memory_alloc(side.fabric, 10 * MIB, &side.memory, &error), KVF_INVALID);
  expect_field(error, "limit", MIB);
  expect_field(error, "page_bytes", 2 * MIB);
  kvf_error_format(error, text, sizeof text);
  assert_non_null(strstr(text, "1048576"));
  assert_non_null(strstr(text, "2097152"));
  kvf_error_free(error);
  ucx_side_close(&side);
}

static void a_key_that_cannot_name_all_parts(void **state) {
  struct ucx_side side;
  struct fabric_region *region = NULL;
  kvf_error *error = NULL;
  open_side(&side, "emulate=1,region_limit=65536");
  assert_int_equal(side.fabric->ops->memory_alloc(side.fabric, 8 * MIB, &side.memory, NULL), KVF_OK);
  struct fabric_exposure whole = exposure_of(&side, 0, 8 * MIB), half = exposure_of(&side, 4 * MIB, 4 * MIB);
  assert_int_equal(side.fabric->ops->region_expose(side.fabric, &whole, &region, &error), KVF_RESOURCE_LIMIT);
  assert_null(region);
  expect_field(error, "limit", FABRIC_KEY_LIMIT_BYTES);
  expect_field(error, "parts", 128);
  assert_true(strtoull(kvf_error_find(error, "need"), NULL, 10) > FABRIC_KEY_LIMIT_BYTES);
  kvf_error_free(error);
  /* The number is free again, and what fits is exposed. */
  assert_int_equal(side.fabric->ops->region_expose(side.fabric, &half, &region, NULL), KVF_OK);
  struct fabric_ucx_parts parts = parts_of(region);
  expect_parts(&parts, 64, 65536, 4 * MIB);
  ucx_side_close(&side);
  /* More than even the shortest keys would allow is not allocated. */
  open_side(&side, "emulate=1,region_limit=4096");
  assert_int_equal(side.fabric->ops->memory_alloc(side.fabric, 8 * MIB, &side.memory, &error), KVF_RESOURCE_LIMIT);
  expect_field(error, "need", 2048);
  expect_field(error, "limit", FABRIC_UCX_PART_LIMIT);
  kvf_error_free(error);
  ucx_side_close(&side);
}

static void memory_in_parts_goes_when_it_is_freed(void **state) {
  struct ucx_side side;
  struct fabric_memory memory;
  uint64_t span = 0;
  open_side(&side, "emulate=1,region_limit=65536");
  for (int round = 0; round < 3; round++) {
    assert_int_equal(side.fabric->ops->memory_alloc(side.fabric, MIB + 5, &memory, NULL), KVF_OK);
    memset(memory.address, 1, memory.length);
    span = (uint64_t)(uintptr_t)memory.address;
    side.fabric->ops->memory_free(side.fabric, &memory);
    for (uint64_t at = 0; at < MIB + 4096; at += 4096) assert_int_equal(msync((void *)(uintptr_t)(span + at), 4096, MS_ASYNC), -1);
  }
  /* Each allocation fails once: nothing stays behind, and the region's number is free. */
  kvf_status status = KVF_NO_MEMORY;
  struct fabric_region *region = NULL;
  for (uint64_t n = 1; status; n++) {
    assert_true(n < 20);
    base_alloc_fail_after(n);
    status = side.fabric->ops->memory_alloc(side.fabric, MIB, &side.memory, NULL);
    struct fabric_exposure exposure = exposure_of(&side, 0, MIB);
    if (!status) status = side.fabric->ops->region_expose(side.fabric, &exposure, &region, NULL);
    base_alloc_fail_after(0);
    assert_true(status == KVF_OK || status == KVF_NO_MEMORY);
    if (status) side.fabric->ops->memory_free(side.fabric, &side.memory);
  }
  ucx_side_close(&side);
}

/* A body with three parts of packed keys of 5, 1 and 9 bytes. */
static size_t make_body(uint8_t *body) {
  static const uint16_t lengths[] = {5, 1, 9};
  struct fabric_ucx_parts parts = {.region = 1, .generation = 2, .base_address = 0x10000, .length = 200};
  fabric_ucx_parts_cut(&parts, 96, 32);
  memcpy(body, &parts, sizeof parts);
  memcpy(body + sizeof parts, lengths, sizeof lengths);
  memset(body + sizeof parts + sizeof lengths, 7, 15);
  return sizeof parts + sizeof lengths + 15;
}

static void expect_refused(size_t field_at, uint64_t value) {
  uint8_t body[256];
  struct fabric_ucx_parts parts;
  size_t length = make_body(body);
  memcpy(body + field_at, &value, sizeof value);
  assert_null(fabric_ucx_parts_decode(body, length, &parts));
}

static void bodies_that_do_not_fit_together(void **state) {
  uint8_t body[256];
  struct fabric_ucx_parts parts;
  size_t length = make_body(body);
  assert_non_null(fabric_ucx_parts_decode(body, length, &parts));
  expect_parts(&parts, 3, 96, 200);
  assert_int_equal(fabric_ucx_parts_end(&parts, 0), 64);
  for (size_t shorter = 0; shorter < length; shorter++) assert_null(fabric_ucx_parts_decode(body, shorter, &parts));
  assert_null(fabric_ucx_parts_decode(body, length + 1, &parts));
  static const uint64_t wrong[] = {0, 2, 4, 1ull << 32, 1ull << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    expect_refused(offsetof(struct fabric_ucx_parts, part_count), wrong[i]);
    expect_refused(offsetof(struct fabric_ucx_parts, part_bytes), wrong[i]);
    expect_refused(offsetof(struct fabric_ucx_parts, length), wrong[i]);
    if (wrong[i] > 96) expect_refused(offsetof(struct fabric_ucx_parts, lead_bytes), wrong[i]);
  }
  expect_refused(offsetof(struct fabric_ucx_parts, base_address), 0);
  expect_refused(offsetof(struct fabric_ucx_parts, base_address), UINT64_MAX - 100);
  /* Lengths of packed keys: none, too long, and another sum. */
  static const uint16_t lengths[] = {0, 6, 4, 15, 65535};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    make_body(body);
    memcpy(body + sizeof parts, &lengths[i], sizeof lengths[i]);
    assert_null(fabric_ucx_parts_decode(body, length, &parts));
  }
}

static void pages_are_asked_of_the_kernel(void **state) {
  uint64_t usual = (uint64_t)sysconf(_SC_PAGESIZE);
  static uint8_t area[1 << 16];
  assert_int_equal(fabric_ucx_page_bytes(area, sizeof area), usual);
  assert_int_equal(fabric_ucx_page_bytes(NULL, UINT64_MAX), usual);
  assert_int_equal(fabric_ucx_page_bytes((void *)4096, 1), usual);
  void *huge = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26, -1, 0);
  if (huge == MAP_FAILED) {
    print_message("no huge pages here\n");
    return;
  }
  assert_int_equal(fabric_ucx_page_bytes(huge, 1), 2 * MIB);
  assert_int_equal(fabric_ucx_page_bytes((uint8_t *)huge + MIB, 10), 2 * MIB);
  munmap(huge, 2 * MIB);
}

/* The stand-in lies in the folder of its source below this program. */
static struct ucx_stub_journal *open_stub(struct ucx_side *side, const char *more) {
  char program[PATH_MAX] = {0}, library[PATH_MAX + 32], settings[PATH_MAX + 128];
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  snprintf(library, sizeof library, "%s/fabric/libucx_stub.so", dirname(program));
  snprintf(settings, sizeof settings, "devices=/proc/self,library=%s%s", library, more);
  open_side(side, settings);
  void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(handle);
  struct ucx_stub_journal *journal = dlsym(handle, "ucx_stub_journal");
  assert_non_null(journal);
  memset(journal, 0, sizeof *journal);
  dlclose(handle);
  return journal;
}

/* Any memory can be exposed on a device; its cuts lie on page boundaries, and each part is registered on its own. */
static void a_device_registers_part_by_part(void **state) {
  struct ucx_side side;
  static uint8_t area[8 * MIB];
  struct ucx_stub_journal *journal = open_stub(&side, ",page=65536,region_limit=1100000");
  uint8_t *base = (uint8_t *)(((uintptr_t)area + 65535) / 65536 * 65536 + 5000);
  side.memory.address = base;
  struct fabric_exposure exposure = exposure_of(&side, 0, AREA_BYTES);
  assert_int_equal(side.fabric->ops->region_expose(side.fabric, &exposure, &side.region, NULL), KVF_OK);
  struct fabric_ucx_parts parts = parts_of(side.region);
  assert_int_equal(parts.part_bytes, MIB);
  expect_parts(&parts, 4, MIB, AREA_BYTES);
  assert_int_equal(journal->live_count, 4);
  for (uint64_t i = 0; i < 4; i++) {
    assert_ptr_equal(journal->mapped[i].address, base + fabric_ucx_parts_begin(&parts, i));
    assert_int_equal(journal->mapped[i].length, fabric_ucx_parts_end(&parts, i) - fabric_ucx_parts_begin(&parts, i));
    if (i) assert_int_equal((uintptr_t)journal->mapped[i].address % 65536, 0);
  }
  side.fabric->ops->region_revoke(side.region);
  assert_int_equal(journal->live_count, 0);
  /* A region within the limit is one part, wherever it lies. */
  exposure.length = 1100000;
  assert_int_equal(side.fabric->ops->region_expose(side.fabric, &exposure, &side.region, NULL), KVF_OK);
  assert_int_equal(parts_of(side.region).part_count, 1);
  side.memory.address = NULL;
  ucx_side_close(&side);
  assert_int_equal(journal->live_count, 0);
}

static void a_registration_that_fails_leaves_none_behind(void **state) {
  struct ucx_side side;
  static uint8_t area[4 * MIB];
  struct ucx_stub_journal *journal = open_stub(&side, ",region_limit=1048576");
  side.memory.address = area;
  struct fabric_exposure exposure = exposure_of(&side, 0, sizeof area);
  kvf_status status = KVF_FABRIC;
  uint64_t n = 1;
  for (; status; n++) {
    kvf_error *error = NULL;
    assert_true(n < 8);
    journal->map_count = 0;
    journal->fail_at = n;
    status = side.fabric->ops->region_expose(side.fabric, &exposure, &side.region, &error);
    assert_true(status == KVF_OK || status == KVF_FABRIC);
    if (status) assert_non_null(kvf_error_find(error, "length"));
    if (status) assert_int_equal(journal->live_count, 0);
    kvf_error_free(error);
  }
  assert_true(n >= 6);
  /* Too many parts are noticed at the first, not after all have been registered. */
  journal->packed_bytes = 2000;
  journal->map_count = journal->fail_at = 0;
  exposure.region++;
  struct fabric_region *region = NULL;
  kvf_error *error = NULL;
  assert_int_equal(side.fabric->ops->region_expose(side.fabric, &exposure, &region, &error), KVF_RESOURCE_LIMIT);
  assert_int_equal(journal->map_count, 1);
  kvf_error_free(error);
  side.memory.address = NULL;
  ucx_side_close(&side);
  assert_int_equal(journal->live_count, 0);
}

int main(void) {
  struct ucx_side probe;
  if (ucx_side_open(&probe, &fabric_rdma_ops, "emulate=1", NULL) == KVF_UNAVAILABLE) {
    puts("UCX is not installed here");
    return 77;
  }
  ucx_side_close(&probe);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_land_on_both_sides_of_every_cut), cmocka_unit_test(revoking_a_region_revokes_every_part),
      cmocka_unit_test(any_range_of_cut_memory_can_be_exposed), cmocka_unit_test(limits_that_are_no_whole_pages),
      cmocka_unit_test(a_key_that_cannot_name_all_parts),       cmocka_unit_test(memory_in_parts_goes_when_it_is_freed),
      cmocka_unit_test(bodies_that_do_not_fit_together),        cmocka_unit_test(pages_are_asked_of_the_kernel),
      cmocka_unit_test(a_device_registers_part_by_part),        cmocka_unit_test(a_registration_that_fails_leaves_none_behind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
