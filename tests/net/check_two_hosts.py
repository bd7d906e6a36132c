#!/usr/bin/env python3
"""A prefill instance in one network namespace, a decode instance in another, joined by a veth pair; every byte verified, over each fabric
named. Needs root and ip(8), else it is skipped (77). Arguments: the kvferry program, then fabrics."""
import json
import os
import shutil
import subprocess
import sys
import time

PID = os.getpid()
LEFT, RIGHT = f"kvf{PID}a", f"kvf{PID}b"
LEFT_IP, RIGHT_IP = "10.213.7.1", "10.213.7.2"
WORKLOAD = ["--requests", "20", "--max-tokens", "3000", "--layers", "2", "--prefill", "tp=2", "--decode", "tp=3,page=64,layout=hnd", "--heads", "6",
            "--deadline", "30", "--quiet"]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def make_hosts():
    for name in (LEFT, RIGHT):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", f"va{PID}", "netns", LEFT, "type", "veth", "peer", "name", f"vb{PID}", "netns", RIGHT)
    for name, device, address in ((LEFT, f"va{PID}", LEFT_IP), (RIGHT, f"vb{PID}", RIGHT_IP)):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
        ip("-n", name, "link", "set", device, "up")


def wait_for_carrier():
    """The kernel may take a second to call a new link up, and UCX uses no link that is not."""
    for name, device in ((LEFT, f"va{PID}"), (RIGHT, f"vb{PID}")):
        for _ in range(100):
            shown = subprocess.run(["ip", "-n", name, "-o", "link", "show", device], capture_output=True, text=True).stdout
            if "state UP" in shown:
                break
            time.sleep(0.05)


def remove_hosts():
    for name in (LEFT, RIGHT):
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def run_in(namespace, program, *words):
    return subprocess.Popen(["ip", "netns", "exec", namespace, program, "rank", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(program, fabric):
    shared = [*WORKLOAD, "--fabric", fabric, "--json", "-"]
    prefill = run_in(LEFT, program, "--role", "prefill", "--listen", f"{LEFT_IP}:7000", *shared)
    decode = run_in(RIGHT, program, "--role", "decode", "--listen", f"{RIGHT_IP}:7000", "--connect", f"{LEFT_IP}:7000", *shared)
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
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("skipped: needs root and ip(8)")
        return 77
    try:
        make_hosts()
        wait_for_carrier()
    except subprocess.CalledProcessError as error:
        remove_hosts()
        print("skipped: no network namespaces here:", error.stderr.decode())
        return 77
    try:
        faults = [fault for fabric in fabrics for fault in check(program, fabric)]
    finally:
        remove_hosts()
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
