#!/usr/bin/env bash
# Puts holes that tile-fuzz was built for back into the compiler, one at a time, and says how long it takes to find each.
#
#   scripts/check-fuzzer.sh [--seconds N] [--jobs N] [NAME..]   all holes, or those named; at most N seconds of fuzzing a hole (120)
#
# A hole is a patch in fuzz/holes. It is applied to a copy of the working tree's last commit, never to the tree itself, and built
# once. Fails if a hole was not found, or if its patch no longer applies or builds.
set -euo pipefail

usage() {
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | grep '^#' | cut -c3-
  exit 2
}
seconds=120
jobs=$(nproc)
names=()
while [ $# -gt 0 ]; do
  case $1 in
  --seconds) seconds=${2:?} && shift ;;
  --jobs) jobs=${2:?} && shift ;;
  -*) usage ;;
  *) names+=("$(basename "$1" .patch)") ;;
  esac
  shift
done
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ ${#names[@]} = 0 ]; then
  for patch in "$root"/fuzz/holes/*.patch; do
    names+=("$(basename "$patch" .patch)")
  done
fi
copy=$(mktemp -d)
report=$(mktemp)
trap 'git -C "$root" worktree remove --force "$copy" 2>/dev/null || rm -rf "$copy"; rm -f "$report"' EXIT
git -C "$root" worktree add --quiet --detach "$copy" HEAD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/holes} CARGO_INCREMENTAL=0
missed=0
say() { printf '%-34s %s\n' "$1" "$2"; }
for name in "${names[@]}"; do
  git -C "$copy" checkout --quiet .
  git -C "$copy" clean --quiet --force -d
  if ! git -C "$copy" apply "$root/fuzz/holes/$name.patch" 2> "$report"; then
    say "$name" "does NOT apply: $(head -n 1 "$report")"
    missed=$((missed + 1))
    continue
  fi
  start=$SECONDS
  if ! (cd "$copy" && cargo build --quiet --release -p tile-fuzz) 2> "$report"; then
    say "$name" "does NOT build: $(grep -m1 '^error' "$report" || head -n 1 "$report")"
    missed=$((missed + 1))
    continue
  fi
  built=$((SECONDS - start))
  start=$(date +%s%N)
  left=$((seconds * 1000))
  found=""
  # A seed after the other, each longer than the last, until one has a case that fails: short runs try the pairs that are wished for
  # first, long ones all others.
  seed=0
  while [ -z "$found" ] && [ "$left" -gt 0 ]; do
    seed=$((seed + 1))
    programs=$((18 * (seed + 1)))
    if ! "$CARGO_TARGET_DIR"/release/tile-fuzz --seed "$seed" --programs $programs --seconds $((left / 1000 + 1)) --jobs "$jobs" --shrink 0 > "$report" 2>&1; then
      found=$(grep -m1 -E '^// (wrong value|finding|order of warps|nest differs|[a-z]+ error|panic|text)\b' "$report" || tail -n 1 "$report")
    fi
    took=$((($(date +%s%N) - start) / 1000000))
    left=$((seconds * 1000 - took))
  done
  at=$(printf '%d.%d s' $((took / 1000)) $((took % 1000 / 100)))
  if [ -n "$found" ]; then
    say "$name" "found in $at (built in $built s): ${found:0:140}"
  else
    say "$name" "NOT found in $at (built in $built s)"
    missed=$((missed + 1))
  fi
done
echo "${#names[@]} holes, $missed not found"
[ "$missed" = 0 ]
