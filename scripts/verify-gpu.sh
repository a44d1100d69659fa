#!/usr/bin/env bash
# Every schedule of every example, on a GPU, verified: a table of what failed, and the exit status.
#
#   cargo build --release --examples && scripts/verify-gpu.sh target/release/examples
#   scripts/verify-gpu.sh target/release/examples "compute-sanitizer --error-exitcode 9"     # slower, finds accesses out of bounds
#
# Random kernels are replayed on a GPU by tile-fuzz: "The net" in docs/contributing.md.
#
# JOBS programs at a time (1). DEVICE=sim runs the same on the simulator, at sizes that suit it. A program that does not end within
# LIMIT seconds (120) failed. ONLY, a regular expression, chooses among the runs ("matmul .*cluster").
# Ended early, it says of the runs until then what it knows, and that there were more.
set -uo pipefail
folder=${1:?the folder of the built examples}
ended=$(mktemp)
export under=${2:-} folder device=${DEVICE:-cuda} limit=${LIMIT:-120} ended

# A run: a line of the file of those that ended, with what went wrong, if something did.
run() {
    local out wrong=
    # shellcheck disable=SC2086 # a command with its options
    if ! out=$(timeout "$limit" $under "$folder/$1" --device "$device" --json "${@:2}" 2>&1); then
        wrong=$(tail -n 3 <<< "$out" | cut -c 1-300 | tr '\n' ' ')
    elif grep -q '"verified":false' <<< "$out"; then
        wrong="not verified"
    fi
    echo "$*${wrong:+ :: $wrong}" >> "$ended"
}
export -f run

# Products: tiles and what is beside them, one row, rows that no tensor map addresses, deep and flat ones.
if [ "$device" = sim ]; then
    sizes=256x256x128,130x72x200,33x35x37,1x1x1
else
    sizes=512x512x512,1000x1000x1000,1023x1025x1027,64x4096x4096,512x512x8192,1x1x1,4096x4096x4096
fi
runs() {
    for dtype in f32 f16 bf16; do
        for schedule in $("$folder/matmul" --list | awk '{print $1}'); do
            # Schedules of other types are refused before anything runs.
            "$folder/matmul" --dtype $dtype --schedule "$schedule" --emit tile > /dev/null 2>&1 || continue
            case "$device-$schedule" in
                cuda-naive | cuda-coalesced) echo "matmul --dtype $dtype --schedule $schedule --size 1000x1000x1000" ;;
                *) echo "matmul --dtype $dtype --schedule $schedule --size $sizes" ;;
            esac
        done
        for example in linear batched conv2d attention attention_backward attention_f8 windowed_attention packed_attention triangular grouped experts paged_attention embedding embedding_gradient kv_append; do
            echo "$example --dtype $dtype --schedule all"
        done
    done
    for dtype in f16 bf16; do
        echo "attention --dtype $dtype --schedule wgmma_wide,wgmma_wide_frozen --size 2x3x333x777x200"
    done
    for example in vector_add softmax conv1d histogram; do
        echo "$example --schedule all"
    done
    # The reference of a row is computed in f64 on the host.
    for dtype in f32 f16 bf16; do
        echo "loss --dtype $dtype --schedule all --rows 500"
        echo "loss --dtype $dtype --schedule all --rows 77 --length 10007"
        echo "embedding --dtype $dtype --schedule all --tokens 1001 --rows 999 --length 1003"
        echo "embedding_gradient --dtype $dtype --schedule all --tokens 1001 --rows 99 --length 1003"
        echo "attention_f8 --dtype $dtype --schedule all --size 2x3x333x777x40"
        echo "windowed_attention --dtype $dtype --schedule all --size 2x3x333x40 --window 77"
        echo "packed_attention --dtype $dtype --schedule all --size 3x1000x64 --sequences 50"
        echo "triangular --dtype $dtype --schedule all --size 333x77x300"
        echo "experts --dtype $dtype --schedule all --tokens 333 --experts 7 --length 203 --columns 264 --block 50"
        echo "paged_attention --dtype $dtype --schedule all --size 3x5x7x333x120 --parts 5"
        echo "kv_append --dtype $dtype --schedule all --tokens 999 --slots 1003 --heads 3 --length 77"
    done
}
list=$(runs | grep -E "${ONLY:-}")

summary() {
    failed=$(grep ' :: ' "$ended")
    echo "$(wc -l < "$ended") of $(wc -l <<< "$list") runs, $(grep -c . <<< "$failed") failed"
    [ -z "$failed" ] || sed 's/^/  /' <<< "$failed"
    rm "$ended"
}
trap summary EXIT
trap 'kill "$runs" 2> /dev/null; exit 124' TERM INT
xargs -P "${JOBS:-1}" -I '{}' bash -c 'run {}' <<< "$list" &
runs=$!
wait "$runs"
! grep -q ' :: ' "$ended" && [ "$(wc -l < "$ended")" = "$(wc -l <<< "$list")" ]
