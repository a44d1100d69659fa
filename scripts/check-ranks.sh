#!/usr/bin/env bash
# Verifies ranks through NCCL on a machine with two GPUs or more: scripts/check-ranks.sh [GPUs]
#
# All collectives on all types at odd sizes and 10,000 all-reduces in a graph without a leak, by one process with all GPUs and by one
# process for each; a rank that is killed 20 times in the middle of its sums, after which each other has to end with an error within a
# minute; the two layers over processes. LD_LIBRARY_PATH names the folder of libnccl.so.2.
set -euo pipefail
cd "$(dirname "$0")/.."
gpus=${1:-2}
cargo build --release --example ranks --example sharded_linear
ranks=target/release/examples/ranks

step() {
    echo "== $*"
    timeout 600 "$@"
}

step "$ranks" --devices "$gpus" --graph 10000
step "$ranks" --spawn "$gpus" --graph 10000
step "$ranks" --spawn "$gpus" --kill 20

port=$(shuf -i 20000-30000 -n 1)
pids=()
for ((rank = 0; rank < gpus; rank++)); do
    RANK=$rank WORLD_SIZE=$gpus LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        timeout 600 target/release/examples/sharded_linear --ranks --device cuda --schedule wgmma_best --dtype bf16 --bench &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid"
done
echo "ranks: all verified"
