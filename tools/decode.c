/* The decode side of a rank: open receives in order; at the end of one, check every byte it should and should not have
 * written, and make its pages canary again. */
#include <string.h>

#include "moment.h"
#include "rank_device.h"
#include "rank_room.h"

void decode_open(struct rank *rank, struct rank_room *room) {
  kvf_page_list lists[KVF_PAGE_LIST_LIMIT];
  kvf_recv_options options = KVF_RECV_OPTIONS_INIT;
  kvf_error *error = NULL;
  options.room = room->request->room;
  options.user_tag = (uint64_t)(room - rank->rooms);
  options.peers = rank->peers;
  options.peer_count = (uint32_t)rank->peer_count;
  options.page_lists = lists;
  options.page_list_count = rank_room_list(rank, room, room->request->prefix_tokens, room->request->tokens, lists);
  options.token_first = room->request->prefix_tokens;
  options.token_end = room->request->tokens;
  if (kvf_recv_open(rank->engine, &options, &room->recv, &error) != KVF_OK) rank_room_refuse(rank, room, error);
}

bool decode_step(struct rank *rank) {
  struct rank_room *room = rank_room_take(rank);
  if (room) decode_open(rank, room);
  return room && !rank->pressed;
}

static bool check_aux(const struct rank_room *room, struct complaint *complaint) {
  const void *aux;
  uint64_t aux_bytes;
  kvf_error *error = NULL;
  if (kvf_recv_aux(room->recv, &aux, &aux_bytes, &error) != KVF_OK) {
    complain(complaint, "wrong data: no auxiliary bytes: %s", kvf_error_message(error));
    kvf_error_free(error);
    return false;
  }
  if (aux_bytes != RANK_AUX_BYTES)
    return complain(complaint, "wrong data: %llu auxiliary bytes, expected %d", (unsigned long long)aux_bytes, RANK_AUX_BYTES);
  if (!pattern_aux_matches(room->request->room, aux, aux_bytes))
    return complain(complaint, "wrong data: the auxiliary bytes differ");
  return true;
}

static bool check_room(struct rank *rank, const struct rank_room *room, const kvf_event *event, struct complaint *complaint) {
  const struct workload_request *request = room->request;
  struct pages view = rank_room_view(rank, room);
  struct pages_fault fault;
  uint64_t expected = geometry_room_bytes(&rank->geometry, request->prefix_tokens, request->tokens);
  bool sample = rank->setup->settings->verify == VERIFY_SAMPLE;
  rank_device_download(rank, &view);
  if (!pages_check(&view, request->prefix_tokens, sample, &fault)) {
    pages_describe(&view, &fault, complaint->text, sizeof complaint->text);
    return false;
  }
  if (event->bytes != expected)
    return complain(complaint, "wrong count: the library says it received %llu bytes, expected %llu",
                    (unsigned long long)event->bytes, (unsigned long long)expected);
  return check_aux(room, complaint);
}

void decode_end(struct rank *rank, struct rank_room *room, const kvf_event *event) {
  bool checked = event->status == KVF_OK && rank->setup->settings->verify != VERIFY_OFF;
  enum record_check check = RECORD_UNCHECKED;
  struct complaint complaint = {{0}};
  char text[RECORD_TEXT_LIMIT + 1] = "";
  if (checked) check = check_room(rank, room, event, &complaint) ? RECORD_RIGHT : RECORD_WRONG;
  if (event->error)
    kvf_error_format(event->error, text, sizeof text);
  else
    snprintf(text, sizeof text, "%s", complaint.text);
  kvf_recv_close(room->recv);
  if (rank->setup->settings->verify != VERIFY_OFF) {
    struct pages view = rank_room_view(rank, room);
    pages_reset(&view);
    rank_device_upload(rank, &view);
  }
  rank_room_report(rank, room, event, check, text);
}
