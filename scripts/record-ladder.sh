#!/usr/bin/env bash
# Records what docs/performance.md shows, on a machine with a GPU: one run, everything interleaved.
#
#   scripts/record-ladder.sh target/release/examples/matmul > docs/measurements/h200-ladder.jsonl
#   cargo run --release --example ladder -- docs/measurements/h200-ladder.jsonl --svg docs/ladder.svg --doc docs/performance.md
#
# cuBLAS is found in LD_LIBRARY_PATH and the CUDA toolkit's folder. The second line needs no GPU.
set -euo pipefail
matmul=${1:?the matmul example, built}
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:-/usr/local/cuda}/lib64

# The first two rungs take seconds a launch where the product is large: they are left out at other sizes.
climbing=$("$matmul" --list | awk '{print $1}' | grep -vx -e naive -e coalesced | paste -sd,)
"$matmul" --bench --json --device cuda --schedule all --size 4096x4096x4096
"$matmul" --bench --json --device cuda --schedule "$climbing" \
    --size 512x512x512,1024x1024x1024,2048x2048x2048,8192x8192x8192 \
    --size 4095x4097x4093,64x4096x4096,128x8192x8192,4096x4096x512 \
    --size 256x256x4096,1023x1025x1027,4100x4096x4096
