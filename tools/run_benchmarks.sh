#!/usr/bin/env bash
# run_benchmarks.sh BUILD_DIR: runs every micro-benchmark. They report; tests decide.
set -euo pipefail
found=0
for benchmark in "$1"/bench/*_benchmark; do
  [ -x "$benchmark" ] || continue
  found=1
  echo "== $(basename "$benchmark")"
  "$benchmark" --benchmark_min_time=0.2
done
[ "$found" = 1 ] || { echo "no benchmarks in $1/bench" >&2; exit 1; }
