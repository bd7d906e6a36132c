/* The libFuzzer target of the wire room. Build and run it:
 *   CC=clang meson setup build-fuzz -Dfuzz=true -Dc_args=-fsanitize=fuzzer-no-link -Db_sanitize=address,undefined -Db_lundef=false
 *   ninja -C build-fuzz tests/fuzz/fuzz_wire
 *   mkdir -p build-fuzz/found && build-fuzz/tests/fuzz/fuzz_wire -max_total_time=600 build-fuzz/found tests/fuzz/corpus/wire */
#include "fuzz/wire_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  wire_input_check(bytes, length);
  return 0;
}
