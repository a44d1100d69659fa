"""`mma.sync`: every type and accumulator of Hopper, over ordinary numbers, zeros and subnormals, infinities and NaN, results
near overflow and results near underflow.

The operands come from pools (see `pools`); a row is a launch of some CTAs of one warp, each with one tile.
"""

from .pools import KINDS, fill, integers, pool
from .recording import Recording, pointer, registers

WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f32": 32, "s32": 32}

# k, accumulator, A, B.
FORMS = [(k, acc, "f16", "f16") for k in (16, 8) for acc in ("f32", "f16")]
FORMS += [(16, "f32", "bf16", "bf16"), (8, "f32", "bf16", "bf16"), (8, "f32", "tf32", "tf32"), (4, "f32", "tf32", "tf32")]
FORMS += [(k, acc, a, b) for k in (32, 16) for acc in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INTEGERS = [(k, sat, a, b) for k in (32, 16) for sat in ("", ".satfinite") for a in ("s8", "u8") for b in ("s8", "u8")]


def body(instruction, k, acc, a, b):
    bits = WIDTH[a]
    na, nb, nc = 16 * k * bits // 1024, 8 * k * bits // 1024, 2 if acc == "f16" else 4
    # The position of a register: 16 a lane.
    lines = []
    for prefix, count, width, at in [("a", na, bits, 0), ("b", nb, bits, 4), ("c", nc, WIDTH[acc], 8)]:
        for i in range(count):
            lines += [f"add.u32 %i, %n, {at + i};", fill(f"%{prefix}{i}", "%i", f"%p{prefix}", width)]
    stores = " ".join(f"st.global.b32 [%o+{4 * i}], %d{i};" for i in range(nc))
    text = "\n ".join(lines)
    return f"""{{
 .reg .b32 %t, %n, %i, %h, %e, %a<4>, %b<2>, %c<4>, %d<4>; .reg .b64 %pa, %pb, %pc, %o, %z;
 ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %o, [out];
 mov.u32 %t, %ctaid.x; shl.b32 %t, %t, 5; mov.u32 %n, %tid.x; add.u32 %t, %t, %n; shl.b32 %n, %t, 4;
 mul.wide.u32 %z, %t, {4 * nc}; add.s64 %o, %o, %z;
 {text}
 {instruction} {registers("d", nc)}, {registers("a", na)}, {registers("b", nb)}, {registers("c", nc)};
 {stores} ret;
}}"""


def build():
    recording = Recording("mma")
    for k, acc, a, b in FORMS:
        shape = f"m16n8k{k}.row.col.{acc}.{a}.{b}.{acc}"
        # f16 accumulators and m16n8k16 of 8-bit floats came with PTX 8.7.
        version = "8.7" if a in ("e4m3", "e5m2") and (acc == "f16" or k == 16) else "8.4"
        parameters = ".u64 a, .u64 b, .u64 c, .u64 out"
        recording.kernel(shape, parameters, body(f"mma.sync.aligned.{shape}", k, acc, a, b), version)
        full = (k, a) in ((16, "f16"), (16, "bf16"), (8, "tf32"), (32, "e4m3"), (32, "e5m2"))
        for kind in KINDS:
            operands = [("a", a, False), ("b", b, False), ("c", acc, True)]
            buffers = [(f"{ty}.{kind}.{'c' if c else k}", pool(ty, kind, k, c)) for _, ty, c in operands]
            tiles = 6 if full else 2
            args = [recording.buffer(name, data) for name, data in buffers] + [pointer("out")]
            size = 32 * (8 if acc == "f16" else 16)
            recording.row(shape, args, {"out": size * tiles}, grid=tiles, kind=kind)
    for k, sat, a, b in INTEGERS:
        shape = f"m16n8k{k}.row.col{sat}.s32.{a}.{b}.s32"
        recording.kernel(shape, ".u64 a, .u64 b, .u64 c, .u64 out", body(f"mma.sync.aligned.{shape}", k, "s32", a, b))
        pools = [recording.buffer(f"int.{kind}", integers(kind)) for kind in ("a", "b", "accumulator")]
        recording.row(shape, [*pools, pointer("out")], {"out": 512}, kind="integers")
    return recording
