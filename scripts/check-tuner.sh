#!/usr/bin/env bash
# Tunes an f32 product of 1024³ on GPU 0 and compares the choice with an exhaustive timing; a second process must take it
# from the cache. Needs LLVM (setup.sh) and a GPU.
#
#   scripts/check-tuner.sh [ROUNDS]
#
# ROUNDS of the exhaustive timing: 300 by default.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
TILEWRIGHT_CACHE_DIR=$(mktemp -d)
export TILEWRIGHT_CACHE_DIR
trap 'rm -r "$TILEWRIGHT_CACHE_DIR"' EXIT

cargo build --release --example tune
tune=${CARGO_TARGET_DIR:-target}/release/examples/tune
"$tune" --device cuda --size 1024x1024x1024 --exhaustive "${1:-300}"
again=$("$tune" --device cuda --size 1024x1024x1024)
echo "$again"
grep -q 'from the cache' <<<"$again" || { echo "the second process measured again" >&2; exit 1; }
