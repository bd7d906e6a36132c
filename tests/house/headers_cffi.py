"""cffi can read the public headers as they are, once preprocessed. Arguments: the source root, the C compiler's command."""
import os
import re
import shlex
import subprocess
import sys

import c_text

try:
    import cffi
    import pycparser  # noqa: F401 - cffi needs it to parse
except ImportError:
    print("cffi is not here")
    sys.exit(77)


def own_declarations(root, cc):
    """The preprocessed text that comes from kvferry's own headers."""
    run = subprocess.run([*shlex.split(cc), "-E", "-x", "c", "-std=c11", "-D__attribute__(x)=", "-I", os.path.join(root, "include"), "-"],
                         input="#include <kvferry/kvferry.h>\n", text=True, capture_output=True, check=True)
    own, lines = False, []
    for line in run.stdout.splitlines():
        marker = re.match(r'#(?:line)? \d+ "([^"]*)"', line)
        if marker:
            own = "/kvferry/" in marker.group(1)
        elif own and not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)


def main():
    root, cc = sys.argv[1:3]
    ffi = cffi.FFI()
    ffi.cdef(own_declarations(root, cc))
    assert ffi.sizeof("kvf_plane") == 104, ffi.sizeof("kvf_plane")
    library = ffi.dlopen(None)
    declared = [name for name in dir(library) if name.startswith("kvf_")]
    wanted = c_text.public_functions(root)
    if declared != wanted:
        sys.exit(f"read {declared}, declared {wanted}")
    print(f"{len(wanted)} functions")


if __name__ == "__main__":
    main()
