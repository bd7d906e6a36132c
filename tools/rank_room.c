/* The rooms a rank has open: slots, their pages, and the record of their end. */
#include "rank_room.h"

#include <stdlib.h>

#include "moment.h"

static struct rank_room *find_slot(struct rank *rank) {
  for (uint64_t i = 0; i < rank->setup->settings->concurrency; i++)
    if (!rank->rooms[i].open) return &rank->rooms[i];
  return NULL;
}

static bool reserve_pages(struct rank_room *room, uint64_t count) {
  if (count <= room->page_capacity) return true;
  uint32_t *grown = realloc(room->pages, count * sizeof *grown);
  if (!grown) return false;
  room->pages = grown;
  room->page_capacity = (uint32_t)count;
  return true;
}

struct rank_room *rank_room_take(struct rank *rank, bool for_prefill) {
  const struct settings *settings = rank->setup->settings;
  const struct workload *workload = rank->setup->workload;
  if (rank->next_request == workload->count) return NULL;
  const struct workload_request *request = &workload->requests[rank->next_request];
  struct rank_room *room = find_slot(rank);
  if (!room || moment_now_ns() < rank->start_ns + request->arrival_ns) return NULL;
  uint32_t page_tokens = settings->sides[rank->setup->role].page_tokens;
  struct workload_span span = for_prefill ? workload_prefill_span(request, settings->chunk_tokens, page_tokens)
                                          : workload_decode_span(request, page_tokens);
  if (span.page_count > rank->free_pages.free_count || !reserve_pages(room, span.page_count)) return NULL;
  page_pool_take(&rank->free_pages, (uint32_t)span.page_count, room->pages);
  uint32_t *pages = room->pages, capacity = room->page_capacity;
  *room = (struct rank_room){.open = true,
                             .index = rank->next_request++,
                             .request = request,
                             .pages = pages,
                             .page_count = (uint32_t)span.page_count,
                             .page_capacity = capacity,
                             .first_token = span.first_token,
                             .opened_ns = moment_now_ns()};
  return room;
}

void rank_room_give(struct rank *rank, struct rank_room *room) {
  page_pool_give(&rank->free_pages, room->pages, room->page_count);
  room->open = false;
}

void rank_room_report(struct rank *rank, struct rank_room *room, const kvf_event *event, enum record_check check,
                      const char *text) {
  const struct record_room record = {
      .index = (uint32_t)room->index,
      .status = event->status,
      .check = check,
      .pieces = event->pieces,
      .retries = event->retries,
      .opened_ns = room->opened_ns,
      .ready_ns = room->ready_ns ? room->ready_ns : room->opened_ns,
      .end_ns = room->opened_ns + event->elapsed_ns,
      .bytes = event->bytes,
      .slices = event->slices,
      .grant_wait_ns = event->grant_wait_ns,
      .gather_ns = event->gather_ns,
      .write_ns = event->write_ns,
      .scatter_ns = event->scatter_ns,
  };
  record_write(rank->setup->report_fd, RECORD_ROOM, &record, text);
  rank_room_give(rank, room);
  rank->ended_count++;
}

void rank_room_refuse(struct rank *rank, struct rank_room *room, kvf_error *error) {
  kvf_status status = kvf_error_status(error);
  if (status == KVF_BACKPRESSURE) {
    rank->pressed = true;
    rank->next_request = room->index;
    rank_room_give(rank, room);
  } else {
    const kvf_event event = {.status = status, .elapsed_ns = moment_now_ns() - room->opened_ns};
    kvf_error_format(error, room->error, sizeof room->error);
    rank_room_report(rank, room, &event, RECORD_UNCHECKED, room->error);
  }
  kvf_error_free(error);
}

struct pages rank_room_view(const struct rank *rank, const struct rank_room *room) {
  return (struct pages){.room = room->request->room,
                        .planes = rank->geometry.planes,
                        .plane_count = rank->geometry.plane_count,
                        .page_count = room->page_count,
                        .pages = room->pages,
                        .first_token = room->first_token};
}
