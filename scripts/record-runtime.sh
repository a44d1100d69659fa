#!/usr/bin/env bash
# Records what the runtime costs and tries what it promises, on a machine with a GPU: a table last, and the exit status.
#
#   cargo build --release --example latency --example tune --example sharded_linear --example dlpack
#   cargo test --release --no-run --test gpu --test gpu_runtime --test errors --bench first
#   cargo test --release --no-run -p tile-runtime --lib
#   scripts/record-runtime.sh target/release logs
#
# The first folder is cargo's, or one with these programs by name (`first`, `gpu_runtime`, `tile_runtime`, `libdlpack.so` ..); what
# they print goes to the second. PyTorch and Triton are measured if python3 has them. DEVICE=sim tries the script without a GPU,
# LAUNCHES (10000) and KILLS (50) make it shorter, ONLY, a regular expression, chooses among the steps. KERNELS is a cache that was
# filled elsewhere, for programs that were built without a compiler. It takes some four minutes.
set -uo pipefail
folder=${1:?the folder of the built programs} logs=${2:?a folder for what they print}
device=${DEVICE:-cuda} launches=${LAUNCHES:-10000} kills=${KILLS:-50}
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$logs"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/cache" "$work/killed"
[ -z "${KERNELS:-}" ] || for cache in cache killed; do cp -r "$KERNELS/." "$work/$cache"; done
export TILEWRIGHT_CACHE_DIR=$work/cache TILEWRIGHT_LAUNCHES=$launches

# The newest program of a name: cargo adds a hash to those of tests and benches.
program() {
    local found
    found=$(find "$folder" "$folder/examples" "$folder/deps" -maxdepth 1 -type f \( -name "$1" -o -name "$1-[0-9a-f]*[0-9a-f]" \) \
        -perm -u+x -printf '%T@ %p\n' 2> /dev/null | sort -rn | awk 'NR == 1 {print $2}')
    echo "${found:-$folder/$1}"
}

rows=() failed=0
# A line of the table: what, what was found, what was asked.
row() { rows+=("$1|$2|${3:-}"); }
# step NAME SECONDS COMMAND..: runs it, its output in NAME.log; what fails or does not end is a line of the table.
step() {
    local name=$1 limit=$2 start=$SECONDS status=0
    shift 2
    grep -qE "${ONLY:-}" <<< "$name" || return 1
    timeout -k 5 "$limit" "$@" > "$logs/$name.log" 2>&1 || status=$?
    echo "$name: $((SECONDS - start)) s, exit status $status"
    [ $status -eq 0 ] && return 0
    failed=$((failed + 1))
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        row "$name" "did not end in $limit s"
    else
        row "$name" "FAILED: $(tail -n 2 "$logs/$name.log" | tr '|\n' '  ' | cut -c 1-150)"
    fi
    return 1
}
# A number of a JSON object in a log, to two digits.
value() {
    sed -n "s/.*\"$2\": *\([0-9][0-9.e-]*\).*/\1/p" "$logs/$1.log" | tail -n 1 | awk '{printf "%.2f", $1} END {if (!NR) printf "none"}'
}
# Results of the tests in a log.
tests() { sed -n 's/^test result: \(.*\); 0 measured.*/\1/p' "$logs/$1.log"; }
# In how many tests of a log something was left out for want of a device or a library.
skipped() { grep -c 'skipped:' "$logs/$1.log"; }

# Launches: twice, with the others between, as clocks and neighbours change.
for again in "" 2; do
    if step "latency$again" 40 "$(program latency)"; then
        enqueue=$(value "latency$again" enqueue) driver=$(value "latency$again" driver)
        row "prepared launch (µs)" "$enqueue; the driver's own call $driver, checks $(value "latency$again" host_part), context $(value "latency$again" current)" "≤ 3"
        row "plain launch and wait (µs)" "$(value "latency$again" run)" "≤ 5 and the wait"
        row "graph of 20, by launch (µs)" "$(value "latency$again" graph); the driver's own $(value "latency$again" driver_graph); with new pointers $(value "latency$again" graph_changed)" "≤ 1.5"
        row "the same, until the GPU is done" "$(value "latency$again" graph_gpu); the driver's own $(value "latency$again" driver_graph_gpu)"
    fi
    if [ -z "$again" ] && [ "$device" = cuda ] && step launches 60 python3 "$scripts/record-launches.py"; then
        row "PyTorch: launch, graph of 20 (µs)" "$(value launches torch), $(value launches torch_graph)"
        row "Triton: launch, compiled form (µs)" "$(value launches triton), $(value launches triton_ready)"
    fi
done

# First launches in a new process: as PTX, compiled by the driver each time or kept in its cache, and as machine code.
first() {
    step "$1" 70 env "${@:4}" "$(program first)" 5 naive best tma_store || return
    row "$2 (ms)" "$(awk 'NR > 1 {printf "%s%s %.1f", (NR > 2 ? ", " : ""), $1, $2 / 1000}' "$logs/$1.log")" "$3"
}
first first_ptx "first launch, PTX of the cache" "≤ 30" TILEWRIGHT_PTXAS=/none CUDA_CACHE_DISABLE=1
first first_kept "the same, with the driver's cache" "≤ 30" TILEWRIGHT_PTXAS=/none
first first_code "first launch, machine code of the cache" "≤ 3" CUDA_CACHE_DISABLE=1

# Threads and streams, views and offsets, borrowed memory, graphs, copies, errors.
runs() {
    step "$1" "$3" "$(program "$2")" --test-threads 1 --nocapture "${@:5}" && row "$4" "$(tests "$1"), $(skipped "$1") skipped in part" "passed"
}
runs threads gpu_runtime 90 "8 threads × 4 streams × $launches launches" threads_and_streams
runs views gpu_runtime 30 "pitch 4100, offset 1" a_large_pitch views_have
TILEWRIGHT_LAUNCHES=200 runs gpu_runtime gpu_runtime 90 "all tests of the runtime" --skip a_large_pitch --skip views_have
runs errors errors 30 "errors, with their texts"
runs gpu gpu 60 "kernels against the simulator"
runs killed_writers tile_runtime 60 "writers of the cache killed, 2 × 50" killed_writer

# Tensors of PyTorch where they are.
if [ "$device" = cuda ]; then
    step torch 60 python3 "$scripts/check-torch.py" "$(program libdlpack.so)" --device cuda \
        && row "PyTorch tensor in and out" "$(grep -c 'same pointers' "$logs/torch.log") × the same pointers; $(grep -o 'pitch 4100.*' "$logs/torch.log" | paste -sd';')" "no copy"
fi

# Tuning, then the cache, then killed at work: what is left must be whole.
size=1024x1024x1024
[ "$device" = cuda ] || size=256x256x64
tune() { "$(program tune)" --device "$device" --size "$size" "$@"; }
killed() {
    local child killed=0 cache=$work/killed n
    export TILEWRIGHT_CACHE_DIR=$cache
    for n in $(seq "$kills"); do
        "$(program tune)" --device "$device" --size "$size" --budget 1 --fresh > /dev/null 2>&1 &
        child=$!
        sleep "$(awk "BEGIN {print 0.1 + 1.4 * $n / $kills}")"
        kill -KILL $child 2> /dev/null
        wait $child 2> /dev/null
        [ $? -eq 137 ] && killed=$((killed + 1))
    done
    echo "killed $killed of $kills at work, $(find "$cache" -type f | wc -l) files"
    tune --budget 1 && tune || return 1
}
export -f tune killed program
export work folder device size kills
if step tune 80 bash -c 'tune --budget 4 --exhaustive 200'; then
    row "tuner, f32 $size" "$(grep -c '^tile(.* \(exact\|aligned\|general\) ' "$logs/tune.log") configurations; $(sed -n 's/.*; the choice takes \(.*\)/\1/p' "$logs/tune.log"); $(grep -c ': verified' "$logs/tune.log") verified" "≥ 24, ≤ 2 % more"
    step tune_again 30 bash -c tune \
        && row "a second process" "$(grep -o 'from the cache' "$logs/tune_again.log" || echo 'measured again')" "from the cache"
fi
if step killed_tuners 110 bash -c killed; then
    row "tuners killed" "$(sed -n 's/^killed //p' "$logs/killed_tuners.log"); then $(grep -c ': verified' "$logs/killed_tuners.log") × verified, $(grep -c '^warning' "$logs/killed_tuners.log") warnings" "$kills, 2, 0"
fi

# Layers over devices: as many GPUs as there are, and simulated ones.
sharded=$(program sharded_linear)
[ "$device" = cuda ] && step sharded 60 "$sharded" --device cuda --schedule wgmma_best --dtype bf16 --batch 4096 --bench \
    && row "sharded_linear on the GPUs" "$(grep -o '[0-9.]* ms on .*' "$logs/sharded.log" | tail -n 1), $(grep -c . <<< "$(grep -i 'verified' "$logs/sharded.log")") verified"
step sharded_simulated 40 "$sharded" --device sim --devices 2 --schedule all \
    && row "sharded_linear on two simulators" "$(grep -ci 'verified' "$logs/sharded_simulated.log") lines verified"

echo
printf '%s\n' "${rows[@]}" | awk -F'|' '{printf "%s: %s%s\n", $1, $2, $3 == "" ? "" : "  [" $3 "]"}'
echo "$failed steps failed"
[ "$failed" -eq 0 ]
