#!/usr/bin/env bash
# Runs kernels of the simulator's tests on GPU 0 and in the simulator, and says where the results differ.
#
#   scripts/compare-gpu.sh [PTX-SIM]
#
# PTX-SIM: the program, built with `cargo build --release -p ptx-sim --features cuda` (default: target/release/ptx-sim; it
# can be built on another machine: it needs the driver only). Kernels that need sm_90a need such a GPU. Exit status: the
# number of kernels that differ or could not be run.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=$(realpath "${1:-$root/target/release/ptx-sim}")
cd "$root/ptx-sim/tests/data" || exit 2

bad=0
compare() {
  local file=$1 log
  shift
  if log=$("$program" compare "$file" "$@" 2>&1); then
    echo "ok   $file: $(tail -n 1 <<<"$log")"
  else
    bad=$((bad + 1))
    echo "FAIL $file: $program compare $file $*"
    tail -n 4 <<<"$log" | sed 's/^/     /'
  fi
}

words=random=0..1000
compare llvm/saxpy.ptx --grid 8 --block 128 --arg x:1000xf32:random --arg y:1000xf32:random --arg f32:2 --arg u32:1000
compare mutation/reduce.ptx --grid 2 --block 256 --arg in:512xu32:$words --arg out:2xu32
compare mutation/transpose.ptx --block 128 --arg in:2048xu32:$words --arg out:2048xu32
compare mutation/cp_async.ptx --block 64 --arg in:1536xu32:$words --arg out:256xu32
compare mutation/cp_async_mbarrier.ptx --block 64 --arg in:768xu32:$words --arg out:128xu32
compare mutation/scan.ptx --block 128 --arg in:128xu32:$words --arg out:256xu32
compare mutation/named_barriers.ptx --block 128 --arg in:384xu32:$words --arg out:64xu32
compare mutation/split_k.ptx --grid 4 --block 64 --arg in:256xu32:$words --arg part:256xu32 --arg count:1xu32 --arg out:64xu32
compare mutation/tile_counter.ptx --grid 3 --block 96 --arg in:640xu32:$words --arg counter:1xu32 --arg out:640xu32
compare mutation/marked_again.ptx --grid 2 --block 96 --arg in:512xu32:random=0..66000 --arg out:512xu32
compare mutation/skewed_rings.ptx --block 96 --arg k:384xu32:$words --arg v:384xu32:$words --arg out:64xu32
compare mutation/flag_chain.ptx --grid 4 --block 64 --arg in:256xu32:$words --arg sums:256xu32 --arg flags:4xu32
compare mutation/mma_ldmatrix.ptx --block 64 --arg a:2048xf16:random=-4..5 --arg b:512xf16:random=-4..5 --arg out:256xf32
compare mutation/lock.ptx --block 128 --arg out:1xu32
compare mutation/tma_store.ptx --block 64 --arg in:256xu32:$words --arg map:y:u32:256:64 --arg y:256xu32 --arg out:256xu32
compare mutation/tma_ring.ptx --block 96 --buffer in:768xu32:$words --arg map:in:u32:64x12:64x2 --arg out:64xu32
compare mutation/tma_elected.ptx --block 96 --buffer in:768xu32:$words --arg map:in:u32:64x12:64x2 --arg out:64xu32
compare mutation/multicast.ptx --grid 2 --block 64 --buffer in:640xu32:$words --arg map:in:u32:640:64 --arg out:64xu32
compare mutation/wgmma_ring.ptx --block 160 --buffer a:15360xf16:random=-4..5 --buffer b:1920xf16:random=-4..5 \
  --arg map:a:f16:240x64:16x64:32B --arg map:b:f16:240x8:16x8:32B --arg out:512xf32
compare mutation/wgmma_registers.ptx --block 128 --arg a:2048xf16:random=-4..5 --arg b:256xf16:random=-4..5 --arg out:512xf32
compare mutation/wgmma_skewed.ptx --block 160 --arg q:1024xf16:random=-4..5 --arg k:3072xf16:random=-4..5 --arg v:1536xf16:random=-4..5 \
  --arg out:512xf32
compare mutation/cluster_barrier.ptx --grid 4 --block 64 --arg out:256xu32
compare mutation/cluster_mbarrier.ptx --grid 4 --block 32 --arg out:128xu32
compare mutation/bulk_exchange.ptx --grid 2 --block 64 --arg out:64xu32

# Approximate functions agree within their error bounds only.
compare llvm/softmax.ptx --grid 4 --block 32 --arg x:4096xf32:random --arg y:4096xf32 --arg u32:128 --relative 1e-5 --absolute 1e-7
echo "$bad of the kernels differ or were not run"
exit "$bad"
