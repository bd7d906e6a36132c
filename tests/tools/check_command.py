"""The command line itself: help, versions, usage errors and their exit statuses, explain and models. Argument: the kvferry program."""
import json
import os
import subprocess
import sys
import tempfile


def run(*words):
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=60, env={**os.environ, "TERM": "xterm"})


def expect(status, words, *said):
    result = run(*words)
    text = (result.stdout + result.stderr)[:20000]
    faults = [] if result.returncode == status else [f"{words}: status {result.returncode}, expected {status}: {text[:800]}"]
    faults += [f"{words}: does not say {word!r}: {text[:800]}" for word in said if word not in text]
    if "\033[" in text:
        faults.append(f"{words}: colours although this is no terminal")
    return faults


def check_usage():
    faults = expect(0, ["--help"], "replay", "rank", "plan", "explain", "models")
    faults += expect(0, ["--version"], "kvferry 0.")
    faults += expect(2, [], "usage")
    faults += expect(2, ["reply"], "did you mean replay")
    for command in ("replay", "rank", "plan", "explain", "models"):
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
        faults.append(f"models --json: {models['Meta-Llama-3.1-405B']}")
    faults += expect(0, ["models", "Llama-3.1-8B"], "Meta-Llama-3.1-8B", "131072")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"model_type": "novel", "num_hidden_layers": 4, "torch_dtype": "bfloat16"}')
        for command in (["models", path], ["replay", "--model", path], ["plan", "--model", path]):
            faults += expect(2, command, 'model_type "novel"', "missing: num_key_value_heads", "head_dim")
    return faults


def replayed_bytes(words, tokens):
    """What one request of so many tokens really moves."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"timestamp": 0, "input_length": tokens, "output_length": 1, "hash_ids": [1, 2, 3]}, file)
        result = run("replay", *words, "--trace", path, "--quiet", "--deadline", "20", "--json", "-")
    return json.loads(result.stdout)["bytes"]


def check_plan():
    """A plan says what a replay then moves, and the same in every format."""
    faults = expect(0, ["plan"], "prefill-1 -> decode-3", "K V 6-7 of 8", "who sends", "at least")
    faults += expect(2, ["plan", "--json", "--dot"], "exclude each other")
    faults += expect(2, ["plan", "--fabric", "pigeon"], "--fabric takes")
    faults += expect(2, ["plan", "--model", "nothing.json"], "nothing.json")
    faults += expect(1, ["plan", "--model", "Qwen3.5-397B", "--prefill", "tp=3"], "INVALID", "heads_total=2")
    faults += expect(1, ["plan", "--way", "direct", "--fabric", "rdma"], "decode-0 refuses", "UNSUPPORTED")
    for words in (["--model", "gpt-oss-20b", "--layers", "3", "--prefill", "tp=2", "--decode", "tp=1,page=64"],
                  ["--model", "DeepSeek-V4-Flash", "--layers", "4", "--prefill", "tp=1,cp=3", "--decode", "tp=2"],
                  ["--model", "Qwen3.5-35B-A3B", "--layers", "4", "--prefill", "pp=2,tp=1", "--decode", "tp=4,layout=hnd"]):
        plan = json.loads(run("plan", *words, "--tokens", "1111", "--json").stdout)
        moved = replayed_bytes(words, 1111)
        if plan["bytes"] != moved or sum(flow["bytes"] for flow in plan["flows"]) != moved:
            faults.append(f"plan {words}: {plan['bytes']} bytes, the replay moved {moved}")
        if any(sum(flow["components"].values()) != flow["bytes"] for flow in plan["flows"]):
            faults.append(f"plan {words}: the components do not add up: {plan['flows']}")
        dot = run("plan", *words, "--tokens", "1111", "--dot").stdout
        if not dot.startswith("digraph") or dot.count("->") != len(plan["flows"]) or dot.count("{") != dot.count("}"):
            faults.append(f"plan {words} --dot: {dot}")
    return faults


def main():
    faults = check_usage() + check_explain() + check_models() + check_plan()
    print("\n".join(faults) or "as expected")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
