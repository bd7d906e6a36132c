#!/usr/bin/env python3
"""Each `file:function` stop of ARCHITECTURE.md must name a function that the file defines. Usage: architecture_tour.py ROOT"""
import pathlib
import re
import sys


def missing_stops(root: pathlib.Path, text: str) -> list:
    missing = []
    stops = re.findall(r"`((?:src|include|tools)/[\w/.]+\.[ch]):(\w+)`", text)
    if len(stops) < 10:
        missing.append(f"only {len(stops)} stops found: the tour has at least ten")
    for name, function in stops:
        path = root / name
        source = path.read_text() if path.is_file() else ""
        # A definition: the name at a line that does not end in a semicolon, outside of any indentation.
        if not re.search(rf"^[A-Za-z_].*\b{function}\(", source, re.MULTILINE):
            missing.append(f"{name}: no function {function}")
    return missing


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    missing = missing_stops(root, (root / "ARCHITECTURE.md").read_text())
    if not missing_stops(root, "`src/base/map.c:base_map_nothing`"):
        missing.append("self-test: a wrong stop was not noticed")
    print("\n".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
