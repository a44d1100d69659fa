#!/usr/bin/env python3
"""A step of decoding in PyTorch, beside `examples/paged_attention`: one query a sequence, H heads of queries to G heads of a cache.

    cargo build --release --example paged_attention
    scripts/decode-torch.py [--size 16x8x4x16384x128] [--ours target/release/examples/paged_attention] [-- more options of ours]

Sizes are those of the example: sequences × heads of the cache × queries a head × tokens × length of a head, several after commas. PyTorch's
keys and values lie one behind the other, those of the example in pages; all sequences have all tokens.

Prints a row for each contender: the median of isolated steps by CUDA events, L2 overwritten before each, in ms, and GB/s of keys and values.
PyTorch's and ours take turns, round by round, so that they have the same clock. A backend that refuses the size says why.
"""
import argparse
import json
import statistics
import subprocess
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention": SDPBackend.FLASH_ATTENTION}
# Cycles that the GPU waits for before a step, so that the host has queued all of it by then.
WAIT = 400_000


def isolated(step, scratch, steps):
    """Milliseconds of so many steps, each after others' data has filled L2."""
    times = []
    for _ in range(steps):
        scratch.fill_(0)
        torch.cuda._sleep(WAIT)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return times


@torch.no_grad()
def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--size", default="16x8x4x16384x128,1x8x4x65536x128")
    flags.add_argument("--dtype", choices=["bf16", "f16"], default="bf16")
    flags.add_argument("--ours", metavar="PROGRAM", help="the example `paged_attention`")
    flags.add_argument("--schedule", default="mma", help="schedules of ours, after commas")
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--steps", type=int, default=20, help="steps of PyTorch's a round")
    flags.add_argument("more", nargs="*", help="more options of ours, behind --")
    flags = flags.parse_args()
    torch.manual_seed(1)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[flags.dtype]
    # Four times an H200's L2, at least.
    scratch = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN",
          torch.backends.cudnn.version(), flush=True)

    for size in flags.size.split(","):
        b, g, r, n, d = map(int, size.split("x"))
        moved = 2 * b * g * n * d * dtype.itemsize
        q = torch.randn(b, g * r, 1, d, dtype=dtype, device="cuda")
        k, v = (torch.randn(b, g, n, d, dtype=dtype, device="cuda") for _ in range(2))
        exact = torch.softmax(torch.einsum("bgrd,bgnd->bgrn", q.float().view(b, g, r, d), k.float()) * d**-0.5, -1)
        exact = torch.einsum("bgrn,bgnd->bgrd", exact, v.float()).view(b, g * r, 1, d)
        contenders, times = {}, {}

        def with_backend(backend):
            def step():
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            return step

        for name, backend in BACKENDS.items():
            step = with_backend(backend)
            try:
                with warnings.catch_warnings(record=True) as why:
                    warnings.simplefilter("always")
                    off = (step().float() - exact).abs().max().item()
            except RuntimeError as error:
                print(f"{size} {name}: {error}", *(w.message for w in why), sep="\n  ", flush=True)
                continue
            print(f"{size} {name}: off by {off:.1e} at most", flush=True)
            # Warm: libraries are loaded, and cuDNN has its plan.
            isolated(step, scratch, 3)
            contenders[name] = step
        del exact

        for _ in range(flags.rounds):
            for name, step in contenders.items():
                times.setdefault(name, []).extend(isolated(step, scratch, flags.steps))
            if flags.ours:
                command = [flags.ours, "--device", "cuda", "--json", "--dtype", flags.dtype, "--size", size, "--shortest", str(n),
                           "--schedule", flags.schedule, *flags.more]
                run = subprocess.run(command, capture_output=True, text=True)
                if run.returncode:
                    print(run.stdout, run.stderr, flush=True)
                for record in map(json.loads, run.stdout.splitlines()):
                    sure = "" if record["verified"] else ", NOT VERIFIED"
                    times.setdefault(f"ours, {record['schedule']}{sure}", []).append(record["time_ms"])

        best = min((statistics.median(t) for name, t in times.items() if name in contenders), default=None)
        for name, taken in times.items():
            ms = statistics.median(taken)
            beside = f", {best / ms:.3f} of PyTorch's faster one" if best and name not in contenders else ""
            print(f"{size} {name}: {ms:.4f} ms, {moved / ms / 1e6:.0f} GB/s{beside}", flush=True)
        del q, k, v


main()
