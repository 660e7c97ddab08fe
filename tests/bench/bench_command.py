#!/usr/bin/env python3
"""`holdfast bench` and --profile of the real binary: bench_command.py HOLDFAST."""
import json
import os
import subprocess
import sys
import tempfile

HOLDFAST = sys.argv[1]
EVERY_FIGURE = {
    "test": str, "n": int, "depth": int, "slots": int, "draft": str, "prompt": str, "state": str,
    "tokens_per_s": float, "tokens_per_s_min": float, "tokens_per_s_max": float, "runs": int,
    "seconds": float, "version": str, "cpu": str, "threads": int, "kernels": str, "model": str,
}


def run(*arguments, code=0, env=None):
    done = subprocess.run([HOLDFAST, *arguments], capture_output=True, text=True, timeout=240,
                          env={**os.environ, **(env or {})})
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def figures(text):
    return [json.loads(line) for line in text.splitlines()]


def check_figures(found):
    for figure in found:
        for key, kind in EVERY_FIGURE.items():
            value = figure[key]
            assert isinstance(value, (int, float) if kind is float else kind), (key, value)
        assert 0 < figure["tokens_per_s_min"] <= figure["tokens_per_s"] <= figure["tokens_per_s_max"]
    return found


def what(figure):
    return (figure["test"], figure["n"], figure["depth"], figure["slots"], figure["draft"])


def json_and_compare(folder):
    out = run("bench", "--json", "--prefill", "64", "--decode", "16", "--depth", "0,300", "--slots",
              "1,2", "--repeat", "2", "--dir", folder).stdout
    found = check_figures(figures(out))
    assert [what(f) for f in found[:10]] == [
        ("prefill", 64, 0, 1, "off"), ("decode", 16, 0, 1, "off"), ("decode", 16, 0, 2, "off"),
        ("prefill", 64, 300, 1, "off"), ("decode", 16, 300, 1, "off"),
        ("decode", 16, 300, 2, "off"), ("park", 300, 300, 1, "off"),
        ("restore", 300, 300, 1, "off"), ("save", 300, 300, 1, "off"),
        ("load", 300, 300, 1, "off")], found
    assert [f["draft"] for f in found[10:]] == ["off", "on"]
    decode = found[1]
    assert decode["of_roofline"] > 0 and decode["memory_bytes_per_s"] > 0
    # A token reads less than the whole file and its state: most experts stay where they are.
    assert 0.1 * decode["model_bytes"] < decode["bytes_per_token"] < decode["model_bytes"]
    assert found[2]["bytes_per_token"] < decode["bytes_per_token"]
    assert os.listdir(folder) == []

    earlier = os.path.join(folder, "earlier.json")
    with open(earlier, "w") as file:
        file.write(out)
    again = ["--prefill", "64", "--decode", "0", "--depth", "0", "--draft", "off", "--no-state",
             "--repeat", "1", "--compare", earlier]
    text = run("bench", *again).stdout
    assert "compared with the earlier run: " in text, text
    assert sum(word in text for word in (" | better: ", " | worse: ", " | same: ")) == 1, text
    [one] = check_figures(figures(run("bench", "--json", *again).stdout))
    assert one["compare"]["verdict"] in ("better", "worse", "same")
    assert one["compare"]["tokens_per_s"] == found[0]["tokens_per_s"]


def profile(folder):
    trace = os.path.join(folder, "trace.json")
    done = run("run", "--temp", "0", "-n", "8", "--draft", "off", "-p", "Hello!", "--profile", trace)
    plain = run("run", "--temp", "0", "-n", "8", "--draft", "off", "-p", "Hello!")
    assert done.stdout == plain.stdout and plain.stderr == "", (done, plain)
    assert "steps of 1 row" in done.stderr and "\n  moe " in done.stderr, done.stderr
    with open(trace) as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    steps = [e for e in events if e["name"] == "steps of 1 row"]
    # The first token comes with the prompt, the last one needs no row.
    assert len(steps) in range(1, 8), len(steps)
    for step in steps:
        ops = [e for e in events if "rows" not in e["args"]
               and step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"] + 0.002]
        assert {"embed", "moe", "gdn", "matmul output"} <= {e["name"] for e in ops}
        assert {e["args"].get("layer") for e in ops if e["name"] == "moe"} == set(range(12))


def disk(folder):
    env = {"HOLDFAST_STORE": folder}  # of serve; a flag of the same name means something else here
    save, load = check_figures(figures(run("bench", "--store", "--bytes", "8M", "--repeat", "2",
                                           "--json", "--dir", folder, env=env).stdout))
    assert (save["test"], load["test"]) == ("save", "load")
    for figure in (save, load):
        assert figure["state_bytes"] == 8 << 20 and figure["of_plain"] > 0
        assert figure["plain_bytes_per_s"] > 0 and figure["bytes_per_s"] > 0


def errors(folder):
    wrong = os.path.join(folder, "wrong.json")
    with open(wrong, "w") as file:
        file.write('{"test": "decode"}\n')
    for code, name, arguments in [
            (1, "--depth", ["--depth", "x"]), (1, "--slots", ["--slots", "0"]),
            (1, "--draft", ["--draft", "perhaps"]), (2, "--decode", ["--decode", "x"]),
            (2, "--nonsense", ["--nonsense"]), (1, "/nonexistent", ["--model", "/nonexistent"]),
            (1, "wrong.json: line 1", ["--compare", wrong]), (1, "--bytes",
                                                             ["--store", "--bytes", "1"])]:
        done = run("bench", *arguments, code=code)
        assert done.stdout == "" or arguments[0] == "--store", done.stdout
        assert done.stderr.startswith("holdfast: ") and name in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


# Reports 100 tokens per second whatever it is asked, with the fields that llama-bench has.
FAKE_LLAMA_BENCH = """#!/usr/bin/env python3
import json, sys
a = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert (a["-o"], a["-r"], a["-t"]) == ("jsonl", "1", "2"), a
for prompt, gen in ((int(a["-p"]), 0), (0, int(a["-n"]))):
    print(json.dumps({"n_prompt": prompt, "n_gen": gen, "n_depth": int(a["-d"]), "avg_ts": 100.0}))
"""


def beside_llama(folder):
    fake = os.path.join(folder, "llama-bench")
    with open(fake, "w") as file:
        file.write(FAKE_LLAMA_BENCH)
    os.chmod(fake, 0o755)
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    out = subprocess.run(
        [os.path.join(root, "bench", "beside_llama.py"), HOLDFAST, fake,
         os.path.join(root, "models", "demo", "holdfast-demo-Q4_K_M.gguf"), "--rounds", "1",
         "--prefill", "32", "--decode", "8"],
        capture_output=True, text=True, timeout=120, check=True).stdout
    rows = {row[0]: row[1:] for row in (line.split() for line in out.splitlines()[1:])}
    assert set(rows) == {"prefill", "decode"}, out
    for depth, ours, theirs, ratio, *_ in rows.values():
        assert (depth, float(theirs)) == ("0", 100.0), out
        assert abs(float(ratio[:-1]) - float(ours) / 100) < 0.01, out


for test in (json_and_compare, profile, disk, errors, beside_llama):
    with tempfile.TemporaryDirectory() as temporary:
        test(temporary)
    print("ok", test.__name__)
