/* The slot of an event is its sequence modulo the capacity. */
#include "stats/ring.h"

#include "base/alloc.h"
#include "base/checked.h"

kvf_status stats_ring_init(struct stats_ring *ring, size_t capacity) {
  if (!capacity) return KVF_INVALID;
  struct stats_event *events = base_calloc(capacity, sizeof *events);
  if (!events) return KVF_NO_MEMORY;
  *ring = (struct stats_ring){.events = events, .capacity = capacity};
  pthread_mutex_init(&ring->lock, NULL); /* cannot fail with default attributes */
  return KVF_OK;
}

void stats_ring_fini(struct stats_ring *ring) {
  pthread_mutex_destroy(&ring->lock);
  base_free(ring->events);
  ring->events = NULL;
}

static void copy_text(char *text_out, const char *text, size_t limit) {
  size_t length = 0;
  for (; text && text[length] && length < limit; length++)
    text_out[length] = text[length] >= 0x20 && text[length] < 0x7f ? text[length] : '?';
  text_out[length] = '\0';
}

void stats_ring_push(struct stats_ring *ring, uint64_t time_ns, uint32_t kind, uint64_t room, const char *peer,
                     const char *detail) {
  pthread_mutex_lock(&ring->lock);
  struct stats_event *event = &ring->events[ring->pushed % ring->capacity];
  event->time_ns = time_ns;
  event->room = room;
  event->sequence = ring->pushed++;
  event->kind = kind;
  copy_text(event->peer, peer, STATS_PEER_LIMIT_BYTES);
  copy_text(event->detail, detail, STATS_DETAIL_LIMIT_BYTES);
  pthread_mutex_unlock(&ring->lock);
}

size_t stats_ring_snapshot(struct stats_ring *ring, struct stats_event *events_out, size_t capacity) {
  pthread_mutex_lock(&ring->lock);
  size_t count = base_min_u64(base_min_u64(ring->pushed, ring->capacity), capacity);
  for (size_t i = 0; i < count; i++) events_out[i] = ring->events[(ring->pushed - count + i) % ring->capacity];
  pthread_mutex_unlock(&ring->lock);
  return count;
}

static const char *const event_names[] = {
    [STATS_EVENT_PEER_UP] = "PEER_UP",
    [STATS_EVENT_PEER_DOWN] = "PEER_DOWN",
    [STATS_EVENT_ROOM_END] = "ROOM_END",
    [STATS_EVENT_PIECE_RETRY] = "PIECE_RETRY",
    [STATS_EVENT_KEY_REFRESH] = "KEY_REFRESH",
    [STATS_EVENT_QUARANTINE] = "QUARANTINE",
    [STATS_EVENT_MESSAGE_REFUSED] = "MESSAGE_REFUSED",
    [STATS_EVENT_WAY_CHOSEN] = "WAY_CHOSEN",
};

const char *stats_event_name(uint32_t kind) {
  const char *name = kind < sizeof event_names / sizeof event_names[0] ? event_names[kind] : NULL;
  return name ? name : "UNKNOWN";
}
