#!/usr/bin/env bash
# Puts holes that tile-fuzz was built for back into the compiler, one at a time, and says how long it takes to find each.
#
#   scripts/check-fuzzer.sh [SECONDS]   at most so many seconds of fuzzing a hole (default 120); fails if one is not found
#
# A hole is a patch in fuzz/holes. It is applied to a copy of the working tree's last commit, never to the tree itself.
set -euo pipefail

case ${1:-} in
-h | --help)
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | grep '^#' | cut -c3-
  exit 2
  ;;
esac
seconds=${1:-120}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
copy=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$copy" 2>/dev/null || rm -rf "$copy"' EXIT
git -C "$root" worktree add --quiet --detach "$copy" HEAD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/holes} CARGO_INCREMENTAL=0
missed=0
for patch in "$root"/fuzz/holes/*.patch; do
  name=$(basename "$patch" .patch)
  git -C "$copy" checkout --quiet .
  git -C "$copy" apply "$patch"
  (cd "$copy" && cargo build --quiet --release -p tile-fuzz)
  start=$(date +%s.%N)
  found=""
  # One program after the other, until one fails.
  for seed in $(seq 1 10000); do
    if ! report=$("$CARGO_TARGET_DIR"/release/tile-fuzz --seed "$seed" --programs 20 --shrink 0 2>&1); then
      found=$(grep -m1 -E '(wrong value|finding|order of warps|nest differs|error|panic),? ' <<<"$report" || true)
      break
    fi
    [ "$(echo "$(date +%s.%N) - $start > $seconds" | bc)" = 0 ] || break
  done
  took=$(echo "$(date +%s.%N) - $start" | bc)
  if [ -n "$found" ]; then
    printf '%-28s found in %.0f s: %s\n' "$name" "$took" "${found:0:140}"
  else
    printf '%-28s NOT found in %.0f s\n' "$name" "$took"
    missed=1
  fi
done
exit $missed
