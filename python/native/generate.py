"""Writes the C source of the extension module kvferry._native. Arguments: the source root, the C compiler's command, the output.

The declarations come from the public headers as they are, so that a new option or call is there without a change here.
"""
import sys

import cffi

from declarations import own_declarations

GLUE_DECLARATIONS = """
void kvferry_log_to_pipe(void *context, int32_t level, const char *line);
"""

SOURCE = """
#include <kvferry/kvferry.h>
#include <stdio.h>
#include <unistd.h>

/* A log sink that neither takes the interpreter's lock nor waits: one short write into a pipe that a Python thread reads.
 * Lines below PIPE_BUF are written whole; when the pipe is full, the line is lost rather than the I/O thread held up. */
static void kvferry_log_to_pipe(void *context, int32_t level, const char *line) {
  char text[2048];
  int length = snprintf(text, sizeof text, "%d %s", (int)level, line);
  if (length >= (int)sizeof text) length = sizeof text - 1;
  if (length < 0) return;
  for (int index = 0; index < length; index++) {
    if (text[index] == '\\n') text[index] = ' ';
  }
  text[length] = '\\n';
  if (write((int)(intptr_t)context, text, (size_t)length + 1) < 0) return;
}
"""


def main():
    root, cc, output = sys.argv[1:4]
    builder = cffi.FFI()
    builder.cdef(own_declarations(root, cc) + GLUE_DECLARATIONS)
    builder.set_source("kvferry._native", SOURCE)
    builder.emit_c_code(output)


if __name__ == "__main__":
    main()
