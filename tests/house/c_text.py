"""Reading C sources as text: comments away, includes, and the public declarations. For the tests of this folder."""
import glob
import os
import re

NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
FUNCTION = re.compile(r"\bKVF_API\b[^;(]*?\b(\w+)\s*\(")


def strip_comments(text):
    """Comments become a space, their newlines stay, so that line numbers hold."""
    return NOISE.sub(lambda match: match.group(1) or "\n" * match.group().count("\n") or " ", text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def includes(text):
    """(line, '<' or '"', name) for each include."""
    stripped = strip_comments(text)
    return [(stripped.count("\n", 0, match.start(1)) + 1, match.group(1), match.group(2)) for match in INCLUDE.finditer(stripped)]


def public_headers(root):
    return sorted(glob.glob(os.path.join(root, "include", "kvferry", "*.h")))


def public_functions(root):
    """The names of all functions that the public headers declare with KVF_API."""
    names = []
    for path in public_headers(root):
        if os.path.basename(path) != "visibility.h":
            names += FUNCTION.findall(strip_comments(read(path)))
    return sorted(names)
