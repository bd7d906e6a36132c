/* The provider interface: a provider delivers pieces, not raw memory writes.
 *
 * The sending side connects an endpoint to a peer's address, imports the keys of the peer's regions and sends pieces: a header of
 * FABRIC_HEADER_BYTES and a payload. The receiving side learns of each piece by `landed`. Success is only ever the receiver's
 * acknowledgement, which travels above this interface; `sent` means no more than "the local buffers may be reused".
 *
 *   one-sided providers (shm, ucx rdma)        message providers (tcp, ucx message)
 *   sender writes payload into the target      header arrives, `place` says where the payload goes
 *   extent, then announces the header          payload arrives there
 *   `landed(header)`                           `landed(header)`
 *
 * One thread, the I/O thread, makes every call and receives every callback; callbacks come only from inside `progress`, never from
 * inside another call. A provider must not block, allocate without bound, or trust a byte that came from a peer. */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/log.h"

enum {
  FABRIC_HEADER_BYTES = 96,
  FABRIC_ADDRESS_LIMIT_BYTES = 1024,
  FABRIC_KEY_LIMIT_BYTES = 4096, /* a region in parts has a key for each */
  FABRIC_IOV_LIMIT = 512
};

enum fabric_traits {
  FABRIC_ONE_SIDED = 1,  /* payload is written at a target in an exposed region; `place` is never called */
  FABRIC_MAPPABLE = 2,   /* `map` gives a local address for a target: gather or copy straight into it, then send without iov */
  FABRIC_SAME_HOST = 4,  /* works only within one host */
  FABRIC_DEVICE = 8,     /* a real RDMA device is behind it */
  FABRIC_DIRECT = 16,    /* can deliver into pages: by `place` with several iov, or by mapping the peer's pool */
  FABRIC_MIGHT_WRITE_LATE = 32 /* a peer that is alive can still write into granted extents after its endpoint is down */
};

struct fabric;          /* one open provider */
struct fabric_region;   /* memory of ours that peers may write, exposed on one provider */
struct fabric_endpoint; /* our way to one peer */

struct fabric_target {
  uint64_t region;     /* the peer's region number */
  uint64_t generation; /* of that region's exposure */
  uint64_t offset;     /* bytes from the region's base */
  uint64_t length;
};

struct fabric_piece {
  const uint8_t *header;      /* FABRIC_HEADER_BYTES, copied */
  const struct iovec *iov;    /* the payload, borrowed until `sent`; the array itself is copied */
  size_t iov_count;           /* 0: already in place through `map`; at most FABRIC_IOV_LIMIT */
  uint64_t payload_bytes;
  struct fabric_target target; /* one-sided providers only; ignored by the others */
  bool in_place;               /* written through `map`: announce only */
  void *tag;                   /* comes back in `sent` */
};

struct fabric_callbacks {
  void *context;
  /* Receiving side, message providers: a header has come; say where its payload belongs (iov_count_inout holds the capacity).
   * Anything but OK: the payload is read and dropped, and no `landed` follows; the callee has already dealt with it. */
  kvf_status (*place)(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes, struct iovec *iov_out,
                      size_t *iov_count_inout);
  /* Receiving side: the piece is complete. @p token is the one its sender connected with. */
  void (*landed)(void *context, uint64_t token, const uint8_t *header, uint64_t payload_bytes);
  /* Receiving side: the connection that used @p token is gone; a piece that was placed and had not landed never will. */
  void (*token_lost)(void *context, uint64_t token);
  /* Sending side: exactly once for each accepted piece. error is owned by the callee; NULL means buffers reusable, not delivered. */
  void (*sent)(void *context, void *tag, kvf_error *error);
  /* Sending side: connected and ready; or a key that was asked for is there; pump again. */
  void (*endpoint_ready)(void *context, struct fabric_endpoint *endpoint);
  /* Sending side: failed; every accepted piece got its `sent` first. Only fabric_disconnect may follow. */
  void (*endpoint_down)(void *context, struct fabric_endpoint *endpoint, kvf_error *error);
};

struct fabric_options {
  const char *host;       /* local address to bind and advertise, without a port */
  const char *settings;   /* provider's own, for tests: "key=value,key=value"; may be NULL */
  uint8_t incarnation[16];
  struct base_log log;
  struct fabric_callbacks callbacks;
};

/* Memory that a provider made itself, because it can expose no other. */
struct fabric_memory {
  void *address;
  uint64_t length;
  void *handle;
};

struct fabric_exposure {
  uint64_t region;     /* number chosen by the caller */
  uint64_t generation; /* rises with each exposure of the same number */
  void *address;
  uint64_t length;
  int memory_fd; /* memfd behind the memory, or -1 */
  uint64_t memory_fd_offset;
};

struct fabric_ops {
  const char *name; /* "shm", "tcp", "ucx", "rdma" */
  uint32_t traits;
  uint64_t direct_min_row_bytes; /* smaller runs are cheaper staged */

  /* Errors: UNAVAILABLE (library or device missing), SYSTEM, NO_MEMORY, INVALID (settings). */
  kvf_status (*open)(const struct fabric_options *options, struct fabric **fabric_out, kvf_error **error_out);
  /* Everything of it: endpoints are disconnected, regions revoked. No callbacks. */
  void (*close)(struct fabric *fabric);

  /* Readable when `progress` has work. */
  int (*event_fd)(struct fabric *fabric);
  /* Do what is ready, call back; true when something was done. */
  bool (*progress)(struct fabric *fabric);
  /* About to sleep on event_fd: false when there is more to do first. NULL: always true. */
  bool (*arm)(struct fabric *fabric);

  /* NULL: any memory can be exposed. */
  kvf_status (*memory_alloc)(struct fabric *fabric, uint64_t length, struct fabric_memory *memory_out, kvf_error **error_out);
  void (*memory_free)(struct fabric *fabric, struct fabric_memory *memory);

  /* Errors: UNSUPPORTED (this memory cannot be exposed here), FABRIC, NO_MEMORY. One exposure per region number at a time. */
  kvf_status (*region_expose)(struct fabric *fabric, const struct fabric_exposure *exposure, struct fabric_region **region_out,
                              kvf_error **error_out);
  /* From its return no new write through an old key succeeds where the provider can enforce it; a write under way may still end. */
  void (*region_revoke)(struct fabric_region *region);
  /* Bytes written into key[FABRIC_KEY_LIMIT_BYTES]. */
  size_t (*region_key)(const struct fabric_region *region, uint8_t *key);

  /* Bytes written into address[FABRIC_ADDRESS_LIMIT_BYTES]: what a peer needs to connect to us. */
  size_t (*address)(const struct fabric *fabric, uint8_t *address);

  /* Receiving side: pieces from this token are welcome from now on / from now on refused and its connection dropped. */
  kvf_status (*token_admit)(struct fabric *fabric, uint64_t token, kvf_error **error_out);
  void (*token_drop)(struct fabric *fabric, uint64_t token);
  /* MIGHT_WRITE_LATE only, others have NULL: is a process connected with this token right now? token_lost follows when it is gone. */
  bool (*token_live)(struct fabric *fabric, uint64_t token);

  /* Start to connect; endpoint_ready or endpoint_down follows. @p token was chosen by the peer. Errors: UNREACHABLE (at once: another
   * host, no such device), INVALID (address bytes), NO_MEMORY. */
  kvf_status (*connect)(struct fabric *fabric, const uint8_t *address, size_t address_bytes, uint64_t token, void *user,
                        struct fabric_endpoint **endpoint_out, kvf_error **error_out);
  void *(*endpoint_user)(const struct fabric_endpoint *endpoint);
  /* Force: pieces that were accepted get their `sent` with CANCELLED at the next progress, then the endpoint is freed. No endpoint_down. */
  void (*disconnect)(struct fabric_endpoint *endpoint);

  /* One-sided only; others have NULL. A later generation replaces an earlier one of the same region. Errors: INVALID (bytes), FABRIC. */
  kvf_status (*key_import)(struct fabric_endpoint *endpoint, uint64_t region, uint64_t generation, uint64_t region_bytes,
                           const uint8_t *key, size_t key_bytes, kvf_error **error_out);
  void (*key_drop)(struct fabric_endpoint *endpoint, uint64_t region);

  /* MAPPABLE only. Valid until the endpoint is down or the key replaced. Errors: NOT_READY (endpoint_ready will follow), STALE,
   * KEY_REVOKED, NOT_REGISTERED (no key), OUT_OF_RANGE; each with the fields region, generation, expected, offset, length, region_bytes. */
  kvf_status (*map)(struct fabric_endpoint *endpoint, const struct fabric_target *target, void **address_out, kvf_error **error_out);

  /* Accept a piece. Errors as for map, plus BACKPRESSURE (queue full: retry after a `sent`), PEER_LOST, FABRIC. */
  kvf_status (*send)(struct fabric_endpoint *endpoint, const struct fabric_piece *piece, kvf_error **error_out);
};

/* Every provider begins its objects with these, so that callers need only the object. */
struct fabric {
  const struct fabric_ops *ops;
};
struct fabric_region {
  const struct fabric_ops *ops;
};
struct fabric_endpoint {
  const struct fabric_ops *ops;
};

#endif
