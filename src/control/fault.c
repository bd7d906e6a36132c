/* See fault.h. Like all settings for tests, what is not understood is an error rather than ignored. */
#include "control/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/random.h"
#include "wire/message.h"

enum { RULE_LIMIT_BYTES = 96, WORD_COUNT = 5, DIGITS_LIMIT = 15 };

static const char *const action_names[] = {"none", "drop", "duplicate", "delay", "reorder", "stall", "cut"};

const char *control_fault_name(enum control_fault_action action) {
  return action_names[action];
}

static bool parse_number(const char *text, size_t length, uint64_t *number_out) {
  uint64_t number = 0;
  if (length == 0 || length > DIGITS_LIMIT || strspn(text, "0123456789") < length) return false;
  for (size_t i = 0; i < length; i++) number = number * 10 + (uint64_t)(text[i] - '0');
  *number_out = number;
  return true;
}

static bool parse_action(const char *word, struct control_fault_rule *rule) {
  for (int i = CONTROL_FAULT_DROP; i <= CONTROL_FAULT_CUT; i++) {
    if (strcmp(word, action_names[i]) == 0) rule->action = (enum control_fault_action)i;
  }
  return rule->action != CONTROL_FAULT_NONE;
}

static bool parse_type(const char *word, struct control_fault_rule *rule) {
  rule->type = CONTROL_FAULT_ANY;
  if (strcasecmp(word, "any") == 0) return true;
  rule->type = CONTROL_FAULT_ALL;
  if (strcasecmp(word, "all") == 0) return true;
  for (rule->type = 0; rule->type <= UINT8_MAX; rule->type++) {
    if (strcasecmp(word, wire_type_name((uint8_t)rule->type)) == 0) return true;
  }
  return false;
}

static bool parse_direction(const char *word, struct control_fault_rule *rule) {
  bool both = strcmp(word, "both") == 0;
  rule->directions[CONTROL_IN] = both || strcmp(word, "in") == 0;
  rule->directions[CONTROL_OUT] = both || strcmp(word, "out") == 0;
  return rule->directions[CONTROL_IN] || rule->directions[CONTROL_OUT];
}

static bool parse_which(const char *word, struct control_fault_rule *rule) {
  size_t digits = strspn(word, "0123456789");
  const char *rest = word + digits + (word[digits] != '\0');
  rule->count = 1;
  if (word[digits] == '/')
    return parse_number(word, digits, &rule->chance_part) && parse_number(rest, strlen(rest), &rule->chance_whole) &&
           rule->chance_whole > 0;
  if (!parse_number(word, digits, &rule->first) || rule->first == 0) return false;
  if (word[digits] == '\0') return true;
  return word[digits] == 'x' && parse_number(rest, strlen(rest), &rule->count) && rule->count > 0;
}

static bool parse_wait(const char *word, struct control_fault_rule *rule) {
  bool waits = rule->action == CONTROL_FAULT_DELAY || rule->action == CONTROL_FAULT_STALL;
  uint64_t wait_ms;
  if (!word) return !waits;
  if (!waits || !parse_number(word, strlen(word), &wait_ms)) return false;
  rule->wait_ns = wait_ms * BASE_NS_PER_MS;
  return rule->wait_ns / BASE_NS_PER_MS == wait_ms;
}

/* NULL, or what is wrong with the rule; it is cut up in place. */
static const char *parse_rule(char *text, struct control_fault_rule *rule) {
  char *words[WORD_COUNT] = {NULL};
  int count = 0;
  while (text && count < WORD_COUNT) words[count++] = strsep(&text, ":");
  if (text || count < WORD_COUNT - 1) return "ACTION:TYPE:DIRECTION:WHICH[:MS] is expected";
  if (!parse_action(words[0], rule)) return "there is no such action";
  if (!parse_type(words[1], rule)) return "there is no such message";
  if (!parse_direction(words[2], rule)) return "the direction is in, out or both";
  if (!parse_which(words[3], rule)) return "which ones: n, nxk or p/q";
  return parse_wait(words[4], rule) ? NULL : "delay and stall take milliseconds, the others none";
}

static kvf_status parse_entry(struct control_fault *fault, const char *text, size_t length, kvf_error **error_out) {
  char entry[RULE_LIMIT_BYTES], cut[RULE_LIMIT_BYTES];
  const char *reason = length >= sizeof entry ? "it is too long" : NULL;
  snprintf(entry, sizeof entry, "%.*s", (int)length, text);
  if (!reason && strncmp(entry, "seed=", 5) == 0) {
    if (parse_number(entry + 5, strlen(entry + 5), &fault->random)) return KVF_OK;
    reason = "the seed is a number";
  } else if (!reason && fault->rule_count == CONTROL_FAULT_RULE_LIMIT) {
    reason = "there are too many";
  } else if (!reason) {
    memcpy(cut, entry, sizeof cut);
    reason = parse_rule(cut, &fault->rules[fault->rule_count]);
  }
  if (!reason) {
    fault->rule_count++;
    return KVF_OK;
  }
  kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "not a fault of control frames: %s", reason);
  return base_error_give(base_error_add(error, "rule", "%s", entry), error_out);
}

kvf_status control_fault_parse(struct control_fault *fault_out, const char *text, kvf_error **error_out) {
  *fault_out = (struct control_fault){.rule_count = 0};
  while (text && *text) {
    size_t length = strcspn(text, ",");
    kvf_status status = parse_entry(fault_out, text, length, error_out);
    if (status != KVF_OK) return status;
    text += length + (text[length] == ',');
  }
  return KVF_OK;
}

static bool concerns(const struct control_fault_rule *rule, uint8_t type, enum control_direction direction) {
  if (!rule->directions[direction]) return false;
  if (rule->type == CONTROL_FAULT_ANY) return type != WIRE_PING && type != WIRE_PONG;
  return rule->type == CONTROL_FAULT_ALL || rule->type == type;
}

static bool hits(struct control_fault *fault, struct control_fault_rule *rule) {
  if (rule->chance_whole) return base_random_next(&fault->random) % rule->chance_whole < rule->chance_part;
  uint64_t number = ++rule->seen;
  return number >= rule->first && number - rule->first < rule->count;
}

enum control_fault_action control_fault_judge(struct control_fault *fault, uint8_t type, enum control_direction direction,
                                              uint64_t *wait_ns_out) {
  enum control_fault_action action = CONTROL_FAULT_NONE;
  *wait_ns_out = 0;
  for (uint32_t i = 0; i < fault->rule_count; i++) {
    struct control_fault_rule *rule = &fault->rules[i];
    if (!concerns(rule, type, direction) || !hits(fault, rule) || action != CONTROL_FAULT_NONE) continue;
    action = rule->action;
    *wait_ns_out = rule->wait_ns;
  }
  fault->injected += action != CONTROL_FAULT_NONE;
  return action;
}
