/* The commands. Each takes its own words, argv[0] being its name, and returns the exit status. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

int command_replay(int argc, char **argv);
int command_rank(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_models(int argc, char **argv);

/** Print a usage error of command @p name; always returns 2. */
int command_refuse(const char *name, const char *text);

#endif
