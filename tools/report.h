/* The report: merges what every rank said about every room, then prints it as a table or as JSON.
 * A room is done only when every rank of every side in this run ended it DONE and no check failed. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <stdio.h>

#include <jansson.h>

#include "record.h"
#include "settings.h"

enum { REPORT_ERROR_LIMIT = 10 };

struct report_room {
  uint32_t ends; /* ranks that ended it */
  bool failed, cancelled;
  uint64_t opened_ns, ready_ns, end_ns; /* first opened; last ready; last end: of the decode side if it is in this run */
};

struct report_error {
  int64_t request; /* -1: not of one room */
  uint64_t room;
  int32_t status;
  char rank[24];
  char text[RECORD_TEXT_LIMIT + 1];
};

struct report_totals {
  uint64_t done, failed, cancelled; /* rooms that never ended count as failed */
  bool good;                        /* everything done and nothing wrong */
  bool verified;                    /* good, and every byte was checked */
  double flight_s;                  /* wall time with at least one room in flight */
  double bytes_per_second, memcpy_bytes_per_second, memcpy_ratio;
  double latency_p50_ms, latency_p95_ms, latency_p99_ms;
};

struct report {
  const struct settings *settings;
  const struct workload *workload;
  bool has_side[2]; /* by role: which instances are in this run */
  struct report_room *rooms;
  uint64_t bytes[2], pieces[2], slices[2], retries[2]; /* by role */
  uint64_t grant_wait_ns, gather_ns, write_ns, scatter_ns;
  uint32_t summaries, stained_pools;
  uint64_t pool_bytes, arena_bytes, arena_peak_bytes, messages_refused;
  char fabric[32], reason[512]; /* of the first rank that said; "mixed" when another said something else */
  uint32_t way;
  bool way_mixed;
  uint64_t ended_rooms, live_bytes; /* for the progress line */
  struct report_error *errors;      /* the first REPORT_ERROR_LIMIT */
  size_t error_count;
  uint64_t error_total;
  struct report_totals totals; /* after report_finish */
};

bool report_init(struct report *report, const struct settings *settings, const struct workload *workload, bool has_prefill,
                 bool has_decode);
void report_fini(struct report *report);

/** False when the record cannot be true (a request that does not exist). */
bool report_add_room(struct report *report, enum role role, uint32_t rank, const struct record_room *room, const char *text);
void report_add_summary(struct report *report, enum role role, uint32_t rank, const struct record_summary *summary,
                        const char *reason);
/** Something that fails the run and belongs to no room; @p rank_name is "" for the run itself. */
void report_add_failure(struct report *report, const char *rank_name, const char *text);

/** Compute the totals. @p memcpy_bytes_per_second 0 = not measured. */
void report_finish(struct report *report, double memcpy_bytes_per_second);

void report_print(const struct report *report, FILE *out);
/** The errors alone, which report_print ends with. */
void report_print_errors(const struct report *report, FILE *out);
/** Returns owned, NULL without memory. */
json_t *report_encode(const struct report *report);
/** Write the JSON to the file at @p path, or standard output for "-". */
bool report_save(const struct report *report, const char *path, struct complaint *complaint);

#endif
