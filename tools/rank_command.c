/* `kvferry rank`: the ranks of one instance; the other instance runs on another machine or in another namespace. */
#include <stdio.h>

#include "command.h"
#include "endpoints.h"
#include "moment.h"
#include "run.h"

enum { OWN_OPTION_COUNT = 4, OPTION_TOTAL = OWN_OPTION_COUNT + SETTINGS_OPTION_COUNT };

static const char *const role_names[] = {"prefill", "decode", NULL};

struct rank_request {
  uint32_t role; /* UINT32_MAX until given */
  const char *listen, *connect;
  double wait_s;
};

static void list_options(struct rank_request *request, struct settings *settings, struct option *options) {
  options[0] =
      (struct option){"role", "prefill|decode", "which instance this is", OPTION_CHOICE, &request->role, .choices = role_names};
  options[1] =
      (struct option){"listen", "HOST:PORT", "of rank 0, the next ranks take the next ports; or a list\n127.0.0.1:0, any free port",
                      OPTION_TEXT, &request->listen};
  options[2] = (struct option){"connect", "HOST:PORT", "decode: of prefill rank 0, the others have the next ports; or a list",
                               OPTION_TEXT, &request->connect};
  options[3] = (struct option){"wait", "SECONDS", "for the other instance to connect; 60", OPTION_REAL, &request->wait_s};
  settings_list(settings, options + OWN_OPTION_COUNT);
}

static void print_help(const struct option *options) {
  printf(
      "kvferry rank - run the ranks of one instance; the other instance runs elsewhere with the same options\n\n"
      "Both derive the same rooms from trace, seed and options, so give both sides the same ones.\n\n"
      "usage: kvferry rank --role prefill --listen HOST:PORT [options]\n"
      "       kvferry rank --role decode --connect HOST:PORT [options]\n\n");
  options_print(stdout, options, OPTION_TOTAL);
  printf("\nexit status: 0 every room of this side done and right, 1 not, 2 wrong usage\n");
}

static bool check_request(const struct rank_request *request, struct complaint *complaint) {
  if (request->role == UINT32_MAX) return complain(complaint, "--role prefill or --role decode is needed");
  if (request->role == ROLE_DECODE && !request->connect)
    return complain(complaint, "--connect is needed: the address on which prefill rank 0 listens");
  if (request->role == ROLE_PREFILL && request->connect)
    return complain(complaint, "--connect is for --role decode; prefill listens");
  if (request->wait_s > 86400) return complain(complaint, "--wait must be at most 86400 seconds");
  return true;
}

static int execute(const struct rank_request *request, const struct settings *settings) {
  enum role role = (enum role)request->role;
  struct endpoints listen, connect = {.count = 0};
  struct complaint complaint;
  if (!endpoints_parse(request->listen, settings_rank_count(settings, role), &listen, &complaint))
    return command_refuse("rank", complaint.text);
  if (role == ROLE_DECODE && !endpoints_parse(request->connect, settings_rank_count(settings, ROLE_PREFILL), &connect, &complaint))
    return command_refuse("rank", complaint.text);
  const struct run_plan plan = {.settings = settings,
                                .has_side = {role == ROLE_PREFILL, role == ROLE_DECODE},
                                .listen = listen.list,
                                .addresses = connect.list,
                                .wait_ns = (uint64_t)(request->wait_s * 1e9),
                                .linger_ns = 5 * MOMENT_SECOND,
                                .announce = true};
  return run_execute(&plan);
}

int command_rank(int argc, char **argv) {
  struct rank_request request = {.role = UINT32_MAX, .listen = "127.0.0.1:0", .wait_s = 60};
  struct settings settings;
  struct option options[OPTION_TOTAL];
  struct complaint complaint;
  settings_init(&settings);
  list_options(&request, &settings, options);
  enum options_result result = options_parse(options, OPTION_TOTAL, argc, argv, NULL, 0, NULL, &complaint);
  if (result == OPTIONS_HELP) {
    print_help(options);
    return 0;
  }
  if (result == OPTIONS_WRONG || !check_request(&request, &complaint) || !settings_resolve(&settings, &complaint))
    return command_refuse("rank", complaint.text);
  return execute(&request, &settings);
}
