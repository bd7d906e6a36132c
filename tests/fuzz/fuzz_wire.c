/* The libFuzzer target of the wire room, for `make fuzz`; needs clang and -Dfuzz=true. Its corpus is corpus/wire, made of the
 * golden frames; test_wire.c runs the same corpus in every build. */
#include "fuzz/wire_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  wire_input_check(bytes, length);
  return 0;
}
