/* The kvferry command: finds the subcommand. */
#include <stdio.h>
#include <string.h>

#include <kvferry/version.h>

#include "command.h"
#include "suggest.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} commands[] = {
    {"replay", command_replay, "move a trace's KV cache between two instances on this host, and check every byte"},
    {"rank", command_rank, "run one instance; the other one runs elsewhere"},
    {"plan", command_plan, "who would send what to whom between two instances, in how many writes, and why"},
    {"bench", command_bench, "how fast it is here, against what this host can do"},
    {"explain", command_explain, "what an error code means and what to do"},
    {"models", command_models, "the model geometries known by name"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *out) {
  fprintf(out, "kvferry %s - moves KV cache between prefill and decode ranks\n\nusage: kvferry COMMAND [options]\n\n",
          kvf_version());
  for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
  fprintf(out, "\n  kvferry COMMAND --help tells more; kvferry --version\n");
}

int command_refuse(const char *name, const char *text) {
  fprintf(stderr, "kvferry %s: %s\n`kvferry %s --help` lists the options.\n", name, text, name);
  return 2;
}

static int refuse_command(const char *word) {
  const char *names[COMMAND_COUNT];
  for (size_t i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i].name;
  const char *meant = suggest_word(word, names, COMMAND_COUNT);
  fprintf(stderr, "kvferry: no command \"%s\"", word);
  if (meant) fprintf(stderr, "; did you mean %s?", meant);
  fprintf(stderr, "\n`kvferry --help` lists the commands.\n");
  return 2;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    print_help(stdout);
    return 0;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("kvferry %s\n", kvf_version());
    return 0;
  }
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
  return refuse_command(argv[1]);
}
