#!/usr/bin/env python3
"""Whole transfers between two network namespaces joined by veth, against what iperf3 moves over the same link in the same run.
Each round measures iperf3 with one stream and with as many as there are prefill-decode pairs, then each case; the limit is the
better of the two. Needs root, ip(8) and iperf3. `make bench-net` runs it."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
from two_hosts import TwoHosts, Unavailable, call  # noqa: E402

TARGETS = {"tcp": 0.80, "ucx": 0.65}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="a kvferry command of a release build")
    parser.add_argument("--cases", default="tcp:auto,ucx:auto", help="FABRIC:WAY[,...]; %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each iperf3 run; %(default)s")
    parser.add_argument("--streams", default="1,4", help="of iperf3; %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.epilog = "After -- come options for `kvferry bench transfer`, e.g. -- --tokens 1024"
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    arguments.options = words[end + 1:]
    return arguments


def measure_iperf(hosts, streams, seconds):
    """Bytes per second, as the receiver counts them."""
    right = hosts.addresses[1]
    server = subprocess.Popen(hosts.words_in(1, "iperf3", "--server", "--one-off", "--bind", right, "--forceflush"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        while "listening" not in server.stdout.readline():
            if server.poll() is not None:
                raise RuntimeError("iperf3 does not listen")
        out = call(*hosts.words_in(0, "iperf3", "--client", right, "--time", str(seconds), "--parallel", str(streams), "--json"))
        server.communicate(timeout=10)
    finally:
        server.kill()
        server.wait()
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8


def measure_case(hosts, arguments, fabric, way):
    """Payload bytes per second of the median of three transfers after one that is verified; and the case's own report."""
    pairs = ",".join(f"{name}={address}" for name, address in zip(hosts.names, hosts.addresses))
    words = ["bench", "transfer", "--hosts", pairs, "--fabric", fabric, "--way", way, "--rounds", "3", "--quiet", "--json", "-"]
    done = subprocess.run([arguments.program, *words, *arguments.options], capture_output=True, text=True, timeout=120, check=False)
    try:
        result = json.loads(done.stdout)["results"][0]
    except (ValueError, IndexError) as error:
        raise RuntimeError(f"{fabric} {way}: {done.stderr or done.stdout}") from error
    if result["fabric"] != fabric:
        raise RuntimeError(f"{fabric} was asked for and {result['fabric']} taken")
    return result


def measure_round(hosts, arguments, cases, rows):
    limits = {streams: measure_iperf(hosts, streams, arguments.seconds) for streams in map(int, arguments.streams.split(","))}
    for fabric, way in cases:
        result = measure_case(hosts, arguments, fabric, way)
        rate = result["payload_bytes_per_second"]
        rows.setdefault((fabric, way), []).append({"iperf3_bytes_per_second": limits, "ratio": rate / max(limits.values()), **result})


def describe(values, decimals=2):
    return f"{statistics.median(values):.{decimals}f} ({min(values):.{decimals}f}-{max(values):.{decimals}f})"


def report(rows):
    print(f"{'fabric':7}{'asked':8}{'took':8}{'of iperf3':20}{'target':8}{'MiB/s':22}{'iperf3 MiB/s':22}{'copies':8}")
    for (fabric, way), rounds in rows.items():
        target = f"{TARGETS[fabric]:.2f}" if fabric in TARGETS else ""
        rates = [one["payload_bytes_per_second"] / 2**20 for one in rounds]
        limits = [max(one["iperf3_bytes_per_second"].values()) / 2**20 for one in rounds]
        print(f"{fabric:7}{way:8}{rounds[-1]['way']:8}{describe([one['ratio'] for one in rounds]):20}{target:8}"
              f"{describe(rates, 0):22}{describe(limits, 0):22}{statistics.median(one['cpu_copies'] for one in rounds):.2f}")


def main():
    arguments = read_arguments()
    cases = [tuple(case.split(":")) for case in arguments.cases.split(",")]
    rows = {}
    try:
        with TwoHosts() as hosts:
            for _ in range(arguments.rounds):
                measure_round(hosts, arguments, cases, rows)
    except (Unavailable, RuntimeError, OSError, subprocess.SubprocessError) as error:
        print("bench/veth.py:", error, file=sys.stderr)
        return 1
    report(rows)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([{"asked_fabric": fabric, "asked_way": way, "rounds": rounds} for (fabric, way), rounds in rows.items()], file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
