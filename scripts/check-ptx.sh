#!/usr/bin/env bash
# Assembles the PTX of the examples for what they are made for and the sample of random schedules that the test goldens left in target/.
# Fails on an error, a spill, on ptxas' C75xx remarks, and when the machine code of a schedule got worse than recorded in
# tests/goldens/resources.txt, which TILEWRIGHT_BLESS=1 writes anew. Of these it assembles what is not the PTX that was recorded.
# Needs no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ "$(find target/ptx-examples -name '*.ptx' | wc -l)" -ge 90 ] || { echo "too few examples: the test goldens writes them"; exit 1; }
# Those for sm_90 and more are assembled by the test below, each variant of them.
find target/ptx-examples -name '*.ptx' -print0 | xargs -0 grep -LZ '^\.target sm_9' | xargs -0 -P "$(nproc)" -n 2 scripts/ptxas.sh
# Random schedules that share registers out between roles: the assembler heeds them, without a remark or a spill.
[ "$(find target/ptx-sample -name 'registers_*.ptx' | wc -l)" -ge 30 ] || { echo "too few samples of registers(..): the test goldens writes them"; exit 1; }
find target/ptx-sample -name 'registers_*.ptx' -print0 | xargs -0 -P "$(nproc)" -n 2 scripts/ptxas.sh
# Others may ask for more registers than there are: only that they assemble, to what a GPU runs, is checked.
find target/ptx-sample -name '*.ptx' ! -name 'registers_*' -print0 | xargs -0 -P "$(nproc)" -n 2 scripts/ptxas.sh --runs
tool=$(scripts/ptxas.sh --path)
echo "assembled the examples for sm_80 and sm_89, and $(find target/ptx-sample -name '*.ptx' | wc -l) samples"

TILEWRIGHT_PTXAS=$tool TILEWRIGHT_NVDISASM=$(scripts/ptxas.sh --path nvdisasm) \
    cargo test --workspace --test every -- --ignored --nocapture resources::
