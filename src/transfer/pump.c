/* The pump: keeps a window of pieces under way to each peer, one leg after the other, and cuts new ones from what is posted. */
#include "transfer/inside.h"

enum step { STEP_STARTED, STEP_NOTHING, STEP_LATER, STEP_NO_CREDIT, STEP_NO_BUFFER };

/* The leg's cursor over its present chunk, moved on to the next chunk with something to send. Errors: TOO_LARGE. */
static bool open_cursor(struct transfer_leg *leg, kvf_error **error_out) {
  struct transfer_send *send = leg->send;
  while (!leg->cursor_open && leg->chunk_index < send->chunk_count) {
    struct plan_range range = send->chunks[leg->chunk_index]->range;
    range.token_first = base_max_u64(range.token_first, leg->token_first);
    range.token_end = base_max_u64(range.token_first, base_min_u64(range.token_end, leg->token_end));
    range.room_first = leg->token_first;
    range.room_end = leg->token_end;
    range.per_request = send->final && leg->chunk_index + 1 == send->chunk_count;
    if (range.token_first == range.token_end && !range.per_request) {
      leg->chunk_index++;
      continue;
    }
    bool vectored = leg->plan->choice.way == KVF_WAY_DIRECT && !transfer_route_is_mappable(leg->link);
    const struct plan_limits limits = {.piece_bytes = leg->link->piece_bytes, .piece_rows = vectored ? FABRIC_IOV_LIMIT : 0};
    if (plan_cursor_init(&leg->cursor, &leg->plan->link, &range, &limits, error_out) != KVF_OK) return false;
    leg->cursor_open = true;
  }
  return leg->cursor_open;
}

/* The next piece that was never sent, or NULL at the end of what is posted. Errors: OUT_OF_RANGE (its pages), NO_MEMORY. */
static struct transfer_piece *cut_piece(struct transfer_leg *leg, kvf_error **error_out) {
  struct layout_piece cut;
  uint64_t bytes;
  while (open_cursor(leg, error_out)) {
    if (plan_cursor_next(&leg->cursor, &cut, &bytes)) break;
    leg->cursor_open = false;
    leg->chunk_index++;
  }
  if (!leg->cursor_open) return NULL;
  const struct layout_pages *pages = &leg->send->chunks[leg->chunk_index]->pages;
  if (layout_piece_check_pages(&leg->plan->link, LAYOUT_SOURCE, pages, &cut, error_out) != KVF_OK) return NULL;
  struct transfer_piece *piece = base_calloc(1, sizeof *piece);
  if (!piece) {
    base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for a piece"), error_out);
    return NULL;
  }
  piece->leg = leg;
  piece->chunk = leg->send->chunks[leg->chunk_index];
  piece->cut = cut;
  piece->bytes = bytes;
  piece->sequence = leg->next_sequence++;
  piece->direct = leg->plan->choice.way == KVF_WAY_DIRECT && leg->may_direct;
  base_list_init(&piece->node);
  base_list_init(&piece->unsent_node);
  base_list_push_back(&leg->waiting, &piece->node);
  leg->bytes_cut += bytes;
  leg->link->uses++;
  return piece;
}

static void post_final(struct transfer_leg *leg) {
  struct transfer_send *send = leg->send;
  if (leg->final_sent || !send->final || leg->cursor_open || leg->chunk_index < send->chunk_count) return;
  leg->final_sent = true;
  wire_final_encode(transfer_link_out(leg->link), &(struct wire_final){.room = send->room,
                                                                       .opening = leg->opening,
                                                                       .token_first = send->token_first,
                                                                       .token_end = send->token_end,
                                                                       .piece_count = leg->next_sequence,
                                                                       .bytes = leg->bytes_cut,
                                                                       .aux = send->aux,
                                                                       .aux_bytes = send->aux_bytes});
}

static struct transfer_piece *find_due(struct transfer_leg *leg, uint64_t now_ns) {
  BASE_LIST_EACH(&leg->waiting, node) {
    struct transfer_piece *piece = BASE_CONTAINER(node, struct transfer_piece, node);
    if (piece->not_before_ns <= now_ns) return piece;
  }
  return NULL;
}

/* The next piece of a leg, if it can go now: one that waits, or a new one. Errors end the room. */
static enum step take_step(struct transfer_leg *leg, uint64_t now_ns, kvf_error **error_out) {
  struct transfer_link *link = leg->link;
  if (transfer_route_choose_way(leg, error_out) != KVF_OK) return STEP_NOTHING;
  struct transfer_piece *piece = find_due(leg, now_ns);
  if (!piece) piece = cut_piece(leg, error_out);
  if (*error_out) return STEP_NOTHING;
  if (!piece) {
    post_final(leg);
    return base_list_empty(&leg->waiting) ? STEP_NOTHING : STEP_LATER;
  }
  if (!piece->direct && !link->credit_count) return STEP_NO_CREDIT;
  if (!piece->direct && !transfer_route_is_mappable(link) && !link->transfer->gather_free_count) return STEP_NO_BUFFER;
  if (!piece->direct) piece->has_credit = transfer_credit_take(link, piece->bytes, &piece->credit);
  return transfer_piece_start(piece, now_ns) ? STEP_STARTED : STEP_LATER;
}

static enum step step_leg(struct transfer_leg *leg, uint64_t now_ns) {
  kvf_error *error = NULL;
  enum step step = take_step(leg, now_ns, &error);
  if (!error) return step;
  if (kvf_error_status(error) == KVF_NOT_READY) {
    kvf_error_free(error);
    return STEP_LATER;
  }
  transfer_send_fail(leg->send, error, NULL);
  return STEP_NOTHING;
}

static uint32_t count_ready(const struct transfer_link *link) {
  uint32_t count = 0;
  BASE_LIST_EACH(&link->ready, node) count++;
  return count;
}

/* Waiting for the receiver: say how much is wanted, and note since when. */
static void ask_for_credit(struct transfer_link *link, struct transfer_leg *leg, uint64_t now_ns) {
  if (!leg->waiting_since_ns) leg->waiting_since_ns = now_ns;
  transfer_credit_want(link, link->transfer->window);
}

/* Idle: all goes back, and the receiver grants anew what it lets stand. */
static void rest(struct transfer_link *link) {
  if (!link->level) return;
  transfer_credit_want(link, 0);
  transfer_credit_drop_all(link);
}

/* One piece of each leg in turn, until the window is full or nothing can go. */
static void send_round_robin(struct transfer_link *link, uint64_t now_ns) {
  uint32_t patience = count_ready(link); /* legs in a row that could start nothing */
  while (patience && link->flying < link->transfer->window && !base_list_empty(&link->ready)) {
    struct transfer_leg *leg = BASE_CONTAINER(link->ready.next, struct transfer_leg, ready_node);
    enum step step = step_leg(leg, now_ns);
    if (step == STEP_NO_CREDIT) return ask_for_credit(link, leg, now_ns);
    if (step == STEP_NO_BUFFER) return;
    if (leg->closed) continue;
    base_list_remove(&leg->ready_node);
    if (step != STEP_NOTHING) base_list_push_back(&link->ready, &leg->ready_node);
    patience = step == STEP_STARTED ? count_ready(link) : patience - 1;
  }
}

void transfer_link_pump(struct transfer_link *link, uint64_t now_ns) {
  if (link->lost) return;
  if (base_list_empty(&link->ready) && !link->flying) return rest(link);
  transfer_route_start(link, now_ns);
  if (link->route.state != ROUTE_READY || link->route.keys_due) return;
  transfer_pieces_send_unsent(link);
  send_round_robin(link, now_ns);
}
