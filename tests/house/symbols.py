"""The exported symbols: exactly the functions of the public headers, and exactly the golden list symbols.txt.

Arguments: the source root, libkvferry.so. With KVF_UPDATE_GOLDEN=1 the list is written anew from the headers.
"""
import os
import subprocess
import sys

import c_text


def exported(library):
    """Names of defined dynamic symbols; the version nodes themselves (absolute, type A) are none."""
    run = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True, check=True)
    entries = [line.split() for line in run.stdout.splitlines()]
    return {entry[-1].split("@")[0] for entry in entries if entry[-2] != "A"}


def compare(left_name, left, right_name, right):
    faults = [f"in {left_name}, not in {right_name}: {name}" for name in sorted(left - right)]
    return faults + [f"in {right_name}, not in {left_name}: {name}" for name in sorted(right - left)]


def main():
    root, library = sys.argv[1:3]
    golden_path = os.path.join(root, "tests", "house", "symbols.txt")
    declared = set(c_text.public_functions(root))
    if os.environ.get("KVF_UPDATE_GOLDEN"):
        with open(golden_path, "w", encoding="utf-8") as file:
            file.write("".join(name + "\n" for name in sorted(declared)))
    symbols = exported(library)
    faults = compare("the headers", declared, "the library", symbols)
    faults += compare("the headers", declared, "symbols.txt", set(c_text.read(golden_path).split()))
    faults += [f"not kvf_: {name}" for name in sorted(symbols) if not name.startswith("kvf_")]
    if not declared:
        faults.append("the headers declare nothing")
    print("\n".join(faults) or f"{len(symbols)} symbols")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
