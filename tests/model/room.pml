/* The room protocol: what src/transfer does with messages, pieces and extents, small enough to be searched to the end.
 *
 *   sender                                             receiver
 *   send, legs, pieces, credits  ── to_receiver ──→    recv, legs, landings
 *                                ←── to_sender ───     arena: extents with generations
 *                                ══ fabric ═══════→
 *
 * Each event of the code (a message, a landing, a copy's end, a user's call, a fault) is one step; what a turn does after it belongs to
 * the step, except that the pump starts pieces whenever it likes. Time is not modelled: what a timer does may happen at any time, within
 * the budget of its fault. Names that begin with g_ are ghosts: the properties look at them, the protocol does not.
 *
 * The parameters are macros; check_model.py has the table. BREAK_… takes a precaution away, and an error must be found.
 * REPAIR_… is what the code does not do yet; without it an error must be found (docs/decisions/0005-protocol-model.md). */

/* ---- parameters ---- */
#ifndef SENDERS
#define SENDERS 1
#endif
#ifndef RECEIVERS
#define RECEIVERS 1
#endif
/* The ways that are searched, a sum: 1 staged and 2 direct by a message provider, which places the payload; 4 staged and 8 direct through
 * a mapping of the receiver's memory, which the sender copies into. */
#ifndef WAYS
#define WAYS 15
#endif
#ifndef LIVES /* how often each side opens the same room, one after the other */
#define LIVES 1
#endif
#ifndef RELINK /* a second session after the first was lost, for the second life */
#define RELINK 0
#endif
/* Which faults may happen, each once, and how many of them in one run. */
#ifndef CANCEL_SEND
#define CANCEL_SEND 0
#endif
#ifndef CANCEL_RECV
#define CANCEL_RECV 0
#endif
#ifndef SESSION_LOST
#define SESSION_LOST 0
#endif
#ifndef ENDPOINT_LOST /* with what is on its way, or without */
#define ENDPOINT_LOST 0
#endif
#ifndef ACK_LATE /* a written piece is taken for lost, and is not: it lands twice */
#define ACK_LATE 0
#endif
#ifndef RESTART /* the sender's process dies and comes back */
#define RESTART 0
#endif
#ifndef BACKPRESSURE
#define BACKPRESSURE 0
#endif
#ifndef FAULTS
#define FAULTS 2
#endif

#define PIECES 2
#define EXTENTS 2
#define RETRIES 1
#define WINDOW 2
#define GENERATIONS 16
#define QUEUE 20
#define NONE 255
#define ENDPOINT_END 254

#if RELINK
#define LINKS 2
#define SENDER(l) 0
#define RECEIVER(l) 0
#define SERVES(l, life) ((life) == (l) + 1)
#else
#define LINKS (SENDERS * RECEIVERS)
#define SENDER(l) ((l) / RECEIVERS)
#define RECEIVER(l) ((l) % RECEIVERS)
#define SERVES(l, life) true
#endif

/* ---- messages, by the names of src/wire/message.h ---- */
mtype = { PLAN, OPEN, GRANT, ACK, NACK, DONE, WANT, RETURN, REFRESH, FINAL, FAIL, FAIL_ACK };
mtype:piece = { PIECE_IDLE, PIECE_COPYING, PIECE_UNSENT, PIECE_SENDING, PIECE_FLYING };
mtype:extent = { EXTENT_FREE, EXTENT_GRANTED, EXTENT_CLAIMED, EXTENT_QUARANTINED };
mtype:room = { ROOM_NONE, ROOM_OPEN, ROOM_FAILING, ROOM_OVER };
mtype:leg = { LEG_NONE, LEG_OPEN, LEG_CLOSED };
mtype:endpoint = { ENDPOINT_NONE, ENDPOINT_READY, ENDPOINT_DOOMED };
mtype:record = { RECORD_NONE, RECORD_LIVE, RECORD_GONE };
mtype:parked = { PARKED_NONE, PARKED_OPEN, PARKED_FAIL };

chan to_receiver[LINKS] = [QUEUE] of { mtype, byte, byte, byte };
chan to_sender[LINKS] = [QUEUE] of { mtype, byte, byte, byte };
/* sequence (or ENDPOINT_END), attempt, extent, generation, life */
chan fabric[LINKS] = [8] of { byte, byte, byte, byte, byte };

bool session_up[LINKS], session_cut[LINKS];
bool stop;
bool mapped, direct; /* the way, chosen at the start */

/* ---- the sender ---- */
#define P(l, i) ((l) * PIECES + (i))
#define X(r, e) ((r) * EXTENTS + (e))
mtype:room send_state[SENDERS];
bool send_ok[SENDERS];
byte send_life[SENDERS];
bool send_failed_before[SENDERS]; /* it is in transfer->ended */
bool told[LINKS];
mtype:parked parked[LINKS];
byte parked_life[LINKS];
bool s_lost[LINKS];
byte level[LINKS], want_sequence[LINKS];
bool has_credit[LINKS * EXTENTS];
byte credit_generation[LINKS * EXTENTS];
mtype:endpoint endpoint[LINKS];
byte epoch[LINKS];
mtype:leg leg[LINKS];
bool leg_done[LINKS], final_sent[LINKS];
byte next_sequence[LINKS];
byte open_life[LINKS]; /* of the OPEN that made the leg: whose pages its direct writes reach */
bool plan_known[LINKS];

mtype:record p_record[LINKS * PIECES];
mtype:piece p_state[LINKS * PIECES];
byte p_attempt[LINKS * PIECES];
bool p_acked[LINKS * PIECES], p_refused[LINKS * PIECES];
byte p_epoch[LINKS * PIECES];
byte p_extent[LINKS * PIECES], p_generation[LINKS * PIECES];
bool p_has_credit[LINKS * PIECES];

/* ---- the receiver ---- */
mtype:room recv_state[RECEIVERS];
bool recv_ok[RECEIVERS];
byte recv_life[RECEIVERS];
bool r_lost[LINKS], awaiting_fence[LINKS], token_live[LINKS];
byte peer_want_sequence[LINKS];
byte party_level[LINKS], party_standing[LINKS];
mtype:extent x_state[RECEIVERS * EXTENTS];
byte x_generation[RECEIVERS * EXTENTS];
byte x_party[RECEIVERS * EXTENTS];
bool rleg_there[LINKS], rleg_final[LINKS], rleg_whole[LINKS], fence_needed[LINKS], plan_sent[LINKS];
byte rleg_seen[LINKS]; /* a bit for each piece */
/* The one piece of a message provider's connection whose payload is arriving. */
bool placed[LINKS], placed_in_room[LINKS];
byte placed_sequence[LINKS], placed_attempt[LINKS], placed_extent[LINKS], placed_life[LINKS];
/* Scatters, by link, piece and attempt. */
#define L(l, i, a) (((l) * PIECES + (i)) * 2 + (a) - 1)
bool scattering[LINKS * PIECES * 2];
byte scatter_extent[LINKS * PIECES * 2];

/* ---- ghosts ---- */
bool g_spent_cancel_send, g_spent_cancel_recv, g_spent_session, g_spent_endpoint, g_spent_late, g_spent_restart, g_spent_pressure;
byte g_faults;
bool g_fault;      /* one of the faults has happened */
bool g_fatal;      /* one that may end a room without DONE */
bool g_died[SENDERS];
byte g_content[RECEIVERS * EXTENTS]; /* whose bytes are in it; NONE while it is written */
byte g_arrived[LINKS * PIECES];      /* life of the receive in whose pages its bytes are */
#define BYTES_OF(l, i, life) ((life) * 16 + P(l, i) + 1)

#define BUSY(p) (p_record[p] == RECORD_LIVE && (p_state[p] == PIECE_COPYING || p_state[p] == PIECE_SENDING))
#define RETRY(p) (p_record[p] == RECORD_LIVE && p_state[p] == PIECE_IDLE)
#define UNDER_WAY(p) (p_record[p] == RECORD_LIVE && p_state[p] != PIECE_IDLE)
#define MAPPED_COPY(p) (mapped && p_record[p] == RECORD_LIVE && p_state[p] == PIECE_COPYING)
#define ALIVE(l) (session_up[l] && !s_lost[l])

hidden byte k, m, n, f, h, w, y, u, v;
hidden byte yes, no, failed;

/* ---- posting; what is posted into a session that was cut is lost ---- */
inline post_to_receiver(l, kind, a, b, c) {
  if
  :: s_lost[l] || session_cut[l] -> skip
  :: else -> assert(len(to_receiver[l]) < QUEUE); to_receiver[l]!kind(a, b, c)
  fi
}
inline post_to_sender(l, kind, a, b, c) {
  if
  :: r_lost[l] || session_cut[l] -> skip
  :: else -> assert(len(to_sender[l]) < QUEUE); to_sender[l]!kind(a, b, c)
  fi
}

/* ================ the sender ================ */

/* transfer_credit_give_back */
inline give_back(l, extent, generation) { post_to_receiver(l, RETURN, extent, generation, 0) }
inline piece_credit_back(l, p) {
  if
  :: p_has_credit[p] -> give_back(l, p_extent[p], p_generation[p])
  :: else
  fi;
  p_has_credit[p] = false; p_extent[p] = 0; p_generation[p] = 0
}
inline drop_credits(l) {
  for (k : 0 .. EXTENTS - 1) {
    if
    :: has_credit[l * EXTENTS + k] ->
       has_credit[l * EXTENTS + k] = false;
       give_back(l, k, credit_generation[l * EXTENTS + k]);
       credit_generation[l * EXTENTS + k] = 0
    :: else
    fi
  }
}

inline forget_piece(p, record) {
  p_record[p] = record; p_state[p] = PIECE_IDLE; p_attempt[p] = 0; p_acked[p] = false; p_refused[p] = false; p_epoch[p] = 0;
  p_has_credit[p] = false; p_extent[p] = 0; p_generation[p] = 0
}

inline forget_leg(l) {
  leg[l] = LEG_NONE; leg_done[l] = false; final_sent[l] = false; next_sequence[l] = 0; open_life[l] = 0;
  for (w : 0 .. PIECES - 1) { forget_piece(P(l, w), RECORD_NONE) }
}

/* transfer_send_settle, and transfer_send_free of the turn that follows */
inline settle_send(s) {
  no = false; yes = true;
  for (m : 0 .. LINKS - 1) {
    if
    :: SENDER(m) == s ->
       for (w : 0 .. PIECES - 1) { no = no || BUSY(P(m, w)) };
       yes = yes && (leg_done[m] || !SERVES(m, send_life[s]))
    :: else
    fi
  };
  if
  :: !no && (send_state[s] == ROOM_FAILING || (send_state[s] == ROOM_OPEN && yes)) ->
     send_ok[s] = (send_state[s] == ROOM_OPEN);
     send_state[s] = ROOM_OVER;
     send_failed_before[s] = !send_ok[s];
     for (m : 0 .. LINKS - 1) {
       if
       :: SENDER(m) == s ->
          told[m] = (leg[m] != LEG_NONE);
          if
          :: leg[m] != LEG_NONE && !leg_done[m] -> post_to_receiver(m, FAIL_ACK, open_life[m], 0, 0)
          :: else
          fi;
          forget_leg(m)
       :: else
       fi
     }
  :: else
  fi
}

/* close_leg: pieces that a copy or the provider uses end when they come back */
inline close_leg(l) {
  if
  :: leg[l] == LEG_OPEN ->
     leg[l] = LEG_CLOSED;
     for (w : 0 .. PIECES - 1) {
       if
       :: p_record[P(l, w)] == RECORD_LIVE && !BUSY(P(l, w)) -> piece_credit_back(l, P(l, w)); forget_piece(P(l, w), RECORD_GONE)
       :: else
       fi
     }
  :: else
  fi
}

/* transfer_send_fail; except: a link, or NONE */
inline fail_send(s, except) {
  if
  :: send_state[s] == ROOM_OPEN ->
     send_state[s] = ROOM_FAILING;
     for (n : 0 .. LINKS - 1) {
       if
       :: SENDER(n) == s && leg[n] != LEG_NONE ->
          if
          :: !leg_done[n] && n != except -> post_to_receiver(n, FAIL, 0, open_life[n], 0)
          :: else
          fi;
          close_leg(n)
       :: else
       fi
     };
     settle_send(s)
  :: else
  fi
}

/* fail_piece; the piece must not be busy */
inline fail_piece(l, p) {
  if
  :: leg[l] == LEG_CLOSED -> piece_credit_back(l, p); forget_piece(p, RECORD_GONE); settle_send(SENDER(l))
  :: else ->
     piece_credit_back(l, p);
     if
     :: (direct && mapped && p_state[p] == PIECE_FLYING) || p_attempt[p] > RETRIES ->
        g_fatal = true;
        p_state[p] = PIECE_IDLE;
        fail_send(SENDER(l), NONE)
     :: else -> p_state[p] = PIECE_IDLE; p_refused[p] = false
     fi
  fi
}

/* transfer_route_down and transfer_route_reset: what the provider had accepted comes back, what flies goes again */
inline doom_endpoint(l) {
  endpoint[l] = ENDPOINT_DOOMED;
  for (u : 0 .. PIECES - 1) {
    if
    :: p_record[P(l, u)] == RECORD_LIVE && p_state[P(l, u)] == PIECE_SENDING ->
       p_state[P(l, u)] = PIECE_FLYING;
       if
       :: p_acked[P(l, u)] -> finish_piece(l, P(l, u))
       :: !p_acked[P(l, u)] && leg[l] == LEG_CLOSED -> fail_piece(l, P(l, u))
       :: else
       fi
    :: else
    fi;
    if
    :: p_record[P(l, u)] == RECORD_LIVE && p_state[P(l, u)] == PIECE_FLYING && leg[l] == LEG_OPEN -> fail_piece(l, P(l, u))
    :: else
    fi
  }
}

/* finish_piece; the present attempt's credit is the receiver's business if the acknowledgement was for this attempt */
inline finish_piece(l, p) {
#ifdef REPAIR_CREDIT
  piece_credit_back(l, p);
#endif
  forget_piece(p, RECORD_GONE);
  settle_send(SENDER(l))
}

/* send_piece; the payload of a mapped piece is in place already */
inline send_piece(l, i) {
  if
  :: endpoint[l] != ENDPOINT_READY || p_epoch[P(l, i)] != epoch[l] -> fail_piece(l, P(l, i))
  :: else ->
     p_state[P(l, i)] = PIECE_SENDING;
     assert(len(fabric[l]) < 8);
     fabric[l]!i, p_attempt[P(l, i)], (direct -> NONE : p_extent[P(l, i)]), p_generation[P(l, i)], open_life[l]
  fi
}

/* Nobody but the holder of a grant writes into an extent, and nobody writes into pages after the end of their room. */
inline check_target(l, p) {
  if
  :: mapped && direct -> assert(recv_life[RECEIVER(l)] == open_life[l] && recv_state[RECEIVER(l)] != ROOM_OVER)
  :: mapped && !direct ->
     assert(x_party[X(RECEIVER(l), p_extent[p])] == l && x_generation[X(RECEIVER(l), p_extent[p])] == p_generation[p]);
     assert(x_state[X(RECEIVER(l), p_extent[p])] == EXTENT_GRANTED || x_state[X(RECEIVER(l), p_extent[p])] == EXTENT_QUARANTINED)
  :: else
  fi
}

/* transfer_piece_start, after take_step of the pump: here a piece is cut when it can start */
inline start_piece(l, i) {
  p_record[P(l, i)] = RECORD_LIVE;
  p_attempt[P(l, i)] = p_attempt[P(l, i)] + 1;
  p_acked[P(l, i)] = false;
  p_epoch[P(l, i)] = epoch[l];
  if
  :: !direct ->
     k = 0;
     do
     :: !has_credit[l * EXTENTS + k] -> k++
     :: else -> break
     od;
     has_credit[l * EXTENTS + k] = false;
     p_has_credit[P(l, i)] = true; p_extent[P(l, i)] = k; p_generation[P(l, i)] = credit_generation[l * EXTENTS + k];
     credit_generation[l * EXTENTS + k] = 0
  :: else
  fi;
  if
  :: direct && !mapped -> send_piece(l, i)
  :: else ->
     p_state[P(l, i)] = PIECE_COPYING;
     check_target(l, P(l, i));
     if
     :: mapped && !direct -> g_content[X(RECEIVER(l), p_extent[P(l, i)])] = NONE
     :: else
     fi
  fi
}

/* copy_done, up to the sending */
inline end_copy(l, i) {
  check_target(l, P(l, i));
  if
  :: mapped && !direct -> g_content[X(RECEIVER(l), p_extent[P(l, i)])] = BYTES_OF(l, i, open_life[l])
  :: mapped && direct -> g_arrived[P(l, i)] = open_life[l]
  :: else
  fi;
  p_state[P(l, i)] = PIECE_UNSENT
}

/* transfer_piece_sent without an error */
inline sent_piece(l, i) {
  p_state[P(l, i)] = PIECE_FLYING;
  if
  :: p_acked[P(l, i)] -> finish_piece(l, P(l, i))
  :: !p_acked[P(l, i)] && leg[l] == LEG_CLOSED -> fail_piece(l, P(l, i))
  :: !p_acked[P(l, i)] && leg[l] == LEG_OPEN && p_refused[P(l, i)] -> p_state[P(l, i)] = PIECE_SENDING; fail_piece(l, P(l, i))
  :: else
  fi
}

/* Has the sender's leg something to start (is it in link->ready)? */
#define READY(l) (leg[l] == LEG_OPEN && (next_sequence[l] < PIECES || !final_sent[l] || RETRY(P(l, 0)) || RETRY(P(l, 1))))
#define CAN_START(l) (ALIVE(l) && endpoint[l] == ENDPOINT_READY && leg[l] == LEG_OPEN)
#define HAS_CREDIT(l) (direct || has_credit[(l) * EXTENTS] || has_credit[(l) * EXTENTS + 1])
#define IDLE(l) (!READY(l) && !UNDER_WAY(P(l, 0)) && !UNDER_WAY(P(l, 1)))

inline want(l, wanted) {
  if
  :: level[l] != wanted ->
     level[l] = wanted;
     want_sequence[l] = (want_sequence[l] + 1) % 8;
     post_to_receiver(l, WANT, wanted, want_sequence[l], 0)
  :: else
  fi
}

inline refuse_open(l, life) {
  post_to_receiver(l, FAIL, 0, life, 0);
  post_to_receiver(l, FAIL_ACK, life, 0, 0)
}

/* transfer_send_opened_by */
inline opened_by(l, life) {
  if
  :: send_state[SENDER(l)] == ROOM_NONE || send_state[SENDER(l)] == ROOM_OVER ->
     if
     /* The list of the told has room for as many parties as there are receivers. */
     :: send_failed_before[SENDER(l)] && !told[l] && !(RELINK && told[1 - (l)]) -> told[l] = true; refuse_open(l, life)
     :: else -> parked[l] = PARKED_OPEN; parked_life[l] = life
     fi
  :: send_state[SENDER(l)] == ROOM_FAILING -> refuse_open(l, life)
  :: send_state[SENDER(l)] == ROOM_OPEN && leg[l] != LEG_NONE -> refuse_open(l, life); g_fatal = true; fail_send(SENDER(l), l)
  :: else -> leg[l] = LEG_OPEN; open_life[l] = life
  fi
}

#ifdef REPAIR_LIFE
#define FAIL_REACHES(l, life) (send_state[SENDER(l)] == ROOM_OPEN && leg[l] != LEG_NONE && open_life[l] == life)
#else
#define FAIL_REACHES(l, life) (send_state[SENDER(l)] == ROOM_OPEN)
#endif

/* transfer_ended_is_known says that this peer knows of the failure; yet what is parked may be of a later life. */
#ifdef REPAIR_PARKED
#define PARKS_FAIL(l) (!(send_failed_before[SENDER(l)] && told[l]) || parked[l] == PARKED_OPEN)
#else
#define PARKS_FAIL(l) (!(send_failed_before[SENDER(l)] && told[l]))
#endif

/* transfer_send_failed_by */
inline send_failed_by(l, life) {
  if
  :: FAIL_REACHES(l, life) -> fail_send(SENDER(l), l)
  :: else ->
     if
#ifdef BREAK_EARLY_FAIL_ACK
     :: true -> post_to_receiver(l, FAIL_ACK, life, 0, 0)
#elif defined(REPAIR_LIFE)
     :: leg[l] == LEG_NONE || open_life[l] != life -> post_to_receiver(l, FAIL_ACK, life, 0, 0)
#else
     :: leg[l] == LEG_NONE -> post_to_receiver(l, FAIL_ACK, life, 0, 0)
#endif
#ifndef BREAK_EARLY_FAIL_ACK
     :: else
#endif
     fi;
     if
     :: (send_state[SENDER(l)] == ROOM_NONE || send_state[SENDER(l)] == ROOM_OVER) && PARKS_FAIL(l) ->
        parked[l] = PARKED_FAIL; parked_life[l] = life
     :: else
     fi
  fi
}

/* transfer_send_open, with all chunks posted */
inline open_send(s) {
  send_state[s] = ROOM_OPEN; send_life[s] = send_life[s] + 1; send_ok[s] = false;
  for (f : 0 .. LINKS - 1) {
    if
    :: SENDER(f) == s && parked[f] == PARKED_OPEN -> parked[f] = PARKED_NONE; opened_by(f, parked_life[f]); parked_life[f] = 0
    :: SENDER(f) == s && parked[f] == PARKED_FAIL -> parked[f] = PARKED_NONE; parked_life[f] = 0; fail_send(s, f)
    :: else
    fi
  }
}

/* transfer_credit_granted */
inline granted(l, extent, generation, sequence) {
  has_credit[l * EXTENTS + extent] = true;
  credit_generation[l * EXTENTS + extent] = generation;
  if
#ifdef BREAK_WANT_SEQUENCE
  :: level[l] == 0 -> drop_credits(l)
#else
  :: level[l] == 0 && sequence != want_sequence[l] -> drop_credits(l)
#endif
  :: else
  fi
}

/* transfer_piece_acked */
inline acked(l, i) {
  if
  :: leg[l] == LEG_OPEN && p_record[P(l, i)] == RECORD_LIVE && p_attempt[P(l, i)] > 0 ->
     p_acked[P(l, i)] = true;
#ifdef REPAIR_CREDIT
     if
     :: p_attempt[P(l, i)] == 1 -> p_has_credit[P(l, i)] = false
     :: else
     fi;
#else
     p_has_credit[P(l, i)] = false;
#endif
     if
     :: !BUSY(P(l, i)) -> finish_piece(l, P(l, i))
     :: else
     fi
  :: else
  fi
}

/* transfer_piece_refused */
inline refused(l, i, attempt) {
  if
  :: leg[l] == LEG_OPEN && p_record[P(l, i)] == RECORD_LIVE && p_attempt[P(l, i)] == attempt && p_state[P(l, i)] == PIECE_FLYING ->
     post_to_receiver(l, REFRESH, 0, 0, 0);
     fail_piece(l, P(l, i))
  :: leg[l] == LEG_OPEN && p_record[P(l, i)] == RECORD_LIVE && p_attempt[P(l, i)] == attempt && p_state[P(l, i)] == PIECE_SENDING ->
     p_refused[P(l, i)] = true
  :: else
  fi
}

/* transfer_send_done_by */
inline done_by(l, life) {
  if
#ifdef REPAIR_LIFE
  :: leg[l] == LEG_OPEN && open_life[l] == life ->
#else
  :: leg[l] == LEG_OPEN ->
#endif
     assert(final_sent[l]);
     leg_done[l] = true;
     close_leg(l);
     settle_send(SENDER(l))
  :: else
  fi
}

inline take_at_sender(l) {
  if
  :: to_sender[l]?PLAN(v, y, h) -> plan_known[l] = true
  :: to_sender[l]?OPEN(v, y, h) -> assert(plan_known[l]); opened_by(l, v)
  :: to_sender[l]?GRANT(v, y, h) -> granted(l, v, y, h)
  :: to_sender[l]?ACK(v, y, h) -> acked(l, v)
  :: to_sender[l]?NACK(v, y, h) -> refused(l, v, y)
  :: to_sender[l]?DONE(v, y, h) -> done_by(l, v)
  :: to_sender[l]?FAIL(v, y, h) -> assert(v == 1); send_failed_by(l, y)
  fi
}

/* transfer_link_lost at the sender */
inline lose_at_sender(l) {
  s_lost[l] = true;
  if
  :: endpoint[l] == ENDPOINT_READY -> doom_endpoint(l)
  :: else
  fi;
  if
  :: send_state[SENDER(l)] == ROOM_OPEN && leg[l] == LEG_OPEN -> fail_send(SENDER(l), l)
  :: else
  fi;
  parked[l] = PARKED_NONE; parked_life[l] = 0; level[l] = 0;
  for (k : 0 .. EXTENTS - 1) { has_credit[l * EXTENTS + k] = false; credit_generation[l * EXTENTS + k] = 0 }
}

/* The process is gone: its rooms, its copies, its connections. */
inline die(l) {
  g_died[SENDER(l)] = true;
  s_lost[l] = true; session_cut[l] = true;
  if
  :: endpoint[l] != ENDPOINT_NONE -> endpoint[l] = ENDPOINT_NONE; assert(len(fabric[l]) < 8); fabric[l]!ENDPOINT_END, 0, 0, 0, 0
  :: else
  fi;
  forget_leg(l);
  parked[l] = PARKED_NONE; parked_life[l] = 0; level[l] = 0; told[l] = false;
  for (k : 0 .. EXTENTS - 1) { has_credit[l * EXTENTS + k] = false; credit_generation[l * EXTENTS + k] = 0 };
  send_state[SENDER(l)] = ROOM_OVER; send_life[SENDER(l)] = 1; send_failed_before[SENDER(l)] = false
}

/* ================ the receiver ================ */

#define HELD(r, l) ((x_state[X(r, 0)] != EXTENT_FREE && x_party[X(r, 0)] == l) + (x_state[X(r, 1)] != EXTENT_FREE && x_party[X(r, 1)] == l))

inline free_extent(x) { x_state[x] = EXTENT_FREE; x_party[x] = NONE; g_content[x] = 0 }

/* transfer_grants_pump over arena_grant_next */
inline pump_grants(r) {
  for (m : 0 .. LINKS - 1) {
    for (k : 0 .. EXTENTS - 1) {
      if
      :: RECEIVER(m) == r && session_up[m] && !r_lost[m] && x_state[X(r, k)] == EXTENT_FREE && HELD(r, m) < party_level[m] ->
         /* Nobody may still write what is given away. */
         for (w : 0 .. LINKS * PIECES - 1) {
           assert(!(MAPPED_COPY(w) && !direct && RECEIVER(w / PIECES) == r && p_extent[w] == k))
         };
         x_state[X(r, k)] = EXTENT_GRANTED; x_party[X(r, k)] = m;
         x_generation[X(r, k)] = (x_generation[X(r, k)] + 1) % GENERATIONS;
         post_to_sender(m, GRANT, k, x_generation[X(r, k)], peer_want_sequence[m])
      :: else
      fi
    }
  }
}

inline set_level(l, wanted) {
  party_level[l] = (wanted > party_standing[l] -> wanted : party_standing[l])
}

inline recv_busy(r) {
  no = false;
  for (m : 0 .. LINKS - 1) {
    if
    :: RECEIVER(m) == r ->
       no = no || (direct && placed[m] && placed_in_room[m]);
       for (w : 0 .. 2 * PIECES - 1) { no = no || scattering[m * PIECES * 2 + w] }
    :: else
    fi
  }
}

/* transfer_recv_settle, and transfer_recv_free of the turn that follows */
inline settle_recv(r) {
  recv_busy(r);
  yes = true; failed = true;
  for (m : 0 .. LINKS - 1) {
    if
    :: RECEIVER(m) == r && rleg_there[m] -> yes = yes && rleg_whole[m]; failed = failed && !fence_needed[m]
    :: else
    fi
  };
  if
  :: !no && ((recv_state[r] == ROOM_OPEN && yes) || (recv_state[r] == ROOM_FAILING && failed)) ->
     recv_ok[r] = (recv_state[r] == ROOM_OPEN);
     recv_state[r] = ROOM_OVER;
     for (m : 0 .. LINKS - 1) {
       if
       :: RECEIVER(m) == r && rleg_there[m] ->
          for (w : 0 .. PIECES - 1) {
            /* DONE means that every byte is there; an end means that nobody writes any more. */
            assert(!recv_ok[r] || g_arrived[P(m, w)] == recv_life[r]);
            assert(!(MAPPED_COPY(P(m, w)) && direct && open_life[m] == recv_life[r]))
          };
          if
          :: recv_ok[r] -> post_to_sender(m, DONE, recv_life[r], 0, 0)
          :: else
          fi;
          placed_in_room[m] = false;
          rleg_there[m] = false; rleg_final[m] = false; rleg_whole[m] = false; rleg_seen[m] = 0; fence_needed[m] = false
       :: else
       fi
     }
  :: else
  fi
}

/* transfer_recv_fail */
inline fail_recv(r, except) {
  if
  :: recv_state[r] == ROOM_OPEN ->
     recv_state[r] = ROOM_FAILING;
     for (n : 0 .. LINKS - 1) {
       if
       :: RECEIVER(n) == r && rleg_there[n] ->
          if
          :: n != except -> post_to_sender(n, FAIL, 1, recv_life[r], 0)
          :: else
          fi;
          if
          :: !direct -> placed_in_room[n] = false
          :: else
          fi
       :: else
       fi
     };
     settle_recv(r)
  :: else
  fi
}

/* transfer_recv_open and transfer_recv_bind */
inline open_recv(r) {
  recv_state[r] = ROOM_OPEN; recv_life[r] = recv_life[r] + 1; recv_ok[r] = false;
  for (m : 0 .. LINKS - 1) {
    if
    :: RECEIVER(m) == r && SERVES(m, recv_life[r]) ->
       rleg_there[m] = true;
       fence_needed[m] = (mapped && direct);
       if
       :: !plan_sent[m] -> plan_sent[m] = true; post_to_sender(m, PLAN, 0, 0, 0)
       :: else
       fi;
       post_to_sender(m, OPEN, recv_life[r], 0, 0)
    :: else
    fi
  }
}

/* check_whole */
inline check_whole(l) {
  if
#ifdef BREAK_DONE
  :: rleg_there[l] && !rleg_whole[l] && rleg_final[l] ->
#else
  :: rleg_there[l] && !rleg_whole[l] && rleg_final[l] && rleg_seen[l] == 3 ->
#endif
     rleg_whole[l] = true;
     settle_recv(RECEIVER(l))
  :: else
  fi
}

/* finish_landing: of a piece whose bytes are in the pages */
inline finish_landing(l, i, life) {
  if
  :: recv_state[RECEIVER(l)] == ROOM_OPEN ->
     /* A piece of a former life of the room does not count. */
     assert(life == recv_life[RECEIVER(l)]);
     rleg_seen[l] = rleg_seen[l] | (1 << i);
     post_to_sender(l, ACK, i, 0, 0);
#ifdef REPAIR_SETTLE
     check_whole(l);
     settle_recv(RECEIVER(l))
#else
     check_whole(l)
#endif
  :: else -> settle_recv(RECEIVER(l))
  fi
}

#define CLAIMABLE_STATE(l, e) (x_state[X(RECEIVER(l), e)] == EXTENT_GRANTED && x_party[X(RECEIVER(l), e)] == l)
#ifdef BREAK_GENERATION
#define CLAIMABLE(l, e, g) CLAIMABLE_STATE(l, e)
#else
#define CLAIMABLE(l, e, g) (CLAIMABLE_STATE(l, e) && x_generation[X(RECEIVER(l), e)] == g)
#endif
#define ROOM_TAKES(l, life) (rleg_there[l] && recv_state[RECEIVER(l)] == ROOM_OPEN && LIFE_MATCHES(l, life))
#ifdef REPAIR_LIFE
#define LIFE_MATCHES(l, life) (recv_life[RECEIVER(l)] == life)
#else
#define LIFE_MATCHES(l, life) true
#endif

/* admit: yes says that the piece counts; f its sequence, n its attempt, v its extent, y its generation, h its life */
inline admit(l) {
  yes = false;
  if
  :: !ROOM_TAKES(l, h) || (rleg_seen[l] >> f) & 1 ->
     if
     :: ROOM_TAKES(l, h) -> post_to_sender(l, ACK, f, 0, 0)
     :: else
     fi;
     if
     :: !direct ->
        if
        :: CLAIMABLE(l, v, y) -> assert(x_generation[X(RECEIVER(l), v)] == y); free_extent(X(RECEIVER(l), v))
        :: else
        fi
     :: else
     fi
  :: else ->
     if
     :: direct -> yes = true
     :: !direct ->
        if
        :: CLAIMABLE(l, v, y) ->
           assert(x_generation[X(RECEIVER(l), v)] == y);
           x_state[X(RECEIVER(l), v)] = EXTENT_CLAIMED;
           yes = true
        :: else -> post_to_sender(l, NACK, f, n, 0)
        fi
     fi
  fi
}

/* A piece has landed in an extent: scatter it. */
inline scatter(l) {
  assert(g_content[X(RECEIVER(l), v)] == BYTES_OF(l, f, h));
  assert(h == recv_life[RECEIVER(l)]);
  assert(!scattering[L(l, f, n)]);
  scattering[L(l, f, n)] = true;
  scatter_extent[L(l, f, n)] = v
}

inline scatter_done(l, i, a) {
  scattering[L(l, i, a)] = false;
  v = scatter_extent[L(l, i, a)];
  scatter_extent[L(l, i, a)] = 0;
  /* The room whose pages it wrote is still there, and nobody wrote into the extent meanwhile. */
  assert(recv_state[RECEIVER(l)] == ROOM_OPEN || recv_state[RECEIVER(l)] == ROOM_FAILING);
  assert(g_content[X(RECEIVER(l), v)] == BYTES_OF(l, i, recv_life[RECEIVER(l)]));
  g_arrived[P(l, i)] = recv_life[RECEIVER(l)];
  assert(x_state[X(RECEIVER(l), v)] == EXTENT_CLAIMED);
  free_extent(X(RECEIVER(l), v));
  finish_landing(l, i, recv_life[RECEIVER(l)]);
  pump_grants(RECEIVER(l))
}

inline drop_placed(l) {
  if
  :: placed[l] ->
     placed[l] = false; placed_in_room[l] = false;
     if
     :: !direct -> free_extent(X(RECEIVER(l), placed_extent[l]))
     :: else
     fi;
     settle_recv(RECEIVER(l));
     placed_sequence[l] = 0; placed_attempt[l] = 0; placed_extent[l] = 0; placed_life[l] = 0
  :: else
  fi
}

/* transfer_recv_link_fenced */
inline fence_link(l) {
  fence_needed[l] = false;
  if
  :: recv_state[RECEIVER(l)] == ROOM_FAILING -> settle_recv(RECEIVER(l))
  :: else
  fi
}

/* transfer_landing_token_lost */
inline lose_token(l) {
  token_live[l] = false;
  drop_placed(l);
  if
  :: awaiting_fence[l] ->
     awaiting_fence[l] = false;
     for (k : 0 .. EXTENTS - 1) {
       if
       :: x_state[X(RECEIVER(l), k)] == EXTENT_QUARANTINED && x_party[X(RECEIVER(l), k)] == l -> free_extent(X(RECEIVER(l), k))
       :: else
       fi
     };
     party_standing[l] = 0;
     fence_link(l)
  :: else
  fi;
  pump_grants(RECEIVER(l))
}

/* What comes out of the fabric: `place` for message providers, `landed` for mapped ones. */
inline take_piece(l) {
  fabric[l]?f, n, v, y, h;
  if
  :: f == ENDPOINT_END -> lose_token(l)
  :: f != ENDPOINT_END && r_lost[l] -> skip
  :: else ->
     admit(l);
     if
     :: yes && !mapped ->
        placed[l] = true; placed_in_room[l] = true;
        placed_sequence[l] = f; placed_attempt[l] = n; placed_extent[l] = v; placed_life[l] = h;
        if
        :: !direct -> g_content[X(RECEIVER(l), v)] = NONE
        :: else
        fi
     :: yes && mapped && !direct -> scatter(l)
     :: yes && mapped && direct -> finish_landing(l, f, h)
     :: else
     fi;
     pump_grants(RECEIVER(l))
  fi
}

/* The payload of the placed piece is complete. */
inline land_placed(l) {
  f = placed_sequence[l]; n = placed_attempt[l]; v = placed_extent[l]; h = placed_life[l];
  yes = placed_in_room[l];
  placed[l] = false; placed_in_room[l] = false;
  placed_sequence[l] = 0; placed_attempt[l] = 0; placed_extent[l] = 0; placed_life[l] = 0;
  if
  :: !direct ->
     assert(x_state[X(RECEIVER(l), v)] == EXTENT_CLAIMED && g_content[X(RECEIVER(l), v)] == NONE);
     g_content[X(RECEIVER(l), v)] = BYTES_OF(l, f, h);
     if
     :: yes -> scatter(l)
     :: else -> free_extent(X(RECEIVER(l), v)); pump_grants(RECEIVER(l))
     fi
  :: else ->
     /* Direct: it was counted in its room, which therefore is still there. */
     assert(yes && recv_state[RECEIVER(l)] != ROOM_OVER && recv_state[RECEIVER(l)] != ROOM_NONE && recv_life[RECEIVER(l)] == h);
     g_arrived[P(l, f)] = h;
     finish_landing(l, f, h)
  fi
}

inline take_at_receiver(l) {
  if
  :: to_receiver[l]?WANT(v, y, h) -> peer_want_sequence[l] = y; set_level(l, v)
  :: to_receiver[l]?RETURN(v, y, h) ->
     if
     :: CLAIMABLE_STATE(l, v) && x_generation[X(RECEIVER(l), v)] == y -> free_extent(X(RECEIVER(l), v))
     :: else
     fi
  :: to_receiver[l]?REFRESH(v, y, h) -> skip
  :: to_receiver[l]?FINAL(v, y, h) ->
     if
#ifdef REPAIR_LIFE
     :: rleg_there[l] && !rleg_final[l] && recv_state[RECEIVER(l)] == ROOM_OPEN && recv_life[RECEIVER(l)] == y ->
#else
     :: rleg_there[l] && !rleg_final[l] && recv_state[RECEIVER(l)] == ROOM_OPEN ->
#endif
        assert(v == PIECES);
        rleg_final[l] = true;
        check_whole(l)
     :: else
     fi
  :: to_receiver[l]?FAIL(v, y, h) ->
     if
#ifdef REPAIR_LIFE
     :: rleg_there[l] && recv_life[RECEIVER(l)] == y -> fail_recv(RECEIVER(l), l)
#else
     :: rleg_there[l] -> fail_recv(RECEIVER(l), l)
#endif
     :: else
     fi
  :: to_receiver[l]?FAIL_ACK(v, y, h) ->
     if
#ifdef REPAIR_FENCE
     :: rleg_there[l] && recv_life[RECEIVER(l)] == v -> fence_needed[l] = false; settle_recv(RECEIVER(l))
#else
     :: rleg_there[l] -> fence_needed[l] = false; settle_recv(RECEIVER(l))
#endif
     :: else
     fi
  fi;
  pump_grants(RECEIVER(l))
}

/* transfer_link_lost at the receiver, with arena_party_lost */
inline lose_at_receiver(l) {
  r_lost[l] = true;
  if
  :: rleg_there[l] -> fail_recv(RECEIVER(l), l)
  :: else
  fi;
#ifdef BREAK_QUARANTINE
  awaiting_fence[l] = false;
#else
  awaiting_fence[l] = (mapped && token_live[l]);
#endif
  for (k : 0 .. EXTENTS - 1) {
    if
    :: CLAIMABLE_STATE(l, k) && awaiting_fence[l] -> x_state[X(RECEIVER(l), k)] = EXTENT_QUARANTINED
    :: CLAIMABLE_STATE(l, k) && !awaiting_fence[l] -> free_extent(X(RECEIVER(l), k))
    :: else
    fi
  };
  party_level[l] = 0;
  if
  :: !awaiting_fence[l] -> party_standing[l] = 0; drop_placed(l); fence_link(l)
  :: else
  fi;
  pump_grants(RECEIVER(l))
}

/* transfer_link_add at both ends. Standing credit is at most half of the arena, that of a party not yet fenced included. */
inline bring_up(l) {
  session_up[l] = true;
  yes = true;
  for (k : 0 .. LINKS - 1) {
    if
    :: RECEIVER(k) == RECEIVER(l) && party_standing[k] > 0 -> yes = false
    :: else
    fi
  };
  if
  :: yes -> party_standing[l] = 1
  :: else
  fi;
  party_level[l] = party_standing[l];
  pump_grants(RECEIVER(l))
}

/* ================ events ================ */

#define LEFT(name, allowed) (allowed && !g_spent_##name && g_faults < FAULTS)
#define SPEND(name) g_spent_##name = true; g_faults++

/* Of one piece of one link. */
#define PIECE_EVENTS(i)                                                                                                              \
  :: d_step { CAN_START(l) && HAS_CREDIT(l) && next_sequence[l] == i && p_record[P(l, i)] == RECORD_NONE ->                           \
       next_sequence[l] = i + 1; start_piece(l, i); skip }                                                                                  \
  :: d_step { CAN_START(l) && HAS_CREDIT(l) && RETRY(P(l, i)) -> start_piece(l, i); skip }                                                  \
  :: d_step { p_record[P(l, i)] == RECORD_LIVE && p_state[P(l, i)] == PIECE_COPYING ->                                                \
       end_copy(l, i);                                                                                                                \
       if                                                                                                                             \
       :: leg[l] == LEG_CLOSED -> fail_piece(l, P(l, i))                                                                              \
       :: else -> send_piece(l, i)                                                                                                    \
       fi; skip }                                                                                                                           \
  :: d_step { LEFT(pressure, BACKPRESSURE) && leg[l] == LEG_OPEN && endpoint[l] == ENDPOINT_READY && p_record[P(l, i)] == RECORD_LIVE &&             \
              p_state[P(l, i)] == PIECE_COPYING -> SPEND(pressure); end_copy(l, i); skip }                                         \
  :: d_step { p_record[P(l, i)] == RECORD_LIVE && p_state[P(l, i)] == PIECE_UNSENT && ALIVE(l) && endpoint[l] == ENDPOINT_READY ->    \
       send_piece(l, i); skip }                                                                                                             \
  :: d_step { p_record[P(l, i)] == RECORD_LIVE && p_state[P(l, i)] == PIECE_SENDING -> sent_piece(l, i); skip }                             \
  :: d_step { LEFT(late, ACK_LATE) && !(mapped && direct) && leg[l] == LEG_OPEN && p_record[P(l, i)] == RECORD_LIVE &&                          \
              p_state[P(l, i)] == PIECE_FLYING -> SPEND(late); g_fault = true; fail_piece(l, P(l, i)); skip }                      \
  :: d_step { scattering[L(l, i, 1)] -> scatter_done(l, i, 1); skip }                                                                       \
  :: d_step { scattering[L(l, i, 2)] -> scatter_done(l, i, 2); skip }

proctype Link(byte l) {
  do
  /* A session comes up at once; with RELINK the second one after the first was lost on both sides. */
  :: d_step { !session_up[l] && (!RELINK || l == 0 || (s_lost[0] && r_lost[0])) -> bring_up(l); skip }
  :: d_step { ALIVE(l) && nempty(to_sender[l]) -> take_at_sender(l); skip }
  :: d_step { session_up[l] && !r_lost[l] && nempty(to_receiver[l]) -> take_at_receiver(l); skip }

  /* the pump */
  :: d_step { ALIVE(l) && !IDLE(l) && endpoint[l] == ENDPOINT_NONE && !r_lost[l] && !token_live[l] ->
       endpoint[l] = ENDPOINT_READY; epoch[l] = epoch[l] + 1; token_live[l] = true; skip }
  :: d_step { endpoint[l] == ENDPOINT_DOOMED && !MAPPED_COPY(P(l, 0)) && !MAPPED_COPY(P(l, 1)) ->
       endpoint[l] = ENDPOINT_NONE; fabric[l]!ENDPOINT_END, 0, 0, 0, 0; skip }
  :: d_step { CAN_START(l) && !HAS_CREDIT(l) && (next_sequence[l] < PIECES || RETRY(P(l, 0)) || RETRY(P(l, 1))) && level[l] != WINDOW ->
       want(l, WINDOW); skip }
  :: d_step { CAN_START(l) && next_sequence[l] == PIECES && !final_sent[l] ->
       final_sent[l] = true; post_to_receiver(l, FINAL, PIECES, open_life[l], 0); skip }
  :: d_step { ALIVE(l) && IDLE(l) && level[l] != 0 -> want(l, 0); drop_credits(l); skip }
  PIECE_EVENTS(0)
  PIECE_EVENTS(1)

  /* the receiver's fabric */
  :: d_step { nempty(fabric[l]) && !placed[l] -> take_piece(l); skip }
  :: d_step { placed[l] -> land_placed(l); skip }
  /* A connection of a message provider that ends under a payload. */
  :: d_step { placed[l] && nempty(fabric[l]) && endpoint[l] != ENDPOINT_READY -> drop_placed(l); pump_grants(RECEIVER(l)); skip }

  /* faults */
  :: d_step { LEFT(session, SESSION_LOST) && session_up[l] && !session_cut[l] && (!RELINK || l == 0) ->
       SPEND(session); g_fault = true; g_fatal = true; session_cut[l] = true; skip }
  :: d_step { session_cut[l] && !s_lost[l] -> lose_at_sender(l); skip }
  :: d_step { session_cut[l] && !r_lost[l] -> lose_at_receiver(l); skip }
  :: atomic { LEFT(endpoint, ENDPOINT_LOST) && ALIVE(l) && endpoint[l] == ENDPOINT_READY ->
       SPEND(endpoint); g_fault = true;
       do
       :: !mapped && nempty(fabric[l]) -> d_step { fabric[l]?f, n, v, y, h; f = 0; n = 0; v = 0; y = 0; h = 0; skip }
       :: break
       od;
       d_step { doom_endpoint(l); skip } }
  :: d_step { LEFT(restart, RESTART) && ALIVE(l) && l == 0 && send_state[0] != ROOM_NONE ->
       SPEND(restart); g_fault = true; g_fatal = true; die(l); skip }
  :: stop -> break
  od
}

proctype Sender(byte s) {
  do
  :: d_step { send_state[s] == ROOM_NONE -> open_send(s); skip }
  :: d_step { send_state[s] == ROOM_OVER && send_life[s] < LIVES -> open_send(s); skip }
  :: d_step { LEFT(cancel_send, CANCEL_SEND) && send_state[s] == ROOM_OPEN -> SPEND(cancel_send); g_fault = true; g_fatal = true; fail_send(s, NONE); skip }
  :: stop -> break
  od
}

#define MAY_OPEN(r) ((recv_state[r] == ROOM_NONE || recv_state[r] == ROOM_OVER) && recv_life[r] < LIVES)
#if RELINK
#define PEERS_UP(r) (session_up[recv_life[r]] && !r_lost[recv_life[r]])
#define PEER_GONE(r) r_lost[recv_life[r]]
#elif SENDERS > 1
#define PEERS_UP(r) (session_up[0] && !r_lost[0] && session_up[1] && !r_lost[1])
#define PEER_GONE(r) (r_lost[0] || r_lost[1])
#else
#define PEERS_UP(r) (session_up[r] && !r_lost[r])
#define PEER_GONE(r) r_lost[r]
#endif

proctype Receiver(byte r) {
  do
  :: d_step { MAY_OPEN(r) && PEERS_UP(r) -> open_recv(r); skip }
  /* Its peer is gone and does not come back: a receive that is never bound ends by its deadline. */
  :: d_step { MAY_OPEN(r) && PEER_GONE(r) -> recv_life[r] = recv_life[r] + 1; recv_state[r] = ROOM_OVER; recv_ok[r] = false; skip }
  :: d_step { LEFT(cancel_recv, CANCEL_RECV) && recv_state[r] == ROOM_OPEN -> SPEND(cancel_recv); g_fault = true; g_fatal = true; fail_recv(r, NONE); skip }
  :: stop -> break
  od
}

/* ================ the end ================ */

hidden byte e, l;

/* When nothing can happen any more: every room has ended, and every extent is free or standing credit. */
inline judge() {
  assert(g_fault || !g_fatal);
  for (e : 0 .. SENDERS - 1) {
    assert(send_state[e] == ROOM_OVER);
    assert(g_fatal || send_ok[e])
  };
  for (e : 0 .. RECEIVERS - 1) {
    assert(recv_state[e] == ROOM_OVER);
    assert(g_fatal || recv_ok[e])
  };
  for (e : 0 .. RECEIVERS * EXTENTS - 1) {
    if
    :: x_state[e] == EXTENT_FREE
    :: else ->
       l = x_party[e];
       assert(x_state[e] == EXTENT_GRANTED && !r_lost[l] && !s_lost[l]);
       assert(has_credit[l * EXTENTS + e % EXTENTS] && credit_generation[l * EXTENTS + e % EXTENTS] == x_generation[e]);
       assert(HELD(RECEIVER(l), l) <= party_standing[l])
    fi
  }
}

/* A deadline of the room, or of a parked OPEN: only where nothing else is left to happen, so that no room needs it elsewhere. */
#define ALONE(s) (send_state[s] == ROOM_OPEN && leg[0] != LEG_OPEN && leg[LINKS - 1] != LEG_OPEN && recv_state[0] == ROOM_OVER && \
                  recv_state[RECEIVERS - 1] == ROOM_OVER)
#define ABANDONED(l) (parked[l] == PARKED_OPEN && send_state[SENDER(l)] == ROOM_OVER && send_life[SENDER(l)] == LIVES)

init {
  d_step {
    for (e : 0 .. SENDERS - 1) { send_state[e] = ROOM_NONE };
    for (e : 0 .. RECEIVERS - 1) { recv_state[e] = ROOM_NONE };
    for (e : 0 .. RECEIVERS * EXTENTS - 1) { x_state[e] = EXTENT_FREE; x_party[e] = NONE };
    for (e : 0 .. LINKS - 1) { leg[e] = LEG_NONE; endpoint[e] = ENDPOINT_NONE; parked[e] = PARKED_NONE };
    for (e : 0 .. LINKS * PIECES - 1) { p_record[e] = RECORD_NONE; p_state[e] = PIECE_IDLE };
    e = 0 };
  atomic {
    if
    :: WAYS & 1
    :: WAYS & 2 -> direct = true
    :: WAYS & 4 -> mapped = true
    :: WAYS & 8 -> mapped = true; direct = true
    fi;
    run Link(0);
    if
    :: LINKS > 1 -> run Link(1)
    :: else
    fi;
    run Sender(0); run Receiver(0);
    if
    :: SENDERS > 1 -> run Sender(1)
    :: else
    fi;
    if
    :: RECEIVERS > 1 -> run Receiver(1)
    :: else
    fi
  };
  do
  :: timeout ->
     if
     :: d_step { ALONE(0) -> g_fatal = true; fail_send(0, NONE); skip }
     :: d_step { SENDERS > 1 && ALONE(SENDERS - 1) -> g_fatal = true; fail_send(SENDERS - 1, NONE); skip }
     :: d_step { ABANDONED(0) -> g_fatal = true; parked[0] = PARKED_NONE; refuse_open(0, parked_life[0]); parked_life[0] = 0; skip }
     :: d_step { LINKS > 1 && ABANDONED(LINKS - 1) -> g_fatal = true; parked[LINKS - 1] = PARKED_NONE;
                 refuse_open(LINKS - 1, parked_life[LINKS - 1]); parked_life[LINKS - 1] = 0; skip }
     :: else -> d_step { judge(); stop = true; skip }; break
     fi
  od
}

#define OVER(r) (recv_state[r] == ROOM_OVER)
#define ENDED (send_state[0] == ROOM_OVER && send_state[SENDERS - 1] == ROOM_OVER && recv_state[0] == ROOM_OVER && recv_state[RECEIVERS - 1] == ROOM_OVER)
#ifdef LIVENESS
ltl every_room_ends { <> (ENDED && stop) }
#endif
