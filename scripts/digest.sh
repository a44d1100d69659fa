#!/usr/bin/env bash
# Compares the code that two builds of the compiler make: the same, byte by byte?
#
#   scripts/digest.sh record DIR            a line for each kernel, by the working tree, into files of DIR
#   scripts/digest.sh compare DIR [--ptx]   the same, and the lines that differ from those of DIR; fails if there are any
#
# The kernels: every example's, in every type and form (PTX); the fuzzer's corpus and COUNT random programs (2000) of SEED (1), by
# their kernel IR, from which code generation follows, or by their PTX: `--ptx`, which takes ten times as long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() {
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | grep '^#' | cut -c3-
  exit 2
}
[ $# -ge 2 ] || usage
what=$1 folder=$2 ptx=${3:-}
case "$what:$ptx" in record: | record:--ptx | compare: | compare:--ptx) ;; *) usage ;; esac
write() {
  mkdir -p "$1"
  TILEWRIGHT_DIGEST=$1/examples.txt cargo test --quiet --test every -- --ignored goldens::digest > /dev/null
  cargo build --quiet --release -p tile-fuzz
  # shellcheck disable=SC2086 # an option, or nothing
  target/release/tile-fuzz digest $ptx --seed "${SEED:-1}" --count "${COUNT:-2000}" fuzz/corpus/*.txt > "$1/random${ptx:+-ptx}.txt"
  wc -l "$1"/*.txt
}
if [ "$what" = record ]; then
  mkdir -p "$folder"
  write "$(realpath "$folder")"
  exit
fi
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
write "$new"
same=yes
for file in "$new/examples.txt" "$new/random${ptx:+-ptx}.txt"; do
  diff "$folder/$(basename "$file")" "$file" > "$new/diff" || { same=; head -n 20 "$new/diff"; echo "$(grep -c '^[<>]' "$new/diff") lines differ: $(basename "$file")"; }
done
[ "$same" ] && echo "the same code"
