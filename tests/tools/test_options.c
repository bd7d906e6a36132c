/* Options, sides, quantities, endpoints and suggestions: what is taken and what is refused, with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <kvferry/engine.h>
#include <kvferry/plane.h>

#include "endpoints.h"
#include "quantity.h"
#include "settings.h"
#include "suggest.h"

static enum options_result parse(struct settings *settings, struct complaint *complaint, const char *const *words) {
  struct option options[SETTINGS_OPTION_COUNT];
  char *argv[32] = {(char *)"replay"};
  int argc = 1;
  for (; words[argc - 1]; argc++) argv[argc] = (char *)words[argc - 1];
  complaint->text[0] = 0;
  settings_init(settings);
  settings_list(settings, options);
  return options_parse(options, SETTINGS_OPTION_COUNT, argc, argv, NULL, 0, NULL, complaint);
}

static void every_option_has_a_row(void **state) {
  struct settings settings;
  struct option options[SETTINGS_OPTION_COUNT];
  settings_list(&settings, options);
  for (size_t i = 0; i < SETTINGS_OPTION_COUNT; i++) {
    assert_non_null(options[i].name);
    assert_non_null(options[i].target);
    for (size_t j = 0; j < i; j++) assert_string_not_equal(options[i].name, options[j].name);
  }
}

static void both_spellings_and_every_kind_are_parsed(void **state) {
  struct settings settings;
  struct complaint complaint;
  const char *const words[] = {"--model",
                               "Qwen3-0.6B",
                               "--layers=0",
                               "--prefill",
                               "tp=4,layout=hnd",
                               "--decode=page=64",
                               "--piece",
                               "64KiB",
                               "--arena=1MiB",
                               "--gather",
                               "256K",
                               "--time-scale",
                               "0.5",
                               "--verify",
                               "sample",
                               "--way=direct",
                               "--quiet",
                               "--seed",
                               "18",
                               "--fabric",
                               "shm,tcp",
                               NULL};
  assert_int_equal(parse(&settings, &complaint, words), OPTIONS_DONE);
  assert_int_equal(settings.layers, 0);
  assert_int_equal(settings.sides[ROLE_PREFILL].tp, 4);
  assert_int_equal(settings.sides[ROLE_PREFILL].page_tokens, 16);
  assert_int_equal(settings.sides[ROLE_PREFILL].layout, KVF_LAYOUT_HND);
  assert_int_equal(settings.sides[ROLE_DECODE].page_tokens, 64);
  assert_int_equal(settings.sides[ROLE_DECODE].tp, 4);
  assert_int_equal(settings.piece_bytes, 65536);
  assert_int_equal(settings.arena_bytes, 1 << 20);
  assert_int_equal(settings.gather_bytes, 256 << 10);
  assert_int_equal(settings.verify, VERIFY_SAMPLE);
  assert_int_equal(settings.way, KVF_WAY_DIRECT);
  assert_true(settings.quiet);
  assert_int_equal(settings.seed, 18);
  assert_true(settings.time_scale > 0.49 && settings.time_scale < 0.51);
  assert_string_equal(settings.fabric, "shm,tcp");
  assert_true(settings_resolve(&settings, &complaint));
  assert_int_equal(settings.model.layers, 28);
}

static void wrong_options_say_what_is_wrong(void **state) {
  static const struct {
    const char *words[3], *said;
  } rows[] = {
      {{"--modle", "x"}, "did you mean --model"},
      {{"--zzzzzzzzz"}, "unknown option --zzzzzzzzz"},
      {{"-x"}, "unknown option -x"},
      {{"word"}, "unexpected argument"},
      {{"--model"}, "needs a value"},
      {{"--quiet=1"}, "takes no value"},
      {{"--requests", "0"}, "at least 1"},
      {{"--requests", "-1"}, "takes a number"},
      {{"--requests", "1e3"}, "takes a number"},
      {{"--requests", "99999999999999999999"}, "takes a number"},
      {{"--layers", "5000"}, "at most 4096"},
      {{"--piece", "1XB"}, "takes a size"},
      {{"--piece", "99999999999TiB"}, "takes a size"},
      {{"--verify", "maybe"}, "full, sample, off"},
      {{"--way", "shared"}, "auto, staged, direct"},
      {{"--time-scale", "-1"}, "not negative"},
      {{"--time-scale", "nan"}, "not negative"},
      {{"--prefill", "tp"}, "key=value"},
      {{"--prefill", "tp=0"}, "from 1 to"},
      {{"--prefill", "tp=2,tp=4"}, "given twice"},
      {{"--prefill", "ep=2"}, "known are tp, pp, page, layout, cp, cpblock and layers"},
      {{"--prefill", "cp=0"}, "from 1 to"},
      {{"--prefill", "layers=7+"}, "layers="},
      {{"--prefill", "layers=7+8,pp=3"}, "speak of 2 and 3 stages"},
      {{"--prefill", "pp=3,layers=7+8"}, "speak of 3 and 2 stages"},
      {{"--decode", "tp=8,cp=16"}, "at most 64 ranks"},
      {{"--prefill", "layout=dhn"}, "nhd or hnd"},
      {{"--decode", "tp=32,pp=4"}, "at most 64 ranks"},
      {{"--decode", ""}, "key=value"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct settings settings;
    struct complaint complaint;
    assert_int_equal(parse(&settings, &complaint, rows[i].words), OPTIONS_WRONG);
    if (!strstr(complaint.text, rows[i].said))
      fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].words[0], complaint.text, rows[i].said);
  }
}

static void sides_can_be_uneven_and_split_by_tokens(void **state) {
  struct settings settings;
  struct complaint complaint;
  assert_int_equal(
      parse(&settings, &complaint,
            (const char *const[]){"--prefill", "layers=3+2,tp=1", "--decode", "cp=4,cpblock=16,tp=2", "--layers", "5", NULL}),
      OPTIONS_DONE);
  assert_true(settings_resolve(&settings, &complaint));
  assert_int_equal(settings_rank_count(&settings, ROLE_PREFILL), 2);
  assert_int_equal(settings.sides[ROLE_PREFILL].stage_layers[1], 2);
  assert_int_equal(settings_rank_count(&settings, ROLE_DECODE), 8);
  assert_int_equal(settings.sides[ROLE_DECODE].cp_block, 16);
}

static void help_wins(void **state) {
  struct settings settings;
  struct complaint complaint;
  assert_int_equal(parse(&settings, &complaint, (const char *const[]){"--quiet", "--help", NULL}), OPTIONS_HELP);
}

static void what_does_not_go_together_is_refused(void **state) {
  static const struct {
    const char *words[5], *said;
  } rows[] = {
      {{"--model", "Llama"}, "did you mean"},
      {{"--layers", "37"}, "Qwen3-8B has 36"},
      {{"--prefill", "pp=3"}, "3 pipeline stages"},
      {{"--model", "DeepSeek-V3", "--heads", "4"}, "MLA"},
      {{"--deadline", "0"}, "--deadline"},
      {{"--layers", "5", "--decode", "layers=2+2"}, "adds up to 4, and the model has 5"},
      {{"--model", "DeepSeek-V4-Flash", "--layers", "2"}, "3 kinds of layers"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct settings settings;
    struct complaint complaint;
    assert_int_equal(parse(&settings, &complaint, rows[i].words), OPTIONS_DONE);
    assert_false(settings_resolve(&settings, &complaint));
    if (!strstr(complaint.text, rows[i].said)) fail_msg("\"%s\" does not say \"%s\"", complaint.text, rows[i].said);
  }
}

static void quantities_are_written_short(void **state) {
  char text[QUANTITY_TEXT_BYTES];
  assert_string_equal(quantity_format_bytes(1023, text), "1023 B");
  assert_string_equal(quantity_format_bytes(1536, text), "1.50 KiB");
  assert_string_equal(quantity_format_bytes(3.0 * (1ull << 30), text), "3.00 GiB");
  assert_string_equal(quantity_format_count(0, text), "0");
  assert_string_equal(quantity_format_count(999, text), "999");
  assert_string_equal(quantity_format_count(1234567, text), "1,234,567");
  assert_string_equal(quantity_format_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
  assert_string_equal(quantity_format_seconds(125, text), "2 min 05 s");
}

static void endpoints_count_upwards_or_come_as_a_list(void **state) {
  struct endpoints endpoints;
  struct complaint complaint;
  assert_true(endpoints_parse("[::1]:700", 3, &endpoints, &complaint));
  assert_string_equal(endpoints.list[2], "[::1]:702");
  assert_true(endpoints_parse("host:0", 2, &endpoints, &complaint));
  assert_string_equal(endpoints.list[1], "host:0");
  assert_true(endpoints_parse("a:1,b:9", 2, &endpoints, &complaint));
  assert_string_equal(endpoints.list[1], "b:9");
  const char *const wrong[] = {"host", ":80", "[::1]", "host:65536", "host:x", "a:1,b:2,c:3", "a:1,", "host:65535"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(endpoints_parse(wrong[i], 2, &endpoints, &complaint));
}

static void suggestions_need_to_be_near(void **state) {
  const char *const words[] = {"KEY_REVOKED", "INVALID", "TIMEOUT"};
  assert_int_equal(suggest_distance("kitten", "sitting"), 3);
  assert_int_equal(suggest_distance("", "abc"), 3);
  assert_string_equal(suggest_word("invlid", words, 3), "INVALID");
  assert_string_equal(suggest_word("revoked", words, 3), "KEY_REVOKED");
  assert_null(suggest_word("zebra", words, 3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_option_has_a_row),
      cmocka_unit_test(both_spellings_and_every_kind_are_parsed),
      cmocka_unit_test(wrong_options_say_what_is_wrong),
      cmocka_unit_test(sides_can_be_uneven_and_split_by_tokens),
      cmocka_unit_test(help_wins),
      cmocka_unit_test(what_does_not_go_together_is_refused),
      cmocka_unit_test(quantities_are_written_short),
      cmocka_unit_test(endpoints_count_upwards_or_come_as_a_list),
      cmocka_unit_test(suggestions_need_to_be_near),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
