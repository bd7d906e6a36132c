"""cffi can read the public headers as they are, once preprocessed. Arguments: the source root, the C compiler's command."""
import os
import sys

import c_text

try:
    import cffi
    import pycparser  # noqa: F401 - cffi needs it to parse
except ImportError:
    print("cffi is not here")
    sys.exit(77)


def main():
    root, cc = sys.argv[1:3]
    sys.path.insert(0, os.path.join(root, "python", "native"))
    from declarations import own_declarations
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
