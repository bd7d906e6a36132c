/* The event queue. The event fd holds a count while the queue is not empty. */
#include <unistd.h>

#include "engine/inside.h"

static void raise_fd(kvf_engine *engine) {
  uint64_t one = 1;
  ssize_t written = write(engine->event_fd, &one, sizeof one);
  (void)written; /* the count is full: readable all the same */
}

static void lower_fd(kvf_engine *engine) {
  uint64_t count;
  ssize_t got = read(engine->event_fd, &count, sizeof count);
  (void)got; /* nothing to read: not readable already */
}

void engine_event_push(kvf_engine *engine, const kvf_event *event) {
  struct engine_event *entry = base_alloc(sizeof *entry);
  if (!entry) {
    /* The caller would wait for ever for a lost end; there is nothing left to tell it with. */
    base_log_write(&engine->log, KVF_LOG_ERROR, "an event of room %llu was lost: out of memory", (unsigned long long)event->room);
    kvf_error_free(event->error);
    return;
  }
  entry->event = *event;
  base_list_init(&entry->node);
  base_list_push_back(&engine->events, &entry->node);
  if (engine->event_count++ == 0) raise_fd(engine);
}

void engine_events_forget(kvf_engine *engine, const kvf_send *send, const kvf_recv *recv) {
  BASE_LIST_EACH(&engine->events, node) {
    kvf_event *event = &BASE_CONTAINER(node, struct engine_event, node)->event;
    if (send && event->send == send) event->send = NULL;
    if (recv && event->recv == recv) event->recv = NULL;
  }
}

void engine_events_free(kvf_engine *engine) {
  struct base_list *node;
  while ((node = base_list_pop_front(&engine->events))) {
    struct engine_event *entry = BASE_CONTAINER(node, struct engine_event, node);
    kvf_error_free(entry->event.error);
    base_free(entry);
  }
  engine->event_count = 0;
}

size_t engine_poll(kvf_engine *engine, kvf_event *events, size_t capacity) {
  size_t count = 0;
  pthread_mutex_lock(&engine->lock);
  while (count < capacity && engine->event_count) {
    struct engine_event *entry = BASE_CONTAINER(base_list_pop_front(&engine->events), struct engine_event, node);
    events[count++] = entry->event;
    base_free(entry);
    if (--engine->event_count == 0) lower_fd(engine);
  }
  pthread_mutex_unlock(&engine->lock);
  return count;
}

int engine_event_fd(const kvf_engine *engine) { return engine->event_fd; }
