"""What libkvferry.so drags in: the C library, libuv and OpenSSL, nothing else. Arguments: the library, the build's b_sanitize."""
import re
import subprocess
import sys

ALLOWED = re.compile(r"(libc|libm|libpthread|libdl|librt|libatomic|ld-linux[\w-]*|libuv|libcrypto|libssl)\.so(\.\d+)*")
SANITIZERS = re.compile(r"(libasan|libubsan|libtsan|liblsan|libgcc_s|libstdc\+\+|libclang_rt\.\w+-\w+)\.so(\.\d+)*")


def main():
    library, sanitize = sys.argv[1:3]
    run = subprocess.run(["readelf", "-dW", library], text=True, capture_output=True, check=True)
    needed = re.findall(r"\(NEEDED\).*\[(.+?)\]", run.stdout)
    if not any(name.startswith("libc.") for name in needed):
        sys.exit(f"cannot be: no C library among {needed}")
    surplus = [name for name in needed if not ALLOWED.fullmatch(name) and not (sanitize != "none" and SANITIZERS.fullmatch(name))]
    print(f"not allowed: {surplus}" if surplus else " ".join(needed))
    return 1 if surplus else 0


if __name__ == "__main__":
    sys.exit(main())
