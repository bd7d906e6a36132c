#!/usr/bin/env python3
"""A prefill instance in one network namespace, a decode instance in another, joined by a veth pair; every byte verified, over each fabric
named. Needs root and ip(8), else it is skipped (77). Arguments: the kvferry program, then fabrics."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from two_hosts import TwoHosts, Unavailable  # noqa: E402

WORKLOAD = ["--requests", "20", "--max-tokens", "3000", "--layers", "2", "--prefill", "tp=2", "--decode", "tp=3,page=64,layout=hnd", "--heads", "6",
            "--deadline", "30", "--quiet"]


def run_on(hosts, host, program, *words):
    return subprocess.Popen(hosts.words_in(host, program, "rank", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(hosts, program, fabric):
    shared = [*WORKLOAD, "--fabric", fabric, "--json", "-"]
    left, right = hosts.addresses
    prefill = run_on(hosts, 0, program, "--role", "prefill", "--listen", f"{left}:7000", *shared)
    decode = run_on(hosts, 1, program, "--role", "decode", "--listen", f"{right}:7000", "--connect", f"{left}:7000", *shared)
    faults = []
    for name, process in (("decode", decode), ("prefill", prefill)):
        try:
            out, error = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            faults.append(f"{fabric}: {name} hung")
            continue
        try:
            report = json.loads(out[out.index("{"):])
        except ValueError:
            faults.append(f"{fabric}: {name}: no report: {out} {error}")
            continue
        if process.returncode != 0 or report["rooms"]["done"] != 20:
            faults.append(f"{fabric}: {name}: status {process.returncode}, {report['rooms']}, {report['errors']}")
        if name == "decode" and not report["verified"]:
            faults.append(f"{fabric}: not verified")
        if name == "prefill" and report["fabric"] not in (["tcp"] if fabric == "auto" else fabric.split(",")):
            faults.append(f"{fabric}: went over {report['fabric']}")
    return faults


def main():
    program, fabrics = sys.argv[1], sys.argv[2:]
    try:
        with TwoHosts() as hosts:
            faults = [fault for fabric in fabrics for fault in check(hosts, program, fabric)]
    except Unavailable as error:
        print("skipped:", error)
        return 77
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
