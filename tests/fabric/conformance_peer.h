/* The receiving process: an open provider with one region, driven by commands over a socket pair. It checks by itself that what
 * lands is what the header says, once and in order, and reports counts. */
#ifndef TESTS_FABRIC_CONFORMANCE_PEER_H
#define TESTS_FABRIC_CONFORMANCE_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fabric/fabric.h"

enum { PEER_REGION = 5, PEER_REGION_BYTES = 8 << 20 };

/* What the tests put into the 96 bytes of a header. */
struct peer_header {
  uint64_t sequence;
  uint64_t generation;
  uint64_t offset;
  uint64_t length;
  uint64_t seed; /* of the payload */
  uint8_t unused[FABRIC_HEADER_BYTES - 48];
  uint64_t check;
};

enum peer_verb {
  PEER_STATE,
  PEER_ADDRESS, /* bytes: the address */
  PEER_EXPOSE,  /* argument: generation; bytes: the key */
  PEER_REVOKE,
  PEER_ADMIT,          /* argument: token */
  PEER_DROP,           /* argument: token */
  PEER_REFUSE_EVERY,   /* argument: n; `place` refuses each sequence that n divides */
  PEER_DROP_ON_LANDED, /* argument: n; drop the token from inside the n-th `landed` */
  PEER_LIVE,           /* argument: token; answer: token_live */
  PEER_QUIT            /* close everything, then exit: 0 when nothing leaked */
};

struct peer_state {
  uint64_t landed;
  uint64_t bad;     /* wrong bytes, order, token or header */
  uint64_t refused; /* by `place` */
  uint64_t lost;    /* token_lost */
  uint64_t wakeups;
  uint64_t cpu_ns;
};

struct peer_reply {
  uint64_t answer;
  struct peer_state state;
  uint64_t byte_count;
  uint8_t bytes[FABRIC_KEY_LIMIT_BYTES]; /* the longer of the two */
};

struct peer {
  pid_t pid;
  int socket;
  uint64_t token; /* of the pieces it expects */
};

/* Fork it; it has exposed its region with generation 1 and admitted @p token. Call before opening a provider in this process. */
void peer_start(struct peer *peer, const struct fabric_ops *ops, const char *settings, uint64_t token);
/* One command; waits for the reply. */
void peer_ask(struct peer *peer, enum peer_verb verb, uint64_t argument, struct peer_reply *reply_out);
struct peer_state peer_state_of(struct peer *peer);
/* Let it close everything; its exit code, or -1 when a signal ended it. */
int peer_stop(struct peer *peer);
void peer_kill(struct peer *peer);

/* The payload of a seed. */
void peer_pattern_fill(void *bytes, uint64_t length, uint64_t seed);
bool peer_pattern_matches(const void *bytes, uint64_t length, uint64_t seed);
uint64_t peer_header_check(const struct peer_header *header);

uint64_t peer_fd_count(void);

#endif
