#!/usr/bin/env python3
"""Writes docs/errors.md and the Python exceptions from src/base/errors.def, the one table of statuses.

tests/house/error_table.py reads the table through read_rows, so that there is one parser of it.
"""
import collections
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "src", "base", "errors.def")
DOCUMENT = os.path.join(ROOT, "docs", "errors.md")
EXCEPTIONS = os.path.join(ROOT, "python", "kvferry", "statuses.py")

# Exceptions that are also what Python's own code would raise.
PYTHON_KIN = {"INVALID": "ValueError", "NO_MEMORY": "MemoryError", "TIMEOUT": "TimeoutError", "OUT_OF_RANGE": "IndexError"}

Row = collections.namedtuple("Row", "name meaning when check remedy retry")

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*)|(\d+)|([(),])|\s+', re.S)
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": " "}


def read_tokens(text):
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise ValueError(f"errors.def: cannot read {text[position:position + 30]!r}")
        position = match.end()
        literal, word, number, mark = match.groups()
        if literal is not None:
            yield "text", re.sub(r"\\.", lambda escape: ESCAPES[escape.group()], literal)
        elif word or number or mark:
            yield "word" if word or number else mark, word or number or mark


def read_rows(text):
    """The rows in order; adjacent string literals are joined as in C."""
    rows, cells = [], None
    for kind, value in read_tokens(text):
        if kind == "(":
            cells = [""]
        elif kind == ",":
            cells.append("")
        elif kind == ")":
            rows.append(Row(*cells[:-1], int(cells[-1])))
            cells = None
        elif cells is not None:
            cells[-1] += value
        elif value != "BASE_ERROR_ROW":
            raise ValueError(f"errors.def: {value!r} outside a row")
    return rows


def render(rows):
    lines = [
        "# Statuses and errors",
        "",
        "<!-- Written by `make errors-doc` from src/base/errors.def. Change the table, not this page. -->",
        "",
        "Every call that can fail returns one of these statuses and, on request, a chain of errors, each with one of them.",
        "Read a chain from its last line: the innermost cause has the facts. `kvferry explain NAME` prints the same text.",
        "",
        "| number | status | meaning | retry |",
        "|---:|---|---|---|",
    ]
    for number, row in enumerate(rows):
        retry = "may help" if row.retry else "-"
        lines.append(f"| {number} | [{row.name}](#{row.name.lower()}) | {row.meaning} | {retry} |")
    for number, row in enumerate(rows):
        lines += [
            "", f"## {row.name}", "", f"`KVF_{row.name}` = {number}. {row.meaning}", "",
            f"- **When:** {row.when}",
            f"- **Check:** {row.check}",
            f"- **Do:** {row.remedy}",
            f"- **Trying again:** {'may succeed' if row.retry else 'does not help'}.",
        ]
    return "\n".join(lines) + "\n"


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def class_name(row):
    return "".join(word.capitalize() for word in row.name.split("_"))


def render_exceptions(rows):
    failures = [(number, row) for number, row in enumerate(rows) if row.name != "OK"]
    lines = ['"""One exception class for each status of the library.', "",
             "Written by `make errors-doc` from src/base/errors.def. Change the table, not this file.", '"""',
             "from .errors import Error, register", "", "__all__ = ["]
    lines += [f'    "{class_name(row)}",' for _, row in failures] + ["]"]
    for number, row in failures:
        kin = f", {PYTHON_KIN[row.name]}" if row.name in PYTHON_KIN else ""
        lines += ["", "", "@register", f"class {class_name(row)}(Error{kin}):", f'    """{row.meaning}"""', "", f"    status = {number}",
                  f'    name = "{row.name}"', f"    retry = {bool(row.retry)}", f"    meaning = {quoted(row.meaning)}",
                  f"    remedy = {quoted(row.remedy)}"]
    return "\n".join(lines) + "\n"


def main():
    with open(TABLE, encoding="utf-8") as file:
        rows = read_rows(file.read())
    for path, text in ((DOCUMENT, render(rows)), (EXCEPTIONS, render_exceptions(rows))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
