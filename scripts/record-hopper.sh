#!/usr/bin/env bash
# Records the ladders on tensor cores, on a Hopper GPU: one run, everything interleaved with cuBLAS.
#
#   scripts/record-hopper.sh target/release/examples/matmul > docs/measurements/h200-hopper.jsonl
#
# cuBLAS is found in LD_LIBRARY_PATH and the CUDA toolkit's folder.
set -euo pipefail
matmul=${1:?the matmul example, built}
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:-/usr/local/cuda}/lib64

ladder=mma,mma_pipelined,mma_large_tile,mma_best,tma_wgmma,large_tile,producer_consumer,two_consumers,persistent,light_barriers,cluster,micro,tma_store,hilbert,stmatrix,wgmma_best
tiles=wgmma_best,pingpong192,pingpong128,tile128x256,tile192,tile128x192,tile192x96,tile128,shared_by4,swapped160,swapped152,tile64x128,tile64,tile64_clustered2,tile64x128_clustered2,tile64x128_split4
bench() { "$matmul" --bench --json --device cuda "$@"; }

bench --dtype bf16 --schedule "$ladder" --size 4096x4096x4096,8192x8192x8192,2048x2048x2048
bench --dtype f16 --schedule "$ladder" --size 4096x4096x4096
bench --dtype bf16 --schedule auto-size \
    --size 512x512x512,768x768x768,1024x1024x1024,1536x1536x1536,2048x2048x2048,3072x3072x3072,4096x4096x4096 \
    --size 5000x5000x5000,8192x8192x8192,16384x16384x16384,64x4096x4096,128x8192x8192,4096x4096x512 \
    --size 8192x1024x8192,512x512x8192,16x8192x8192,4095x4097x4093
eight=$("$matmul" --list | awk '$1 ~ /^f8_/ {print $1}' | paste -sd,)
bench --dtype bf16 --schedule "$eight" --size 4096x4096x4096,8192x8192x8192
rounded=$("$matmul" --list | awk '$1 ~ /tf32/ {print $1}' | paste -sd,)
bench --dtype f32 --schedule "$rounded" --size 4096x4096x4096
# Every tile at every size: what the rule by size is fitted to.
bench --dtype bf16 --schedule "$tiles" \
    --size 512x512x512,768x768x768,1024x1024x1024,1536x1536x1536,2048x2048x2048,3072x3072x3072,5000x5000x5000,5120x5120x5120 \
    --size 16384x16384x16384,64x4096x4096,128x8192x8192,4096x4096x512,8192x1024x8192,512x512x8192,512x512x16384,16x8192x8192 \
    --size 4095x4097x4093
# The ladder's top after a rest: at the clock of a launch that comes alone.
bench --rest 8 --dtype bf16 --schedule wgmma_best,tile128x256,pingpong192 --size 4096x4096x4096,8192x8192x8192
bench --rest 8 --dtype bf16 --schedule swapped152,swapped160 --size 5000x5000x5000
