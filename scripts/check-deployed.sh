#!/usr/bin/env bash
# The application `examples/deployed`, built without a compiler, is small, links no LLVM, and runs where there is none:
# in a folder that holds the binary and the C library, if this user may change roots, else in an empty environment.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=$((5 * 1000 * 1000))
fail() { printf 'check-deployed: %s\n' "$*" >&2; exit 1; }

# A workspace of its own; its files are built beside the others'.
export CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --release --locked --manifest-path examples/deployed/Cargo.toml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip -o "$work/deployed" "$CARGO_TARGET_DIR/release/deployed"
size=$(stat -c %s "$work/deployed")
[ "$size" -lt "$limit" ] || fail "the stripped binary has $size bytes, and $limit are allowed"
libraries=$(ldd "$work/deployed")
! grep -qi llvm <<<"$libraries" || fail "it links LLVM: $libraries"

grep -o '/[^ ]*' <<<"$libraries" | while read -r library; do
    mkdir -p "$work$(dirname "$library")"
    cp -L "$library" "$work$library"
done
if [ "$(id -u)" -eq 0 ]; then
    run() { env -i TILEWRIGHT_CACHE_DIR= "$(command -v chroot)" "$work" /deployed "$@"; }
else
    run() { env -i TILEWRIGHT_CACHE_DIR= "$work/deployed" "$@"; }
fi
output=$(run) || fail "it does not run: $output"
printf '%s\n' "$output"
[ "$(grep -c 'right, .*AheadOfTime' <<<"$output")" -eq 2 ] || fail "it did not use what was compiled ahead of time"
if output=$(run missing); then fail "a kernel that is not in the bundle ran: $output"; fi
expected='the general variant of schedule `tiled` for f32 was not compiled ahead of time (8 kernels were), and this build has no compiler'
grep -qF "$expected" <<<"$output" || fail "it does not say what is missing: $output"
printf 'check-deployed: %s bytes, no LLVM\n' "$size"
