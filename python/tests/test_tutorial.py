"""The code of docs/python.md runs as it stands there."""
import pathlib
import re
import subprocess
import sys

TUTORIAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_tutorial(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 4
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "all of it arrived"
