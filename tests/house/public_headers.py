"""The form of the public headers: each stands alone as C99, C11 and C++, and has nothing that a binding cannot follow.

Arguments: the source root, the C compiler's command in one argument, the C++ compiler's or "" when there is none.
"""
import os
import re
import shlex
import subprocess
import sys

import c_text

C_FLAGS = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
FORBIDDEN = {
    "bool": re.compile(r"\b_?[bB]ool\b"),
    "an inline function": re.compile(r"\b(?:static|inline|__inline__)\b|\)\s*\{"),
    "a bit-field": re.compile(r"\b\w+\s*:\s*\w+\s*[;,]"),
    "an enum type": re.compile(r"\benum\s+\w"),
    "a struct by value": re.compile(r"[(,]\s*(?:const\s+)?(?:struct\s+)?kvf_(?!status\b|log_sink\b)\w+\s+\w+\s*[,)]"),
}
TRIAL = """
typedef struct kvf_a { unsigned flag : 1; bool on; enum kvf_kind kind; } kvf_a;
static inline int f(void) { return 1; }
KVF_API kvf_status kvf_f(kvf_status status, const kvf_a options);
"""


def find_forbidden(text):
    return [name for name, pattern in FORBIDDEN.items() if pattern.search(text)]


def check_guard(path, text):
    guard = "KVFERRY_" + os.path.basename(path)[:-2].upper() + "_H"
    directives = re.findall(r"^[ \t]*#[ \t]*(.+?)[ \t]*$", text, re.M)
    good = directives[:2] == [f"ifndef {guard}", f"define {guard}"] and directives[-1] == "endif"
    return [] if good else [f"no include guard {guard} around it"]


def check_form(path):
    text = c_text.strip_comments(c_text.read(path))
    return [f"has {name}" for name in find_forbidden(text)] + check_guard(path, text)


def initialisers(path):
    """A variable for each KVF_..._INIT of the header: the macros must compile too."""
    names = re.findall(r"^#define (KVF_(\w+)_INIT)\b", c_text.read(path), re.M)
    return "".join(f"extern kvf_{noun.lower()} {noun.lower()};\nkvf_{noun.lower()} {noun.lower()} = {macro};\n" for macro, noun in names)


def unpinned_structs(root, paths):
    """Every public struct with members has its size in test_struct_sizes.c."""
    structs = [name for path in paths for name in re.findall(r"typedef struct (kvf_\w+) \{", c_text.read(path))]
    pinned = re.findall(r"^PIN\((\w+),", c_text.read(os.path.join(root, "tests", "house", "test_struct_sizes.c")), re.M)
    return [f"{name} has no PIN in test_struct_sizes.c" for name in structs if name not in pinned]


def compile_alone(root, command, flags, path):
    source = f"#include <kvferry/{os.path.basename(path)}>\n#include <kvferry/{os.path.basename(path)}>\n" + initialisers(path)
    if os.path.basename(path) == "visibility.h":
        source += "extern int nothing;\n"
    run = subprocess.run([*command, *flags, "-Wno-missing-field-initializers", "-I", os.path.join(root, "include"), "-"],
                         input=source, text=True, capture_output=True)
    return [f"{' '.join(flags[:3])}: {run.stderr.strip()}"] if run.returncode else []


def main():
    root, cc, cxx = sys.argv[1:4]
    if len(find_forbidden(TRIAL)) != len(FORBIDDEN):
        sys.exit(f"self-test: only {find_forbidden(TRIAL)} were found")
    languages = [(shlex.split(cc), ["-x", "c", f"-std={standard}", *C_FLAGS]) for standard in ("c99", "c11")]
    if cxx:
        languages.append((shlex.split(cxx), ["-x", "c++", "-std=c++11", *C_FLAGS]))
    paths = c_text.public_headers(root)
    faults = unpinned_structs(root, paths)
    for path in paths:
        found = check_form(path)
        for command, flags in languages:
            found += compile_alone(root, command, flags, path)
        faults += [f"{os.path.basename(path)}: {fault}" for fault in found]
    print("\n".join(faults) or f"{len(paths)} headers in {len(languages)} languages")
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
