/* Which devices serve which GPU, for the shapes of real machines (C128). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "topology/topology.h"

enum { GPUS = 8 };

struct machine {
  struct topology_nic nics[TOPOLOGY_NIC_LIMIT];
  uint8_t distances[TOPOLOGY_GPU_LIMIT * TOPOLOGY_NIC_LIMIT];
  struct topology topology;
  struct topology_ranking rankings[TOPOLOGY_GPU_LIMIT];
  struct topology_warnings warnings;
};

static void make_machine(struct machine *machine, uint32_t gpus, uint32_t nics, uint8_t distance) {
  *machine = (struct machine){.topology = {machine->nics, machine->distances, gpus, nics}};
  for (uint32_t i = 0; i < nics; i++) machine->nics[i] = (struct topology_nic){"mlx5", 400000, i, false};
  memset(machine->distances, distance, sizeof machine->distances);
}

static void set_distance(struct machine *machine, uint32_t gpu, uint32_t nic, uint8_t distance) {
  machine->distances[gpu * machine->topology.nic_count + nic] = distance;
}

/* Two sockets, halves of the GPUs and of the first @p nics devices on each. */
static void split_sockets(struct machine *machine, uint32_t nics) {
  uint32_t gpus = machine->topology.gpu_count;
  for (uint32_t gpu = 0; gpu < gpus; gpu++)
    for (uint32_t nic = 0; nic < nics; nic++)
      set_distance(machine, gpu, nic, gpu / (gpus / 2) == nic / (nics / 2) ? TOPOLOGY_NODE : TOPOLOGY_SYS);
}

static void rank(struct machine *machine) {
  assert_int_equal(topology_rank(&machine->topology, machine->rankings, &machine->warnings), KVF_OK);
}

static uint32_t count_load(const struct machine *machine, uint32_t nic) {
  uint32_t load = 0;
  for (uint32_t gpu = 0; gpu < machine->topology.gpu_count; gpu++)
    for (uint32_t i = 0; i < machine->rankings[gpu].own_count; i++) load += machine->rankings[gpu].nics[i] == nic;
  return load;
}

static uint32_t count_warnings(const struct machine *machine, enum topology_concern concern) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < machine->warnings.count; i++) count += machine->warnings.list[i].concern == concern;
  return count;
}

static void all_sixteen_devices_are_used_by_eight_gpus(void **state) {
  static struct machine machine;
  make_machine(&machine, GPUS, 16, TOPOLOGY_SYS);
  split_sockets(&machine, 16);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) /* the two of a GPU do not stand beside each other in the list */
    for (uint32_t i = 0; i < 2; i++) set_distance(&machine, gpu, (gpu * 5 + 3) % 8 + 8 * i, TOPOLOGY_PIX);
  rank(&machine);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
    assert_int_equal(machine.rankings[gpu].own_count, 2);
    assert_int_equal(machine.rankings[gpu].nics[0], (gpu * 5 + 3) % 8);
    assert_int_equal(machine.rankings[gpu].nics[1], (gpu * 5 + 3) % 8 + 8);
    assert_int_equal(machine.rankings[gpu].count, 16);
  }
  for (uint32_t nic = 0; nic < 16; nic++) assert_int_equal(count_load(&machine, nic), 1);
  assert_int_equal(machine.warnings.count, 0);
}

static void gpus_behind_one_switch_share_its_devices(void **state) {
  static struct machine machine;
  make_machine(&machine, GPUS, 8, TOPOLOGY_SYS);
  split_sockets(&machine, 8);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++)
    for (uint32_t i = 0; i < 2; i++) set_distance(&machine, gpu, gpu / 2 * 2 + i, TOPOLOGY_PIX);
  rank(&machine);
  for (uint32_t nic = 0; nic < 8; nic++) assert_int_equal(count_load(&machine, nic), 1);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
    assert_int_equal(machine.rankings[gpu].nics[0] / 2, gpu / 2);
    assert_int_equal(machine.rankings[gpu].nics[1] / 2, gpu / 2); /* and falls back to the other of its switch */
  }
}

/* The greedy choice gives the first GPU the only device of the second. */
static void a_gpu_with_one_choice_gets_it(void **state) {
  static struct machine machine;
  make_machine(&machine, 2, 2, TOPOLOGY_PIX);
  set_distance(&machine, 1, 1, TOPOLOGY_SYS);
  rank(&machine);
  assert_int_equal(machine.rankings[0].nics[0], 1);
  assert_int_equal(machine.rankings[1].nics[0], 0);
}

static void two_devices_serve_the_gpus_of_their_socket(void **state) {
  static struct machine machine;
  make_machine(&machine, GPUS, 2, TOPOLOGY_SYS);
  split_sockets(&machine, 2);
  rank(&machine);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
    assert_int_equal(machine.rankings[gpu].own_count, 1);
    assert_int_equal(machine.rankings[gpu].nics[0], gpu / 4);
    assert_int_equal(machine.rankings[gpu].nics[1], 1 - gpu / 4);
  }
}

static void unknown_distances_are_dealt_out_evenly_and_told(void **state) {
  static struct machine machine;
  const uint32_t counts[] = {2, 8, 16};
  for (size_t i = 0; i < 3; i++) {
    make_machine(&machine, GPUS, counts[i], TOPOLOGY_UNKNOWN);
    rank(&machine);
    uint32_t expected = counts[i] < GPUS ? GPUS / counts[i] : 1;
    for (uint32_t nic = 0; nic < counts[i]; nic++) assert_int_equal(count_load(&machine, nic), expected);
    assert_int_equal(count_warnings(&machine, TOPOLOGY_DISTANCE_UNKNOWN), 1);
  }
}

static void front_end_and_slow_devices_are_left_out_and_told(void **state) {
  static struct machine machine;
  char text[160];
  make_machine(&machine, GPUS, 10, TOPOLOGY_NODE);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) set_distance(&machine, gpu, 0, TOPOLOGY_PIX); /* near, and yet not for this */
  machine.nics[0] = (struct topology_nic){"front", 400000, TOPOLOGY_RAIL_NONE, true};
  machine.nics[9] = (struct topology_nic){"slow", 100000, TOPOLOGY_RAIL_NONE, false};
  rank(&machine);
  for (uint32_t nic = 0; nic < 10; nic++) assert_int_equal(count_load(&machine, nic), nic > 0 && nic < 9);
  for (uint32_t gpu = 0; gpu < GPUS; gpu++) assert_int_equal(machine.rankings[gpu].count, 8);
  assert_int_equal(machine.warnings.count, 2);
  assert_string_equal(topology_warning_describe(&machine.topology, &machine.warnings.list[0], text, sizeof text),
                      "front left out: it belongs to the front end");
  assert_string_equal(topology_warning_describe(&machine.topology, &machine.warnings.list[1], text, sizeof text),
                      "slow left out: slower than half of the fastest");
}

static void front_end_devices_are_used_when_there_are_no_others(void **state) {
  static struct machine machine;
  make_machine(&machine, 4, 2, TOPOLOGY_NODE);
  machine.nics[0].front_end = machine.nics[1].front_end = true;
  rank(&machine);
  assert_int_equal(count_load(&machine, 0), 2);
  assert_int_equal(count_warnings(&machine, TOPOLOGY_ONLY_FRONT_END), 1);
}

static void a_device_that_nobody_is_near_is_told(void **state) {
  static struct machine machine;
  make_machine(&machine, 4, 4, TOPOLOGY_NODE);
  for (uint32_t gpu = 0; gpu < 4; gpu++) set_distance(&machine, gpu, 3, TOPOLOGY_SYS);
  rank(&machine);
  assert_int_equal(count_warnings(&machine, TOPOLOGY_NIC_IDLE), 1);
  assert_int_equal(machine.warnings.list[0].nic, 3);
}

static void a_missing_peer_rail_is_told(void **state) {
  static struct machine machine, peer;
  make_machine(&machine, GPUS, 8, TOPOLOGY_UNKNOWN);
  make_machine(&peer, GPUS, 8, TOPOLOGY_UNKNOWN);
  peer.nics[5].rail = 77;
  peer.nics[2].front_end = true;
  rank(&machine);
  machine.warnings.count = 0;
  topology_check_peer(&machine.topology, machine.rankings, &machine.topology, &machine.warnings);
  assert_int_equal(machine.warnings.count, 0);
  topology_check_peer(&machine.topology, machine.rankings, &peer.topology, &machine.warnings);
  assert_int_equal(machine.warnings.count, 2);
  assert_int_equal(machine.warnings.list[0].nic, 2);
  assert_int_equal(machine.warnings.list[1].nic, 5);
  assert_int_equal(machine.warnings.list[1].concern, TOPOLOGY_PEER_RAIL_MISSING);
}

static void wrong_tables_are_refused(void **state) {
  static struct machine machine;
  make_machine(&machine, 0, 2, TOPOLOGY_PIX);
  assert_int_equal(topology_rank(&machine.topology, machine.rankings, &machine.warnings), KVF_INVALID);
  make_machine(&machine, 2, 0, TOPOLOGY_PIX);
  assert_int_equal(topology_rank(&machine.topology, machine.rankings, &machine.warnings), KVF_INVALID);
  make_machine(&machine, 2, 2, TOPOLOGY_PIX);
  set_distance(&machine, 1, 1, 9);
  assert_int_equal(topology_rank(&machine.topology, machine.rankings, &machine.warnings), KVF_INVALID);
}

/* The least load that the fullest device can have, by trying every choice of one device a GPU. */
static uint32_t find_least_load(const struct machine *machine, uint32_t gpu, uint32_t *loads) {
  const struct topology *topology = &machine->topology;
  uint32_t best = UINT32_MAX;
  if (gpu == topology->gpu_count) {
    best = 0;
    for (uint32_t nic = 0; nic < topology->nic_count; nic++) best = loads[nic] > best ? loads[nic] : best;
    return best;
  }
  const uint8_t *row = machine->distances + gpu * topology->nic_count;
  uint8_t nearest = TOPOLOGY_UNKNOWN;
  for (uint32_t nic = 0; nic < topology->nic_count; nic++) nearest = row[nic] < nearest ? row[nic] : nearest;
  for (uint32_t nic = 0; nic < topology->nic_count; nic++) {
    if (row[nic] != nearest) continue;
    loads[nic]++;
    uint32_t load = find_least_load(machine, gpu + 1, loads);
    best = load < best ? load : best;
    loads[nic]--;
  }
  return best;
}

static void random_tables_are_ranked_as_evenly_as_can_be(void **state) {
  static struct machine machine, again;
  const char *text = getenv("KVF_SEED");
  uint64_t random = text ? strtoull(text, NULL, 0) : 128;
  print_message("KVF_SEED=%llu\n", (unsigned long long)random);
  for (int round = 0; round < 300; round++) {
    uint32_t loads[TOPOLOGY_NIC_LIMIT] = {0}, most = 0;
    uint32_t gpus = 1 + (uint32_t)(base_random_next(&random) % 6);
    make_machine(&machine, gpus, 1 + (uint32_t)(base_random_next(&random) % gpus), TOPOLOGY_SYS);
    for (uint32_t i = 0; i < machine.topology.gpu_count * machine.topology.nic_count; i++)
      machine.distances[i] = (uint8_t)(base_random_next(&random) % 3);
    rank(&machine);
    for (uint32_t gpu = 0; gpu < machine.topology.gpu_count; gpu++) assert_int_equal(machine.rankings[gpu].own_count, 1);
    for (uint32_t nic = 0; nic < machine.topology.nic_count; nic++)
      most = count_load(&machine, nic) > most ? count_load(&machine, nic) : most;
    assert_int_equal(most, find_least_load(&machine, 0, loads));
    again = machine;
    memset(again.rankings, 7, sizeof again.rankings);
    rank(&again);
    assert_memory_equal(again.rankings, machine.rankings, machine.topology.gpu_count * sizeof *machine.rankings);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_sixteen_devices_are_used_by_eight_gpus),
      cmocka_unit_test(gpus_behind_one_switch_share_its_devices),
      cmocka_unit_test(a_gpu_with_one_choice_gets_it),
      cmocka_unit_test(two_devices_serve_the_gpus_of_their_socket),
      cmocka_unit_test(unknown_distances_are_dealt_out_evenly_and_told),
      cmocka_unit_test(front_end_and_slow_devices_are_left_out_and_told),
      cmocka_unit_test(front_end_devices_are_used_when_there_are_no_others),
      cmocka_unit_test(a_device_that_nobody_is_near_is_told),
      cmocka_unit_test(a_missing_peer_rail_is_told),
      cmocka_unit_test(wrong_tables_are_refused),
      cmocka_unit_test(random_tables_are_ranked_as_evenly_as_can_be),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
