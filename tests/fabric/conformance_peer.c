/* The receiving process. It has no cmocka: what is wrong is counted, and impossible things end it with an exit code. */
#include "conformance_peer.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "memory/shared.h"

enum { EXIT_SETUP = 10, EXIT_LEAK = 11, EXIT_EXPOSE = 12 };

struct peer_command {
  uint64_t verb, argument;
};

struct receiving {
  const struct fabric_ops *ops;
  struct fabric *fabric;
  uint64_t token;
  int socket;
  struct fabric_memory memory;
  bool memory_is_providers;
  struct fabric_region *region;
  uint64_t generation; /* 0: revoked */
  uint64_t refuse_every, drop_on_landed;
  uint64_t next_sequence; /* the least that may come */
  struct peer_state state;
};

static uint64_t word_of(uint64_t seed, uint64_t index) {
  return base_mix_u64(seed * 0x10001 + index);
}

void peer_pattern_fill(void *bytes, uint64_t length, uint64_t seed) {
  for (uint64_t i = 0; i < length; i += 8) {
    uint64_t word = word_of(seed, i / 8);
    memcpy((char *)bytes + i, &word, length - i < 8 ? length - i : 8);
  }
}

bool peer_pattern_matches(const void *bytes, uint64_t length, uint64_t seed) {
  for (uint64_t i = 0; i < length; i += 8) {
    uint64_t word = word_of(seed, i / 8);
    if (memcmp((const char *)bytes + i, &word, length - i < 8 ? length - i : 8) != 0) return false;
  }
  return true;
}

uint64_t peer_header_check(const struct peer_header *header) {
  const uint64_t *words = (const uint64_t *)header;
  uint64_t check = 1;
  for (size_t i = 0; i < sizeof *header / 8 - 1; i++) check = base_mix_u64(check ^ words[i]);
  return check;
}

uint64_t peer_fd_count(void) {
  DIR *folder = opendir("/proc/self/fd");
  uint64_t count = 0;
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}

static bool read_header(struct receiving *receiving, uint64_t token, const uint8_t *bytes, uint64_t payload_bytes,
                        struct peer_header *header_out) {
  memcpy(header_out, bytes, sizeof *header_out);
  if (token == receiving->token && header_out->check == peer_header_check(header_out) && header_out->length == payload_bytes)
    return true;
  receiving->state.bad++;
  return false;
}

static kvf_status place(void *context, uint64_t token, const uint8_t *bytes, uint64_t payload_bytes, struct iovec *iov_out,
                        size_t *iov_count_inout) {
  struct receiving *receiving = context;
  struct peer_header header;
  kvf_status status = KVF_OK;
  if (!read_header(receiving, token, bytes, payload_bytes, &header))
    status = KVF_PROTOCOL;
  else if (header.generation != receiving->generation)
    status = KVF_STALE;
  else if (header.offset > PEER_REGION_BYTES || payload_bytes > PEER_REGION_BYTES - header.offset)
    status = KVF_OUT_OF_RANGE;
  else if (receiving->refuse_every && header.sequence % receiving->refuse_every == 0)
    status = KVF_STALE;
  if (status != KVF_OK) {
    receiving->state.refused++;
    return status;
  }
  /* Up to seven parts of unequal length, one of them empty. */
  size_t count = 0;
  uint64_t done = 0, parts = 1 + header.sequence % 7;
  for (uint64_t i = 0; i < parts; i++) {
    uint64_t length = i + 1 == parts ? payload_bytes - done : (payload_bytes - done) / 3 * (i != 2);
    iov_out[count++] = (struct iovec){(char *)receiving->memory.address + header.offset + done, length};
    done += length;
  }
  if (count > *iov_count_inout) receiving->state.bad++;
  *iov_count_inout = count;
  return KVF_OK;
}

static void landed(void *context, uint64_t token, const uint8_t *bytes, uint64_t payload_bytes) {
  struct receiving *receiving = context;
  struct peer_header header;
  receiving->state.landed++;
  if (!read_header(receiving, token, bytes, payload_bytes, &header)) return;
  bool in_range = header.offset <= PEER_REGION_BYTES && payload_bytes <= PEER_REGION_BYTES - header.offset;
  if (header.sequence < receiving->next_sequence || header.generation != receiving->generation || !in_range ||
      !peer_pattern_matches((char *)receiving->memory.address + header.offset, payload_bytes, header.seed))
    receiving->state.bad++;
  receiving->next_sequence = header.sequence + 1;
  if (receiving->drop_on_landed && receiving->state.landed == receiving->drop_on_landed)
    receiving->ops->token_drop(receiving->fabric, token);
}

static void token_lost(void *context, uint64_t token) {
  struct receiving *receiving = context;
  receiving->state.lost++;
  receiving->next_sequence = 0;
  if (token != receiving->token) receiving->state.bad++;
}

static void expose(struct receiving *receiving, uint64_t generation, struct peer_reply *reply) {
  struct fabric_exposure exposure = {.region = PEER_REGION,
                                     .generation = generation,
                                     .address = receiving->memory.address,
                                     .length = PEER_REGION_BYTES,
                                     .memory_fd = -1};
  if (!receiving->memory_is_providers)
    memory_shared_find(exposure.address, exposure.length, &exposure.memory_fd, &exposure.memory_fd_offset);
  kvf_error *error = NULL;
  if (receiving->ops->region_expose(receiving->fabric, &exposure, &receiving->region, &error) != KVF_OK) {
    char text[512];
    kvf_error_format(error, text, sizeof text);
    fprintf(stderr, "receiver: %s\n", text);
    exit(EXIT_EXPOSE);
  }
  receiving->generation = generation;
  reply->byte_count = receiving->region->ops->region_key(receiving->region, reply->bytes);
}

static void revoke_exposed(struct receiving *receiving) {
  if (receiving->region) receiving->region->ops->region_revoke(receiving->region);
  receiving->region = NULL;
  receiving->generation = 0;
}

static void open_all(struct receiving *receiving, const char *settings) {
  struct fabric_options options = {.host = "127.0.0.1",
                                   .settings = settings,
                                   .callbacks = {.context = receiving, .place = place, .landed = landed, .token_lost = token_lost}};
  kvf_error *error = NULL;
  base_random_fill(options.incarnation, sizeof options.incarnation);
  if (receiving->ops->open(&options, &receiving->fabric, &error) != KVF_OK) exit(EXIT_SETUP);
  receiving->ops = receiving->fabric->ops;
  receiving->memory_is_providers = receiving->ops->memory_alloc != NULL;
  receiving->memory.length = PEER_REGION_BYTES;
  kvf_status status = receiving->memory_is_providers
                          ? receiving->ops->memory_alloc(receiving->fabric, PEER_REGION_BYTES, &receiving->memory, &error)
                          : memory_shared_alloc(PEER_REGION_BYTES, &receiving->memory.address, &error);
  if (status != KVF_OK) exit(EXIT_SETUP);
}

static void close_all(struct receiving *receiving) {
  revoke_exposed(receiving);
  if (receiving->memory_is_providers) receiving->ops->memory_free(receiving->fabric, &receiving->memory);
  receiving->ops->close(receiving->fabric);
  if (!receiving->memory_is_providers) memory_shared_free(receiving->memory.address);
}

/* False to quit. */
static bool obey(struct receiving *receiving) {
  struct peer_command command;
  struct peer_reply reply = {0};
  if (recv(receiving->socket, &command, sizeof command, 0) != sizeof command) return false;
  const struct fabric_ops *ops = receiving->ops;
  switch (command.verb) {
    case PEER_STATE:
      break;
    case PEER_ADDRESS:
      reply.byte_count = ops->address(receiving->fabric, reply.bytes);
      break;
    case PEER_EXPOSE:
      expose(receiving, command.argument, &reply);
      break;
    case PEER_REVOKE:
      revoke_exposed(receiving);
      break;
    case PEER_ADMIT:
      reply.answer = (uint64_t)ops->token_admit(receiving->fabric, command.argument, NULL);
      break;
    case PEER_DROP:
      ops->token_drop(receiving->fabric, command.argument);
      break;
    case PEER_REFUSE_EVERY:
      receiving->refuse_every = command.argument;
      break;
    case PEER_DROP_ON_LANDED:
      receiving->drop_on_landed = command.argument;
      break;
    case PEER_LIVE:
      reply.answer = ops->token_live && ops->token_live(receiving->fabric, command.argument);
      break;
    default:
      break;
  }
  struct timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  receiving->state.cpu_ns = (uint64_t)cpu.tv_sec * BASE_NS_PER_S + (uint64_t)cpu.tv_nsec;
  reply.state = receiving->state;
  send(receiving->socket, &reply, sizeof reply, MSG_NOSIGNAL);
  return command.verb != PEER_QUIT;
}

static void serve(struct receiving *receiving) {
  const struct fabric_ops *ops = receiving->ops;
  struct pollfd polls[2] = {{.fd = receiving->socket, .events = POLLIN},
                            {.fd = ops->event_fd(receiving->fabric), .events = POLLIN}};
  for (;;) {
    bool did = ops->progress(receiving->fabric);
    bool may_sleep = !did && (!ops->arm || ops->arm(receiving->fabric));
    poll(polls, 2, may_sleep ? -1 : 0);
    if (may_sleep) receiving->state.wakeups++;
    if ((polls[0].revents & (POLLIN | POLLHUP)) && !obey(receiving)) return;
  }
}

static void receive(const struct fabric_ops *ops, const char *settings, uint64_t token, int socket) {
  struct receiving receiving = {.ops = ops, .token = token, .socket = socket};
  struct peer_reply ready = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  uint64_t fds = peer_fd_count();
  open_all(&receiving, settings);
  expose(&receiving, 1, &ready);
  receiving.ops->token_admit(receiving.fabric, token, NULL);
  send(socket, &ready, sizeof ready, MSG_NOSIGNAL);
  serve(&receiving);
  close_all(&receiving);
  /* Libraries may keep descriptors of their own for the process; what belongs to one open must go with its close. */
  uint64_t left = peer_fd_count();
  if (left > fds) {
    open_all(&receiving, settings);
    receiving.region = NULL;
    close_all(&receiving);
    fds = left;
    left = peer_fd_count();
  }
  exit(left > fds ? EXIT_LEAK : 0);
}

void peer_start(struct peer *peer, const struct fabric_ops *ops, const char *settings, uint64_t token) {
  int sockets[2];
  struct peer_reply ready;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) abort();
  fflush(NULL);
  peer->token = token;
  peer->socket = sockets[0];
  peer->pid = fork();
  if (peer->pid == 0) {
    close(sockets[0]);
    receive(ops, settings, token, sockets[1]);
  }
  close(sockets[1]);
  if (recv(peer->socket, &ready, sizeof ready, 0) != sizeof ready) {
    fprintf(stderr, "the receiving process did not start\n");
    abort();
  }
}

void peer_ask(struct peer *peer, enum peer_verb verb, uint64_t argument, struct peer_reply *reply_out) {
  struct peer_command command = {verb, argument};
  *reply_out = (struct peer_reply){0};
  if (send(peer->socket, &command, sizeof command, MSG_NOSIGNAL) != sizeof command ||
      recv(peer->socket, reply_out, sizeof *reply_out, 0) != sizeof *reply_out)
    fprintf(stderr, "the receiving process does not answer\n");
}

struct peer_state peer_state_of(struct peer *peer) {
  struct peer_reply reply;
  peer_ask(peer, PEER_STATE, 0, &reply);
  return reply.state;
}

static int reap(struct peer *peer) {
  int status = 0;
  waitpid(peer->pid, &status, 0);
  peer->pid = 0;
  close(peer->socket);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int peer_stop(struct peer *peer) {
  struct peer_reply reply;
  if (!peer->pid) return 0;
  peer_ask(peer, PEER_QUIT, 0, &reply);
  return reap(peer);
}

void peer_kill(struct peer *peer) {
  if (!peer->pid) return;
  kill(peer->pid, SIGKILL);
  reap(peer);
}
