"""Two hosts on one machine: network namespaces joined by a veth pair. Tests and benchmarks that need a real network path between
ranks use it; making them takes root and ip(8), slowing them down tc(8). Leaving the context removes everything."""
import os
import shutil
import subprocess
import time


class Unavailable(Exception):
    """No namespaces can be made here."""


def call(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=20).stdout


class TwoHosts:
    """names: of the namespaces, addresses: of the ends; 0 = left, 1 = right."""

    def __init__(self):
        pid = os.getpid()
        self.names = (f"kvf{pid}a", f"kvf{pid}b")
        self.devices = (f"va{pid}", f"vb{pid}")
        self.addresses = ("10.213.7.1", "10.213.7.2")

    def __enter__(self):
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise Unavailable("needs root and ip(8)")
        try:
            self.make()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            self.remove()
            raise Unavailable(f"no network namespaces here: {error.stderr}") from error
        return self

    def __exit__(self, *_):
        self.remove()

    def make(self):
        for name in self.names:
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")
        left, right = self.names
        call("ip", "link", "add", self.devices[0], "netns", left, "type", "veth", "peer", "name", self.devices[1], "netns", right)
        for name, device, address in zip(self.names, self.devices, self.addresses):
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", device)
            call("ip", "-n", name, "link", "set", device, "up")
        self.wait_for_carrier()

    def wait_for_carrier(self):
        """The kernel may take a second to call a new link up, and UCX uses no link that is not."""
        for name, device in zip(self.names, self.devices):
            for _ in range(100):
                if "state UP" in call("ip", "-n", name, "-o", "link", "show", device):
                    break
                time.sleep(0.05)

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def words_in(self, host, *words):
        """The command line that runs @words on a host."""
        return ["ip", "netns", "exec", self.names[host], *words]

    def shape(self, *words):
        """The same queueing discipline on both ends, e.g. shape("tbf", "rate", "8mbit", "burst", "64kb", "latency", "200ms")."""
        try:
            for name, device in zip(self.names, self.devices):
                call("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", device, "root", *words)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"no traffic shaping here: {getattr(error, 'stderr', error)}") from error
