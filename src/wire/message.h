/* The control messages and the piece header: their fields, encoding and decoding. Pure.
 *
 * Encoding appends a whole frame (outer frame and payload) to a wire_buffer. Decoding fills a struct whose pointers borrow from the
 * payload or from a wire_scratch that owns decoded arrays; every length and count is checked against the payload before anything is
 * allocated, and bytes after the known fields of a message are ignored (newer optional fields), but a missing field is an error.
 *
 *   session     HELLO AUTH | LAYOUT OFFER EXPOSE REVOKE READY REFUSE | PING PONG BYE
 *   receiver →  PLAN OPEN GRANT ACK NACK DONE
 *   sender   →  WANT RETURN REFRESH FINAL
 *   either   →  FAIL FAIL_ACK */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <kvferry/plane.h>

#include "wire/frame.h"

enum wire_type {
  WIRE_HELLO = 1,
  WIRE_AUTH = 2,
  WIRE_LAYOUT = 3,
  WIRE_OFFER = 4,
  WIRE_EXPOSE = 5,
  WIRE_REVOKE = 6,
  WIRE_READY = 7,
  WIRE_REFUSE = 8,
  WIRE_PING = 9,
  WIRE_PONG = 10,
  WIRE_BYE = 11,
  WIRE_PLAN = 16,
  WIRE_OPEN = 17,
  WIRE_GRANT = 18,
  WIRE_ACK = 19,
  WIRE_NACK = 20,
  WIRE_DONE = 21,
  WIRE_WANT = 32,
  WIRE_RETURN = 33,
  WIRE_REFRESH = 34,
  WIRE_FINAL = 35,
  WIRE_FAIL = 48,
  WIRE_FAIL_ACK = 49
};

enum {
  WIRE_VERSION_MIN = 1,
  WIRE_VERSION_MAX = 1,
  WIRE_LABEL_LIMIT_BYTES = 63,
  WIRE_MAC_BYTES = 32,
  WIRE_NONCE_BYTES = 32,
  WIRE_INCARNATION_BYTES = 16,
  WIRE_PIECE_BYTES = 96,
  /* capabilities of a HELLO */
  WIRE_CAN_CHECKSUM = 1,   /* pieces with a checksum (XXH3, 64 bits) are made and checked */
  WIRE_WANTS_CHECKSUM = 2, /* and demanded: both sides can, or they are no pair */
  WIRE_PLANE_LIMIT = 65536,
  WIRE_CUT_LIMIT = 262144,
  WIRE_PROVIDER_LIMIT = 16,
  WIRE_REGION_LIMIT = 65536,
  WIRE_ERROR_DEPTH_LIMIT = 8,
  WIRE_ERROR_FIELD_LIMIT = 32,
  WIRE_TEXT_LIMIT_BYTES = 1024,
  WIRE_AUX_LIMIT_BYTES = 65536,
  WIRE_BLOB_LIMIT_BYTES = 65536, /* a provider's address or key */
  WIRE_BATCH_LIMIT = 262144,     /* entries of a GRANT, ACK or RETURN */
  WIRE_PAGE_LIMIT = 4 << 20      /* pages in all lists of an OPEN together */
};

/* A growing byte buffer of whole frames. After a failed append (memory, a limit) the frame in the making is taken back, `failed` stays
 * set and everything else is ignored. */
struct wire_buffer {
  uint8_t *bytes;
  size_t length, capacity;
  bool failed;
};
void wire_buffer_fini(struct wire_buffer *buffer);

/* Owns what decoding had to allocate, for one message. Zero-initialised is empty; may be reused for the next message after
 * wire_scratch_reset. */
struct wire_scratch {
  void *memory[4];
};
void wire_scratch_reset(struct wire_scratch *scratch);

struct wire_text {
  const char *text; /* not NUL-terminated; may hold any byte: never print unescaped */
  uint32_t length;
};

struct wire_hello {
  uint16_t version_min, version_max;
  uint64_t capabilities;
  uint8_t incarnation[WIRE_INCARNATION_BYTES];
  uint8_t expected[WIRE_INCARNATION_BYTES]; /* the incarnation the caller believes it talks to; zeros: any */
  uint8_t nonce[WIRE_NONCE_BYTES];
  uint8_t has_secret;
  uint64_t heartbeat_ns;
  struct wire_text label;
  struct wire_text library; /* "0.1.0" */
};

struct wire_auth {
  uint8_t mac[WIRE_MAC_BYTES];
};

/* What a rank holds. A plane's address travels as (region number, offset): kvf_plane.address holds the offset, regions[i] the region. */
struct wire_layout {
  uint32_t rank, rank_count, stage;
  uint32_t components, ignored; /* bit sets over the whole instance */
  uint64_t piece_bytes; /* largest piece this side can take or make */
  uint64_t arena_bytes;
  uint32_t plane_count;
  const kvf_plane *planes;
  const uint32_t *plane_regions; /* [plane_count] */
};

/* How pieces may be sent to this rank. */
struct wire_offer {
  uint64_t token; /* names this connection to the providers */
  uint32_t provider_count;
  struct {
    struct wire_text name;
    const uint8_t *address;
    uint32_t address_bytes;
  } providers[WIRE_PROVIDER_LIMIT];
};

/* One region as exposed on one provider. */
struct wire_expose {
  struct wire_text provider;
  uint32_t region;
  uint64_t generation;
  uint64_t region_bytes;
  const uint8_t *key;
  uint32_t key_bytes;
};

struct wire_revoke {
  uint32_t region;
  uint64_t generation;
};

/* An error chain on its way; decode gives an owned kvf_error whose links say file "peer". Encoding cuts a chain to the limits above
 * (the middle links, the last fields, the ends of texts) and sends INTERNAL for NULL, so that a failure can always be told. Decoding
 * replaces bytes that do not print, and takes a status that is unknown here for PEER_FAILED with the number in the field status. */
struct wire_refuse {
  kvf_error *error; /* encode: borrowed; decode: owned by the caller */
};

struct wire_ping {
  uint64_t sequence;
};

struct wire_bye {
  uint32_t draining; /* 1: still here, takes no new rooms */
};

/* The cuts this receiver wants from this sender. */
struct wire_plan {
  uint32_t plan; /* number chosen by the receiver */
  uint32_t cut_count;
  const struct wire_cut {
    uint32_t source_plane, target_plane, head_first, head_count;
  } *cuts;
};

/* The receiver has opened a room. page_list_count is 0 unless the sender may write into the pages itself. */
struct wire_open {
  uint64_t room;
  uint32_t plan;
  uint32_t opening;        /* rises with each OPEN of this receiver; pieces, FINAL, FAIL and FAIL_ACK repeat it, so that two lives of one room
                              on a session are told apart */
  uint32_t receiver_count; /* ranks of the receiving instance that open this room here */
  uint64_t token_first, token_end;
  uint32_t page_list_count;
  kvf_page_list page_lists[KVF_PAGE_LIST_LIMIT]; /* on the wire: runs of consecutive pages, delta and length coded */
};

struct wire_grant {
  uint32_t region;
  uint64_t region_generation;
  uint64_t region_base;  /* in the receiver's address space: for people only */
  uint64_t region_bytes;
  uint32_t want_sequence; /* of the last WANT that was known when this was granted */
  uint32_t grant_count;
  const struct wire_grant_entry {
    uint32_t id, generation;
    uint64_t offset, length;
  } *grants;
};

/* Pieces of rooms that have arrived and are scattered. */
struct wire_ack {
  uint32_t ack_count;
  const struct wire_ack_entry {
    uint64_t room;
    uint32_t sequence;
    uint32_t scatter_us;
  } *acks;
};

/* One piece was refused or could not be placed; the sender may try again. */
struct wire_nack {
  uint64_t room;
  uint32_t sequence;
  uint32_t attempt;
  kvf_error *error; /* as in wire_refuse */
};

struct wire_done {
  uint64_t room;
  uint64_t bytes;
};

struct wire_want {
  uint32_t level;    /* extents the sender wants to hold at once */
  uint32_t sequence; /* counts WANTs: comes back in GRANT */
};

struct wire_return {
  uint32_t grant_count;
  const struct wire_return_entry {
    uint32_t id, generation;
  } *grants;
};

/* The sender's key for this region does not work: expose it again under a new generation. */
struct wire_refresh {
  uint32_t region;
  uint64_t generation; /* that failed */
  uint32_t reason;     /* kvf_status */
};

/* Everything of the room has been cut into pieces. */
struct wire_final {
  uint64_t room;
  uint32_t opening;
  uint64_t token_first, token_end; /* what was posted, over all chunks */
  uint32_t piece_count;            /* sequences 0 … piece_count-1 to this receiver */
  uint64_t bytes;
  const uint8_t *aux;
  uint32_t aux_bytes;
};

struct wire_fail {
  uint64_t room;
  uint32_t opening;
  uint32_t by_receiver; /* 1: the receiving rank failed it, 0: the sending one; one id may be both between two ranks */
  kvf_error *error; /* as in wire_refuse */
};

struct wire_fail_ack {
  uint64_t room;
  uint32_t opening;
};

/* The header that travels with each piece through a provider: WIRE_PIECE_BYTES, with a magic and a check word over itself so that
 * damage in a header is seen before anything is believed. Errors: PROTOCOL. */
struct wire_piece {
  uint64_t room;
  uint32_t sequence;
  uint32_t attempt;
  uint32_t opening;
  uint32_t plan;
  uint32_t direct; /* 1: into the receiver's pages, no grant */
  uint32_t cut_first, cut_count;
  uint64_t token_first;
  uint32_t token_count;
  uint32_t grant, grant_generation;
  uint64_t bytes;
  uint64_t checksum; /* of the payload; 0: none */
};

#define WIRE_MESSAGES(X)                                                                                                        \
  X(hello) X(auth) X(layout) X(offer) X(expose) X(revoke) X(refuse) X(ping) X(bye) X(plan) X(open) X(grant) X(ack) X(nack) X(done) \
  X(want) X(return) X(refresh) X(final) X(fail) X(fail_ack)

/* void wire_hello_encode(struct wire_buffer *, const struct wire_hello *): appends frame and payload; limits that the caller exceeds set `failed`.
 * kvf_status wire_hello_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *, struct wire_hello *out, kvf_error **error_out):
 * Errors: PROTOCOL (the field field names it), NO_MEMORY; then *out is untouched. Form is checked here, meaning is not: a range may
 * be empty or reversed, an index out of its table. And so on for each message; READY has no payload; PONG has that of PING. */
#define WIRE_DECLARE(noun)                                                                        \
  void wire_##noun##_encode(struct wire_buffer *buffer, const struct wire_##noun *message);       \
  kvf_status wire_##noun##_decode(const uint8_t *payload, size_t payload_bytes, struct wire_scratch *scratch, \
                                  struct wire_##noun *message_out, kvf_error **error_out);
WIRE_MESSAGES(WIRE_DECLARE)
#undef WIRE_DECLARE

void wire_ready_encode(struct wire_buffer *buffer);
void wire_pong_encode(struct wire_buffer *buffer, const struct wire_ping *message);

void wire_piece_encode(const struct wire_piece *piece, uint8_t bytes_out[WIRE_PIECE_BYTES]);
kvf_status wire_piece_decode(const uint8_t bytes[WIRE_PIECE_BYTES], struct wire_piece *piece_out, kvf_error **error_out);

/* "HELLO", or "type 77". */
const char *wire_type_name(uint8_t type);

#endif
