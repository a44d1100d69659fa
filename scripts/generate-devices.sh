#!/usr/bin/env bash
# The model of `examples/generate` on one GPU and on several: verified, then its times as a table.
#
#   cargo build --release --example generate && scripts/generate-devices.sh target/release/examples/generate
#   scripts/generate-devices.sh target/release/examples/generate 1 2 4      # numbers of devices (1 2)
#
# Several GPUs need NCCL: LD_LIBRARY_PATH names the folder of libnccl.so.2.
# CONFIG (1b) is the model, DTYPE (bf16) its element type, TOKENS (128) how many are decoded. RUNS (3) times are taken, and the best one
# counts. A program that does not end within LIMIT seconds (300) failed. DEVICE=sim verifies the small model on simulators alone.
set -uo pipefail
program=${1:?the built example}
shift
[ $# -gt 0 ] || set -- 1 2
device=${DEVICE:-cuda} config=${CONFIG:-1b} dtype=${DTYPE:-bf16} tokens=${TOKENS:-128} runs=${RUNS:-3} limit=${LIMIT:-300}
failed=0

# What the program prints, in one line where it fails.
run() {
    local status=0
    out=$(timeout -k 10 "$limit" "$program" --device "$device" "$@" 2>&1) || status=$?
    case $status in 124 | 137) out="did not end within $limit s" ;; esac
    [ $status -eq 0 ] || { failed=1 && out="FAILED: $(tail -n 1 <<< "$out")"; }
}

verify() {
    run "$@" --verify
    printf '%-54s %s\n' "$*" "$(tail -n 1 <<< "$out")"
}

for devices in "$@"; do
    # The small model has two heads of keys and values.
    if [ "$devices" -le 2 ]; then
        for type in f32 f16 bf16; do
            verify --devices "$devices" --dtype "$type"
        done
        verify --devices "$devices" --no-graph
    elif [ "$device" = sim ]; then
        echo "--devices $devices: the small model is on two devices at most" && failed=1
    fi
    [ "$device" = sim ] || verify --devices "$devices" --config "$config" --dtype "$dtype"
done
[ "$device" != sim ] || exit $failed

printf '\n%7s  %-8s  %10s  %10s  %8s\n' devices step 'prefill ms' ms/token tokens/s
for devices in "$@"; do
    for step in graph launches; do
        options=(--devices "$devices" --config "$config" --dtype "$dtype" --tokens "$tokens" --bench)
        [ $step = graph ] || options+=(--no-graph)
        rows=
        for _ in $(seq "$runs"); do
            run "${options[@]}"
            case $out in
                FAILED*) echo "$devices devices, $step: $out" && break ;;
            esac
            prefill=$(sed -n 's/^prefill of .*: \([0-9.]*\) ms.*/\1/p' <<< "$out")
            rows+=$(sed -n "s|^decode: \([0-9.]*\) ms/token, \([0-9.]*\) tokens/s.*|$prefill \1 \2|p" <<< "$out")$'\n'
        done
        # The least of each time.
        awk -v devices="$devices" -v step="$step" 'NF == 3 {
            if (!n || $1 < prefill) prefill = $1
            if (!n++ || $2 < token) { token = $2; rate = $3 }
        } END { if (n) printf "%7s  %-8s  %10s  %10s  %8s\n", devices, step, prefill, token, rate }' <<< "$rows"
    done
done
exit $failed
