#!/usr/bin/env bash
# A kernel set's object file, built for more than the program's baseline, may define nothing that
# the linker could merge with the same symbol of portable files: only its own table.
# usage: tools/check_kernel_objects.sh OBJECT...  (others than kernels_<set>.cc.o are skipped)
set -euo pipefail
checked=0
status=0
for object in "$@"; do
  set_name=$(basename "$object" | sed -nE 's/^kernels_(avx2|avx512|avx512vnni|neon)\.cc\.o(bj)?$/\1/p')
  [ -n "$set_name" ] || continue
  checked=$((checked + 1))
  leaks=$(nm -C --defined-only "$object" |
    grep -E '^[0-9a-f]* [A-Zuvw] ' | grep -v " holdfast::$set_name::kTable\$" || true)
  if [ -n "$leaks" ]; then
    echo "$object defines symbols that other files may share:"
    echo "$leaks"
    status=1
  fi
done
[ "$checked" -gt 0 ] || { echo "no kernel set among: $*"; exit 2; }
echo "$checked kernel set objects checked"
exit $status
