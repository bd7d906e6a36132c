"""Every preset between instances of other shapes, and each configuration file in KVF_CONFIGS: small replays with every byte verified.
Argument: the kvferry program; further words are names of presets, to keep to those.

The prompts are shorter than a window, longer than one, end inside a page and inside a compressed entry, and one is a full hit."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

SECONDS_EACH = 90  # far more than it takes, also under a sanitizer on a busy machine
SHAPES = [
    ("tp=2", "tp=4"),
    ("tp=4,layout=hnd", "tp=2"),
    ("tp=8", "tp=1,page=64"),
    ("tp=1,page=64,layout=hnd", "tp=8,page=16"),
    ("tp=3", "tp=2"),
    ("tp=1,pp=2", "tp=1"),
    ("tp=1", "tp=1,pp=3"),
    ("tp=2,layers=1+2", "tp=1,layers=2+1"),
]
SHARED_SHAPES = [("tp=1", "tp=1,cp=4"), ("tp=1,cp=4,cpblock=16", "tp=2"), ("tp=1,cp=2,cpblock=3", "tp=1,cp=3,page=64")]
HEADS_SHARED = [("tp=2,cp=2", "tp=1,cp=3,cpblock=16")]
PROMPTS = [(37, [1]), (300, [2]), (1111, [3, 4, 5]), (1400, [3, 4, 6]), (300, [2])]
ROUTES = [[], ["--way", "staged"], ["--fabric", "tcp"], ["--way", "staged", "--piece", "64KiB"], ["--fabric", "tcp", "--way", "direct"]]
SMALL = ["--chunk-tokens", "190", "--arena", "2MiB", "--gather", "1MiB", "--deadline", "40", "--quiet", "--json", "-"]


def write_trace(folder):
    path = os.path.join(folder, "trace.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for length, blocks in PROMPTS:
            print(json.dumps({"timestamp": 0, "input_length": length, "output_length": 1, "hash_ids": blocks}), file=file)
    return path


def run(words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=SECONDS_EACH, check=False)


def tensor_parallel(side):
    return next(int(pair[3:]) for pair in side.split(",") if pair.startswith("tp="))


def can_split(model, side):
    """More ranks than heads is replication, and that must come out even."""
    return all(tensor_parallel(side) <= heads or tensor_parallel(side) % heads == 0 for heads in model["split_heads"])


def check(model, prefill, decode, route, trace):
    layers = min(max(3, model["kinds"]), model["layers"])
    words = ["replay", "--model", model["name"], "--layers", str(layers), "--prefill", prefill, "--decode", decode,
             "--trace", trace, *route, *SMALL]
    if "layers=" in prefill and layers != 3 or "pp=3" in decode and layers < 3:
        return []
    try:
        result = run(words)
    except subprocess.TimeoutExpired:
        return [f"{' '.join(words)}: hung"]
    if not can_split(model, prefill) or not can_split(model, decode):
        good = result.returncode == 2 and "INVALID" in result.stderr
        return [] if good else [f"{' '.join(words)}: should be refused: {result.stderr}"]
    try:
        report = json.loads(result.stdout)
    except json.JSONDecodeError:
        return [f"{' '.join(words)}: no report: {result.stderr}"]
    if result.returncode or report["rooms"]["done"] != len(PROMPTS) or not report["verified"]:
        return [f"{' '.join(words)}: rooms {report['rooms']}, verified {report['verified']}: {json.dumps(report['errors'])[:1500]}"]
    return []


def list_models():
    if sys.argv[2:]:
        return json.loads(run(["models", "--json", *sys.argv[2:]]).stdout)
    paths = sorted(glob.glob(os.path.join(os.environ["KVF_CONFIGS"], "*.json")))
    files = json.loads(run(["models", "--json", *paths]).stdout)
    return json.loads(run(["models", "--json"]).stdout) + [{**model, "name": path} for model, path in zip(files, paths)]


def main():
    chosen, faults, count, began = list_models(), [], 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(folder)
        for model in chosen:
            shapes = SHAPES + (SHARED_SHAPES if model["mla"] else HEADS_SHARED)
            if model["name"].endswith(".json"):
                shapes = shapes[::4]
            for prefill, decode in shapes:
                faults += check(model, prefill, decode, ROUTES[count % len(ROUTES)], trace)
                count += 1
    print("\n".join(faults) or f"{count} replays of {len(chosen)} models in {time.monotonic() - began:.0f} s")
    return 1 if faults or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
