/* What the fuzzer and the plain test of its corpus both do with an input. */
#ifndef TESTS_FUZZ_WIRE_INPUT_H
#define TESTS_FUZZ_WIRE_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* The first byte chooses: a message type decodes the rest as its payload, 0 as a frame with its payload, 255 as a piece header.
 * Whatever decodes is encoded, decoded and encoded again, and both encodings must agree; aborts when they do not.
 * 1 when something decoded, else 0. */
int wire_input_check(const uint8_t *bytes, size_t length);

#endif
