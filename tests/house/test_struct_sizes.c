/* The sizes of the public structs are part of the ABI. A struct that starts with struct_bytes may only grow at its end, and then
 * its line here grows with it; the others never change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <kvferry/kvferry.h>

#define PIN(type, lp64_bytes) \
  _Static_assert(sizeof(void *) != 8 || sizeof(size_t) != 8 || sizeof(type) == (lp64_bytes), #type " has another size")

/* Never change. */
PIN(kvf_plane, 104);
PIN(kvf_page_list, 24);
PIN(kvf_rank_planes, 16);
PIN(kvf_event, 120);
PIN(kvf_plan_heads, 24);
PIN(kvf_status_text, 48);
/* May grow. */
PIN(kvf_cache_options, 48);
PIN(kvf_chunk, 88);
PIN(kvf_engine_options, 160);
PIN(kvf_engine_stats, 232);
PIN(kvf_peer_state, 464);
PIN(kvf_plan_flow, 896);
PIN(kvf_plan_options, 56);
PIN(kvf_planes_options, 64);
PIN(kvf_recv_options, 80);
PIN(kvf_region_options, 40);
PIN(kvf_send_options, 40);

/* The INIT macro sets struct_bytes, the first member; a size of zero elsewhere would be an unset struct. */
#define CHECK_INIT(type, initialiser)                   \
  do {                                                  \
    type value = initialiser;                           \
    assert_int_equal(offsetof(type, struct_bytes), 0);  \
    assert_int_equal(value.struct_bytes, sizeof(type)); \
  } while (0)

static void initialisers_name_the_size(void **state) {
  CHECK_INIT(kvf_cache_options, KVF_CACHE_OPTIONS_INIT);
  CHECK_INIT(kvf_chunk, KVF_CHUNK_INIT);
  CHECK_INIT(kvf_engine_options, KVF_ENGINE_OPTIONS_INIT);
  CHECK_INIT(kvf_engine_stats, KVF_ENGINE_STATS_INIT);
  CHECK_INIT(kvf_peer_state, KVF_PEER_STATE_INIT);
  CHECK_INIT(kvf_plan_options, KVF_PLAN_OPTIONS_INIT);
  CHECK_INIT(kvf_planes_options, KVF_PLANES_OPTIONS_INIT);
  CHECK_INIT(kvf_recv_options, KVF_RECV_OPTIONS_INIT);
  CHECK_INIT(kvf_region_options, KVF_REGION_OPTIONS_INIT);
  CHECK_INIT(kvf_send_options, KVF_SEND_OPTIONS_INIT);
}

/* The positional initialisers reach the members that they mean. */
static void positional_defaults_land_where_meant(void **state) {
  kvf_cache_options cache = KVF_CACHE_OPTIONS_INIT;
  assert_int_equal(cache.rank_count, 1);
  kvf_planes_options planes = KVF_PLANES_OPTIONS_INIT;
  assert_int_equal(planes.rank_count, 1);
  assert_int_equal(planes.dtype, KVF_DTYPE_BF16);
  assert_int_equal(planes.layout, KVF_LAYOUT_NHD);
  assert_int_equal(planes.page_tokens, 16);
  assert_int_equal(planes.address, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(initialisers_name_the_size),
      cmocka_unit_test(positional_defaults_land_where_meant),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
