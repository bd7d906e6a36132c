/* The rooms a rank has open: slots, their pages, and the record of their end. */
#include "rank_room.h"

#include <stdlib.h>
#include <string.h>

#include "moment.h"

static struct rank_room *find_slot(struct rank *rank) {
  for (uint64_t i = 0; i < rank->setup->settings->concurrency; i++)
    if (!rank->rooms[i].open) return &rank->rooms[i];
  return NULL;
}

static bool reserve_pages(struct rank_pages *list, uint64_t count) {
  if (count <= list->page_capacity) return true;
  uint32_t *grown = realloc(list->pages, count * sizeof *grown);
  if (!grown) return false;
  list->pages = grown;
  list->page_capacity = (uint32_t)count;
  return true;
}

/* The pages of every list, or none. */
static bool take_pages(struct rank *rank, struct rank_room *room, const struct workload_request *request) {
  const struct rank_setup *setup = rank->setup;
  struct span spans[KVF_PAGE_LIST_LIMIT] = {{0}};
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) {
    if (!rank->geometry.lists[i]) continue;
    spans[i] = geometry_request_pages(setup->settings, setup->role, rank->geometry.lists[i], request);
    uint64_t count = spans[i].end - spans[i].first;
    if (count > rank->free_pages[i].free_count || !reserve_pages(&room->lists[i], count)) return false;
  }
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) {
    struct rank_pages *list = &room->lists[i];
    list->first_page = spans[i].first;
    list->page_count = (uint32_t)(spans[i].end - spans[i].first);
    page_pool_take(&rank->free_pages[i], list->page_count, list->pages);
  }
  return true;
}

struct rank_room *rank_room_take(struct rank *rank) {
  const struct workload *workload = rank->setup->workload;
  if (rank->next_request == workload->count) return NULL;
  const struct workload_request *request = &workload->requests[rank->next_request];
  struct rank_room *room = find_slot(rank), fresh;
  if (!room || moment_now_ns() < rank->start_ns + request->arrival_ns) return NULL;
  if (!take_pages(rank, room, request)) return NULL;
  fresh = (struct rank_room){.open = true, .index = rank->next_request++, .request = request, .opened_ns = moment_now_ns()};
  memcpy(fresh.lists, room->lists, sizeof fresh.lists);
  *room = fresh;
  return room;
}

void rank_room_give(struct rank *rank, struct rank_room *room) {
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++)
    page_pool_give(&rank->free_pages[i], room->lists[i].pages, room->lists[i].page_count);
  room->open = false;
}

void rank_room_fini(struct rank_room *room) {
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) free(room->lists[i].pages);
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
  struct pages view = {.room = room->request->room,
                       .tokens = room->request->tokens,
                       .planes = rank->geometry.planes,
                       .plane_count = rank->geometry.plane_count};
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++)
    view.lists[i] = (struct pages_list){room->lists[i].pages, room->lists[i].page_count, room->lists[i].first_page};
  return view;
}

uint32_t rank_room_list(const struct rank *rank, const struct rank_room *room, uint64_t token_first, uint64_t token_end,
                        kvf_page_list *lists) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < KVF_PAGE_LIST_LIMIT; i++) {
    const kvf_plane *plane = rank->geometry.lists[i];
    if (!plane) continue;
    struct span pages = span_pages(plane, span_of(plane, token_first, token_end, room->request->tokens));
    if (pages.first == pages.end) continue;
    lists[count++] = (kvf_page_list){.page_list = i,
                                     .page_count = (uint32_t)(pages.end - pages.first),
                                     .pages = room->lists[i].pages + (pages.first - room->lists[i].first_page),
                                     .first_token = span_page_token(plane, pages.first)};
  }
  return count;
}
