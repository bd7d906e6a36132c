/* The way that the frames of a session take while faults are injected: each is judged, and passed on, held back, repeated or lost.
 * Costs nothing but a test of rule_count when there are none. */
#ifndef CONTROL_DETOUR_H
#define CONTROL_DETOUR_H

#include <stddef.h>

#include "base/list.h"
#include "control/fault.h"

struct control_session;

struct control_detour {
  struct base_list held;       /* frames that come later, oldest first */
  uint64_t stalled_until_ns[2]; /* by direction; 0: not stalled, UINT64_MAX: for good */
};

void control_detour_init(struct control_detour *detour);
void control_detour_fini(struct control_detour *detour);
/* Take whole frames of one direction; each that is due now goes to control_session_pass. */
void control_detour_take(struct control_session *session, enum control_direction direction, const uint8_t *frames,
                         size_t length_bytes);
void control_detour_tick(struct control_session *session, uint64_t now_ns);
/* When control_detour_tick wants to be called; 0: never. */
uint64_t control_detour_due(const struct control_detour *detour);

#endif
