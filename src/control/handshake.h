/* What two HELLOs must agree on, and the proof that both sides hold the same secret. Pure. */
#ifndef CONTROL_HANDSHAKE_H
#define CONTROL_HANDSHAKE_H

#include "wire/message.h"

/* NULL when the two can talk; otherwise the reason, as the side that sent @p mine sees it. Errors: INCOMPATIBLE (fields
 * version_mine and version_yours), INVALID (a connection to oneself), WRONG_PEER, AUTH_FAILED (one side has no secret). */
kvf_error *control_handshake_check(const struct wire_hello *mine, const struct wire_hello *yours);

/* HMAC-SHA256(secret, "kvferry" | role | nonces | incarnations), the dialer's first. The role keeps a proof from being sent back to
 * its maker. False when libcrypto fails. */
bool control_handshake_prove(const char *secret, bool by_dialer, const struct wire_hello *dialer, const struct wire_hello *acceptor,
                             uint8_t mac_out[WIRE_MAC_BYTES]);
/* In constant time. */
bool control_handshake_equal(const uint8_t mine[WIRE_MAC_BYTES], const uint8_t yours[WIRE_MAC_BYTES]);

/* Text of a peer made harmless: printable ASCII, everything else as '?'. Always ended by a NUL. */
void control_handshake_clean(struct wire_text from, char *text, size_t capacity_bytes);

#endif
