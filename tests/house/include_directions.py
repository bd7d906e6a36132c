"""Who may include whom. Arguments: the source root, then the rows of the room table as room:dependency,dependency.

Inside src/ a room sees itself, the rooms of its row and the public headers, and only some rooms know a foreign library. The
public headers see each other and the C standard library. Everything else sees public headers and its own folder; bench
may look inside. The checks are tried on a small tree full of violations first, so a blind check fails too.
"""
import os
import sys
import tempfile

import c_text

# Which rooms know the headers of a foreign library; outside src/ only the command and the benchmarks use any.
LIBRARY_ROOMS = {
    "uv": ("control", "engine"),
    "openssl": ("control",),
    "ucp": ("fabric_ucx",), "ucs": ("fabric_ucx",), "uct": ("fabric_ucx",), "ucm": ("fabric_ucx",),
    "infiniband": ("fabric_ucx",),
    "jansson": (),
    "cmocka": (),
}
LIBRARY_FOLDERS = {"tools": ("jansson",), "bench": ("jansson", "uv"), "examples": (), "python": (), "integrations": (), "gpu": ()}
# What the rooms share with code that is loaded at run time and built by itself.
SHARED_HEADERS = {"gpu": ("copy/tile.h", "memory/device_ops.h")}
PUBLIC_SYSTEM = ("stddef.h", "stdint.h")


def library_of(name):
    first = name.split("/")[0]
    return first[:-2] if first.endswith(".h") else first


def sources(root, folder):
    for directory, folders, files in os.walk(os.path.join(root, folder)):
        folders.sort()
        for file in sorted(files):
            if file.endswith((".c", ".h", ".def", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(directory, file), root)


def check_room_include(room, row, rooms, mark, name):
    """What is wrong with this include in a file of the room, or None."""
    if mark == "<":
        owners = LIBRARY_ROOMS.get(library_of(name))
        if owners is not None and room not in owners:
            return "a library that this room must not know"
        return None
    if "/" not in name or name.startswith("."):
        return 'not of the form "room/noun.h"'
    target = name.split("/")[0]
    if target not in rooms:
        return "not a room"
    return None if target == room or target in row else f"{room} may not include {target}"


def check_outside_include(root, path, folder, mark, name):
    if mark == "<":
        library = library_of(name)
        if library in LIBRARY_ROOMS and library not in LIBRARY_FOLDERS[folder]:
            return "a library that this folder must not know"
        return None
    if folder == "bench" or name in SHARED_HEADERS.get(folder, ()):
        return None
    places = (os.path.join(root, os.path.dirname(path)), os.path.join(root, folder))
    own = os.path.join(root, folder) + os.sep
    if any(os.path.exists(os.path.join(place, name)) and os.path.realpath(os.path.join(place, name)).startswith(os.path.realpath(own) + os.sep)
           for place in places):
        return None
    return "neither a public header nor of this folder"


def check_public_include(mark, name):
    if mark == "<" and (name in PUBLIC_SYSTEM or name.startswith("kvferry/")):
        return None
    return "public headers include only <kvferry/...>, <stddef.h> and <stdint.h>"


def check_file(root, path, rooms):
    folder, *rest = path.split(os.sep)
    for line, mark, name in c_text.includes(c_text.read(os.path.join(root, path))):
        if folder == "include":
            fault = check_public_include(mark, name)
        elif folder == "src":
            room = rest[0]
            fault = check_room_include(room, rooms[room], rooms, mark, name) if room in rooms else f"{room} is no room of the table"
        else:
            fault = check_outside_include(root, path, folder, mark, name)
        if fault:
            yield f"{path}:{line}: {name}: {fault}"


def check_tree(root, rooms):
    return [fault for folder in ("include", "src", *LIBRARY_FOLDERS) for path in sources(root, folder)
            for fault in check_file(root, path, rooms)]


def check_table(rooms):
    """The table itself: only known rooms, and no two rooms that may include each other."""
    faults = [f"room table: {room} names {target}, which is no room" for room, row in rooms.items() for target in row if target not in rooms]
    faults += [f"room table: {room} and {target} may include each other" for room, row in rooms.items() for target in row
               if room in rooms.get(target, ())]
    return faults


# path -> (text, the faults it must give)
TRIAL = {
    "src/low/a.h": ("#include <stdint.h>\n", 0),
    "src/low/a.c": ('#include "low/a.h"\n#include "high/b.h"\n', 1),
    "src/low/deep/c.c": ('/* #include "high/b.h" */\n#include "low/a.h"\n#include "../a.h"\n', 1),
    "src/low/d.c": ('#include "a.h"\n#include "nowhere/a.h"\n', 2),
    "src/high/b.h": ('#include "low/a.h"\n#include <kvferry/kvferry.h>\n', 0),
    "src/high/b.c": ("#include <uv.h>\n#  include <openssl/evp.h>\n#include <ucp/api/ucp.h>\n#include <jansson.h>\n", 4),
    "src/control/x.c": ("#include <uv.h>\n#include <openssl/evp.h>\n#include <ucp/api/ucp.h>\n", 1),
    "src/stray/x.c": ("#include <stdint.h>\n\n#include <stdio.h>\n", 2),
    "include/kvferry/kvferry.h": ('#include <stdint.h>\n#include <stdio.h>\n#include "low/a.h"\n', 2),
    "tools/main.c": ('#include <kvferry/kvferry.h>\n#include <jansson.h>\n#include "part.h"\n#include "low/a.h"\n', 1),
    "tools/part.h": ('#include "../src/low/a.h"\n#include <uv.h>\n', 2),
    "tools/sub/x.c": ('#include "part.h"\n#include "../part.h"\n', 0),
    "examples/x.c": ('#include <kvferry/kvferry.h>\n#include "high/b.h"\n#include <jansson.h>\n', 2),
    "bench/x.c": ('#include "low/a.h"\n#include <openssl/evp.h>\n', 1),
}


def try_checks():
    """Every planted fault is found, and nothing else."""
    rooms = {"low": [], "high": ["low"], "control": ["low"]}
    with tempfile.TemporaryDirectory() as root:
        for path, (text, _) in TRIAL.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        faults = check_tree(root, rooms)
    wrong = [f"self-test: {path}: expected {count} faults, found {found}" for path, (_, count) in TRIAL.items()
             if (found := sum(fault.startswith(path + ":") for fault in faults)) != count]
    if len(check_table({"a": ["b", "gone"], "b": ["a"]})) != 3:
        wrong.append("self-test: a bad room table was not found")
    return wrong


def main():
    root, *table = sys.argv[1:]
    rooms = {room: [target for target in row.split(",") if target] for room, row in (entry.split(":") for entry in table)}
    if not rooms:
        sys.exit("the room table is empty")
    faults = try_checks() or check_table(rooms) + check_tree(root, rooms)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
