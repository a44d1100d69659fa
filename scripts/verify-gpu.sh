#!/usr/bin/env bash
# Every schedule of every example, on a GPU, verified: a table of what failed, and the exit status.
#
#   cargo build --release --examples && scripts/verify-gpu.sh target/release/examples
#   scripts/verify-gpu.sh target/release/examples "compute-sanitizer --error-exitcode 9"     # slower, finds accesses out of bounds
#
# DEVICE=sim runs the same on the simulator, at sizes that suit it. A program that does not end within LIMIT seconds (120) failed.
set -uo pipefail
folder=${1:?the folder of the built examples}
under=${2:-}
device=${DEVICE:-cuda}
limit=${LIMIT:-120}
ran=0
failed=()

# run EXAMPLE OPTION...
run() {
    local example=$1
    shift
    ran=$((ran + 1))
    # shellcheck disable=SC2086 # a command with its options
    if ! timeout "$limit" $under "$folder/$example" --device "$device" --json "$@" > /tmp/verify-gpu.out 2>&1; then
        failed+=("$example $*")
        tail -n 3 /tmp/verify-gpu.out | cut -c 1-300
    elif grep -q '"verified":false' /tmp/verify-gpu.out; then
        failed+=("$example $* (not verified)")
    fi
}

# Products: tiles and what is beside them, one row, rows that no tensor map addresses, deep and flat ones.
if [ "$device" = sim ]; then
    sizes=256x256x128,130x72x200,33x35x37,1x1x1
else
    sizes=512x512x512,1000x1000x1000,1023x1025x1027,64x4096x4096,512x512x8192,1x1x1,4096x4096x4096
fi
for dtype in f32 f16 bf16; do
    for schedule in $("$folder/matmul" --list | awk '{print $1}'); do
        # Schedules of other types are refused before anything runs.
        "$folder/matmul" --dtype $dtype --schedule "$schedule" --emit tile > /dev/null 2>&1 || continue
        case "$device-$schedule" in
            cuda-naive | cuda-coalesced) run matmul --dtype $dtype --schedule "$schedule" --size 1000x1000x1000 ;;
            *) run matmul --dtype $dtype --schedule "$schedule" --size "$sizes" ;;
        esac
    done
    for example in linear batched conv2d attention grouped; do
        run $example --dtype $dtype --schedule all
    done
done
run vector_add --schedule all
run softmax --schedule all
run conv1d --schedule all

echo "$ran runs, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ] || printf '  %s\n' "${failed[@]}"
[ ${#failed[@]} -eq 0 ]
