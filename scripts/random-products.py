#!/usr/bin/env python3
"""Matrix products of random shapes without a schedule, beside cuBLAS: a line a shape, and the geometric means.

    cargo build --release --example matmul
    scripts/random-products.py --dtype bf16 [--seed 1] [--shapes 40] [--few] [--matmul target/release/examples/matmul]

M is log-uniform from 1 to 16384, N and K from 64 to 32768; all are multiples of 8, but for a quarter of the shapes. With `--few`, M is 1 to
16 and the weights are 256 MB and more, beyond any L2 cache. A shape of more than 2^37 multiply-adds (f32: 2^34), or of more than 8 GB, is
drawn again: it would take seconds, of cuBLAS as of ours.

Ratios are those of `matmul --bench`: the median times of launches in turn, L2 overwritten before each. `first` is the first choice, for which
nothing is measured; `five` and its GB/s are those of the quickest of the five that a tuned launch measures; `hand` is the schedule of the
example that `auto-size` picks. A result that is beyond the bound is said; the exit status is 1 where one of ours is.
"""
import argparse
import json
import math
import random
import subprocess
import sys


def drawn(rng, dtype, count, few):
    """Shapes: M, N, K."""
    most, size = (2**34, 4) if dtype == "f32" else (2**37, 2)
    log = lambda low, high: round(math.exp(rng.uniform(math.log(low), math.log(high))))
    while count > 0:
        odd = count % 4 == 0
        whole = lambda n: n if odd else max(8, n // 8 * 8)
        if few:
            m, n, k = rng.randint(1, 16), whole(log(2048, 32768)), whole(log(2048, 32768))
            if n * k * size < 256e6:
                continue
        else:
            m, n, k = log(1, 16384), whole(log(64, 32768)), whole(log(64, 32768))
            m = whole(m) if m >= 8 else m
        if m * n * k > most or (m * n + n * k + k * m) * size > 8e9:
            continue
        count -= 1
        yield m, n, k


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matmul", default="target/release/examples/matmul")
    parser.add_argument("--dtype", default="bf16", choices=["f32", "f16", "bf16"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--few", action="store_true", help="M from 1 to 16, large weights")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    size = 4 if options.dtype == "f32" else 2
    print(f"{options.dtype}, seed {options.seed}, {options.shapes} shapes; of cuBLAS")
    print(f"{'M×N×K':>20} {'cuBLAS ms':>9} {'GB/s':>6} {'first':>6} {'five':>6} {'hand':>6}")
    ratios, failed = {"first": [], "five": [], "hand": []}, 0
    for m, n, k in drawn(rng, options.dtype, options.shapes, options.few):
        command = [options.matmul, "--device", "cuda", "--bench", "--json", "--dtype", options.dtype, "--launches", "20"]
        command += ["--schedule", "candidates,auto-size", "--size", f"{m}x{n}x{k}"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
            lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        except subprocess.TimeoutExpired:
            lines, ran = [], None
        except FileNotFoundError:
            sys.exit(f"there is no {options.matmul}: cargo build --release --example matmul")
        wrong = [line["schedule"] for line in lines if not line["verified"]]
        said = ran.stderr.strip()[-300:] if ran else "it did not end within 120 s"
        if wrong or said or not lines:
            failed += 1
            print(f"{m}×{n}×{k}: {said or 'not verified: ' + ', '.join(wrong)}")
        elif ran.returncode != 0:
            print(f"{m}×{n}×{k}: not verified: cuBLAS")
        auto = [line for line in lines if line["schedule"].startswith("auto") and line["ratio"]]
        hand = [line for line in lines if not line["schedule"].startswith("auto") and line["ratio"]]
        if not auto:
            continue
        best = {"first": auto[:1], "five": auto, "hand": hand}
        best = {kind: max(of, key=lambda line: line["ratio"]) for kind, of in best.items() if of}
        for kind, line in best.items():
            ratios[kind].append(line["ratio"])
        cublas = auto[0]["time_ms"] * auto[0]["ratio"]
        moved = (m * n + n * k + k * m) * size / best["five"]["time_ms"] / 1e6
        cells = " ".join(f"{best[kind]['ratio']:6.2f}" if kind in best else f"{'-':>6}" for kind in ratios)
        names = f"{best['five']['schedule']}, {best['hand']['schedule'] if 'hand' in best else '-'}"
        print(f"{f'{m}×{n}×{k}':>20} {cublas:9.4f} {moved:6.0f} {cells}  {names}", flush=True)
    for kind, of in ratios.items():
        if of:
            print(f"{kind}: geometric mean {mean(of):.3f}, least {min(of):.3f}, of {len(of)}")
    if failed:
        print(f"{failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
