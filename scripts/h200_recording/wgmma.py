"""`wgmma`: every type and accumulator of Hopper over the operands of `mma`, and matrix descriptors whose matrices start
inside the repeat of their swizzle pattern, with and without a base offset.

The tiles are m64n8: A in registers, B in shared memory without swizzle. Descriptors: one operand is read through the
descriptor in question, from memory whose elements are all different, and multiplied by ones that pick it; the results are
the numbers of the elements that were read.
"""

import random

from .mma import WIDTH
from .pools import KINDS, fill, integers, pool
from .recording import Recording, halves, pointer, registers, u64

# k, accumulator, A, B.
FORMS = [(16, "f32", "f16", "f16"), (16, "f16", "f16", "f16"), (16, "f32", "bf16", "bf16"), (8, "f32", "tf32", "tf32")]
FORMS += [(32, acc, a, b) for acc in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INTEGERS = [(sat, a, b) for sat in ("", ".satfinite") for a in ("s8", "u8") for b in ("s8", "u8")]

FENCED = "wgmma.fence.sync.aligned;\n "
WAIT = "\n wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n "


def body(instruction, acc, a, immediates, scale_d):
    bits, nc = WIDTH[a], 2 if acc == "f16" else 4
    lines = []
    for i in range(4):
        lines += [f"add.u32 %i, %n, {i};", fill(f"%a{i}", "%i", "%pa", bits)]
    for i in range(nc):
        lines += [f"add.u32 %i, %n, {8 + i};", fill(f"%c{i}", "%i", "%pc", WIDTH[acc])]
    # The 64 words of B are at position 4 of as many threads; all threads compute one, the first 64 store it.
    lines += ["add.u32 %i, %n, 4;", fill("%b", "%i", "%pb", bits)]
    text = "\n ".join(lines)
    stores = " ".join(f"st.global.b32 [%o+{4 * i}], %c{i};" for i in range(nc))
    return f"""{{
 .reg .b32 %t, %s, %n, %i, %h, %e, %a<4>, %b, %c<4>, %m; .reg .b64 %pa, %pb, %pc, %o, %z, %d; .reg .pred %p, %q;
 .shared .align 1024 .b8 sm[256];
 ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %o, [out];
 mov.u32 %t, %ctaid.x; shl.b32 %t, %t, 7; mov.u32 %s, %tid.x; add.u32 %t, %t, %s; shl.b32 %n, %t, 4;
 mul.wide.u32 %z, %t, {4 * nc}; add.s64 %o, %o, %z;
 {text}
 mov.u32 %m, sm; shl.b32 %i, %s, 2; add.u32 %i, %i, %m; setp.lt.u32 %p, %s, 64; @%p st.shared.b32 [%i], %b;
 fence.proxy.async; bar.sync 0;
 shr.u32 %m, %m, 4; cvt.u64.u32 %d, %m; or.b64 %d, %d, 0x0000001000080000; setp.{"eq" if scale_d else "ne"}.u32 %q, 0, 0;
 {FENCED}{instruction} {registers("c", nc)}, {registers("a", 4)}, %d, %q{immediates};{WAIT}{stores} ret;
}}"""


def add_numerics(recording):
    parameters = ".u64 a, .u64 b, .u64 c, .u64 out"
    for k, acc, a, b in FORMS:
        transposable = a in ("f16", "bf16")
        # What is negated, and whether the accumulators count.
        variants = [(1, 1, True)] + ([(-1, 1, True), (1, -1, True), (1, 1, False)] if transposable or k == 8 else [])
        for neg_a, neg_b, scale_d in variants:
            shape = f"m64n8k{k}.{acc}.{a}.{b}"
            immediates = f", {neg_a}, {neg_b}" + (", 0" if transposable else "")
            name = f"{shape}{immediates}{'' if scale_d else ', fresh'}".replace(", ", " ")
            recording.kernel(name, parameters, body(f"wgmma.mma_async.sync.aligned.{shape}", acc, a, immediates, scale_d))
            main = variants[0] == (neg_a, neg_b, scale_d)
            for kind in KINDS if main else ["nonfinite"]:
                pools = [(a, False), (b, False), (acc, True)]
                buffers = [(f"{ty}.{kind}.{'c' if c else k}", pool(ty, kind, k, c)) for ty, c in pools]
                tiles = 3 if main and k == 32 else 1
                args = [recording.buffer(n, data) for n, data in buffers] + [pointer("out")]
                size = 128 * (8 if acc == "f16" else 16)
                recording.row(name, args, {"out": size * tiles}, grid=tiles, block=128, kind=kind)
    for sat, a, b in INTEGERS:
        shape = f"m64n8k32{sat}.s32.{a}.{b}" if not sat else f"m64n8k32.s32.{a}.{b}.satfinite"
        recording.kernel(shape, parameters, body(f"wgmma.mma_async.sync.aligned.{order(shape)}", "s32", a, "", True))
        pools = [recording.buffer(f"int.{kind}", integers(kind)) for kind in ("a", "b", "accumulator")]
        recording.row(shape, [*pools, pointer("out")], {"out": 2048}, block=128, kind="integers")


def order(shape):
    """The position of `.satfinite` in the instruction: behind the shape."""
    head, *rest = shape.split(".")
    return ".".join([head, "satfinite", *rest[:-1]] if rest[-1] == "satfinite" else [head, *rest])


IMAGE = 16384  # elements of 16 bits
TABLE = 2 * IMAGE  # where the picking matrix stands
LOW = 1024  # the largest number in one image: f16 holds it exactly


def descriptor(start, lbo, sbo, mode, base):
    """Without the address of shared memory; PTX ISA 9.7.15.5.1.2."""
    return (start >> 4) | lbo >> 4 << 16 | sbo >> 4 << 32 | base << 49 | mode << 62


def probe(operand, trans):
    """Reads A (64×16), or B (16×64), through the descriptor, from an image of numbers up to 1023."""
    regs, n = (8, 16) if operand == "a" else (32, 64)
    shape, accumulators = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16", registers("f", regs)
    if operand == "a":
        mma = f"{shape} {accumulators}, %d, %pick, %q, 1, 1, {trans}, 0;"
    else:
        mma = f"{shape} {accumulators}, {registers('a', 4)}, %d, %q, 1, 1, {trans};"
    fragments = " ".join(f"ld.global.b32 %a{i}, [%g+{4 * i}];" for i in range(4))
    # B picks through shared memory, A through registers.
    pick = (
        f"mul.wide.u32 %w, %s, 4; add.s64 %g, %g, %w; ld.global.b32 %x, [%g]; st.shared.b32 [%t+{TABLE}], %x;"
        if operand == "a"
        else f"mul.wide.u32 %w, %s, 16; add.s64 %g, %g, %w; {fragments}"
    )
    stores = " ".join(f"cvt.rzi.u32.f32 %x, %f{i}; st.global.u16 [%o+{2 * i}], %x;" for i in range(regs))
    guard = "" if operand == "a" else "setp.ge.u32 %q, %s, 32; @%q ret; "
    return f"""{{
 .reg .b32 %t, %s, %m, %i, %n, %x, %a<4>; .reg .b64 %g, %o, %w, %d, %pick; .reg .f32 %f<{regs}>; .reg .pred %q;
 .shared .align 1024 .b8 sm[{TABLE + 512}];
 mov.u32 %s, %tid.x; mov.u32 %m, sm; shl.b32 %t, %s, 2; add.u32 %t, %t, %m; ld.param.u64 %o, [out]; mul.wide.u32 %w, %s, {2 * regs}; add.s64 %o, %o, %w;
 ld.param.u64 %g, [picks]; {pick}
 ld.param.u64 %g, [image]; mul.wide.u32 %w, %s, 4; add.s64 %g, %g, %w; mov.u32 %i, %t; mov.u32 %n, 0;
COPY: ld.global.b32 %x, [%g]; st.shared.b32 [%i], %x; add.s64 %g, %g, 512; add.u32 %i, %i, 512; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, {IMAGE // 256}; @%q bra COPY;
 shr.u32 %m, %m, 4; cvt.u64.u32 %w, %m; ld.param.u64 %d, [descriptor]; add.s64 %d, %d, %w; mov.u64 %pick, {descriptor(TABLE, 128, 256, 0, 0):#x}; add.s64 %pick, %pick, %w;
 fence.proxy.async; bar.sync 0; setp.ne.u32 %q, 0, 0;
 {FENCED}{mma}{WAIT}{guard}{stores} ret;
}}"""


def one(condition):
    return 0x3C00 if condition else 0


def f16(value):
    """Bits of an integer up to 2048."""
    if value == 0:
        return 0
    exponent = value.bit_length() - 1
    return 15 + exponent << 10 | (value << 10 - exponent & 0x3FF)


def add_descriptors(recording):
    recording.buffer("image0", halves(f16(i % LOW) for i in range(IMAGE)))
    recording.buffer("image1", halves(f16(i // LOW) for i in range(IMAGE)))
    # Core matrices of 8 rows of 8 elements: 128 bytes on is the next k, 256 bytes on the next 8 rows.
    core = [(a // 128 * 8 + a % 64 // 8, a % 128 // 64 * 8 + a % 8) for a in range(256)]
    recording.buffer("picks_a", halves(one(n == k) for n, k in core))
    picks = []
    for thread in range(128):
        warp, lane = thread // 32, thread % 32
        for i in range(4):
            row, k = 16 * warp + lane // 4 + 8 * (i & 1), 2 * (lane % 4) + 8 * (i >> 1)
            picks += [one(row == k), one(row == k + 1)]
    recording.buffer("picks_b", halves(picks))
    rng = random.Random(4)
    for operand in "ab":
        for trans in (0, 1):
            name = f"probe {operand}{' transposed' if trans else ''}"
            parameters = ".u64 image, .u64 picks, .u64 descriptor, .u64 out"
            recording.kernel(name, parameters, probe(operand, trans))
            for mode, repeat in [(1, 1024), (2, 512), (3, 256), (0, 128)]:
                starts = [s for s in range(0, repeat, 128)] + [16, 48, repeat + 128, 2048 + repeat // 2, repeat - 16]
                cases = [(s, base) for s in starts for base in range(8)]
                # All of one kind, samples of the others; always the offset that PTX ISA 9.7.15.5.1.2.2 asks for.
                keep = {1: 104, 2: 24, 3: 16, 0: 6}[mode] if (operand, trans) == ("a", 0) else {1: 20, 2: 10, 3: 8, 0: 2}[mode]
                keep = min(keep, len(cases))
                wanted = [(s, s >> 7 & 7) for s in starts if s % 128 == 0] if mode else []
                for start, base in sorted(set(rng.sample(cases, keep) + wanted)):
                    lbo, sbo = rng.choice([(128, 256), (2048, 1024)] if mode == 0 else [(repeat, 2 * repeat), (4096, 1024)])
                    rest = [pointer(f"picks_{operand}"), u64(descriptor(start, lbo, sbo, mode, base)), pointer("out")]
                    # The element's number modulo 1024, and above.
                    for image in ("image0", "image1"):
                        recording.row(name, [pointer(image), *rest], {"out": 2048}, block=128, case=[mode, start, base, lbo, sbo])


def build():
    recording = Recording("wgmma")
    add_numerics(recording)
    add_descriptors(recording)
    return recording
