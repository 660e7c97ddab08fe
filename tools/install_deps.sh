#!/usr/bin/env bash
# Installs what building, testing and running needs, on Debian 12 and its kin; elsewhere it says what
# is missing. Safe to run again: does nothing when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ clang cmake ninja-build make ccache pkg-config git ca-certificates
  libhwy-dev libboost1.81-dev nlohmann-json3-dev libsqlite3-dev libxxhash-dev
  libpcre2-dev libutf8proc-dev libcli11-dev libspdlog-dev libfmt-dev prometheus-cpp-dev libssl-dev
  libtomlplusplus-dev libsystemd-dev liburing-dev
  libgtest-dev libgmock-dev libbenchmark-dev libclang-rt-14-dev clang-format clang-tidy
  curl python3 dpkg-dev file g++-aarch64-linux-gnu qemu-user chromium
)

if ! command -v apt-get >/dev/null; then
  echo "This is not a Debian system. Please install the equivalents of:" >&2
  echo "  ${packages[*]} nodejs npm" >&2
  exit 1
fi
# A Node.js from elsewhere brings its own npm, which Debian's package conflicts with.
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" = "install ok installed" ] ||
    missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  echo "installing: ${missing[*]}"
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
fi
# npm leaves a copy of the lock it has installed.
for folder in tests/clients tests/browser; do
  if [ $folder/package-lock.json -nt $folder/node_modules/.package-lock.json ]; then
    npm --prefix $folder ci --loglevel=error --no-audit --no-fund
  fi
done
