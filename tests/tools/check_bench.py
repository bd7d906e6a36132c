"""`kvferry bench`: every benchmark runs, tells what it should, adds up, and dies with its ranks. Argument: the kvferry program."""
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

SMALL = ["--tokens", "64", "--layers", "3", "--rounds", "2", "--deadline", "20"]
PAYLOAD = 64 * 3 * 4096  # tokens, layers, bytes of K and V of all heads of Qwen3-8B


def run(*words, seconds=120):
    try:
        return subprocess.run([sys.argv[1], "bench", *words], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        sys.exit(f"{words}: hung")


def measure(*words):
    result = run(*words, "--json", "-")
    if result.returncode or "limits of this host" not in result.stderr:
        sys.exit(f"{words}: status {result.returncode}: {result.stderr[:2000]}")
    return json.loads(result.stdout)


def judge_case(case, concurrency=1):
    faults = []
    if case["payload_bytes"] != PAYLOAD * concurrency or not case["verified"] or case["bulk_writes"] == 0:
        faults.append(f"{case['payload_bytes']} bytes, verified {case['verified']}, {case['bulk_writes']} writes")
    for name in ("memcpy_ratio", "payload_bytes_per_second", "latency_us"):
        if not 0 < case[name + "_least"] <= case[name] <= case[name + "_most"]:
            faults.append(f"{name} is {case[name]}")
    copied = case["payload_bytes_per_second_most"] / case["memcpy_ratio_most"]
    if not case["memcpy_bytes_per_second_least"] / 10 < copied < case["memcpy_bytes_per_second_most"] * 10:
        faults.append(f"memcpy_ratio {case['memcpy_ratio']} is not the ratio of the rates")
    if not case["layerwise"] and abs(case["latency_us_least"] * case["payload_bytes_per_second_most"] / 1e6 - case["payload_bytes"]) > 1e4:
        faults.append("latency and rate do not belong together")
    return [f"{case['asked_fabric']} {case['asked_way']} {case['order']}: {fault}" for fault in faults]


def check_cases():
    report = measure("transfer", *SMALL, "--way", "all", "--fabric", "all", "--order", "both")
    faults = [fault for case in report["results"] for fault in judge_case(case)]
    faults += [f"failed: {case['error']}" for case in report["failures"] if case["asked_fabric"] != "ucx"]
    seen = {(case["fabric"], case["way"], case["order"]) for case in report["results"]}
    for fabric in ("shm", "tcp"):
        for way in ("staged", "direct"):
            for order in ("random", "contiguous"):
                if (fabric, way, order) not in seen:
                    faults.append(f"no case {fabric} {way} {order}")
    if report["cores"] != os.cpu_count() or report["limits"]["memcpy_bytes_per_second"]["least"] <= 0:
        faults.append(f"limits {report['limits']}")
    return faults


def check_concurrency():
    report = measure("transfer", *SMALL, "--concurrency", "1,3", "--prefill", "tp=2", "--decode", "tp=4,layout=hnd", "--way", "staged")
    counts = [case["concurrency"] for case in report["results"]]
    faults = [] if counts == [1, 3] else [f"concurrency {counts}"]
    return faults + [fault for case in report["results"] for fault in judge_case(case, case["concurrency"])]


def check_layers():
    report = measure("transfer", *SMALL, "--layerwise", "20000")
    at_end, layers = report["results"]
    faults = [fault for case in report["results"] for fault in judge_case(case)]
    if at_end["layerwise"] or not layers["layerwise"] or layers["at_end_ratio"] <= 0:
        faults.append("not one case at the end and one layer by layer")
    if layers["payload_bytes_per_second_most"] > PAYLOAD / (2 * 0.020):
        faults.append(f"layers were not computed: {layers['payload_bytes_per_second_most']} bytes per second")
    return faults


def check_runs():
    results = measure("transfer", *SMALL, "--way", "staged", "--runs", "1,4096")["results"]
    faults = [fault for case in results for fault in judge_case(case)]
    seen = [(case["order"], case["run_pages"]) for case in results]
    return faults + ([] if seen == [("runs of 1", 1), ("runs of 4096", 4096)] else [f"runs: {seen}"])


def check_csv():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.csv")
        result = run("transfer", *SMALL, "--csv", path, "--order", "both")
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    if result.returncode or [row["order"] for row in rows] != ["random", "contiguous"] or int(rows[0]["payload_bytes"]) != PAYLOAD:
        return [f"csv: status {result.returncode}, {rows}"]
    return [] if "of memcpy" in result.stdout and result.stderr == "" else [f"csv: {result.stdout}{result.stderr}"]


def check_others():
    faults = []
    limits = measure("limits")
    if any(stat["least"] <= 0 for stat in limits["limits"].values()):
        faults.append(f"limits: {limits}")
    submit = measure("submit", "--rounds", "1")["results"]
    if [(case["pages"], case["layers"]) for case in submit] != [(112000, 1), (100000, 64)]:
        faults.append(f"submit: {submit}")
    for case in submit:
        if min(case["post_us"], case["recv_open_us"], case["latency_us"], case["first_latency_us"], case["first_piece_us"]) <= 0:
            faults.append(f"submit: {case}")
        if case["first_piece_us"] > case["latency_us_most"] or case["post_us"] > 1e6:
            faults.append(f"submit: the first piece after the end, or a call that waits: {case}")
    idle = measure("idle", "--seconds", "0.5", "--rooms", "50", "--peers", "2", "--rounds", "1")["results"][0]
    if idle["rooms"] != 50 or not 0 <= idle["cpu_percent"] < 50:
        faults.append(f"idle: {idle}")
    return faults


def check_usage():
    faults = []
    for words, said in ((["trnsfer"], "did you mean transfer"), ([], "needed"), (["transfer", "--oder", "both"], "did you mean --order"),
                        (["transfer", "--concurrency", "0"], "1 to 4096"), (["transfer", "--layerwise", "x"], "microseconds"),
                        (["transfer", "--prefill", "pp=2", "--layerwise", "5"], "pp=1"), (["idle", "--seconds", "99"], "at most 20"),
                        (["transfer", "--heads", "3"], "INVALID")):
        result = run(*words)
        if result.returncode != 2 or said not in result.stderr:
            faults.append(f"{words}: status {result.returncode}: {result.stderr[:500]}")
    for name in ("transfer", "submit", "idle", "limits"):
        result = run(name, "--help")
        if result.returncode or "usage: kvferry bench " + name not in result.stdout:
            faults.append(f"{name} --help: {result.stdout[:500]}")
    result = run("transfer", *SMALL, "--fabric", "shm,nothing")
    if result.returncode != 1 or "nothing" not in result.stderr:
        faults.append(f"an unknown fabric: status {result.returncode}: {result.stderr[:500]}")
    return faults


def list_children(parent):
    with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def check_death(number):
    process = subprocess.Popen([sys.argv[1], "bench", "transfer", "--layers", "2", "--rounds", "100", "--layerwise", "100000"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(children := list_children(process.pid)) < 6 and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    try:
        status = process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        return [f"signal {number}: it goes on"]
    deadline = time.monotonic() + 20  # giving large pools back takes a moment
    while (left := [child for child in children if is_alive(child)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [] if status != 0 and len(children) == 6 and not left else [f"signal {number}: status {status}, {len(children)} ranks, left {left}"]


def main():
    faults = check_usage() + check_cases() + check_concurrency() + check_layers() + check_runs() + check_csv() + check_others()
    faults += check_death(signal.SIGTERM) + check_death(signal.SIGKILL)
    print("\n".join(faults) or "all as it should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
