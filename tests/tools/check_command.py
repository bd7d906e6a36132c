"""The command line itself: help, versions, usage errors and their exit statuses, explain and models. Argument: the kvferry program."""
import json
import os
import subprocess
import sys


def run(*words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=60, env={**os.environ, "TERM": "xterm"})


def expect(status, words, *said):
    result = run(*words)
    text = result.stdout + result.stderr
    faults = [] if result.returncode == status else [f"{words}: status {result.returncode}, expected {status}: {text}"]
    faults += [f"{words}: does not say {word!r}: {text}" for word in said if word not in text]
    if "\033[" in text:
        faults.append(f"{words}: colours although this is no terminal")
    return faults


def check_usage():
    faults = expect(0, ["--help"], "replay", "rank", "explain", "models")
    faults += expect(0, ["--version"], "kvferry 0.")
    faults += expect(2, [], "usage")
    faults += expect(2, ["reply"], "did you mean replay")
    for command in ("replay", "rank", "explain", "models"):
        faults += expect(0, [command, "--help"], "usage: kvferry " + command, "--help")
        faults += expect(2, [command, "--no-such-option"], "unknown option --no-such-option", "--help")
    faults += expect(2, ["replay", "--modle", "x"], "did you mean --model")
    faults += expect(2, ["replay", "--trace", "/no/such/file"], "/no/such/file", "No such file")
    faults += expect(2, ["replay", "--heads", "3", "--decode", "tp=4"], "INVALID")
    faults += expect(2, ["replay", "--pool", "1MiB"], "--pool", "--max-tokens")
    faults += expect(2, ["rank"], "--role")
    faults += expect(2, ["rank", "--role", "decode"], "--connect")
    faults += expect(2, ["rank", "--role", "decode", "--connect", "nowhere"], "host:port")
    return faults


def check_explain():
    faults = expect(0, ["explain", "KEY_REVOKED"], "KEY_REVOKED (18)", "check", "retry")
    faults += expect(0, ["explain", "kvf_timeout"], "TIMEOUT (6)")
    faults += expect(0, ["explain", "8"], "BACKPRESSURE (8)")
    faults += expect(2, ["explain", "KEY_REVOKE"], "did you mean KEY_REVOKED")
    faults += expect(2, ["explain", "9999"], "no status")
    faults += expect(2, ["explain"], "--all")
    faults += expect(2, ["explain", "1", "--all"], "--all")
    every = json.loads(run("explain", "--all", "--json").stdout)
    if [row["code"] for row in every] != list(range(len(every))) or len(every) < 36:
        faults.append("explain --all --json: the codes do not count from 0")
    for row in every:
        if not all(row[key] for key in ("name", "meaning", "when", "check", "remedy")) or not isinstance(row["retry"], bool):
            faults.append(f"explain --all --json: {row['name']} is not whole")
    return faults


def check_models():
    faults = expect(0, ["models"], "Qwen3-8B", "147456", "MLA")
    models = {row["name"]: row for row in json.loads(run("models", "--json").stdout)}
    if models["Meta-Llama-3.1-405B"]["token_bytes"] != 516096:
        faults.append(f"models --json: {models['Llama-3.1-405B']}")
    return faults


def main():
    faults = check_usage() + check_explain() + check_models()
    print("\n".join(faults) or "as expected")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
