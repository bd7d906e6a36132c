/* What a room does when something goes wrong: retries, error chains on both sides, and everything given back afterwards.
 * The fabrics to run over are named on the command line. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "transfer/transfer.h"

static const char *fabrics = "tcp";

enum { ROOM = 7 };

struct pair {
  struct rig rig;
  struct rig_pages source, target;
  kvf_send *send;
  kvf_recv *recv;
};

static struct pair pair;

static struct rig_options quick_options(void) {
  struct rig_options options = {.engine = {.fabrics = fabrics, .way = KVF_WAY_STAGED}};
  options.engine.progress_ns = 2000000000ull;
  options.engine.room_ns = 5000000000ull;
  options.engine.retry_backoff_ns = 1000000;
  return options;
}

static void open_pair(struct rig_options options) {
  rig_open(&pair.rig, &options);
  rig_connect(&pair.rig);
}

static void start_room(uint64_t room, uint64_t tokens) {
  rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, tokens, &pair.source);
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, tokens, &pair.target);
  pair.send = rig_send_open(&pair.rig.prefill[0], room);
  rig_fill(&pair.rig.prefill[0], room, &pair.source, 0, tokens);
  rig_send_post(pair.send, &pair.source, 0, tokens, true);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], room, &pair.target, 0, tokens);
}

static void end_room(void) {
  kvf_send_close(pair.send);
  kvf_recv_close(pair.recv);
  memset(pair.rig.decode[0].pool, 0, pair.rig.decode[0].pool_bytes);
}

static void revoke_once(struct transfer *transfer, void *argument) { transfer_staging_revoke(transfer, false); }
static void revoke_for_ever(struct transfer *transfer, void *argument) { transfer_staging_revoke(transfer, true); }

static bool has_status(const kvf_error *error, kvf_status status) {
  for (; error; error = kvf_error_cause(error)) {
    if (kvf_error_status(error) == status) return true;
  }
  return false;
}

static void assert_field(const kvf_error *error, const char *name) {
  if (!kvf_error_find(error, name)) {
    rig_print_error(error);
    fail_msg("the error does not name %s", name);
  }
}

/* The standing credit that is out when nothing is under way. */
static uint64_t settled_arena(void) {
  uint64_t used = 0;
  for (int i = 0; i < 200 && used == 0; i++, usleep(10000)) used = rig_arena_used(&pair.rig.decode[0]);
  return used;
}

static void assert_arena_is_back(uint64_t before) {
  for (int i = 0; i < 200 && rig_arena_used(&pair.rig.decode[0]) != before; i++) usleep(10000);
  assert_int_equal(rig_arena_used(&pair.rig.decode[0]), before);
}

static void a_lost_registration_is_renewed_and_the_room_completes(void **state) {
  open_pair(quick_options());
  rig_run_room(&pair.rig, 1, 100, 0, 100);
  engine_call(pair.rig.decode[0].engine, revoke_once, NULL);
  start_room(ROOM, 100);
  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  if (sent.error) rig_print_error(sent.error);
  assert_int_equal(sent.status, KVF_OK);
  assert_true(sent.retries > 0);
  assert_int_equal(rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&pair.rig.decode[0], ROOM, &pair.target, 0, 100), 0);
  end_room();
  memset(pair.rig.prefill[0].pool, 0, pair.rig.prefill[0].pool_bytes);
  rig_run_room(&pair.rig, 2, 100, 0, 100);
  rig_close(&pair.rig);
}

static void a_registration_lost_for_good_fails_the_room_on_both_sides(void **state) {
  struct rig_options options = quick_options();
  options.decode.tp = 2;
  open_pair(options);
  uint64_t before = settled_arena();
  engine_call(pair.rig.decode[0].engine, revoke_for_ever, NULL);
  /* Not the final chunk: no receiver can be done before the failure. */
  rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 100, &pair.source);
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.send = rig_send_open(&pair.rig.prefill[0], ROOM);
  rig_send_post(pair.send, &pair.source, 0, 50, false);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  static struct rig_pages other;
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &other);
  kvf_recv *second = rig_recv_open(&pair.rig, &pair.rig.decode[1], ROOM, &other, 0, 100);

  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  assert_int_equal(sent.status, KVF_STAGED_WRITE_FAILED);
  assert_true(has_status(sent.error, KVF_KEY_REVOKED) || has_status(sent.error, KVF_NOT_REGISTERED));
  static const char *const fields[] = {"room", "peer", "way", "piece", "attempts", "bytes_done", "source_address", "target_address", "length", "grant",
                                       "generation", "region", "region_base", "region_bytes", "region_registered", "provider", "attempt"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) assert_field(sent.error, fields[i]);
  assert_string_equal(kvf_error_find(sent.error, "attempts"), "3");
  assert_string_equal(kvf_error_find(sent.error, "region_registered"), "no");
  rig_print_error(sent.error);
  kvf_error_free(sent.error);

  /* The rank in trouble and the one beside it both learn the sender's reason. */
  for (int i = 0; i < 2; i++) {
    kvf_event received = rig_wait(pair.rig.decode[i].engine, KVF_EVENT_RECV_END);
    assert_int_equal(received.status, KVF_PEER_FAILED);
    assert_true(has_status(received.error, KVF_STAGED_WRITE_FAILED));
    kvf_error_free(received.error);
  }
  end_room();
  kvf_recv_close(second);
  assert_arena_is_back(before);
  rig_close(&pair.rig);
}

static struct rig_options faulty(const char *settings) {
  static char text[128];
  struct rig_options options = quick_options();
  snprintf(text, sizeof text, "fault(inner=%s,%s)", fabrics, settings);
  options.prefill_fabrics = text;
  return options;
}

static void a_provider_error_once_is_retried(void **state) {
  if (strchr(fabrics, '(') || !strcmp(fabrics, "auto")) skip(); /* a wrapper wants one provider, by its bare name */
  open_pair(faulty("fail_send=2,count=1"));
  start_room(ROOM, 300);
  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  if (sent.error) rig_print_error(sent.error);
  assert_int_equal(sent.status, KVF_OK);
  assert_int_equal(sent.retries, 1);
  assert_int_equal(rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&pair.rig.decode[0], ROOM, &pair.target, 0, 300), 0);
  end_room();
  rig_close(&pair.rig);
}

static void a_provider_error_always_fails_only_its_room(void **state) {
  if (strchr(fabrics, '(') || !strcmp(fabrics, "auto")) skip();
  /* The first room's single piece is tried three times; the next room on the same connection goes through. */
  open_pair(faulty("fail_send=1,count=3"));
  uint64_t before = settled_arena();
  start_room(ROOM, 16);
  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  assert_int_equal(sent.status, KVF_STAGED_WRITE_FAILED);
  assert_true(has_status(sent.error, KVF_FABRIC));
  kvf_error_free(sent.error);
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_equal(received.status, KVF_PEER_FAILED);
  kvf_error_free(received.error);
  end_room();
  assert_arena_is_back(before);
  memset(pair.rig.prefill[0].pool, 0, pair.rig.prefill[0].pool_bytes);
  rig_run_room(&pair.rig, ROOM + 1, 16, 0, 16);
  rig_close(&pair.rig);
}

/* One bit changed on its way: found before it reaches a page, and sent again. */
static void a_damaged_piece_is_sent_again(void **state) {
  if (strchr(fabrics, '(') || !strcmp(fabrics, "auto")) skip();
  struct rig_options options = faulty("corrupt=2,count=2");
  options.engine.checksum = 1;
  open_pair(options);
  start_room(ROOM, 600);
  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  if (sent.error) rig_print_error(sent.error);
  assert_int_equal(sent.status, KVF_OK);
  assert_true(sent.retries > 0);
  assert_int_equal(rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&pair.rig.decode[0], ROOM, &pair.target, 0, 600), 0);
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  assert_int_equal(kvf_engine_stats_query(pair.rig.decode[0].engine, &stats, NULL), KVF_OK);
  assert_int_equal(stats.pieces_corrupt, 2);
  end_room();
  rig_close(&pair.rig);
}

/* Damaged each time: CORRUPT at the sender, and the receiver hears why. Nothing of it was written into a page. */
static void a_piece_damaged_each_time_fails_the_room_as_corrupt(void **state) {
  if (strchr(fabrics, '(') || !strcmp(fabrics, "auto")) skip();
  struct rig_options options = faulty("corrupt=1,count=3");
  options.engine.checksum = 1;
  open_pair(options);
  uint64_t before = settled_arena();
  start_room(ROOM, 16);
  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  assert_int_equal(sent.status, KVF_CORRUPT);
  const char *const fields[] = {"attempts", "checksum", "expected", "piece", "peer"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) assert_field(sent.error, fields[i]);
  kvf_error_free(sent.error);
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_equal(received.status, KVF_PEER_FAILED);
  assert_true(has_status(received.error, KVF_CORRUPT));
  kvf_error_free(received.error);
  for (uint64_t i = 0; i < pair.rig.decode[0].pool_bytes; i++) assert_int_equal(pair.rig.decode[0].pool[i], 0);
  end_room();
  assert_arena_is_back(before);
  memset(pair.rig.prefill[0].pool, 0, pair.rig.prefill[0].pool_bytes);
  rig_run_room(&pair.rig, ROOM + 1, 16, 0, 16);
  rig_close(&pair.rig);
}

static void cancelling_ends_both_sides(void **state) {
  for (int side = 0; side < 2; side++) {
    open_pair(quick_options());
    rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 100, &pair.source);
    rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
    pair.send = rig_send_open(&pair.rig.prefill[0], ROOM);
    rig_send_post(pair.send, &pair.source, 0, 50, false);
    pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
    usleep(20000);
    assert_int_equal(side ? kvf_recv_cancel(pair.recv, NULL) : kvf_send_cancel(pair.send, NULL), KVF_OK);
    kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
    kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
    assert_int_equal(sent.status, KVF_CANCELLED);
    assert_int_equal(received.status, KVF_CANCELLED);
    kvf_error_free(sent.error);
    kvf_error_free(received.error);
    end_room();
    rig_run_room(&pair.rig, ROOM, 100, 0, 100);
    rig_close(&pair.rig);
  }
}

static void a_sender_that_ends_early_is_incomplete_on_both_sides(void **state) { /* C106 */
  open_pair(quick_options());
  rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 100, &pair.source);
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.send = rig_send_open(&pair.rig.prefill[0], ROOM);
  rig_send_post(pair.send, &pair.source, 0, 40, true);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_equal(received.status, KVF_INCOMPLETE);
  assert_string_equal(kvf_error_find(received.error, "sent"), "0-40");
  assert_string_equal(kvf_error_find(received.error, "wanted"), "0-100");
  kvf_error_free(received.error);
  kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  assert_int_equal(sent.status, KVF_PEER_FAILED);
  assert_true(has_status(sent.error, KVF_INCOMPLETE));
  kvf_error_free(sent.error);
  end_room();
  rig_close(&pair.rig);
}

static void a_sender_that_never_comes_is_named_at_the_deadline(void **state) {
  struct rig_options options = quick_options();
  options.engine.room_ns = 300000000ull;
  open_pair(options);
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_equal(received.status, KVF_TIMEOUT);
  assert_string_equal(kvf_error_find(received.error, "waiting_for"), "FINAL");
  kvf_error_free(received.error);
  kvf_recv_close(pair.recv);
  rig_close(&pair.rig);
}

/* One pipeline stage is done long before the other: its wait is no standstill. */
static void a_rank_that_is_done_waits_for_the_others(void **state) {
  static struct rig_pages sources[2];
  kvf_send *sends[2];
  struct rig_options options = quick_options();
  options.prefill.pp = 2;
  options.engine.progress_ns = 200000000ull;
  open_pair(options);
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  for (int i = 0; i < 2; i++) {
    rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 100, &sources[i]);
    sends[i] = rig_send_open(&pair.rig.prefill[i], ROOM);
    rig_fill(&pair.rig.prefill[i], ROOM, &sources[i], 0, 100);
    rig_send_post(sends[i], &sources[i], 0, 100, true);
    if (i == 0) usleep(800000);
  }
  for (int i = 0; i < 2; i++) {
    kvf_event sent = rig_wait(pair.rig.prefill[i].engine, KVF_EVENT_SEND_END);
    if (sent.error) rig_print_error(sent.error);
    assert_int_equal(sent.status, KVF_OK);
    kvf_send_close(sends[i]);
  }
  assert_int_equal(rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_check(&pair.rig.decode[0], ROOM, &pair.target, 0, 100), 0);
  kvf_recv_close(pair.recv);
  rig_close(&pair.rig);
}

static void a_peer_that_closes_fails_the_room_at_once(void **state) {
  open_pair(quick_options());
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  pair.send = rig_send_open(&pair.rig.prefill[0], ROOM);
  usleep(50000);
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  kvf_engine_close(pair.rig.prefill[0].engine);
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  clock_gettime(CLOCK_MONOTONIC, &end);
  assert_true(received.status == KVF_CANCELLED || received.status == KVF_PEER_LOST);
  assert_true(end.tv_sec - start.tv_sec < 2);
  kvf_error_free(received.error);
  /* A handle that outlived its engine is dead, and must still be closed. */
  assert_int_equal(kvf_send_cancel(pair.send, NULL), KVF_CLOSED);
  kvf_send_close(pair.send);
  kvf_recv_close(pair.recv);
  kvf_peer_close(pair.rig.decode[0].peers[0]);
  kvf_engine_close(pair.rig.decode[0].engine);
  struct rig_rank *ranks[] = {&pair.rig.prefill[0], &pair.rig.decode[0]};
  for (int i = 0; i < 2; i++) {
    kvf_cache_close(ranks[i]->cache);
    kvf_region_close(ranks[i]->region);
    kvf_memory_free(ranks[i]->pool);
    free(ranks[i]->planes);
  }
}

static void wrong_calls_are_refused_by_name(void **state) { /* C15, C22 */
  open_pair(quick_options());
  kvf_error *error = NULL;
  kvf_send *send = rig_send_open(&pair.rig.prefill[0], ROOM), *twice = NULL;
  kvf_send_options options = KVF_SEND_OPTIONS_INIT;
  options.room = ROOM;
  assert_int_equal(kvf_send_open(pair.rig.prefill[0].engine, &options, &twice, &error), KVF_OVERLAP);
  kvf_error_free(error);
  /* Token numbers where pages belong. */
  uint32_t pages[] = {48, 64};
  kvf_page_list list = {.page_count = 2, .pages = pages};
  kvf_chunk chunk = KVF_CHUNK_INIT;
  chunk.token_count = 32;
  chunk.page_lists = &list;
  chunk.page_list_count = 1;
  assert_int_equal(kvf_send_post(send, &chunk, &error), KVF_OUT_OF_RANGE);
  assert_string_equal(kvf_error_find(error, "page"), "64");
  kvf_error_free(error);
  pages[1] = 48;
  assert_int_equal(kvf_send_post(send, &chunk, &error), KVF_INVALID);
  kvf_error_free(error);
  chunk.token_count = 64; /* more tokens than the pages hold */
  pages[1] = 3;
  assert_int_not_equal(kvf_send_post(send, &chunk, &error), KVF_OK);
  kvf_error_free(error);
  chunk.token_count = 32;
  chunk.final = 1;
  chunk.aux = pages;
  chunk.aux_bytes = KVF_AUX_LIMIT_BYTES + 1;
  assert_int_equal(kvf_send_post(send, &chunk, &error), KVF_TOO_LARGE);
  kvf_error_free(error);
  chunk.aux_bytes = 0;
  assert_int_equal(kvf_send_post(send, &chunk, &error), KVF_OK);
  assert_int_equal(kvf_send_post(send, &chunk, &error), KVF_INVALID);
  kvf_error_free(error);
  kvf_send_close(send);
  kvf_event ended = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
  assert_null(ended.send);
  assert_int_equal(ended.user_tag, ROOM + 1);
  kvf_error_free(ended.error);
  rig_close(&pair.rig);
}

/* An engine whose planes differ in one property from what the rig's decode rank holds. */
static void assert_pair_is_refused(struct rig *left, struct rig *right, kvf_status status) {
  const char *address = kvf_engine_address(left->prefill[0].engine);
  assert_int_equal(kvf_peer_connect(right->decode[0].engine, &address, 1, right->decode[0].peers, NULL), KVF_OK);
  kvf_engine *engines[] = {right->decode[0].engine, left->prefill[0].engine};
  for (int i = 0; i < 2; i++) {
    kvf_event event = rig_wait(engines[i], KVF_EVENT_PEER_DOWN);
    assert_int_equal(event.status, status);
    assert_field(event.error, "mine");
    assert_field(event.error, "yours");
    kvf_error_free(event.error);
  }
}

static void different_models_are_refused_on_both_sides(void **state) { /* C75 */
  static struct rig left, right;
  struct rig_options options = quick_options();
  rig_open(&left, &options);
  options.head_bytes = 32;
  rig_open(&right, &options);
  assert_pair_is_refused(&left, &right, KVF_INCOMPATIBLE);
  rig_close(&left);
  right.prefill_count = 1;
  rig_close(&right);
}

static void a_missing_sending_rank_is_named(void **state) {
  struct rig_options options = quick_options();
  options.prefill.tp = 2;
  open_pair(options);
  pair.rig.prefill_count = 1; /* give only one of two */
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  pair.rig.prefill_count = 2;
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_int_equal(received.status, KVF_NOT_COVERED);
  kvf_error_free(received.error);
  kvf_recv_close(pair.recv);
  rig_close(&pair.rig);
}

static void a_full_event_queue_pushes_back(void **state) {
  struct rig_options options = quick_options();
  options.engine.event_capacity = 2;
  open_pair(options);
  kvf_send *sends[3];
  for (int i = 0; i < 3; i++) {
    sends[i] = rig_send_open(&pair.rig.prefill[0], 10 + i);
    kvf_send_cancel(sends[i], NULL);
  }
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  for (int i = 0; i < 100 && stats.rooms_cancelled < 3; i++, usleep(10000)) kvf_engine_stats_query(pair.rig.prefill[0].engine, &stats, NULL);
  kvf_send_options more = KVF_SEND_OPTIONS_INIT;
  kvf_send *send = NULL;
  kvf_error *error = NULL;
  more.room = 99;
  assert_int_equal(kvf_send_open(pair.rig.prefill[0].engine, &more, &send, &error), KVF_BACKPRESSURE);
  kvf_error_free(error);
  for (int i = 0; i < 3; i++) kvf_send_close(sends[i]);
  for (int i = 0; i < 3; i++) kvf_error_free(rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END).error);
  rig_close(&pair.rig);
}

static void draining_refuses_new_rooms_and_finishes_old_ones(void **state) {
  open_pair(quick_options());
  rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 100, &pair.source);
  rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 100, &pair.target);
  pair.send = rig_send_open(&pair.rig.prefill[0], ROOM);
  assert_int_equal(kvf_engine_drain(pair.rig.prefill[0].engine, NULL), KVF_OK);
  kvf_send_options options = KVF_SEND_OPTIONS_INIT;
  kvf_send *send = NULL;
  options.room = 8;
  assert_int_equal(kvf_send_open(pair.rig.prefill[0].engine, &options, &send, NULL), KVF_DRAINING);
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 100);
  rig_send_post(pair.send, &pair.source, 0, 100, true);
  assert_int_equal(rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END).status, KVF_OK);
  assert_int_equal(rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END).status, KVF_OK);
  end_room();
  pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], 8, &pair.target, 0, 100);
  kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
  assert_true(has_status(received.error, KVF_DRAINING));
  kvf_error_free(received.error);
  kvf_recv_close(pair.recv);
  rig_close(&pair.rig);
}

static void a_restarted_peer_serves_again(void **state) { /* C24 */
  open_pair(quick_options());
  rig_run_room(&pair.rig, 1, 100, 0, 100);
  kvf_peer_state before = KVF_PEER_STATE_INIT, after = KVF_PEER_STATE_INIT;
  kvf_peer_query(pair.rig.decode[0].peers[0], &before, NULL);
  rig_restart_prefill(&pair.rig, 0);
  kvf_error_free(rig_wait(pair.rig.decode[0].engine, KVF_EVENT_PEER_DOWN).error);
  rig_wait(pair.rig.decode[0].engine, KVF_EVENT_PEER_UP);
  kvf_peer_query(pair.rig.decode[0].peers[0], &after, NULL);
  assert_memory_not_equal(before.incarnation, after.incarnation, sizeof before.incarnation);
  /* The decode rank was not touched, and the same room number is free again. */
  for (uint64_t room = 1; room <= 3; room++) rig_run_room(&pair.rig, room, 100, 0, 100);
  rig_close(&pair.rig);
}

/* Rooms are given up at any moment, their pages cleared at once, as a scheduler would hand them on: no late byte may show up in them. */
static void nothing_is_written_after_the_end(void **state) { /* C95, C100 */
  for (uint32_t way = KVF_WAY_AUTO; way <= KVF_WAY_DIRECT; way++) {
    if (way == KVF_WAY_DIRECT && strstr(fabrics, "rdma")) continue;
    struct rig_options options = quick_options();
    options.engine.way = way;
    options.prefill.tp = 2;
    options.head_bytes = 256;
    open_pair(options);
    uint64_t random = 5, cancelled = 0;
    for (uint64_t room = 1; room <= 100; room++) {
      static struct rig_pages sources[2];
      kvf_send *sends[2];
      for (int i = 0; i < 2; i++) {
        rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 1000, &sources[i]);
        sends[i] = rig_send_open(&pair.rig.prefill[i], room);
        memset(pair.rig.prefill[i].pool, 0xee, pair.rig.prefill[i].pool_bytes);
        rig_send_post(sends[i], &sources[i], 0, 1000, true);
      }
      rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 1000, &pair.target);
      pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], room, &pair.target, 0, 1000);
      usleep((useconds_t)(random = random * 6364136223846793005ull + 1442695040888963407ull) % 1500);
      if (room % 3 == 0)
        kvf_send_cancel(sends[room % 2], NULL);
      else
        kvf_recv_cancel(pair.recv, NULL);
      kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
      memset(pair.rig.decode[0].pool, 0, pair.rig.decode[0].pool_bytes);
      cancelled += received.status == KVF_CANCELLED;
      kvf_error_free(received.error);
      for (int i = 0; i < 2; i++) {
        kvf_error_free(rig_wait(pair.rig.prefill[i].engine, KVF_EVENT_SEND_END).error);
        kvf_send_close(sends[i]);
      }
      kvf_recv_close(pair.recv);
      for (uint64_t byte = 0; byte < pair.rig.decode[0].pool_bytes; byte++) assert_int_equal(pair.rig.decode[0].pool[byte], 0);
    }
    printf("way %u: %llu of 100 rooms were given up in time\n", way, (unsigned long long)cancelled);
    assert_true(cancelled > 10);
    rig_close(&pair.rig);
  }
}

/* The same room number again, the moment both sides have ended it: nothing of its former life may count or land. */
static void a_room_that_is_opened_again_is_another_room(void **state) {
  for (uint32_t way = KVF_WAY_STAGED; way <= KVF_WAY_DIRECT; way++) {
    if (way == KVF_WAY_DIRECT && strstr(fabrics, "rdma")) continue;
    struct rig_options options = quick_options();
    options.engine.way = way;
    options.engine.piece_bytes = 16 << 10;
    options.head_bytes = 256;
    open_pair(options);
    uint64_t random = 11;
    for (uint64_t life = 1; life <= 60; life++) {
      bool given_up = life % 2;
      rig_pages_draw(&pair.rig, &pair.rig.options.prefill, 0, 500, &pair.source);
      rig_pages_draw(&pair.rig, &pair.rig.options.decode, 0, 500, &pair.target);
      rig_fill(&pair.rig.prefill[0], life, &pair.source, 0, 500);
      pair.recv = rig_recv_open(&pair.rig, &pair.rig.decode[0], ROOM, &pair.target, 0, 500);
      pair.send = rig_send_open(&pair.rig.prefill[0], ROOM);
      rig_send_post(pair.send, &pair.source, 0, 500, true);
      if (given_up) {
        usleep((useconds_t)(random = random * 6364136223846793005ull + 1442695040888963407ull) % 600);
        if (life % 4 == 1)
          kvf_recv_cancel(pair.recv, NULL);
        else
          kvf_send_cancel(pair.send, NULL);
      }
      kvf_event received = rig_wait(pair.rig.decode[0].engine, KVF_EVENT_RECV_END);
      kvf_event sent = rig_wait(pair.rig.prefill[0].engine, KVF_EVENT_SEND_END);
      if (!given_up) {
        if (received.error) rig_print_error(received.error);
        assert_int_equal(received.status, KVF_OK);
        assert_int_equal(sent.status, KVF_OK);
        assert_int_equal(rig_check(&pair.rig.decode[0], life, &pair.target, 0, 500), 0);
      }
      memset(pair.rig.decode[0].pool, 0, pair.rig.decode[0].pool_bytes);
      kvf_error_free(received.error);
      kvf_error_free(sent.error);
      kvf_send_close(pair.send);
      kvf_recv_close(pair.recv);
    }
    rig_close(&pair.rig);
  }
}

int main(int count, char **arguments) {
  if (count > 1) fabrics = arguments[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lost_registration_is_renewed_and_the_room_completes),
      cmocka_unit_test(a_registration_lost_for_good_fails_the_room_on_both_sides),
      cmocka_unit_test(a_provider_error_once_is_retried),
      cmocka_unit_test(a_provider_error_always_fails_only_its_room),
      cmocka_unit_test(a_damaged_piece_is_sent_again),
      cmocka_unit_test(a_piece_damaged_each_time_fails_the_room_as_corrupt),
      cmocka_unit_test(cancelling_ends_both_sides),
      cmocka_unit_test(a_sender_that_ends_early_is_incomplete_on_both_sides),
      cmocka_unit_test(a_sender_that_never_comes_is_named_at_the_deadline),
      cmocka_unit_test(a_rank_that_is_done_waits_for_the_others),
      cmocka_unit_test(a_peer_that_closes_fails_the_room_at_once),
      cmocka_unit_test(wrong_calls_are_refused_by_name),
      cmocka_unit_test(different_models_are_refused_on_both_sides),
      cmocka_unit_test(a_missing_sending_rank_is_named),
      cmocka_unit_test(a_full_event_queue_pushes_back),
      cmocka_unit_test(draining_refuses_new_rooms_and_finishes_old_ones),
      cmocka_unit_test(a_restarted_peer_serves_again),
      cmocka_unit_test(nothing_is_written_after_the_end),
      cmocka_unit_test(a_room_that_is_opened_again_is_another_room),
  };
  printf("fabrics: %s\n", fabrics);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
