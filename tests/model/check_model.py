#!/usr/bin/env python3
"""The model of the room protocol, searched to the end by spin: without an error as it should be, and with one for each precaution that is
taken away. Skipped (77) without spin or a C compiler. Arguments: a C compiler, then searches by name; without a name all of them."""
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "room.pml")
MEMORY_MIB = 1600
DEPTH = 20000
# What the code does not do yet: docs/decisions/0005-protocol-model.md. When the code has it, the name becomes a BREAK_ of the opposite sense.
REPAIRS = ("REPAIR_SETTLE", "REPAIR_CREDIT", "REPAIR_PARKED", "REPAIR_LIFE", "REPAIR_FENCE")
STAGED_MESSAGE, DIRECT_MESSAGE, STAGED_MAPPED, DIRECT_MAPPED = 1, 2, 4, 8
ALL_WAYS = 15


class Search(NamedTuple):
    name: str
    ways: int
    defines: tuple = ()
    kind: str = "safety"  # or "liveness" (every room ends, weak fairness), "progress" (no endless exchange)
    fault: str = ""       # the define that must lead to an error: a BREAK_ that is added or a REPAIR_ that is left out
    optimize: bool = False


def faults(count, *names):
    return tuple(f"{name}=1" for name in names) + (f"FAULTS={count}",)


CANCELS = ("CANCEL_SEND", "CANCEL_RECV")
LOSSES = ("SESSION_LOST", "ENDPOINT_LOST", "ACK_LATE")
SEARCHES = (
    Search("one to one", ALL_WAYS, faults(2, *CANCELS, *LOSSES), optimize=True),
    Search("two senders", STAGED_MESSAGE, ("SENDERS=2",) + faults(0)),
    Search("two senders, direct", DIRECT_MAPPED, ("SENDERS=2",) + faults(1, "CANCEL_RECV")),
    Search("two receivers", DIRECT_MAPPED, ("RECEIVERS=2",) + faults(1, *CANCELS)),
    Search("room opened again, staged", STAGED_MESSAGE, ("LIVES=2",) + faults(1, *CANCELS)),
    Search("room opened again, direct", DIRECT_MAPPED, ("LIVES=2",) + faults(2, *CANCELS)),
    Search("second session, staged", STAGED_MAPPED, ("LIVES=2", "RELINK=1") + faults(1, "SESSION_LOST")),
    Search("second session, direct", DIRECT_MAPPED, ("LIVES=2", "RELINK=1") + faults(2, "SESSION_LOST", "RESTART", "CANCEL_RECV")),
    Search("every room ends", ALL_WAYS, faults(1, *CANCELS, *LOSSES, "BACKPRESSURE"), "liveness"),
    Search("no endless exchange", ALL_WAYS, faults(1, *CANCELS, *LOSSES, "BACKPRESSURE"), "progress"),
    Search("FAIL_ACK while a copy is under way", DIRECT_MAPPED, faults(2, *CANCELS), fault="BREAK_EARLY_FAIL_ACK"),
    Search("no quarantine", STAGED_MAPPED, faults(1, "SESSION_LOST"), fault="BREAK_QUARANTINE"),
    Search("DONE without all pieces", STAGED_MESSAGE, faults(0), fault="BREAK_DONE"),
    Search("old generation claimed", STAGED_MESSAGE, faults(1, "ACK_LATE"), fault="BREAK_GENERATION"),
    Search("WANT without number", STAGED_MESSAGE, faults(0), "progress", fault="BREAK_WANT_SEQUENCE"),
    Search("second landing outlives the last piece", STAGED_MESSAGE, faults(1, "ACK_LATE"), fault="REPAIR_SETTLE"),
    Search("late ACK takes the credit of a retry", STAGED_MESSAGE, faults(1, "ACK_LATE"), fault="REPAIR_CREDIT"),
    Search("FAIL leaves a parked OPEN", DIRECT_MAPPED, ("LIVES=2",) + faults(2, *CANCELS), fault="REPAIR_PARKED"),
    Search("bytes of the room's former life", STAGED_MESSAGE, ("LIVES=2",) + faults(1, *CANCELS), fault="REPAIR_LIFE"),
    Search("landing of the room's former life", DIRECT_MAPPED, ("LIVES=2",) + faults(1, *CANCELS), fault="REPAIR_LIFE"),
    Search("old FAIL_ACK lifts a new fence", DIRECT_MAPPED, ("LIVES=2",) + faults(2, *CANCELS), fault="REPAIR_FENCE"),
)


def defines_of(search):
    defines = [repair for repair in REPAIRS if repair != search.fault] + [f"WAYS={search.ways}", *search.defines]
    defines += [search.fault] if search.fault.startswith("BREAK_") else []
    defines += ["LIVENESS"] if search.kind == "liveness" else []
    return [f"-D{define}" for define in defines]


def run(words, folder):
    done = subprocess.run(words, cwd=folder, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(search, compiler, folder):
    shutil.copy(MODEL, folder)
    run(["spin", "-a", *defines_of(search), "room.pml"], folder)
    options = {"safety": ["-DSAFETY"], "liveness": [], "progress": ["-DNP"]}[search.kind]
    run([*compiler, "-w", "-O1" if search.optimize else "-O0", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MIB}", *options, "-o", "pan", "pan.c"], folder)


def find_number(pattern, text):
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def judge(search, output):
    """What is wrong with what the search said, or an empty string."""
    errors = re.search(r"errors: (\d+)", output)
    if not errors:
        return "it did not end"
    if search.fault:
        return "" if re.search(r"^pan:1: (assertion violated|non-progress cycle|acceptance cycle)", output, re.M) else "no error was found"
    if int(errors.group(1)):
        return "an error was found"
    incomplete = re.search(r"Search not completed|max search depth too small|reached -DMEMLIM|out of memory|hash array.*full", output)
    return f"the search is incomplete: {incomplete.group(0)}" if incomplete else ""


def carry_out(search, compiler):
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kvferry-model-") as folder:
        build(search, compiler, folder)
        options = {"safety": [], "liveness": ["-a", "-f"], "progress": ["-l", "-f"]}[search.kind]
        done = subprocess.run(["./pan", f"-m{DEPTH}", "-w22", *options], cwd=folder, text=True, capture_output=True)
        output = done.stdout + done.stderr
        wrong = judge(search, output)
        states = find_number(r"(\d+) states, stored", output)
        depth = find_number(r"depth reached (\d+)", output)
        found = "error found" if "errors: 1" in output else "no error"
        print(f"{search.name:42} {found:12} {states:9} states  depth {depth:4}  {time.monotonic() - started:5.1f} s", flush=True)
        if not wrong:
            return True
        print(f"  {wrong}\n{output}")
        if os.path.exists(os.path.join(folder, "room.pml.trail")):
            trail = subprocess.run(["spin", "-t", "-p", *defines_of(search), "room.pml"], cwd=folder, text=True,
                                   capture_output=True).stdout
            print("\n".join(line for line in trail.splitlines() if re.search(r"[?!]|\[\(\(", line)))
        return False


def main():
    compiler = shlex.split(sys.argv[1])
    if not shutil.which("spin") or not compiler or not shutil.which(compiler[0]):
        print("spin or a C compiler is missing")
        return 77
    names = sys.argv[2:]
    failed = [search.name for search in SEARCHES if (not names or search.name in names) and not carry_out(search, compiler)]
    print(f"most memory of one search: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024} MiB")
    if failed:
        print("failed: " + "; ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
