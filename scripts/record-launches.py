#!/usr/bin/env python3
"""What a launch of a small kernel costs the host in PyTorch and in Triton, as `examples/latency` measures it here.

    scripts/record-launches.py

Prints a JSON object of microseconds, medians of 5,000 calls, a hundred between two waits for the GPU: `torch`, x.add_(1) on
1,024 elements; `torch_out`, torch.add(x, 1, out=y); `torch_graph`, a replay of 20 of the first that were captured, by launch;
`triton`, the same kernel, written in Triton; `triton_ready`, its compiled form, called without Triton's look at the arguments'
types. What is missing here is told under `without`.
"""
import json
import time

CALLS, BETWEEN, TOGETHER, ELEMENTS = 5000, 100, 20, 1024


def median(call, wait, between=BETWEEN):
    times = []
    while len(times) < CALLS:
        for _ in range(between):
            start = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - start)
        wait()
    return sorted(times)[len(times) // 2] / 1000


def by_torch(torch, figures):
    x = torch.zeros(ELEMENTS, device="cuda")
    y = torch.zeros(ELEMENTS, device="cuda")
    wait = torch.cuda.synchronize
    with torch.no_grad():
        for _ in range(BETWEEN):
            x.add_(1.0)
        figures["torch"] = median(lambda: x.add_(1.0), wait)
        figures["torch_out"] = median(lambda: torch.add(x, 1.0, out=y), wait)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(TOGETHER):
                x.add_(1.0)
        figures["torch_graph"] = median(graph.replay, wait, 10) / TOGETHER


def by_triton(torch, figures):
    # Triton looks names of a kernel up among those of its module.
    global tl
    import triton
    import triton.language as tl

    @triton.jit
    def increment(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)

    x = torch.zeros(ELEMENTS, device="cuda")
    grid = (ELEMENTS // 128,)
    launch = increment[grid]
    ready = launch(x, ELEMENTS, BLOCK=128)
    torch.cuda.synchronize()
    figures["triton"] = median(lambda: launch(x, ELEMENTS, BLOCK=128), torch.cuda.synchronize)
    again = ready[(*grid, 1, 1)]
    again(x, ELEMENTS, 128)
    figures["triton_ready"] = median(lambda: again(x, ELEMENTS, 128), torch.cuda.synchronize)
    figures["triton_version"] = triton.__version__


def main():
    figures, without = {}, {}
    try:
        import torch
        figures["torch_version"] = torch.__version__
        torch.cuda.init()
    except Exception as error:  # not installed, or no GPU
        print(json.dumps({"without": {"torch": str(error)}}))
        return
    for name, measure in [("torch", by_torch), ("triton", by_triton)]:
        try:
            measure(torch, figures)
        except Exception as error:  # the other one is still worth its figures
            without[name] = f"{type(error).__name__}: {error}"[:300]
    if without:
        figures["without"] = without
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
