/* shm alone: hosts told apart, hostile writers and hostile owners of memory, exposures in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "conformance_sender.h"
#include "fabric_shm/inside.h"
#include "memory/shared.h"

enum { TOKEN = 99 };

static struct peer peer;
static struct sender sender;
static struct sender_way way;
static uint8_t buffer[65536];

static int set_up(void **state) {
  peer_start(&peer, &fabric_shm_ops, NULL, TOKEN);
  sender_open(&sender, &fabric_shm_ops, NULL);
  way = (struct sender_way){0};
  return 0;
}

static int tear_down(void **state) {
  sender_close(&sender);
  return peer_stop(&peer);
}

static struct shm_address address_of(struct peer *of) {
  struct peer_reply reply;
  struct shm_address address;
  peer_ask(of, PEER_ADDRESS, 0, &reply);
  assert_int_equal(reply.byte_count, sizeof address);
  memcpy(&address, reply.bytes, sizeof address);
  return address;
}

static kvf_status connect_to(const struct shm_address *address, kvf_error **error_out) {
  way = (struct sender_way){.sender = &sender, .generation = 1, .sequence = 1};
  return fabric_shm_ops.connect(sender.fabric, (const uint8_t *)address, sizeof *address, TOKEN, &way, &way.endpoint, error_out);
}

static void test_other_hosts_are_unreachable_at_once(void **state) {
  struct shm_address address = address_of(&peer);
  address.boot_id[3] ^= 1;
  kvf_error *error = NULL;
  assert_int_equal(connect_to(&address, &error), KVF_UNREACHABLE);
  assert_string_equal(kvf_error_message(error), "the peer runs on another host");
  kvf_error_free(error);
  address.boot_id[3] ^= 1;
  address.namespace_inode++;
  assert_int_equal(connect_to(&address, NULL), KVF_UNREACHABLE);
  address.namespace_inode--;
  address.name[6] ^= 1; /* nobody listens there */
  assert_int_equal(connect_to(&address, NULL), KVF_UNREACHABLE);
  memset(address.name, 'x', sizeof address.name);
  assert_int_equal(connect_to(&address, NULL), KVF_INVALID);
}

static void expect_down(kvf_status status) {
  assert_true(sender_run(&sender, &way.down, 1, 5000));
  assert_int_equal(way.down_status, status);
  fabric_shm_ops.disconnect(way.endpoint);
}

static void test_another_incarnation_is_refused(void **state) {
  struct shm_address address = address_of(&peer);
  address.incarnation[0] ^= 1;
  assert_int_equal(connect_to(&address, NULL), KVF_OK);
  expect_down(KVF_WRONG_PEER);
}

static void test_only_sealed_memory_is_exposed(void **state) {
  struct fabric_region *region;
  struct fabric_exposure exposure = {.region = 1, .generation = 1, .address = buffer, .length = sizeof buffer, .memory_fd = -1};
  assert_int_equal(fabric_shm_ops.region_expose(sender.fabric, &exposure, &region, NULL), KVF_UNSUPPORTED);
  exposure.memory_fd = memfd_create("plain", MFD_CLOEXEC);
  assert_int_equal(ftruncate(exposure.memory_fd, 1 << 20), 0);
  assert_int_equal(fabric_shm_ops.region_expose(sender.fabric, &exposure, &region, NULL), KVF_UNSUPPORTED);
  close(exposure.memory_fd);
  void *memory;
  assert_int_equal(memory_shared_alloc(sizeof buffer, &memory, NULL), KVF_OK);
  memory_shared_find(memory, 1, &exposure.memory_fd, &exposure.memory_fd_offset);
  assert_int_equal(fabric_shm_ops.region_expose(sender.fabric, &exposure, &region, NULL), KVF_OK);
  struct fabric_region *second;
  assert_int_equal(fabric_shm_ops.region_expose(sender.fabric, &exposure, &second, NULL), KVF_INVALID);
  exposure.region = 2;
  exposure.memory_fd_offset = 1;
  assert_int_equal(fabric_shm_ops.region_expose(sender.fabric, &exposure, &second, NULL), KVF_UNSUPPORTED);
  exposure.memory_fd_offset = UINT64_MAX;
  assert_int_equal(fabric_shm_ops.region_expose(sender.fabric, &exposure, &second, NULL), KVF_INVALID);
  fabric_shm_ops.region_revoke(region);
  memory_shared_free(memory);
}

/* ---- a hostile writer ---- */

static bool is_closed(int fd, int milliseconds) {
  uint64_t deadline_ns = base_clock_ns() + (uint64_t)milliseconds * BASE_NS_PER_MS;
  while (base_clock_ns() < deadline_ns) {
    char bytes[256];
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (poll(&polled, 1, 20) <= 0) continue;
    ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

static void expect_works(uint64_t landed) {
  sender_connect(&sender, &way, &peer);
  sender_send(&way, buffer, sizeof buffer, 0);
  sender_settle(&sender);
  uint64_t deadline_ns = base_clock_ns() + 10 * BASE_NS_PER_S;
  while (peer_state_of(&peer).landed < landed && base_clock_ns() < deadline_ns) sender_idle(&sender, 1);
  assert_int_equal(peer_state_of(&peer).landed, landed);
  assert_int_equal(peer_state_of(&peer).bad, 0);
}

static void test_garbage_is_shown_the_door(void **state) {
  struct shm_address address = address_of(&peer);
  uint64_t random = 3;
  for (int round = 0; round < 100; round++) {
    uint8_t garbage[2 * sizeof(struct shm_message)];
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (uint8_t)base_random_next(&random);
    if (round % 2) memcpy(garbage, &(uint32_t){SHM_MAGIC}, 4);
    int fd = shm_address_socket(&address, false);
    assert_true(fd >= 0);
    send(fd, garbage, round % 3 ? sizeof(struct shm_message) : 1 + (size_t)round, MSG_NOSIGNAL);
    assert_true(is_closed(fd, 2000));
    close(fd);
  }
  expect_works(1);
}

static void test_unwanted_descriptors_are_closed(void **state) {
  struct shm_address address = address_of(&peer);
  struct shm_message message = {.magic = SHM_MAGIC, .kind = SHM_HELLO, .token = TOKEN};
  memcpy(message.incarnation, address.incarnation, 16);
  int fd = shm_address_socket(&address, false);
  assert_int_equal(shm_message_send(fd, &message, (int[]){0, 1}, 2), 0);
  assert_true(is_closed(fd, 2000));
  close(fd);
  /* The receiving process counts its descriptors at the end. */
  expect_works(1);
}

/* Admitted like a good writer; the ring mapped. */
static int greet(struct shm_ring **ring_out, int *control_fd_out) {
  struct shm_address address = address_of(&peer);
  struct shm_message message = {.magic = SHM_MAGIC, .kind = SHM_HELLO, .token = TOKEN};
  memcpy(message.incarnation, address.incarnation, 16);
  int fd = shm_address_socket(&address, false), fds[SHM_MESSAGE_FDS];
  size_t fd_count = 0;
  assert_int_equal(shm_message_send(fd, &message, NULL, 0), 0);
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&polled, 1, 5000), 1);
  assert_int_equal(shm_message_receive(fd, &message, fds, &fd_count), SHM_RECEIPT_MESSAGE);
  assert_int_equal(fd_count, 2);
  *ring_out = mmap(NULL, sizeof **ring_out, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
  assert_ptr_not_equal(*ring_out, MAP_FAILED);
  assert_int_equal(ftruncate(fds[0], 0), -1);
  close(fds[0]);
  *control_fd_out = fds[1];
  return fd;
}

static void test_impossible_indexes_end_the_connection(void **state) {
  const uint64_t wrong[] = {SHM_RING_ENTRIES + 1, UINT64_MAX, 1ull << 40};
  const struct shm_message wake = {.magic = SHM_MAGIC, .kind = SHM_WAKE};
  for (size_t i = 0; i < 3; i++) {
    struct shm_ring *ring;
    int control_fd, fd = greet(&ring, &control_fd);
    atomic_store(&ring->published, wrong[i]);
    shm_message_send(fd, &wake, NULL, 0);
    assert_true(is_closed(fd, 2000));
    munmap(ring, sizeof *ring);
    close(control_fd);
    close(fd);
    assert_int_equal(peer_state_of(&peer).lost, i + 1);
    assert_int_equal(peer_state_of(&peer).landed, 0);
  }
  expect_works(1);
}

static void test_writers_cannot_write_the_control_page(void **state) {
  struct shm_ring *ring;
  int control_fd, fd = greet(&ring, &control_fd);
  void *writable = mmap(NULL, sizeof(struct shm_control), PROT_READ | PROT_WRITE, MAP_SHARED, control_fd, 0);
  assert_ptr_equal(writable, MAP_FAILED);
  uint64_t word = 1;
  assert_int_equal(pwrite(control_fd, &word, sizeof word, 0), -1);
  munmap(ring, sizeof *ring);
  close(control_fd);
  close(fd);
}

/* While a first writer could still write, a second is not let in. */
static void test_a_second_writer_waits_for_the_first(void **state) {
  struct shm_ring *ring;
  int control_fd, fd = greet(&ring, &control_fd);
  struct shm_address address = address_of(&peer);
  assert_int_equal(connect_to(&address, NULL), KVF_OK);
  expect_down(KVF_UNREACHABLE);
  munmap(ring, sizeof *ring);
  close(control_fd);
  close(fd);
  expect_works(1);
  assert_int_equal(peer_state_of(&peer).lost, 1);
}

/* ---- a hostile owner ---- */

struct owner {
  struct shm_address address;
  int listen_fd, fd;
  struct shm_ring *ring;
};

static void owner_open(struct owner *owner) {
  uint8_t incarnation[16] = {9};
  assert_int_equal(shm_address_make(incarnation, &owner->address, NULL), KVF_OK);
  owner->listen_fd = shm_address_socket(&owner->address, true);
  assert_true(owner->listen_fd >= 0);
  assert_int_equal(connect_to(&owner->address, NULL), KVF_OK);
  owner->fd = accept(owner->listen_fd, NULL, NULL);
  assert_true(owner->fd >= 0);
}

static void owner_welcome(struct owner *owner) {
  uint64_t offset;
  void *control;
  int fds[2];
  struct shm_message message = {.magic = SHM_MAGIC, .kind = SHM_WELCOME};
  memcpy(message.incarnation, owner->address.incarnation, 16);
  assert_int_equal(memory_shared_alloc(sizeof *owner->ring, (void **)&owner->ring, NULL), KVF_OK);
  assert_int_equal(memory_shared_alloc(sizeof(struct shm_control), &control, NULL), KVF_OK);
  memory_shared_find(owner->ring, 1, &fds[0], &offset);
  memory_shared_find(control, 1, &fds[1], &offset);
  atomic_store(&((struct shm_control *)control)->nonces[0], 77);
  assert_int_equal(shm_message_send(owner->fd, &message, fds, 2), 0);
  memory_shared_free(control);
  assert_true(sender_run(&sender, &way.ready, 1, 5000));
}

static void owner_close(struct owner *owner) {
  memory_shared_free(owner->ring);
  close(owner->fd);
  close(owner->listen_fd);
}

static void test_wrong_welcomes(void **state) {
  for (int wrong = 0; wrong < 4; wrong++) {
    struct owner owner = {0};
    struct shm_message message = {.magic = SHM_MAGIC, .kind = SHM_WELCOME, .answer = wrong == 3 ? 1000 : 0};
    int plain[2] = {memfd_create("a", 0), memfd_create("b", 0)};
    assert_int_equal(ftruncate(plain[0], 1 << 20) | ftruncate(plain[1], 1 << 20), 0);
    owner_open(&owner);
    memcpy(message.incarnation, owner.address.incarnation, 16);
    if (wrong == 2) message.kind = SHM_REGION;
    assert_int_equal(shm_message_send(owner.fd, &message, plain, wrong == 0 ? 0 : 2), 0);
    expect_down(KVF_PROTOCOL);
    sender_idle(&sender, 1);
    close(plain[0]);
    close(plain[1]);
    owner_close(&owner);
  }
}

static void test_unsealed_regions_end_the_connection(void **state) {
  struct owner owner = {0};
  owner_open(&owner);
  owner_welcome(&owner);
  int plain = memfd_create("plain", MFD_CLOEXEC);
  assert_int_equal(ftruncate(plain, 1 << 20), 0);
  const struct shm_message message = {
      .magic = SHM_MAGIC, .kind = SHM_REGION, .region = 5, .generation = 1, .nonce = 77, .length = 4096};
  assert_int_equal(shm_message_send(owner.fd, &message, &plain, 1), 0);
  expect_down(KVF_PROTOCOL);
  close(plain);
  owner_close(&owner);
}

/* The key is there first, then the memory: map says NOT_READY until endpoint_ready is told again. */
static void test_key_before_memory(void **state) {
  struct owner owner = {0};
  void *memory, *address = NULL;
  int fd;
  uint64_t offset;
  owner_open(&owner);
  owner_welcome(&owner);
  assert_int_equal(memory_shared_alloc(16384, &memory, NULL), KVF_OK);
  memory_shared_find(memory, 1, &fd, &offset);
  uint8_t key[FABRIC_KEY_LIMIT_BYTES];
  const struct shm_region region = {.number = 5, .generation = 3, .nonce = 77};
  size_t key_bytes = shm_region_key(&region.base, key);
  assert_int_equal(fabric_shm_ops.key_import(way.endpoint, 5, 3, 10000, key, key_bytes, NULL), KVF_OK);
  const struct fabric_target target = {.region = 5, .generation = 3, .offset = 100, .length = 200};
  assert_int_equal(fabric_shm_ops.map(way.endpoint, &target, &address, NULL), KVF_NOT_READY);
  const struct shm_message message = {
      .magic = SHM_MAGIC, .kind = SHM_REGION, .region = 5, .generation = 3, .nonce = 77, .offset = 5000, .length = 10000};
  assert_int_equal(shm_message_send(owner.fd, &message, &fd, 1), 0);
  assert_true(sender_run(&sender, &way.ready, 2, 5000));
  assert_int_equal(fabric_shm_ops.map(way.endpoint, &target, &address, NULL), KVF_OK);
  memcpy(address, "here", 4);
  assert_memory_equal((char *)memory + 5100, "here", 4);
  /* What a key claims beyond the memory that was passed is refused. */
  assert_int_equal(fabric_shm_ops.key_import(way.endpoint, 5, 3, UINT64_MAX, key, key_bytes, NULL), KVF_OK);
  const struct fabric_target beyond = {.region = 5, .generation = 3, .offset = 9999, .length = 2};
  assert_int_equal(fabric_shm_ops.map(way.endpoint, &beyond, &address, NULL), KVF_OUT_OF_RANGE);
  atomic_store(&owner.ring->taken, 1000);
  const struct iovec iov = {buffer, 100};
  struct peer_header header = {0};
  const struct fabric_piece piece = {
      .header = (const uint8_t *)&header, .iov = &iov, .iov_count = 1, .payload_bytes = 100, .target = target};
  sender.way_of[0] = &way;
  assert_int_equal(fabric_shm_ops.send(way.endpoint, &piece, NULL), KVF_OK);
  expect_down(KVF_PROTOCOL); /* an index that the ring cannot have */
  assert_int_equal(sender.failed, 1);
  owner_close(&owner);
  memory_shared_free(memory);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(other_hosts_are_unreachable_at_once),
      CASE(another_incarnation_is_refused),
      CASE(only_sealed_memory_is_exposed),
      CASE(garbage_is_shown_the_door),
      CASE(unwanted_descriptors_are_closed),
      CASE(impossible_indexes_end_the_connection),
      CASE(writers_cannot_write_the_control_page),
      CASE(a_second_writer_waits_for_the_first),
      CASE(wrong_welcomes),
      CASE(unsealed_regions_end_the_connection),
      CASE(key_before_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
