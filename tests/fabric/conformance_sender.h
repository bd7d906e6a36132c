/* The sending side in this process: an open provider whose callbacks keep count, and loops that sleep on its event fd. */
#ifndef TESTS_FABRIC_CONFORMANCE_SENDER_H
#define TESTS_FABRIC_CONFORMANCE_SENDER_H

#include "conformance_peer.h"

enum { SENDER_TAGS = 20000, SENDER_WAIT_MS = 20000 };

struct sender;

/* One way to one peer. */
struct sender_way {
  struct sender *sender;
  struct fabric_endpoint *endpoint;
  uint64_t ready, down;
  kvf_status down_status;
  bool disconnect_on_down, disconnect_on_sent;
  uint64_t generation, sequence;
};

struct sender {
  const struct fabric_ops *ops;
  struct fabric *fabric;
  bool closed; /* from here on a callback is an error */
  uint64_t accepted, sent, sent_ok, cancelled, failed, wakeups;
  kvf_status failed_status;
  uint8_t told[SENDER_TAGS]; /* `sent` per piece */
  struct sender_way *way_of[SENDER_TAGS];
};

void sender_open(struct sender *sender, const struct fabric_ops *ops, const char *settings);
void sender_close(struct sender *sender);

/* Start to connect with the address that @p peer gives. */
kvf_status sender_connect_start(struct sender *sender, struct sender_way *way, struct peer *peer, uint64_t token);
/* The same, and wait until it is ready; imports the key of generation 1 where there are keys. */
void sender_connect(struct sender *sender, struct sender_way *way, struct peer *peer);
/* Take over the key that the peer has just exposed. */
kvf_status sender_import(struct sender_way *way, uint64_t generation, const struct peer_reply *exposed);

/* Post a piece of @p length for @p offset, payload already filled with the pattern of @p seed; waits out NOT_READY. */
kvf_status sender_post(struct sender_way *way, const struct iovec *iov, size_t iov_count, uint64_t length, uint64_t offset,
                       uint64_t seed, kvf_error **error_out);
/* Like it, from one buffer that it fills; asserts that it is taken. Waits out BACKPRESSURE. */
void sender_send(struct sender_way *way, void *buffer, uint64_t length, uint64_t offset);
/* A header and target as sender_post makes them. */
void sender_header_fill(struct sender_way *way, uint64_t length, uint64_t offset, uint64_t seed, struct peer_header *header_out,
                        struct fabric_target *target_out);

/* Run until *count reaches @p target; false when it did not in time. */
bool sender_run(struct sender *sender, const uint64_t *count, uint64_t target, int milliseconds);
void sender_idle(struct sender *sender, int milliseconds);
/* Everything that was accepted has got its `sent`, once. */
void sender_settle(struct sender *sender);

#endif
