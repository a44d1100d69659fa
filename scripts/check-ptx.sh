#!/usr/bin/env bash
# Assembles the recorded PTX of the examples and the sample of random schedules that the tests left in target/.
# Fails on an error, a spill, and on ptxas' C75xx remarks. Needs no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/ptxas.sh tests/goldens/ptx/*.ptx
# A random schedule may ask for more registers than there are: only that it assembles is checked.
tool=$(scripts/ptxas.sh --path)
for file in target/ptx-sample/*.ptx; do
    arch=$(sed -n 's/^\.target \(sm_[0-9a-z]*\).*/\1/p' "$file" | head -n 1)
    log=$("$tool" -arch="$arch" -o /dev/null "$file" 2>&1) || { echo "FAIL $file"; echo "$log"; exit 1; }
done
echo "assembled $(find tests/goldens/ptx target/ptx-sample -name '*.ptx' | wc -l) files"
