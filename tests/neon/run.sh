#!/bin/sh
# Cross-compiles the kernels and their tests for ARM and runs them under qemu-user.
# usage: tests/neon/run.sh BUILD_DIR
# Needs g++-aarch64-linux-gnu, qemu-user, libhwy-dev and googletest (its sources).
set -eu
build=${1:?usage: tests/neon/run.sh BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
cmake -G Ninja -S "$here" -B "$build" -DCMAKE_TOOLCHAIN_FILE="$here/toolchain.cmake" >/dev/null
cmake --build "$build"
qemu-aarch64 -cpu max "$build/kernels_neon_test" --gtest_brief=1
