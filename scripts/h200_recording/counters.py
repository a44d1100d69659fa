"""Sectors and shared-memory wavefronts of one warp's access when only some lanes are active, counted by Nsight Compute.

A row's `lanes` are 32 words: the byte offset, and bit 31 where the lane is active. The recorded counts are those of the one
access: what the kernel reads to learn its offsets is subtracted.
"""

import random

from .recording import Recording, pointer, registers, words

METRICS = {
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "global load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
# Sectors of the kernel's own load: 32 words.
OWN_SECTORS = 4
SPAN = 8192

TYPES = {8: "u8", 16: "u16", 32: "b32", 64: "v2.b32", 128: "v4.b32"}


def access(name):
    """Instruction and metric of `lds32`, `stm4`, `ldm2t` and so on."""
    if name.startswith(("ldm", "stm")):
        count, trans = int(name[3]), ".trans" if name.endswith("t") else ""
        data, load = registers("x", count), name.startswith("ld")
        operands = f"{data}, [%b]" if load else f"[%b], {data}"
        text = f"{'ld' if load else 'st'}matrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {operands};"
        return text, "shared load wavefronts" if load else "shared store wavefronts"
    bits = int(name[3:])
    data = registers("x", bits // 32) if bits > 32 else "%x0"
    load, shared = name.startswith("ld"), name[2] == "s"
    place = "[%b]" if shared else "[%g]"
    text = f"{'ld' if load else 'st'}.{'shared' if shared else 'global'}.{TYPES[bits]} "
    text += f"{data}, {place};" if load else f"{place}, {data};"
    return text, f"{'shared' if shared else 'global'} {'load' if load else 'store'} {'wavefronts' if shared else 'sectors'}"


def body(name):
    text, metric = access(name)
    # Matrix instructions need the whole warp.
    guard = "" if "matrix" in text else "@%p "
    keep = "st.global.v4.b32 [%o], {%x0,%x1,%x2,%x3};" if "load" in metric else ""
    return f"""{{
 .reg .b32 %t, %w, %b, %x<4>; .reg .b64 %a, %o, %g, %z; .reg .pred %p; .shared .align 1024 .b8 sm[32768];
 mov.u32 %t, %tid.x; ld.param.u64 %a, [lanes]; ld.param.u64 %o, [out]; ld.param.u64 %g, [data];
 mul.wide.u32 %z, %t, 4; add.s64 %a, %a, %z; mul.wide.u32 %z, %t, 16; add.s64 %o, %o, %z;
 ld.global.u32 %w, [%a]; shr.u32 %t, %w, 31; setp.ne.u32 %p, %t, 0; and.b32 %w, %w, 0x7fffffff;
 mov.u32 %b, sm; add.u32 %b, %b, %w; cvt.u64.u32 %z, %w; add.s64 %g, %g, %z;
 mov.u32 %x0, %tid.x; mov.u32 %x1, %tid.x; mov.u32 %x2, %tid.x; mov.u32 %x3, %tid.x;
 {guard}{text}
 {keep} ret;
}}"""


def patterns(width, rng):
    """Lane offsets in units of `width` bytes, some of which two or four lanes share."""
    lane = list(range(32))
    units = SPAN // width
    row = 128 // width
    fixed = [
        lane, lane[::-1], [0] * 32, [i >> 1 for i in lane], [i & 1 for i in lane], [i >> 2 for i in lane],
        [2 * i for i in lane], [8 * i % units for i in lane], [i * row % units for i in lane], [i ^ 5 for i in lane],
        [(i >> 1) * row % units for i in lane], [(i & ~2) * row % units for i in lane], [(i & ~2) for i in lane],
        [i % 4 * row + i // 4 for i in lane],
    ]  # fmt: skip
    for pattern in fixed:
        yield [width * i for i in pattern]
    while True:
        span = rng.choice([8, 16, 32, 64, 128, units])
        free = [rng.randrange(min(span, units)) for _ in lane]
        kind = rng.randrange(4)
        if kind < 3:
            # Lanes share addresses pairwise, at distance 1, 2 or 4; a few of the pairs broken.
            step = 1 << kind
            free = [free[i & ~step] for i in lane]
            for i in rng.sample(lane, rng.choice([0, 0, 1, 2])):
                free[i] = rng.randrange(units)
        yield [width * i for i in free]


def active(rng):
    """Masks of active lanes."""
    yield from [0xFFFF, 0xFFFF0000, 0xFF, 0xFF0000, 0x55555555, 0xAAAAAAAA, 0x33333333, 0xCCCCCCCC, 0x0F0F0F0F, 1]
    yield from [0x80000000, 0x7FFFFFFF, 0xFFFFFFFE, 0x00FFFF00, 0x11111111, 0x99999999, 0xFFFFFFFF]
    while True:
        kind = rng.randrange(3)
        if kind == 0:
            yield rng.getrandbits(32) | 1 << rng.randrange(32)
        elif kind == 1:
            yield (rng.getrandbits(32) & rng.getrandbits(32)) | 1 << rng.randrange(32)
        else:
            yield rng.getrandbits(32) | rng.getrandbits(32)


def build():
    recording = Recording("counters")
    rng = random.Random(2)
    recording.buffer("data", bytes(1 << 16))
    counts = {"lds": {8: 16, 16: 16, 32: 40, 64: 90, 128: 90}, "sts": {8: 16, 16: 16, 32: 30, 64: 40, 128: 40}}
    counts |= {"ldg": {8: 8, 32: 20, 64: 20, 128: 20}, "stg": {8: 8, 32: 20, 64: 20, 128: 20}}
    for op, widths in counts.items():
        for bits, rows in widths.items():
            offsets, masks = patterns(bits // 8, rng), active(rng)
            for _ in range(rows):
                add(recording, f"{op}{bits}", next(offsets), next(masks))
    for op in ("ldm", "stm"):
        for count in (1, 2, 4):
            for i in range(12):
                rows = [[16 * i for i in range(32)], [128 * i % SPAN for i in range(32)], [80 * i for i in range(32)]]
                row = rows[i] if i < 3 else [16 * rng.randrange(1 << rng.randrange(3, 10)) for _ in range(32)]
                add(recording, f"{op}{count}t", row, 0xFFFFFFFF)
    return recording


def add(recording, name, offsets, mask):
    recording.kernel(name, ".u64 lanes, .u64 out, .u64 data", body(name))
    lanes = [o | (mask >> i & 1) << 31 for i, o in enumerate(offsets)]
    # Few rows share their lanes, but kernels take them from memory.
    buffer = f"lanes{len(recording.rows)}"
    recording.buffer(buffer, words(lanes))
    recording.row(name, [pointer(buffer), pointer("out"), pointer("data")], {"out": 512})


def counts_of(name, metrics):
    """The count that a row of kernel `name` records, from all metrics of its launch."""
    metric = access(name)[1]
    count = metrics[METRICS[metric]]
    return {metric.split()[-1]: int(count) - (OWN_SECTORS if metric == "global load sectors" else 0)}
