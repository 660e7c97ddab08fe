#!/usr/bin/env bash
# deb_test.sh BUILD_DIR: the Debian package holds what it should, and the program in it runs with the
# demo model that lies beside it.
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
(cd "$build" && cpack -G DEB -B "$folder" -D CPACK_DEBIAN_COMPRESSION_TYPE=none >"$folder/log" 2>&1) ||
  { cat "$folder/log"; exit 1; }
package=$(ls "$folder"/holdfast_*.deb)
dpkg-deb --info "$package"
dpkg-deb --extract "$package" "$folder/root"
for file in bin/holdfast lib/systemd/system/holdfast.service share/doc/holdfast/operations.md \
            share/holdfast/models/holdfast-demo-Q4_K_M.gguf share/holdfast/grafana/holdfast.json; do
  [ -f "$folder/root/usr/$file" ] || { echo "not in the package: /usr/$file" >&2; exit 1; }
done
dpkg-deb --field "$package" Depends | grep -q libsqlite3
cd "$folder"
HOLDFAST_CONFIG=off "$folder/root/usr/bin/holdfast" run -p "Hello" -n 4 --temp 0 --json | grep '"tokens"'
echo "the package is good"
