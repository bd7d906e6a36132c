/* `kvferry replay`: both instances on this host. */
#include <stdio.h>

#include "command.h"
#include "moment.h"
#include "run.h"

static void print_help(const struct option *options) {
  printf(
      "kvferry replay - move the KV cache of a request trace between a prefill and a decode instance, and check every byte\n\n"
      "Starts every rank of both instances as a process on this host, gives each a page pool of the model's geometry,\n"
      "replays the trace, and verifies heads, layers, tokens and untouched memory on the decode side.\n\n"
      "usage: kvferry replay [options]\n\n");
  options_print(stdout, options, SETTINGS_OPTION_COUNT);
  printf(
      "\nexamples:\n"
      "  kvferry replay                                           100 made-up requests, Qwen3-8B cut to 2 layers, tp 2 -> 4\n"
      "  kvferry replay --prefill tp=4,page=16 --decode tp=1,page=64,layout=hnd --trace conversation.jsonl --requests 500\n"
      "  kvferry replay --model DeepSeek-V3 --prefill tp=4 --decode tp=2 --json report.json\n\n"
      "exit status: 0 every room done and right, 1 not, 2 wrong usage\n");
}

int command_replay(int argc, char **argv) {
  struct settings settings;
  struct option options[SETTINGS_OPTION_COUNT];
  struct complaint complaint;
  settings_init(&settings);
  settings_list(&settings, options);
  enum options_result result = options_parse(options, SETTINGS_OPTION_COUNT, argc, argv, NULL, 0, NULL, &complaint);
  if (result == OPTIONS_HELP) {
    print_help(options);
    return 0;
  }
  if (result == OPTIONS_WRONG || !settings_resolve(&settings, &complaint)) return command_refuse("replay", complaint.text);
  const struct run_plan plan = {.settings = &settings, .has_side = {true, true}, .wait_ns = 30 * MOMENT_SECOND};
  return run_execute(&plan);
}
