"""Small replays with the real program: every byte verified, over several shapes; two instances apart; death and signals.
Argument: the kvferry program."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

SMALL = ["--requests", "8", "--max-tokens", "1500", "--layers", "2", "--arena", "4MiB", "--deadline", "20", "--quiet"]
SHAPES = [
    ["--prefill", "tp=2", "--decode", "tp=4,page=64,layout=hnd"],
    ["--prefill", "tp=4,page=32,layout=hnd", "--decode", "tp=1"],
    ["--prefill", "tp=3", "--decode", "tp=2", "--heads", "6"],
    ["--prefill", "tp=1", "--decode", "tp=4", "--heads", "2", "--chunk-tokens", "100"],
    ["--prefill", "tp=2,pp=2", "--decode", "tp=2", "--layers", "3", "--model", "Qwen3-0.6B"],
    ["--prefill", "tp=2", "--decode", "tp=2", "--model", "DeepSeek-V3"],
    ["--fabric", "tcp", "--arena", "64KiB", "--piece", "16KiB", "--gather", "64KiB", "--prefill", "tp=1", "--decode", "tp=2"],
    ["--way", "staged", "--verify", "sample", "--time-scale", "0.01"],
    ["--secret", "open sesame", "--verify", "off", "--concurrency", "1", "--prefill", "tp=1", "--decode", "tp=1"],
]


def start(*words):
    return subprocess.Popen([sys.argv[1], *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, seconds=60):
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        return out, error + "\nthe program hung and was killed"


def judge(words, status, report, is_full):
    faults = [] if status == 0 else [f"status {status}"]
    if report["rooms"] != {"done": 8, "failed": 0, "cancelled": 0}:
        faults.append(f"rooms {report['rooms']}")
    if report["verified"] != is_full:
        faults.append(f"verified {report['verified']}")
    tokens = report["tokens"] - report["prefix_tokens"]
    model = report["model"]
    copies = max(1, report["decode"]["tp"] // model["kv_heads"]) if not model["mla"] else report["decode"]["tp"]
    layers = model["layers"] + model["draft_layers"]  # all alike in the models here
    expected = tokens * model["token_bytes"] // model["layers"] * layers * copies
    if report["bytes"] != expected:
        faults.append(f"{report['bytes']} bytes, expected {expected}")
    if not report["fabric"] or report["throughput_bytes_per_second"] <= 0 or report["memcpy_ratio"] <= 0:
        faults.append("no fabric, throughput or ratio")
    return [f"{' '.join(words)}: {fault}; {report['errors']}" for fault in faults]


def check_shape(shape):
    words = ["replay", *SMALL, *shape, "--json", "-"]
    process = start(*words)
    out, error = finish(process)
    try:
        report = json.loads(out)
    except json.JSONDecodeError:
        return [f"{' '.join(words)}: no report: {out} {error}"]
    return judge(words, process.returncode, report, not {"sample", "off"} & set(shape))


def check_full_hits():
    """Two equal prompts: the second is a transfer of nothing that must still end DONE on both sides."""
    line = {"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([json.dumps(line)] * 3))
        process = start("replay", "--trace", path, "--quiet", "--deadline", "20", "--json", "-")
        out, error = finish(process)
    report = json.loads(out or "{}")
    if process.returncode or report.get("full_hits") != 2 or report["rooms"]["done"] != 3 or report["bytes"] != 600 * 8192:
        return [f"full hits: status {process.returncode}: {out} {error}"]
    return []


def check_apart():
    """The two instances as two programs that share nothing but an address."""
    common = [*SMALL, "--prefill", "tp=2", "--decode", "tp=2,page=32"]
    prefill = start("rank", "--role", "prefill", *common, "--json", "-")
    addresses = [prefill.stderr.readline().split()[-1] for _ in range(2)]
    decode = start("rank", "--role", "decode", "--connect", ",".join(addresses), *common, "--json", "-")
    faults = []
    for name, process in (("decode", decode), ("prefill", prefill)):
        out, error = finish(process)
        report = json.loads(out or "{}")
        if process.returncode or report["rooms"]["done"] != 8 or report["verified"] != (name == "decode"):
            faults.append(f"rank {name}: status {process.returncode}: {out} {error}")
    return faults


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def check_end(name, strike, said):
    """However it is struck, the program reports, leaves no child, and says why, soon."""
    process = start("replay", "--requests", "3000", "--max-tokens", "1500", "--deadline", "20", "--json", "-")
    children = []
    for _ in range(100):
        time.sleep(0.05)
        children = children_of(process.pid)
        if len(children) == 6:
            break
    time.sleep(0.3)
    strike(process, children)
    began = time.monotonic()
    out, error = finish(process)
    faults = [] if process.returncode == 1 else [f"{name}: status {process.returncode}"]
    if time.monotonic() - began > 8:
        faults.append(f"{name}: took {time.monotonic() - began:.1f} s")
    if said not in error + out:
        faults.append(f"{name}: does not say {said!r}: {error}")
    faults += [f"{name}: child {child} is left" for child in children if os.path.exists(f"/proc/{child}")]
    return faults


def main():
    faults = [fault for shape in SHAPES for fault in check_shape(shape)]
    faults += check_full_hits() + check_apart()
    faults += check_end("a killed rank", lambda _, children: os.kill(children[-1], signal.SIGKILL), "killed by signal 9")
    faults += check_end("an interrupt", lambda process, _: process.send_signal(signal.SIGINT), "stopped by signal 2")
    print("\n".join(faults) or "as expected")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
