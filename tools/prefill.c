/* The prefill side of a rank: open rooms in order, compute (fill the pattern) and post the oldest room's next chunk. */
#include "moment.h"
#include "rank_device.h"
#include "rank_room.h"

void prefill_open(struct rank *rank, struct rank_room *room) {
  kvf_send_options options = KVF_SEND_OPTIONS_INIT;
  kvf_error *error = NULL;
  options.room = room->request->room;
  options.user_tag = (uint64_t)(room - rank->rooms);
  room->posted_to = workload_post_start(room->request, rank->setup->settings->chunk_tokens);
  if (kvf_send_open(rank->engine, &options, &room->send, &error) != KVF_OK) rank_room_refuse(rank, room, error);
}

/* The room that was opened first among those with something left to post. */
static struct rank_room *find_unposted(struct rank *rank) {
  struct rank_room *oldest = NULL;
  for (uint64_t i = 0; i < rank->setup->settings->concurrency; i++) {
    struct rank_room *room = &rank->rooms[i];
    if (room->open && !room->posted_final && (!oldest || room->index < oldest->index)) oldest = room;
  }
  return oldest;
}

void prefill_post(struct rank *rank, struct rank_room *room, kvf_chunk chunk) {
  uint8_t aux[RANK_AUX_BYTES];
  kvf_page_list lists[KVF_PAGE_LIST_LIMIT];
  kvf_error *error = NULL;
  chunk.page_list_count = rank_room_list(rank, room, chunk.token_first, chunk.token_first + chunk.token_count, lists);
  chunk.page_lists = lists;
  if (chunk.final) {
    pattern_fill_aux(room->request->room, aux, sizeof aux);
    chunk.aux = aux;
    chunk.aux_bytes = sizeof aux;
    room->ready_ns = moment_now_ns();
  }
  room->posted_to = chunk.token_first + chunk.token_count;
  room->posted_final = chunk.final;
  if (kvf_send_post(room->send, &chunk, &error) == KVF_OK) return;
  kvf_error_format(error, room->error, sizeof room->error);
  kvf_error_free(error);
  room->posted_final = true;
  kvf_send_cancel(room->send, NULL);
}

static void post_next(struct rank *rank, struct rank_room *room) {
  const struct settings *settings = rank->setup->settings;
  uint64_t first = room->posted_to;
  uint64_t end = first - first % settings->chunk_tokens + settings->chunk_tokens;
  if (end > room->request->tokens) end = room->request->tokens;
  struct pages view = rank_room_view(rank, room);
  if (settings->verify != VERIFY_OFF) {
    pages_fill(&view, first, end);
    rank_device_upload(rank, &view);
  }

  kvf_chunk chunk = KVF_CHUNK_INIT;
  chunk.token_first = first;
  chunk.token_count = end - first;
  chunk.final = end == room->request->tokens;
  prefill_post(rank, room, chunk);
}

bool prefill_step(struct rank *rank) {
  struct rank_room *fresh = rank_room_take(rank);
  if (fresh) prefill_open(rank, fresh);
  struct rank_room *room = find_unposted(rank);
  if (room) post_next(rank, room);
  return room || (fresh && !rank->pressed);
}

void prefill_end(struct rank *rank, struct rank_room *room, const kvf_event *event) {
  char text[RECORD_TEXT_LIMIT + 1] = "";
  kvf_event told = *event;
  if (event->error) kvf_error_format(event->error, text, sizeof text);
  bool own_failure = room->error[0] && (event->status == KVF_OK || event->status == KVF_CANCELLED);
  if (own_failure) told.status = KVF_INVALID;
  kvf_send_close(room->send);
  rank_room_report(rank, room, &told, RECORD_UNCHECKED, own_failure ? room->error : text);
}
