/* Records: what a rank process tells the process that started it, over a pipe. Both are the same program, so fixed
 * structs travel as they are: a header, the struct of the type, then text without a NUL. */
#ifndef TOOLS_RECORD_H
#define TOOLS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_type {
  RECORD_LISTENING = 1, /* text: the address */
  RECORD_READY,         /* connected to every rank of the other side */
  RECORD_ROOM,          /* struct record_room; text: the error chain */
  RECORD_NOTE,          /* text: something worth a line, not an end */
  RECORD_SUMMARY,       /* struct record_summary: the rank has finished; text: why its route was chosen */
  RECORD_FAILURE        /* text: the rank gives up */
};

enum record_check { RECORD_UNCHECKED, RECORD_RIGHT, RECORD_WRONG };

struct record_room {
  uint32_t index; /* of the request */
  int32_t status; /* kvf_status of its end */
  uint32_t check; /* RECORD_… */
  uint32_t pieces, retries, reserved;
  uint64_t opened_ns; /* before send or recv open */
  uint64_t ready_ns;  /* prefill: before the final chunk was posted; decode: opened_ns */
  uint64_t end_ns;
  uint64_t bytes, slices;
  uint64_t grant_wait_ns, gather_ns, write_ns, scatter_ns;
};

struct record_summary {
  uint32_t check; /* decode: the whole pool was canary at the end */
  uint32_t way;   /* KVF_WAY_… towards the peers; prefill only */
  char fabric[16];
  uint64_t pool_bytes, arena_bytes, arena_peak_bytes, messages_refused;
};

enum { RECORD_TEXT_LIMIT = 8192 };

struct record {
  enum record_type type;
  union {
    struct record_room room;
    struct record_summary summary;
  };
  char text[RECORD_TEXT_LIMIT + 1];
};

struct record_reader {
  char *buffer;
  size_t used, capacity;
};

/** Write one record whole; longer text is cut. False when the reader is gone. */
bool record_write(int fd, enum record_type type, const void *fixed, const char *text);

/** Read what is there. 1: something came, 0: nothing now, -1: the writer is gone. */
int record_read(struct record_reader *reader, int fd);
/** Take the next whole record. 1: there was one, 0: not yet, -1: this is no record. */
int record_next(struct record_reader *reader, struct record *record_out);
void record_reader_fini(struct record_reader *reader);

#endif
