"""No tracked file leaks where it was written or leaves a mark for later. Argument: the source root.

The patterns are put together from pieces so that this file passes its own test.
"""
import os
import re
import subprocess
import sys

MARKS = r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b"
PLACES = r"(?<![\w.~}])/(?:" + "|".join(["wo" + "rk", "tmp/" + "brief", "tmp/" + "build", "tmp/" + "bash_jobs", "root/\\." + "pyenv"]) + r")\b"
HOSTS = r"\b(?:" + "|".join([
    "py" + "pi\\.org", "python" + "hosted\\.org", "deb\\.deb" + "ian\\.org", "archive\\.ubu" + "ntu\\.com", "npm" + "js\\.",
    "crates" + "\\.io", "proxy\\.go" + "lang\\.org", "docker" + "\\.io", "conda\\.ana" + "conda\\.org", "ghcr" + "\\.io"]) + r")"
PATTERNS = [re.compile(pattern) for pattern in (MARKS, PLACES, HOSTS)]
TRIAL = ["a " + "TO" + "DO: later", "in /wo" + "rk/main", "from https://py" + "pi.org/simple", "cat /tmp/" + "brief/x"]
CLEAN = ["/tmp/kvferry-" + "X" * 6, "network/work" + "ers", "a hacksaw"]


def faults_of(text):
    return [(text.count("\n", 0, match.start()) + 1, match.group()) for pattern in PATTERNS for match in pattern.finditer(text)]


def tracked(root):
    try:
        run = subprocess.run(["git", "-C", root, "ls-files", "-z"], text=True, capture_output=True)
    except FileNotFoundError:
        return []
    return run.stdout.split("\0")[:-1]


def main():
    root = sys.argv[1]
    blind = [text for text in TRIAL if not faults_of(text)] + [text for text in CLEAN if faults_of(text)]
    if blind:
        sys.exit(f"self-test: judged wrongly: {blind}")
    paths = tracked(root)
    if not paths:
        print("not a git checkout")
        return 77
    faults = []
    for path in paths:
        full = os.path.join(root, path)
        if os.path.isfile(full):
            with open(full, encoding="utf-8", errors="replace") as file:
                faults += [f"{path}:{line}: {found}" for line, found in faults_of(file.read())]
    print("\n".join(faults) or f"{len(paths)} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
