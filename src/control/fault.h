/* Faults put into the control frames on purpose, for tests: which frame is lost, repeated, late or the last. Pure; what is then done
 * with the frame is in detour.c. One plan serves all sessions of an engine, so counts run over all its peers.
 *
 * Rules, separated by commas, ACTION:TYPE:DIRECTION:WHICH[:MS], and anywhere seed=N:
 *   ACTION     drop       the frame is lost
 *              duplicate  it comes twice in a row
 *              delay      it comes MS later; those behind it overtake
 *              reorder    it comes after the next frame of its session and direction
 *              stall      it and everything behind it wait for MS (0: until the session ends)
 *              cut        it is lost and the connection is shut
 *   TYPE       a name as in wire/message.h (OPEN, FAIL_ACK, …), any (all but PING and PONG, so that counts repeat), or all
 *   DIRECTION  in, out or both
 *   WHICH      n (the n-th one, from 1), nxk (k in a row from the n-th on), or p/q (each by that chance, drawn from the seed)
 * "drop:OPEN:out:1", "seed=7,drop:any:both:1/200,delay:ACK:in:1/50:30". Of the rules that a frame meets, the first one acts and all
 * count. Frames out are seen as they are queued, frames in as they are read, before anyone else sees them: the handshake's too. */
#ifndef CONTROL_FAULT_H
#define CONTROL_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { CONTROL_FAULT_RULE_LIMIT = 32 };

enum control_direction { CONTROL_IN, CONTROL_OUT };

enum control_fault_action {
  CONTROL_FAULT_NONE,
  CONTROL_FAULT_DROP,
  CONTROL_FAULT_DUPLICATE,
  CONTROL_FAULT_DELAY,
  CONTROL_FAULT_REORDER,
  CONTROL_FAULT_STALL,
  CONTROL_FAULT_CUT
};

struct control_fault_rule {
  enum control_fault_action action;
  int type; /* of a frame; or one of those below */
  bool directions[2];
  uint64_t first, count, seen;         /* by count */
  uint64_t chance_part, chance_whole;  /* by chance; whole 0: by count */
  uint64_t wait_ns;
};

enum { CONTROL_FAULT_ANY = -1, CONTROL_FAULT_ALL = -2 };

struct control_fault {
  struct control_fault_rule rules[CONTROL_FAULT_RULE_LIMIT];
  uint32_t rule_count;
  uint64_t random;
  uint64_t injected; /* frames that something was done to */
};

/* NULL or "" is no fault. Errors: INVALID, naming the rule. */
kvf_status control_fault_parse(struct control_fault *fault_out, const char *text, kvf_error **error_out);
/* Counts the frame; what is to be done with it. *wait_ns_out is for DELAY and STALL. */
enum control_fault_action control_fault_judge(struct control_fault *fault, uint8_t type, enum control_direction direction,
                                              uint64_t *wait_ns_out);
/* "drop", "duplicate", … */
const char *control_fault_name(enum control_fault_action action);

#endif
