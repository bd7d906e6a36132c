/* `kvferry explain`: what a status means and what to do, from the library's own table. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <kvferry/status.h>

#include "command.h"
#include "options.h"
#include "suggest.h"
#include "terminal.h"

enum { STATUS_LIMIT = 256 };

static json_t *encode_status(kvf_status status) {
  kvf_status_text text;
  if (kvf_status_query(status, &text) != KVF_OK) return NULL;
  return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:b}", "code", (int)status, "name", text.name, "meaning", text.meaning, "when",
                   text.when, "check", text.check, "remedy", text.remedy, "retry", (int)text.retry);
}

static void print_status(kvf_status status) {
  kvf_status_text text;
  if (kvf_status_query(status, &text) != KVF_OK) return;
  printf("%s%s%s (%d): %s\n", terminal_style(stdout, TERMINAL_BOLD), text.name, terminal_style(stdout, TERMINAL_PLAIN), (int)status,
         text.meaning);
  printf("  when   %s\n  check  %s\n  do     %s\n  retry  %s\n", text.when, text.check, text.remedy,
         text.retry ? "yes, the same thing may succeed later" : "no, the same thing will fail again");
}

static int print_json(json_t *value) {
  int status = value && json_dumpf(value, stdout, JSON_INDENT(2)) == 0 ? 0 : 1;
  printf("\n");
  json_decref(value);
  return status;
}

static int explain_all(bool json) {
  kvf_status_text text;
  json_t *list = json ? json_array() : NULL;
  for (kvf_status status = 0; kvf_status_query(status, &text) == KVF_OK; status++) {
    if (json) {
      json_array_append_new(list, encode_status(status));
      continue;
    }
    if (status) printf("\n");
    print_status(status);
  }
  return json ? print_json(list) : 0;
}

static int refuse_unknown(const char *word) {
  const char *names[STATUS_LIMIT];
  char text[192];
  size_t count = 0;
  kvf_status_text row;
  for (kvf_status status = 0; count < STATUS_LIMIT && kvf_status_query(status, &row) == KVF_OK; status++) names[count++] = row.name;
  const char *meant = suggest_word(word, names, count);
  if (meant)
    snprintf(text, sizeof text, "no status \"%.64s\"; did you mean %s?", word, meant);
  else
    snprintf(text, sizeof text, "no status \"%.64s\"; --all lists them", word);
  return command_refuse("explain", text);
}

int command_explain(int argc, char **argv) {
  bool all = false, json = false;
  const char *word = NULL;
  size_t word_count = 0;
  kvf_status status;
  struct complaint complaint;
  const struct option options[] = {{"all", NULL, "every status", OPTION_FLAG, &all}, {"json", NULL, "as JSON", OPTION_FLAG, &json}};
  enum options_result result = options_parse(options, 2, argc, argv, &word, 1, &word_count, &complaint);
  if (result == OPTIONS_HELP) {
    printf(
        "kvferry explain - what an error code means and what to do about it\n\nusage: kvferry explain CODE|NAME [options]\n"
        "       kvferry explain --all [--json]\n\n");
    options_print(stdout, options, 2);
    return 0;
  }
  if (result == OPTIONS_WRONG) return command_refuse("explain", complaint.text);
  if (all == (word_count == 1)) return command_refuse("explain", "a code or name, or --all, is needed");
  if (all) return explain_all(json);
  if (kvf_status_find(word, &status) != KVF_OK) return refuse_unknown(word);
  if (json) return print_json(encode_status(status));
  print_status(status);
  return 0;
}
