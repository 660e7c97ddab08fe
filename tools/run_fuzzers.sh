#!/usr/bin/env bash
# run_fuzzers.sh BUILD_DIR SECONDS: runs every fuzzer for a bounded time on a copy of its corpus.
set -euo pipefail
build=$1 seconds=$2
root=$(cd "$(dirname "$0")/.." && pwd)
found=0
for fuzzer in "$build"/fuzz/*_fuzzer; do
  [ -x "$fuzzer" ] || continue
  found=1
  name=$(basename "$fuzzer" _fuzzer)
  corpus="$build/corpus/$name"
  mkdir -p "$corpus"
  [ -d "$root/fuzz/corpus/$name" ] && cp -rn "$root/fuzz/corpus/$name/." "$corpus/"
  echo "== $name for $seconds s"
  "$fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="$build/$name-" "$corpus"
done
[ "$found" = 1 ] || { echo "no fuzzers in $build/fuzz" >&2; exit 1; }
