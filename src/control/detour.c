/* See detour.h. A frame leaves the list before it is passed on, since passing it on may end the session and everything else. */
#include "control/detour.h"

#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "control/state.h"

#define AFTER_NEXT UINT64_MAX /* not by time: after the next frame of its direction */

struct held_frame {
  struct base_list node;
  enum control_direction direction;
  uint64_t due_ns;
  bool stalled; /* it also keeps those behind it from overtaking */
  size_t length;
  uint8_t bytes[];
};

void control_detour_init(struct control_detour *detour) {
  base_list_init(&detour->held);
  detour->stalled_until_ns[CONTROL_IN] = detour->stalled_until_ns[CONTROL_OUT] = 0;
}

void control_detour_fini(struct control_detour *detour) {
  struct base_list *node;
  while ((node = base_list_pop_front(&detour->held))) base_free(BASE_CONTAINER(node, struct held_frame, node));
}

static void hold(struct control_session *session, enum control_direction direction, const uint8_t *frame, size_t length,
                 uint64_t due_ns, bool stalled) {
  struct held_frame *held = base_alloc(sizeof *held + length);
  if (!held) {
    control_session_doom(session, BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory to hold a frame"));
    return;
  }
  *held = (struct held_frame){.direction = direction, .due_ns = due_ns, .stalled = stalled, .length = length};
  memcpy(held->bytes, frame, length);
  base_list_push_back(&session->detour.held, &held->node);
  if (due_ns != AFTER_NEXT) control_arm(session->control, due_ns);
}

static void release(struct control_session *session, struct held_frame *held) {
  base_list_remove(&held->node);
  control_session_pass(session, held->direction, held->bytes, held->length);
  base_free(held);
}

static void release_overtaken(struct control_session *session, enum control_direction direction) {
  BASE_LIST_EACH(&session->detour.held, node) {
    struct held_frame *held = BASE_CONTAINER(node, struct held_frame, node);
    if (held->stalled || held->due_ns != AFTER_NEXT || held->direction != direction) continue;
    release(session, held);
    return;
  }
}

static void log_fault(struct control_session *session, enum control_fault_action action, enum control_direction direction,
                      uint8_t type) {
  base_log_write(&session->control->options.log, KVF_LOG_NOTICE, "control fault: %s %s %s %s", control_fault_name(action),
                 wire_type_name(type), direction == CONTROL_IN ? "from" : "to", session->remote);
}

static uint64_t stall_end(uint64_t wait_ns) {
  return wait_ns ? base_clock_ns() + wait_ns : UINT64_MAX - 1;
}

static void take_one(struct control_session *session, enum control_direction direction, const uint8_t *frame, size_t length,
                     uint8_t type) {
  struct control_detour *detour = &session->detour;
  uint64_t wait_ns;
  enum control_fault_action action = control_fault_judge(&session->control->fault, type, direction, &wait_ns);
  if (action != CONTROL_FAULT_NONE) log_fault(session, action, direction, type);
  if (action == CONTROL_FAULT_DROP) return;
  if (action == CONTROL_FAULT_CUT) {
    shutdown(session->fd, SHUT_RDWR);
    return;
  }
  if (action == CONTROL_FAULT_STALL && !detour->stalled_until_ns[direction])
    detour->stalled_until_ns[direction] = stall_end(wait_ns);
  if (detour->stalled_until_ns[direction]) {
    hold(session, direction, frame, length, detour->stalled_until_ns[direction], true);
  } else if (action == CONTROL_FAULT_DELAY || action == CONTROL_FAULT_REORDER) {
    hold(session, direction, frame, length, action == CONTROL_FAULT_DELAY ? base_clock_ns() + wait_ns : AFTER_NEXT, false);
  } else {
    control_session_pass(session, direction, frame, length);
    if (action == CONTROL_FAULT_DUPLICATE) control_session_pass(session, direction, frame, length);
    release_overtaken(session, direction);
  }
}

void control_detour_take(struct control_session *session, enum control_direction direction, const uint8_t *frames,
                         size_t length_bytes) {
  while (length_bytes >= WIRE_FRAME_BYTES) {
    struct wire_frame frame;
    kvf_error *error = NULL;
    if (wire_frame_decode(frames, UINT32_MAX, &frame, &error) != KVF_OK) {
      control_session_doom(session, error);
      return;
    }
    size_t frame_bytes = base_min_u64(WIRE_FRAME_BYTES + (size_t)frame.payload_bytes, length_bytes);
    take_one(session, direction, frames, frame_bytes, frame.type);
    frames += frame_bytes;
    length_bytes -= frame_bytes;
  }
}

void control_detour_tick(struct control_session *session, uint64_t now_ns) {
  struct control_detour *detour = &session->detour;
  struct base_list due, *node;
  base_list_init(&due);
  for (int direction = CONTROL_IN; direction <= CONTROL_OUT; direction++) {
    if (detour->stalled_until_ns[direction] <= now_ns) detour->stalled_until_ns[direction] = 0;
  }
  /* Taken out first: passing one on may add others. */
  BASE_LIST_EACH(&detour->held, each) {
    if (BASE_CONTAINER(each, struct held_frame, node)->due_ns > now_ns) continue;
    base_list_remove(each);
    base_list_push_back(&due, each);
  }
  while ((node = base_list_pop_front(&due))) release(session, BASE_CONTAINER(node, struct held_frame, node));
}

uint64_t control_detour_due(const struct control_detour *detour) {
  uint64_t due_ns = UINT64_MAX - 1;
  for (const struct base_list *node = detour->held.next; node != &detour->held; node = node->next)
    due_ns = base_min_u64(due_ns, BASE_CONTAINER(node, struct held_frame, node)->due_ns);
  return due_ns == UINT64_MAX - 1 ? 0 : due_ns;
}
