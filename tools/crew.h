/* The crew: the rank processes that this process started, the pipes to them, and what each last said.
 * They die with this process, and this process notices when one of them dies. */
#ifndef TOOLS_CREW_H
#define TOOLS_CREW_H

#include <poll.h>
#include <sys/types.h>

#include "rank.h"
#include "record.h"

struct crew_member {
  enum role role;
  uint32_t rank;
  char name[24];
  pid_t pid;      /* 0 after it was waited for */
  int report_fd;  /* its records; -1 after their end */
  int control_fd; /* our words */
  int wait_status;
  char address[64]; /* "" until it listens */
  bool ready, finished;
  uint64_t heard_ns;                   /* when it last said anything */
  char failure[RECORD_TEXT_LIMIT + 1]; /* why it gave up, as it said itself */
  struct record_reader reader;
};

struct crew {
  struct crew_member *members;
  size_t count, capacity;
  struct pollfd *polled; /* [capacity + 1] */
  int signal_fd;         /* SIGINT, SIGTERM, SIGHUP and SIGCHLD */
  int caught_signal;     /* the first of the three that ask us to stop */
  void (*room)(void *context, struct crew_member *member, const struct record *record); /* RECORD_ROOM and RECORD_SUMMARY */
  void (*note)(void *context, struct crew_member *member, const char *text);
  void *context;
};

bool crew_init(struct crew *crew, size_t capacity, struct complaint *complaint);
/** Start a member. Its pipes, role and rank are set here; @p setup gives the rest. */
bool crew_add(struct crew *crew, const struct rank_setup *setup, struct complaint *complaint);
/** Take in what members say, waiting at most @p timeout_ms for it. */
void crew_listen(struct crew *crew, int timeout_ms);
/** Say @p word to every member. */
void crew_tell(struct crew *crew, uint64_t word);
/** A member that cannot finish any more: gave up, talked nonsense or died. NULL when all is well. */
struct crew_member *crew_find_lost(struct crew *crew);
/** Its exit status or signal in words, after what it said itself. */
void crew_describe_loss(const struct crew_member *member, char *text, size_t capacity_bytes);
/** End all members, gently first, and wait for them. */
void crew_end(struct crew *crew, uint64_t patience_ns);
void crew_fini(struct crew *crew);

#endif
