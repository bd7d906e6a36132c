/* The other side, played by hand over a plain socket: it sends any bytes, stops anywhere, and closes softly or with a reset. */
#ifndef TESTS_CONTROL_RAW_H
#define TESTS_CONTROL_RAW_H

#include "node.h"

struct raw {
  int listener, fd;
  uint8_t bytes[1 << 16];
  size_t length;
  bool ended; /* the node closed */
};

void raw_connect(struct raw *raw, const char *address);
/* Listens on a free port of 127.0.0.1, whose text goes to @p address. */
void raw_listen(struct raw *raw, char address[64]);
/* Turn until the node has connected. */
void raw_accept(struct raw *raw, uv_loop_t *loop);
void raw_send(struct raw *raw, const void *bytes, size_t length);
void raw_send_hello(struct raw *raw, const struct wire_hello *hello);
struct wire_hello raw_hello(uint8_t identity);
/* Turn until a whole frame of @p type came; earlier frames are dropped. The payload lies in raw->bytes at the returned place. */
const uint8_t *raw_wait_frame(struct raw *raw, uv_loop_t *loop, uint8_t type, size_t *payload_bytes_out);
/* Turn until the node closes. */
void raw_wait_end(struct raw *raw, uv_loop_t *loop, uint64_t limit_ms);
void raw_close(struct raw *raw, bool reset);

#endif
