"""The table of statuses is whole: errors.def, the enum of status.h, docs/errors.md and the Python exceptions say the same. Argument: the source root."""
import importlib.machinery
import importlib.util
import os
import re
import sys

import c_text


def load_generator(root):
    path = os.path.join(root, "scripts", "errors-doc.py")
    loader = importlib.machinery.SourceFileLoader("errors_doc", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("errors_doc", loader))
    loader.exec_module(module)
    return module


def enum_numbers(root):
    header = c_text.strip_comments(c_text.read(os.path.join(root, "include", "kvferry", "status.h")))
    body = re.search(r"enum\s*\{(.*?)\}", header, re.S).group(1)
    return {name: int(number) for name, number in re.findall(r"KVF_(\w+)\s*=\s*(\d+)", body)}


def check_texts(row):
    faults = []
    for column in ("meaning", "when", "check", "remedy"):
        text = getattr(row, column)
        if not text.endswith(".") or text != text.strip() or text[0].islower() and not text.startswith(("kvferry", "drain")):
            faults.append(f"{row.name}: {column} is no sentence: {text!r}")
    return faults + ([] if row.retry in (0, 1) else [f"{row.name}: retry is {row.retry}"])


def main():
    root = sys.argv[1]
    generator = load_generator(root)
    rows = generator.read_rows(c_text.read(os.path.join(root, "src", "base", "errors.def")))
    faults = [fault for row in rows for fault in check_texts(row)]
    table = {row.name: number for number, row in enumerate(rows)}
    numbers = enum_numbers(root)
    for name in sorted(table.keys() | numbers.keys()):
        if table.get(name) != numbers.get(name):
            faults.append(f"{name}: row {table.get(name)} of errors.def, KVF_{name} = {numbers.get(name)}")
    if len(table) != len(rows):
        faults.append("errors.def has a name twice")
    for path, text in (("docs/errors.md", generator.render(rows)), ("python/kvferry/statuses.py", generator.render_exceptions(rows))):
        if not os.path.exists(os.path.join(root, path)) or c_text.read(os.path.join(root, path)) != text:
            faults.append(f"{path} is out of date: run `make errors-doc`")
    print("\n".join(faults) or f"{len(rows)} statuses")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
