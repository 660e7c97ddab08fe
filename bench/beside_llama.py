#!/usr/bin/env python3
"""holdfast and llama.cpp's llama-bench on the same file, in turns.

    bench/beside_llama.py HOLDFAST LLAMA_BENCH MODEL.gguf [--rounds 5] [--threads 2]
                          [--prefill 512] [--decode 128] [--depth 0]

Each round runs both, so that what disturbs the machine for longer disturbs both; the ratio of a round
compares its own two figures. Printed are the medians and the median, least and largest ratio.
"""
import argparse
import json
import statistics
import subprocess


def lines_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def holdfast(options, depth):
    # A depth that is named is measured also beyond the trained context, as llama-bench does.
    found = lines_of([options.holdfast, "bench", "--json", "--model", options.model, "--mtp", "off",
                      "--threads", str(options.threads), "--repeat", "1", "--slots", "1",
                      "--prefill", str(options.prefill), "--decode", str(options.decode),
                      "--depth", str(depth), "--draft", "off", "--no-state"])
    return {(f["test"], f["depth"]): f["tokens_per_s"] for f in found}


def llama(options, depth):
    found = lines_of([options.llama_bench, "-m", options.model, "-t", str(options.threads),
                      "-r", "1", "-p", str(options.prefill), "-n", str(options.decode),
                      "-d", str(depth), "-o", "jsonl"])
    return {("prefill" if f["n_prompt"] > 0 else "decode", f["n_depth"]): f["avg_ts"]
            for f in found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("holdfast", "llama_bench", "model"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--depth", default="0", help="A,B")
    options = parser.parse_args()

    rounds = {}
    for depth in [int(d) for d in options.depth.split(",")]:
        for number in range(options.rounds):
            # Who goes first changes: the second of the two finds a warmer machine.
            order = (holdfast, llama) if number % 2 == 0 else (llama, holdfast)
            found = {run: run(options, depth) for run in order}
            for key in sorted(found[holdfast].keys() & found[llama].keys()):
                rounds.setdefault(key, []).append((found[holdfast][key], found[llama][key]))
    print(f"{'test':<8} {'depth':>7} {'holdfast':>10} {'llama.cpp':>10} {'ratio':>7}  of each round")
    for (test, depth), pairs in rounds.items():
        ratios = [ours / theirs for ours, theirs in pairs]
        print(f"{test:<8} {depth:>7} {statistics.median(o for o, _ in pairs):>10.1f} "
              f"{statistics.median(t for _, t in pairs):>10.1f} "
              f"{statistics.median(ratios):>6.2f}x  {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
