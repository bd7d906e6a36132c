"""The scripts behind the Makefile, with false commands in PATH: what run-tests counts, what install-packages asks for.

Argument: the source root.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)

ALL_PASS = "[==========] Running 2 test(s).\n[       OK ] a\n[       OK ] b\n[  PASSED  ] 2 test(s).\n"
MIXED = "[  PASSED  ] 3 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  FAILED  ] 2 test(s), listed below:\n[  FAILED  ] b\n"

# What the tools that install-packages looks for answer when they are there.
PRESENT = {"meson": "echo 1.3.0", "ninja": ":", "cc": ":", "python3": ":", "ip": ":", "spin": ":", "pkg-config": "exit 0"}
NEEDED = ("sh", "sort", "head", "grep", "mktemp", "rm", "cat", "env")


def write_command(folder, name, body):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{body}\n")
    os.chmod(path, 0o755)


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)

    def run_script(self, name, *arguments, path):
        environment = {"PATH": path, "LOG": os.path.join(self.folder, "log"), "BIN": self.bin}
        return subprocess.run([os.path.join(ROOT, "scripts", name), *arguments], text=True, capture_output=True, env=environment)

    def log(self):
        path = os.path.join(self.folder, "log")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()


class RunTests(Scratch):
    """meson is a command that writes the log it is told to."""

    def run_with(self, *entries, status=0):
        logs = os.path.join(self.folder, "meson-logs")
        os.makedirs(logs, exist_ok=True)
        text = "".join(json.dumps({"name": f"t{i}", "returncode": 0, **entry}) + "\n" for i, entry in enumerate(entries))
        prepared = os.path.join(self.folder, "prepared")
        with open(prepared, "w", encoding="utf-8") as file:
            file.write(text)
        copy = f'cp "{prepared}" "{logs}/testlog.json"' if entries else ":"
        write_command(self.bin, "meson", f'echo "$@" > "$LOG"\n{copy}\nexit {status}')
        run = self.run_script("run-tests", self.folder, "--suite", "x", path=self.bin + os.pathsep + os.environ["PATH"])
        self.assertEqual(self.log(), f"test -C {self.folder} --suite x\n")
        with open(os.path.join(self.folder, "test-summary"), encoding="utf-8") as file:
            self.assertEqual(file.read(), run.stdout.splitlines()[-1] + "\n")
        return run.returncode, run.stdout.splitlines()[-1], run.stdout

    def test_cases_are_summed_and_other_programs_count_one(self):
        status, last, _ = self.run_with({"result": "OK", "stdout": ALL_PASS}, {"result": "OK", "stdout": "fine"})
        self.assertEqual((status, last), (0, "3 passed, 0 failed"))

    def test_groups_and_both_streams_are_summed(self):
        status, last, _ = self.run_with({"result": "OK", "stdout": ALL_PASS + ALL_PASS, "stderr": "[  PASSED  ] 1 test(s).\n"})
        self.assertEqual((status, last), (0, "5 passed, 0 failed"))

    def test_failed_cases_show_their_output(self):
        status, last, output = self.run_with({"result": "FAIL", "stdout": MIXED, "stderr": "x.c:7: 0x1 != 0x2"}, status=1)
        self.assertEqual((status, last), (1, "3 passed, 2 failed, 1 skipped"))
        self.assertIn("FAILED t0", output)
        self.assertIn("x.c:7: 0x1 != 0x2", output)

    def test_crash_and_timeout_are_one_failure_each(self):
        status, last, _ = self.run_with({"result": "FAIL", "stdout": "[ RUN      ] a\n", "returncode": -11}, {"result": "TIMEOUT"}, status=2)
        self.assertEqual((status, last), (1, "0 passed, 2 failed"))

    def test_failure_after_passed_cases_counts(self):
        status, last, _ = self.run_with({"result": "FAIL", "stdout": ALL_PASS, "stderr": "leak"}, status=1)
        self.assertEqual((status, last), (1, "2 passed, 1 failed"))

    def test_skips_are_named(self):
        status, last, _ = self.run_with({"result": "OK", "stdout": ALL_PASS}, {"result": "SKIP", "returncode": 77})
        self.assertEqual((status, last), (0, "2 passed, 0 failed, 1 skipped"))

    def test_run_without_results_fails(self):
        self.run_with({"result": "OK"})
        os.unlink(os.path.join(self.folder, "log"))
        status, last, _ = self.run_with(status=1)
        self.assertEqual((status, last), (1, "0 passed, 1 failed"))


class InstallPackages(Scratch):
    def setUp(self):
        super().setUp()
        for name in NEEDED:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        for name, body in PRESENT.items():
            write_command(self.bin, name, body)
        write_command(self.bin, "id", "echo 1000")

    def remove(self, *names):
        for name in names:
            os.unlink(os.path.join(self.bin, name))

    def lack_library(self, name):
        write_command(self.bin, "pkg-config", f'case "$*" in *{name}*) [ -e "$BIN/got" ] ;; esac')

    def add_apt(self, install):
        """An apt-get for root that notes its calls; `install` is what its install does."""
        write_command(self.bin, "id", "echo 0")
        write_command(self.bin, "apt-get", f'echo "$@" >> "$LOG"\ncase "$*" in *update) : > "$BIN/updated" ;; *) {install} ;; esac')

    def run_it(self, *arguments):
        return self.run_script("install-packages", *arguments, path=self.bin)

    def test_nothing_missing_is_silent(self):
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_without_rights_it_names_the_packages(self):
        self.remove("ninja")
        self.lack_library("libuv")
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr.splitlines(), ["These are missing or too old: ninja libuv",
                                                   "  Debian, Ubuntu:  apt-get install ninja-build libuv1-dev",
                                                   "  Fedora:          dnf install ninja-build libuv-devel"])

    def test_old_meson_is_missing(self):
        write_command(self.bin, "meson", "echo 0.61.2")
        self.assertIn("too old: meson\n", self.run_it().stderr)

    def test_optional_alone_does_not_fail(self):
        self.lack_library("ucx")
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_root_installs_without_update(self):
        self.lack_library("libuv")
        self.add_apt(': > "$BIN/got"')
        run = self.run_it()
        self.assertEqual((run.returncode, run.stdout), (0, "installing: libuv1-dev\n"))
        self.assertEqual(self.log().count("\n"), 1)
        self.assertIn("install --no-install-recommends libuv1-dev", self.log())

    def test_lists_are_updated_once_when_the_first_try_fails(self):
        self.lack_library("libuv")
        self.add_apt('[ -e "$BIN/updated" ] && : > "$BIN/got"')
        self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(self.log().count("update"), 1)

    def test_failed_install_names_the_packages(self):
        self.lack_library("libuv")
        self.add_apt("exit 100")
        run = self.run_it()
        self.assertEqual(run.returncode, 1)
        self.assertIn("dnf install libuv-devel", run.stderr)

    def test_further_names(self):
        self.assertIn("apt-get install gcovr", self.run_it("gcovr").stderr)
        self.assertEqual(self.run_it("nonsense").returncode, 2)


if __name__ == "__main__":
    unittest.main()
