#!/usr/bin/env bash
# Assembles the recorded PTX of the examples and the sample of random schedules that the tests left in target/.
# Fails on an error, a spill, on ptxas' C75xx remarks, and when the machine code of a schedule got worse than recorded in
# tests/goldens/resources.txt, which TILEWRIGHT_BLESS=1 writes anew. Needs no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/ptxas.sh tests/goldens/ptx/*.ptx
# A random schedule may ask for more registers than there are: only that it assembles, to what a GPU runs, is checked.
scripts/ptxas.sh --runs target/ptx-sample/*.ptx
tool=$(scripts/ptxas.sh --path)
echo "assembled $(find tests/goldens/ptx target/ptx-sample -name '*.ptx' | wc -l) files"

TILEWRIGHT_PTXAS=$tool TILEWRIGHT_NVDISASM=$(scripts/ptxas.sh --path nvdisasm) \
    cargo test --test resources -- --ignored --nocapture
