"""What cffi has to read: the public headers, preprocessed, without what they include from elsewhere."""
import os
import re
import shlex
import subprocess


def own_declarations(root, cc):
    """The preprocessed text that comes from kvferry's own headers. `cc` is the command of a C compiler."""
    run = subprocess.run([*shlex.split(cc), "-E", "-x", "c", "-std=c11", "-D__attribute__(x)=", "-I", os.path.join(root, "include"), "-"],
                         input="#include <kvferry/kvferry.h>\n", text=True, capture_output=True, check=True)
    own, lines = False, []
    for line in run.stdout.splitlines():
        marker = re.match(r'#(?:line)? \d+ "([^"]*)"', line)
        if marker:
            own = "/kvferry/" in marker.group(1)
        elif own and not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)
