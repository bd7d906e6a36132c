#!/usr/bin/env python3
"""The model speaks of the code that is there: its messages are the wire's, each is dispatched in link.c, its states are the code's, and the
functions that its comments name exist. Argument: the source root."""
import os
import re
import sys

FIRST_ROOM_TYPE = 16  # below it are the session's own


def read(root, *path):
    with open(os.path.join(root, *path), encoding="utf-8") as file:
        return file.read()


def model_names(model, kind):
    """The names of `mtype:kind = { … }`, or of the plain mtype for an empty kind."""
    found = re.search(r"^mtype" + (":" + kind if kind else "") + r" = \{([^}]*)\}", model, re.M)
    return re.findall(r"\w+", found.group(1)) if found else []


def enum_names(source, kind):
    found = re.search(r"enum " + kind + r" \{([^}]*)\}", source)
    names = re.findall(r"\b[A-Z]\w+", re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.S)) if found else []
    return [name for name in names if not name.endswith("_COUNT")]


def compare(what, model, code):
    if not code or set(model) != set(code) or len(model) != len(code):
        return [f"{what}: the model has {model}, the code {code}"]
    return []


def check_messages(model, header, dispatch):
    names = model_names(model, "")
    types = re.search(r"enum wire_type \{([^}]*)\}", header).group(1)
    wire = {name for name, number in re.findall(r"WIRE_(\w+) = (\d+)", types) if int(number) >= FIRST_ROOM_TYPE}
    faults = compare("messages", sorted(names), sorted(wire))
    handled = set(re.findall(r"to_(?:sender|receiver)\[l\]\?(\w+)\(", model))
    dispatched = set(re.findall(r"case WIRE_(\w+):", dispatch))
    posted = set(re.findall(r"post_to_(?:sender|receiver)\(\w+, (\w+),", model))
    for name in names:
        faults += [] if name in handled else [f"the model does not handle {name}"]
        faults += [] if name in posted else [f"nobody in the model posts {name}"]
        faults += [] if name in dispatched else [f"link.c does not dispatch {name}"]
    return faults


def check_functions(model, sources):
    """A comment that names a C function is right after a renaming, too."""
    named = set(re.findall(r"\b((?:transfer|arena|kvf)_\w+)", " ".join(re.findall(r"/\*.*?\*/", model, re.S))))
    named |= set(re.findall(r"^/\* (\w+_\w+)\b", model, re.M))
    return [f"the model names {name}, which the code has not" for name in sorted(named) if not re.search(r"\b" + name + r"\b", sources)]


def main():
    root = sys.argv[1]
    model = read(root, "tests", "model", "room.pml")
    header = read(root, "src", "wire", "message.h")
    faults = check_messages(model, header, read(root, "src", "transfer", "link.c"))
    faults += compare("piece states", model_names(model, "piece"), enum_names(read(root, "src", "transfer", "inside.h"), "piece_state"))
    faults += compare("extent states", model_names(model, "extent"), enum_names(read(root, "src", "arena", "state.h"), "extent_state"))
    rooms = [os.path.join("src", room) for room in ("transfer", "arena")]
    sources = "\n".join(read(root, room, name) for room in rooms for name in sorted(os.listdir(os.path.join(root, room))))
    faults += check_functions(model, sources)
    print("\n".join(faults) or "the model and the code agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
