/* The room's own structures. A connection is a SOCK_SEQPACKET unix socket in the abstract namespace, from the writer (`endpoint`)
 * to the owner of the memory (`receiver`); what it carries are descriptors and wake-ups, never payload:
 *
 *   HELLO    writer → receiver   token, incarnation expected
 *   WELCOME  receiver → writer   answer, incarnation; descriptors: ring, control page
 *   REGION   receiver → writer   one exposure; descriptor: its memfd
 *   WAKE     both                look at the ring
 *
 * The ring belongs to the receiver, one per connection: the writer puts headers in, the receiver takes them out. Either side may be
 * hostile, so each keeps its own index and only checks the other's. The control page has a word per exposure, the nonce of the key
 * that opens it or 0, and only the owner can write it.
 *
 * A socket that has ended proves that its writer can no longer write: it unmaps before it closes, and the kernel tears the memory
 * of a dying process down before its descriptors. */
#ifndef FABRIC_SHM_INSIDE_H
#define FABRIC_SHM_INSIDE_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "fabric_shm/shm.h"

enum {
  SHM_RING_ENTRIES = 256,   /* a power of two */
  SHM_QUEUE_LIMIT = 256,    /* accepted pieces of one endpoint; a power of two */
  SHM_REGION_LIMIT = 32768, /* exposures at a time; and regions of one peer */
  SHM_STRANGER_LIMIT = 64,
  SHM_BUDGET_PIECES = 64, /* taken from one ring in one turn */
  SHM_BUDGET_MESSAGES = 64,
  SHM_NAME_BYTES = 40,
  SHM_MESSAGE_FDS = 2
};

#define SHM_CONNECT_NS 5000000000ull
#define SHM_MAGIC 0x53564b31u

enum shm_kind { SHM_HELLO = 1, SHM_WELCOME, SHM_REGION, SHM_WAKE };
enum shm_answer { SHM_ANSWER_WELCOME = 0, SHM_ANSWER_UNKNOWN_TOKEN, SHM_ANSWER_WRONG_INCARNATION, SHM_ANSWER_BUSY };

/* One form for all kinds; both ends run on one host. */
struct shm_message {
  uint32_t magic, kind;
  uint32_t answer, slot;
  uint64_t token;
  uint64_t region, generation, nonce, offset, length;
  uint8_t incarnation[16];
};

struct shm_entry {
  uint8_t header[FABRIC_HEADER_BYTES];
  uint64_t payload_bytes;
  uint64_t unused[3];
};

struct shm_ring {
  _Alignas(64) _Atomic uint64_t published; /* by the writer */
  _Alignas(64) _Atomic uint64_t taken;     /* by the receiver */
  _Alignas(64) _Atomic uint32_t receiver_sleeps;
  _Atomic uint32_t writer_waits;
  _Alignas(64) struct shm_entry entries[SHM_RING_ENTRIES];
};

struct shm_control {
  _Atomic uint64_t nonces[SHM_REGION_LIMIT];
};

struct shm_address {
  uint32_t magic, zero;
  char boot_id[40];
  uint64_t namespace_device, namespace_inode; /* abstract names are per network namespace */
  uint8_t incarnation[16];
  char name[SHM_NAME_BYTES]; /* ended by a NUL */
};

struct shm_key {
  uint32_t magic, slot;
  uint64_t nonce;
  uint64_t check; /* over these, the region and the generation */
};

/* What epoll's pointer points to. */
enum shm_watch { SHM_WATCH_LISTENER, SHM_WATCH_TIMER, SHM_WATCH_ENDPOINT, SHM_WATCH_RECEIVER };

struct shm_fabric {
  struct fabric base;
  struct fabric_callbacks callbacks;
  struct base_log log;
  enum shm_watch listener_watch, timer_watch;
  int epoll_fd, listen_fd, timer_fd;
  bool ticking;
  bool listener_paused; /* out of descriptors: accept again at the next tick */
  struct shm_address address;

  struct shm_control *control;
  int control_fd;
  uint32_t slot_hint;       /* where the search for a free slot begins */
  uint64_t exposure_count;  /* ever; orders the regions */
  struct base_list regions; /* by sequence */
  struct base_map regions_by_number;

  struct base_list endpoints, due_endpoints;
  struct base_map tokens;
  struct base_list strangers, receivers, busy_receivers, dead_receivers;
  uint32_t stranger_count;
};

struct shm_region {
  struct fabric_region base;
  struct shm_fabric *fabric;
  struct base_list node;
  uint64_t sequence;
  uint64_t number, generation, nonce, offset, length;
  uint32_t slot;
  int fd; /* borrowed */
};

struct shm_token {
  uint64_t token;
  struct shm_receiver *receiver; /* or NULL */
};

struct shm_receiver {
  enum shm_watch watch;
  struct shm_fabric *fabric;
  struct base_list node, busy_node;
  int fd;                  /* -1: dead */
  struct shm_token *token; /* NULL: a stranger */
  uint64_t deadline_ns;
  struct shm_ring *ring;
  uint64_t taken;     /* ours; what the ring says is for the writer */
  uint64_t announced; /* sequence of the last region that was told */
  bool blocked;       /* the socket takes no more: epoll tells */
  bool retry;         /* the kernel is short of something: the next tick tries again */
};

/* A peer's memory in our address space. */
struct shm_mapping {
  void *base; /* NULL: none */
  uint64_t base_bytes;
  uint8_t *address;
  uint64_t length;
  uint64_t generation, nonce;
  bool pinned; /* within reach of the GPU that this process uses */
};

/* What an endpoint knows of one region of its peer. Keys and descriptors come on different ways, in either order. */
struct shm_remote {
  uint64_t number;
  bool imported;
  uint64_t generation, nonce, region_bytes; /* of the key */
  uint32_t slot;
  struct shm_mapping current; /* of the key's exposure; callers may be writing to it */
  struct shm_mapping offered; /* came ahead of its key */
};

struct shm_piece {
  uint8_t header[FABRIC_HEADER_BYTES];
  uint64_t payload_bytes;
  void *tag;
};

enum shm_state { SHM_GREETED, SHM_READY, SHM_FAILED, SHM_DOWN, SHM_GONE };

struct shm_endpoint {
  struct fabric_endpoint base;
  enum shm_watch watch;
  struct shm_fabric *fabric;
  void *user;
  struct base_list node, due_node;
  enum shm_state state;
  int fd;
  uint64_t deadline_ns;
  uint8_t incarnation[16];
  kvf_error *error;
  struct shm_ring *ring;
  const struct shm_control *control;
  struct base_map remotes;
  /* Free-running: pieces [told, published) wait for their `sent`, [published, queued) for room in the ring. */
  uint64_t told, published, queued;
  struct shm_piece pieces[SHM_QUEUE_LIMIT];
};

/* message.c */
enum shm_receipt { SHM_RECEIPT_NONE, SHM_RECEIPT_MESSAGE, SHM_RECEIPT_ENDED, SHM_RECEIPT_MALFORMED };
/* 0, or the errno; never blocks. */
int shm_message_send(int fd, const struct shm_message *message, const int *fds, size_t fd_count);
/* One message; descriptors that came with it are the caller's. ENDED leaves errno, 0 for a plain end. */
enum shm_receipt shm_message_receive(int fd, struct shm_message *message_out, int fds_out[SHM_MESSAGE_FDS], size_t *fd_count_out);

/* address.c */
kvf_status shm_address_make(const uint8_t incarnation[16], struct shm_address *address_out, kvf_error **error_out);
/* Errors: INVALID, UNREACHABLE (another host or network namespace than @p own). */
kvf_status shm_address_decode(const uint8_t *bytes, size_t length, const struct shm_address *own, struct shm_address *address_out,
                              kvf_error **error_out);
/* A socket bound to (true) or connected to the address's name; -1 with errno. */
int shm_address_socket(const struct shm_address *address, bool listens);

/* shm.c */
bool shm_fabric_watch(struct shm_fabric *fabric, int fd, uint32_t events, enum shm_watch *watch);
void shm_fabric_rewatch(struct shm_fabric *fabric, int fd, uint32_t events, enum shm_watch *watch);
void shm_fabric_tick(struct shm_fabric *fabric, bool ticking);

/* region.c */
kvf_status shm_region_control_open(struct shm_fabric *fabric, kvf_error **error_out);
kvf_status shm_region_expose(struct fabric *fabric, const struct fabric_exposure *exposure, struct fabric_region **region_out,
                             kvf_error **error_out);
void shm_region_revoke(struct fabric_region *region);
size_t shm_region_key(const struct fabric_region *region, uint8_t *key);
/* False when the bytes are no key of this region and generation. */
bool shm_region_key_decode(const uint8_t *bytes, size_t length, uint64_t region, uint64_t generation, struct shm_key *key_out);

/* receiver.c */
void shm_receiver_accept(struct shm_fabric *fabric);
void shm_receiver_event(struct shm_receiver *receiver, uint32_t events);
void shm_receiver_drain(struct shm_receiver *receiver);
/* Tell it of regions that it does not know yet. */
void shm_receiver_announce(struct shm_receiver *receiver);
void shm_receiver_close(struct shm_receiver *receiver);
/* True when it waits for another tick. */
bool shm_receiver_tick(struct shm_fabric *fabric, uint64_t now_ns);
void shm_receiver_bury(struct shm_fabric *fabric);

/* remote.c */
kvf_status shm_remote_import(struct fabric_endpoint *endpoint, uint64_t region, uint64_t generation, uint64_t region_bytes,
                             const uint8_t *key, size_t key_bytes, kvf_error **error_out);
void shm_remote_drop(struct fabric_endpoint *endpoint, uint64_t region);
/* Map what the peer exposed; takes @p fd over. An error means that the peer misbehaves. *ready_out: a key was waiting for it. */
kvf_error *shm_remote_offer(struct shm_endpoint *endpoint, const struct shm_message *message, int fd, bool *ready_out);
kvf_status shm_remote_map(struct fabric_endpoint *endpoint, const struct fabric_target *target, void **address_out,
                          kvf_error **error_out);
void shm_remote_free_all(struct shm_endpoint *endpoint);

/* endpoint.c */
kvf_status shm_endpoint_connect(struct fabric *fabric, const uint8_t *address, size_t address_bytes, uint64_t token, void *user,
                                struct fabric_endpoint **endpoint_out, kvf_error **error_out);
void *shm_endpoint_user(const struct fabric_endpoint *endpoint);
void shm_endpoint_disconnect(struct fabric_endpoint *endpoint);
kvf_status shm_endpoint_send(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out);
void shm_endpoint_event(struct shm_endpoint *endpoint);
bool shm_endpoint_tick(struct shm_endpoint *endpoint, uint64_t now_ns);
void shm_endpoint_turn(struct shm_endpoint *endpoint);
void shm_endpoint_free(struct shm_endpoint *endpoint);

#endif
