/* What is known of a peer's health: C23, C24 from the outside. */
#include "rig.h"

#include <string.h>
#include <unistd.h>

static struct rig rig;

static kvf_peer_state query(void) {
  kvf_peer_state state = KVF_PEER_STATE_INIT;
  assert_int_equal(kvf_peer_query(rig.decode[0].peers[0], &state, NULL), KVF_OK);
  return state;
}

/* Query every 10 ms until the peer is in @p health, for at most @p limit_ms. */
static kvf_peer_state wait_for(uint32_t health, int limit_ms) {
  for (int ms = 0; ms < limit_ms; ms += 10) {
    kvf_peer_state state = query();
    if (state.health == health) return state;
    usleep(10000);
  }
  fail_msg("the peer is in state %u, not in %u", query().health, health);
  return query();
}

/* Three answers are lost: the peer is suspected, seen in the metrics, and trusted again; nothing was lost with it. */
static void unanswered_heartbeats_are_suspicion_first(void **state) {
  rig_open(&rig, &(struct rig_options){.prefill_control_fault = "drop:PONG:out:1x3"});
  rig_connect(&rig);
  assert_int_equal(query().health, KVF_PEER_OK);
  assert_true(wait_for(KVF_PEER_SUSPECT, 3000).health_age_ns >= 200000000);
  kvf_engine_stats stats = KVF_ENGINE_STATS_INIT;
  assert_int_equal(kvf_engine_stats_query(rig.decode[0].engine, &stats, NULL), KVF_OK);
  assert_int_equal(stats.peers_suspect, 1);
  assert_true(stats.peer_silence_ns >= 200000000);
  wait_for(KVF_PEER_OK, 3000);
  assert_int_equal(kvf_engine_stats_query(rig.decode[0].engine, &stats, NULL), KVF_OK);
  assert_int_equal(stats.peers_suspect, 0);
  assert_int_equal(stats.peers_lost, 0);
  rig_run_room(&rig, 1, 100, 0, 100);
  rig_close(&rig);
}

/* A cut connection is DOWN, then OK with an age that began anew; the next room knows nothing of it. */
static void a_lost_peer_is_down_and_comes_back(void **state) {
  rig_open(&rig, &(struct rig_options){.decode_control_fault = "cut:OPEN:out:1"});
  rig_connect(&rig);
  struct rig_pages pages;
  rig_pages_draw(&rig, &rig.options.decode, 0, 100, &pages);
  kvf_recv *recv = rig_recv_open(&rig, &rig.decode[0], 1, &pages, 0, 100);
  kvf_error_free(rig_wait(rig.decode[0].engine, KVF_EVENT_PEER_DOWN).error);
  rig_wait(rig.decode[0].engine, KVF_EVENT_PEER_UP);
  assert_true(wait_for(KVF_PEER_OK, 1000).health_age_ns < 2000000000);
  kvf_recv_cancel(recv, NULL);
  kvf_recv_close(recv);
  rig_run_room(&rig, 2, 100, 0, 100);
  rig_close(&rig);
}

/* Nobody has ever answered there. */
static void a_peer_that_never_was_is_down(void **state) {
  rig_open(&rig, &(struct rig_options){0});
  const char *nowhere = "127.0.0.1:1";
  kvf_peer *peer;
  assert_int_equal(kvf_peer_connect(rig.decode[0].engine, &nowhere, 1, &peer, NULL), KVF_OK);
  kvf_error_free(rig_wait(rig.decode[0].engine, KVF_EVENT_PEER_DOWN).error);
  kvf_peer_state told = KVF_PEER_STATE_INIT;
  assert_int_equal(kvf_peer_query(peer, &told, NULL), KVF_OK);
  assert_int_equal(told.health, KVF_PEER_DOWN);
  kvf_peer_close(peer);
  rig_close(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unanswered_heartbeats_are_suspicion_first),
      cmocka_unit_test(a_lost_peer_is_down_and_comes_back),
      cmocka_unit_test(a_peer_that_never_was_is_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
