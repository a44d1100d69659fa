#!/usr/bin/env python3
"""Compile the Triton kernels of ptx-sim's tests ahead of time: PTX and launch metadata, no GPU needed.

    python3 -m venv venv && venv/bin/pip install triton
    venv/bin/python scripts/record-triton.py ptx-sim/tests/data/triton [NAME...]

Writes NAME.sm80.ptx, NAME.sm90.ptx and cases.json (launch properties and constants of each file).
"""

import json
import os
import re
import sys

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, 0.5 * v * (1 + tl.erf(v * 0.7071067811865476)), mask=i < n)


@triton.jit
def softmax(x, out, rows, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=3):
        v = tl.load(x + row * cols + i, mask=i < cols, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + row * cols + i, e / tl.sum(e, 0), mask=i < cols)


@triton.jit
def layernorm(x, w, b, out, mean_out, rstd_out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK], tl.float32)
    for at in range(0, cols, BLOCK):
        i = at + tl.arange(0, BLOCK)
        acc += tl.load(x + row * cols + i, mask=i < cols, other=0.0)
    mean = tl.sum(acc, 0) / cols
    acc = tl.zeros([BLOCK], tl.float32)
    for at in range(0, cols, BLOCK):
        i = at + tl.arange(0, BLOCK)
        d = tl.where(i < cols, tl.load(x + row * cols + i, mask=i < cols, other=0.0) - mean, 0.0)
        acc += d * d
    rstd = 1 / tl.sqrt(tl.sum(acc, 0) / cols + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for at in range(0, cols, BLOCK):
        i = at + tl.arange(0, BLOCK)
        m = i < cols
        v = (tl.load(x + row * cols + i, mask=m, other=0.0) - mean) * rstd
        tl.store(out + row * cols + i, v * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.jit
def tile_of(pid, m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    tiles_m = tl.cdiv(m, BM)
    width = GROUP * tl.cdiv(n, BN)
    first = pid // width * GROUP
    height = min(tiles_m - first, GROUP)
    return first + pid % width % height, pid % width // height


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
           PRECISION: tl.constexpr, ACC: tl.constexpr):
    pm, pn = tile_of(tl.program_id(0), m, n, BM, BN, GROUP)
    im = pm * BM + tl.arange(0, BM)
    jn = pn * BN + tl.arange(0, BN)
    kk = tl.arange(0, BK)
    pa = a + im[:, None] * k + kk[None, :]
    pb = b + kk[:, None] * n + jn[None, :]
    acc = tl.zeros((BM, BN), ACC)
    for at in range(0, tl.cdiv(k, BK)):
        left = k - at * BK
        va = tl.load(pa, mask=(im[:, None] < m) & (kk[None, :] < left), other=0.0)
        vb = tl.load(pb, mask=(kk[:, None] < left) & (jn[None, :] < n), other=0.0)
        acc = tl.dot(va, vb, acc, input_precision=PRECISION, out_dtype=ACC)
        pa += BK
        pb += BK * n
    tl.store(c + im[:, None] * n + jn[None, :], acc, mask=(im[:, None] < m) & (jn[None, :] < n))


@triton.jit
def matmul_persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tiles = tl.cdiv(m, BM) * tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        pm, pn = tile_of(tile, m, n, BM, BN, GROUP)
        im = pm * BM + tl.arange(0, BM)
        jn = pn * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for at in range(0, tl.cdiv(k, BK)):
            kk = at * BK + tl.arange(0, BK)
            va = tl.load(a + im[:, None] * k + kk[None, :], mask=(im[:, None] < m) & (kk[None, :] < k), other=0.0)
            vb = tl.load(b + kk[:, None] * n + jn[None, :], mask=(kk[:, None] < k) & (jn[None, :] < n), other=0.0)
            acc = tl.dot(va, vb, acc)
        tl.store(c + im[:, None] * n + jn[None, :], acc.to(tl.float16), mask=(im[:, None] < m) & (jn[None, :] < n))


@triton.jit
def matmul_split_k(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr):
    im = tl.program_id(0) * BM + tl.arange(0, BM)
    jn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(tl.program_id(2) * BK, k, BK * SPLIT):
        kk = at + tl.arange(0, BK)
        va = tl.load(a + im[:, None] * k + kk[None, :], mask=(im[:, None] < m) & (kk[None, :] < k), other=0.0)
        vb = tl.load(b + kk[:, None] * n + jn[None, :], mask=(kk[:, None] < k) & (jn[None, :] < n), other=0.0)
        acc = tl.dot(va, vb, acc)
    tl.atomic_add(c + im[:, None] * n + jn[None, :], acc, mask=(im[:, None] < m) & (jn[None, :] < n))


@triton.jit
def matmul_tma(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALIZE: tl.constexpr):
    tiles_m = tl.cdiv(m, BM)
    tiles = tiles_m * tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=SPECIALIZE):
        i = tile % tiles_m * BM
        j = tile // tiles_m * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for at in range(0, tl.cdiv(k, BK)):
            acc = tl.dot(a.load([i, at * BK]), b.load([at * BK, j]), acc)
        c.store([i, j], acc.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
              CAUSAL: tl.constexpr):
    base = tl.program_id(1) * length * D
    d = tl.arange(0, D)
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    vq = tl.load(q + base + i[:, None] * D + d[None, :], mask=i[:, None] < length, other=0.0)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = length
    if CAUSAL:
        end = min(length, (tl.program_id(0) + 1) * BM)
    for at in range(0, end, BN):
        j = at + tl.arange(0, BN)
        vk = tl.load(k + base + j[None, :] * D + d[:, None], mask=j[None, :] < length, other=0.0)
        s = tl.dot(vq, vk) * (scale * 1.4426950408889634)
        s = tl.where(j[None, :] < length, s, -float("inf"))
        if CAUSAL:
            s = tl.where(i[:, None] >= j[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        fix = tl.exp2(top - new)
        total = total * fix + tl.sum(p, 1)
        vv = tl.load(v + base + j[:, None] * D + d[None, :], mask=j[:, None] < length, other=0.0)
        acc = tl.dot(p.to(tl.float16), vv, acc * fix[:, None])
        top = new
    tl.store(out + base + i[:, None] * D + d[None, :], acc / total[:, None], mask=i[:, None] < length)


@triton.jit
def reduce(x, sums, maxima, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.arange(0, BN)
    m = (i[:, None] < rows) & (j[None, :] < cols)
    v = tl.load(x + i[:, None] * cols + j[None, :], mask=m, other=0.0)
    tl.store(sums + i, tl.sum(v, 1), mask=i < rows)
    tl.store(maxima + tl.program_id(0) * BN + j, tl.max(tl.where(m, v, -float("inf")), 0), mask=j < cols)


@triton.jit
def argmax(x, values, indices, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + j, mask=j < cols, other=-float("inf"))
    best, at = tl.max(v, 0, return_indices=True)
    tl.store(values + row, best)
    tl.store(indices + row, at)


@triton.jit
def step(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def scan(x, sums, decay, recurrence, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    d = tl.load(decay + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(sums + tl.program_id(0) * n + i, tl.cumsum(v, 0), mask=i < n)
    _, r = tl.associative_scan((d, v), 0, step)
    tl.store(recurrence + tl.program_id(0) * n + i, r, mask=i < n)


@triton.jit
def sort(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("inf"))
    tl.store(out + tl.program_id(0) * n + i, tl.sort(v), mask=i < n)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


@triton.jit
def transpose(x, out, rows, cols, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + i[:, None] * cols + j[None, :], mask=(i[:, None] < rows) & (j[None, :] < cols))
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(v), mask=(j[:, None] < cols) & (i[None, :] < rows))


@triton.jit
def histogram(x, counts, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    h = tl.histogram(v, BINS, mask=i < n)
    tl.atomic_add(counts + tl.arange(0, BINS), h)


@triton.jit
def atomics(x, adds, maxima, last, lock, total, n, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(adds + i % SLOTS, v, mask=i < n)
    tl.atomic_max(maxima + i % SLOTS, v, mask=i < n)
    tl.atomic_or(last + i % SLOTS, v, mask=i < n)
    j = tl.arange(0, SLOTS)
    s = tl.sum(v, 0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + j, tl.load(total + j) + s)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


F32, F16, BF16, I8, I32 = "*fp32", "*fp16", "*bf16", "*i8", "*i32"
MM = dict(BM=64, BN=64, BK=32, GROUP=2)


def mm(element, out, **more):
    """Signature and constants of a matmul."""
    return dict(a=element, b=element, c=out, m="i32", n="i32", k="i32"), {**MM, **more}


# name: kernel, signature, constants, options
CASES = {
    "add": (add, dict(x=F32, y=F32, out=F32, n="i32"), dict(BLOCK=256), {}),
    "add_bf16": (add, dict(x=BF16, y=BF16, out=BF16, n="i32"), dict(BLOCK=1024), {}),
    "gelu": (gelu, dict(x=F32, out=F32, n="i32"), dict(BLOCK=256), {}),
    "softmax": (softmax, dict(x=F32, out=F32, rows="i32", cols="i32"), dict(BLOCK=512), {}),
    "layernorm": (layernorm, dict(x=F32, w=F32, b=F32, out=F32, mean_out=F32, rstd_out=F32, cols="i32", eps="fp32"),
                  dict(BLOCK=256), {}),
    "matmul_f16": (matmul, *mm(F16, F16, PRECISION="tf32", ACC=tl.float32), dict(num_stages=3)),
    "matmul_bf16": (matmul, *mm(BF16, F32, PRECISION="tf32", ACC=tl.float32), dict(num_stages=4, num_warps=8)),
    "matmul_f32": (matmul, *mm(F32, F32, PRECISION="ieee", ACC=tl.float32, BM=32, BN=32, BK=16), {}),
    "matmul_tf32": (matmul, *mm(F32, F32, PRECISION="tf32", ACC=tl.float32), {}),
    "matmul_tf32x3": (matmul, *mm(F32, F32, PRECISION="tf32x3", ACC=tl.float32), dict(num_stages=2)),
    "matmul_i8": (matmul, *mm(I8, I32, PRECISION="tf32", ACC=tl.int32), {}),
    "matmul_persistent": (matmul_persistent, dict(a=F16, b=F16, c=F16, m="i32", n="i32", k="i32"), MM, {}),
    "matmul_split_k": (matmul_split_k, dict(a=F16, b=F16, c=F32, m="i32", n="i32", k="i32"),
                       dict(BM=32, BN=32, BK=32, SPLIT=4), {}),
    "matmul_tma": (matmul_tma, dict(a="tensordesc<fp16[64,64]>", b="tensordesc<fp16[64,128]>",
                                    c="tensordesc<fp16[64,128]>", m="i32", n="i32", k="i32"),
                   dict(BM=64, BN=128, BK=64, SPECIALIZE=False), dict(num_stages=3)),
    "matmul_tma_ws": (matmul_tma, dict(a="tensordesc<fp16[64,64]>", b="tensordesc<fp16[64,64]>",
                                       c="tensordesc<fp16[64,64]>", m="i32", n="i32", k="i32"),
                      dict(BM=64, BN=64, BK=64, SPECIALIZE=True), dict(num_stages=3)),
    "attention": (attention, dict(q=F16, k=F16, v=F16, out=F16, length="i32", scale="fp32"),
                  dict(D=64, BM=64, BN=64, CAUSAL=True), dict(num_stages=2)),
    "attention_full": (attention, dict(q=F16, k=F16, v=F16, out=F32, length="i32", scale="fp32"),
                       dict(D=32, BM=128, BN=32, CAUSAL=False), dict(num_stages=3, num_warps=8)),
    "reduce": (reduce, dict(x=F32, sums=F32, maxima=F32, rows="i32", cols="i32"), dict(BM=32, BN=128), {}),
    "argmax": (argmax, dict(x=F32, values=F32, indices=I32, rows="i32", cols="i32"), dict(BLOCK=512), {}),
    "scan": (scan, dict(x=F32, sums=F32, decay=F32, recurrence=F32, n="i32"), dict(BLOCK=512), {}),
    "sort": (sort, dict(x=F32, out=F32, n="i32"), dict(BLOCK=256), {}),
    "dropout": (dropout, dict(x=F32, out=F32, n="i32", p="fp32", seed="i32"), dict(BLOCK=256), {}),
    "transpose": (transpose, dict(x=F32, out=F32, rows="i32", cols="i32"), dict(BM=32, BN=64), {}),
    "histogram": (histogram, dict(x=I32, counts=I32, n="i32"), dict(BINS=32, BLOCK=512), {}),
    "atomics": (atomics, dict(x=I32, adds=I32, maxima=I32, last=I32, lock=I32, total=I32, n="i32"),
                dict(SLOTS=128, BLOCK=256), {}),
}
HOPPER_ONLY = {"matmul_tma", "matmul_tma_ws"}


def record(name, sm, folder):
    fn, signature, constants, options = CASES[name]
    names = fn.arg_names
    full = {a: signature.get(a, "constexpr") for a in names}
    # Pointers are 16-byte aligned, as those of an allocation are; integers are left as they come, except that
    # the contiguous extents of a matrix are multiples of 16 so that asynchronous copies are used.
    wide = {a for a, t in signature.items() if t.startswith("*") or a in ("n", "k", "cols") and "b" in signature}
    attrs = {(names.index(a),): [["tt.divisibility", 16]] for a in wide}
    source = ASTSource(fn, full, {(names.index(a),): v for a, v in constants.items()}, attrs)
    done = triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)
    ptx = re.sub(r"^//.*\n", "", done.asm["ptx"], flags=re.M).rstrip() + "\n"
    with open(f"{folder}/{name}.sm{sm}.ptx", "w") as f:
        f.write(ptx)
    meta = done.metadata
    case = dict(
        name=name, sm=sm, entry=meta.name, threads=32 * meta.num_warps, shared=meta.shared,
        global_scratch_size=meta.global_scratch_size, profile_scratch_size=meta.profile_scratch_size,
        params=[t for t in full.values() if t != "constexpr"],
        constants={a: v if isinstance(v, (int, str)) else str(v) for a, v in constants.items()},
        tensor_descriptors=[dict(box=d["block_size"], swizzle=d["swizzle"]) for d in meta.tensordesc_meta or []],
    )
    print(f"{name} sm_{sm}: {len(ptx)} bytes of PTX")
    return case


def main():
    folder, *only = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    cases = []
    for name in only or CASES:
        for sm in (80, 90):
            if sm == 90 or name not in HOPPER_ONLY:
                cases.append(record(name, sm, folder))
    with open(f"{folder}/cases.json", "w") as f:
        json.dump(dict(triton=triton.__version__, cases=cases), f, indent=1, default=str)
        f.write("\n")


if __name__ == "__main__":
    main()
