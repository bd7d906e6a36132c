/* Whole rooms between engines of one process: geometries, orders, ways, sizes. The fabrics to run over are named on the command line. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

static const char *fabrics = "tcp";

static struct rig_options base_options(void) {
  return (struct rig_options){.engine = {.fabrics = fabrics}};
}

static void run(struct rig_options options, uint64_t tokens, uint64_t prefix, uint64_t chunk_tokens) {
  static struct rig rig;
  rig_open(&rig, &options);
  rig_connect(&rig);
  for (uint64_t room = 1; room <= 4; room++) rig_run_room(&rig, room, tokens, prefix, chunk_tokens);
  rig_close(&rig);
}

static void one_rank_to_one_rank(void **state) { run(base_options(), 100, 0, 1000); }

static void chunks_ends_and_prefixes_fall_inside_pages(void **state) { /* C87, C88 */
  uint64_t tokens[] = {250, 256, 16, 15, 1};
  for (int i = 0; i < 5; i++) run(base_options(), tokens[i], 0, 100);
  run(base_options(), 250, 37, 100);
}

static void no_token_at_all_is_done(void **state) { /* C105 */
  run(base_options(), 64, 64, 64);
  run(base_options(), 0, 0, 64);
}

static void every_tensor_parallel_pair(void **state) { /* C65, C66, C94 */
  static const uint32_t pairs[][3] = {{2, 4, 4}, {4, 2, 4}, {1, 8, 4}, {4, 4, 4}, {3, 2, 6}, {8, 3, 8}, {4, 1, 2}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    struct rig_options options = base_options();
    options.prefill.tp = pairs[i][0];
    options.decode.tp = pairs[i][1];
    options.heads = pairs[i][2];
    run(options, 75, 3, 32);
  }
}

static void pipeline_stages_meet_by_layer(void **state) { /* C80, C55 */
  struct rig_options options = base_options();
  options.prefill.tp = options.prefill.pp = 2;
  options.layers = 5;
  run(options, 75, 0, 32);
  options.prefill.pp = 1;
  options.decode.pp = 3;
  run(options, 75, 0, 32);
}

static void page_sizes_and_layouts_differ(void **state) { /* C70, C73 */
  struct rig_options options = base_options();
  options.decode.page_tokens = 64;
  options.decode.layout = KVF_LAYOUT_HND;
  options.prefill.tp = 2;
  run(options, 201, 66, 100);
  options.prefill.layout = KVF_LAYOUT_HND;
  options.decode.layout = KVF_LAYOUT_NHD;
  run(options, 201, 66, 100);
}

static void a_room_larger_than_the_arena_streams_through_it(void **state) { /* C56 */
  struct rig_options options = base_options();
  options.engine.arena_bytes = 64 << 10;
  options.engine.gather_bytes = 64 << 10;
  options.prefill.page_count = options.decode.page_count = 128;
  run(options, 2000, 0, 2000);
}

static void arenas_of_unequal_size(void **state) { /* C57 */
  struct rig_options options = base_options();
  options.engine.arena_bytes = 1 << 20;
  options.decode_arena_bytes = 64 << 10;
  options.prefill.page_count = options.decode.page_count = 128;
  options.prefill.tp = 4;
  options.decode.tp = 2;
  run(options, 1500, 0, 700);
}

static void each_way_can_be_demanded(void **state) {
  if (strstr(fabrics, "rdma")) skip(); /* its direct way is not built: see docs/fabrics.md */
  for (uint32_t way = KVF_WAY_STAGED; way <= KVF_WAY_DIRECT; way++) {
    struct rig_options options = base_options();
    options.engine.way = way;
    options.prefill.tp = 2;
    run(options, 300, 20, 128);
    options.decode.page_tokens = 64;
    run(options, 300, 20, 128);
  }
}

static void pools_of_plain_memory(void **state) {
  struct rig_options options = base_options();
  options.plain_pools = true;
  options.decode.tp = 2;
  run(options, 300, 20, 128);
}

int main(int count, char **arguments) {
  if (count > 1) fabrics = arguments[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_rank_to_one_rank),
      cmocka_unit_test(chunks_ends_and_prefixes_fall_inside_pages),
      cmocka_unit_test(no_token_at_all_is_done),
      cmocka_unit_test(every_tensor_parallel_pair),
      cmocka_unit_test(pipeline_stages_meet_by_layer),
      cmocka_unit_test(page_sizes_and_layouts_differ),
      cmocka_unit_test(a_room_larger_than_the_arena_streams_through_it),
      cmocka_unit_test(arenas_of_unequal_size),
      cmocka_unit_test(each_way_can_be_demanded),
      cmocka_unit_test(pools_of_plain_memory),
  };
  printf("fabrics: %s\n", fabrics);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
