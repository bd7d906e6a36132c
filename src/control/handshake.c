/* See handshake.h. */
#include "control/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/checked.h"

enum { ROLE_DIALER = 'D', ROLE_ACCEPTOR = 'A' };

static kvf_error *check_version(const struct wire_hello *mine, const struct wire_hello *yours) {
  if (mine->version_min <= yours->version_max && yours->version_min <= mine->version_max &&
      yours->version_min <= yours->version_max)
    return NULL;
  kvf_error *error = BASE_ERROR(KVF_INCOMPATIBLE, NULL, "no protocol version in common");
  base_error_add(error, "version_mine", "%u-%u", mine->version_min, mine->version_max);
  return base_error_add(error, "version_yours", "%u-%u", yours->version_min, yours->version_max);
}

static kvf_error *check_identity(const struct wire_hello *mine, const struct wire_hello *yours) {
  static const uint8_t anyone[WIRE_INCARNATION_BYTES];
  if (memcmp(mine->incarnation, yours->incarnation, WIRE_INCARNATION_BYTES) == 0)
    return BASE_ERROR(KVF_INVALID, NULL, "connected to itself: both sides are the same process");
  if (memcmp(yours->expected, anyone, WIRE_INCARNATION_BYTES) != 0 &&
      memcmp(yours->expected, mine->incarnation, WIRE_INCARNATION_BYTES) != 0)
    return BASE_ERROR(KVF_WRONG_PEER, NULL, "another process was expected at this address");
  return NULL;
}

kvf_error *control_handshake_check(const struct wire_hello *mine, const struct wire_hello *yours) {
  kvf_error *error = check_version(mine, yours);
  if (!error) error = check_identity(mine, yours);
  if (error || !mine->has_secret == !yours->has_secret) return error;
  return base_error_add(BASE_ERROR(KVF_AUTH_FAILED, NULL, "only one side has a secret"), "secret_on",
                        mine->has_secret ? "mine" : "yours");
}

bool control_handshake_prove(const char *secret, bool by_dialer, const struct wire_hello *dialer, const struct wire_hello *acceptor,
                             uint8_t mac_out[WIRE_MAC_BYTES]) {
  static const char name[] = "kvferry";
  enum { NAME_BYTES = sizeof name - 1 };
  uint8_t text[NAME_BYTES + 1 + 2 * WIRE_NONCE_BYTES + 2 * WIRE_INCARNATION_BYTES];
  uint8_t *at = text;
  memcpy(at, name, NAME_BYTES);
  at += NAME_BYTES;
  *at++ = by_dialer ? ROLE_DIALER : ROLE_ACCEPTOR;
  memcpy(at, dialer->nonce, WIRE_NONCE_BYTES);
  memcpy(at + WIRE_NONCE_BYTES, acceptor->nonce, WIRE_NONCE_BYTES);
  at += 2 * WIRE_NONCE_BYTES;
  memcpy(at, dialer->incarnation, WIRE_INCARNATION_BYTES);
  memcpy(at + WIRE_INCARNATION_BYTES, acceptor->incarnation, WIRE_INCARNATION_BYTES);
  unsigned mac_bytes = 0;
  uint8_t *made = HMAC(EVP_sha256(), secret, (int)strlen(secret), text, sizeof text, mac_out, &mac_bytes);
  return made && mac_bytes == WIRE_MAC_BYTES;
}

bool control_handshake_equal(const uint8_t mine[WIRE_MAC_BYTES], const uint8_t yours[WIRE_MAC_BYTES]) {
  return CRYPTO_memcmp(mine, yours, WIRE_MAC_BYTES) == 0;
}

void control_handshake_clean(struct wire_text from, char *text, size_t capacity_bytes) {
  size_t length = base_min_u64(from.length, capacity_bytes - 1);
  for (size_t i = 0; i < length; i++) text[i] = from.text[i] >= ' ' && from.text[i] <= '~' ? from.text[i] : '?';
  text[length] = '\0';
}
