"""Warps with only some lanes active: what votes, shuffles, matches, reductions and elections give.

A row is one warp; the lanes of `mask` execute the instruction under a branch, and each of the 32 lanes writes its result and
predicate (`0xBAD` and 2 where it did not take part).
"""

import random

from .recording import Recording, pointer, u32, words

MASKS = [0xFFFFFFFF, 0x0000FFFF, 0xFF00FF00, 0x80000001, 0x00000010, 0x55555555, 0x7FFFFFFE, 0x0F0F1248, 0xFFFF0FF0]

# name: instruction that sets %r and perhaps %q from %v (a word of the lane), %x and the membermask %m.
INSTRUCTIONS = {
    "vote.all": "setp.lt.u32 %q, %v, 6; vote.sync.all.pred %q, %q, %m;",
    "vote.any": "setp.lt.u32 %q, %v, 1; vote.sync.any.pred %q, %q, %m;",
    "vote.uni": "setp.lt.u32 %q, %v, 6; vote.sync.uni.pred %q, %q, %m;",
    "vote.ballot": "setp.lt.u32 %q, %v, 3; vote.sync.ballot.b32 %r, %q, %m;",
    "match.any.b32": "match.any.sync.b32 %r, %v, %m;",
    "match.any.b64": "cvt.u64.u32 %w, %v; match.any.sync.b64 %r, %w, %m;",
    "match.all.b32": "shr.u32 %v, %v, 2; match.all.sync.b32 %r|%q, %v, %m;",
    "match.all.b64": "cvt.u64.u32 %w, %x; match.all.sync.b64 %r|%q, %w, %m;",
    "redux.add.s32": "redux.sync.add.s32 %r, %x, %m;",
    "redux.add.u32": "redux.sync.add.u32 %r, %x, %m;",
    "redux.min.s32": "redux.sync.min.s32 %r, %x, %m;",
    "redux.max.s32": "redux.sync.max.s32 %r, %x, %m;",
    "redux.min.u32": "redux.sync.min.u32 %r, %x, %m;",
    "redux.max.u32": "redux.sync.max.u32 %r, %x, %m;",
    "redux.and": "redux.sync.and.b32 %r, %x, %m;",
    "redux.or": "redux.sync.or.b32 %r, %x, %m;",
    "redux.xor": "redux.sync.xor.b32 %r, %x, %m;",
    "activemask": "activemask.b32 %r;",
    "elect": "elect.sync %r|%q, %m;",
}

# mode, source operand, clamp and segment mask: `(32 − width) << 8 | clamp`. Every lane that reads is in a segment whose
# lanes are all active, or reads itself: what an inactive lane's value would be is undefined.
SHUFFLES = [
    ("up", 1, 0), ("up", 3, 0x1800), ("up", 8, 0x1000), ("up", 0, 0),
    ("down", 1, 0x1F), ("down", 3, 0x181F), ("down", 7, 0x1F), ("down", 31, 0x1F), ("down", 4, 0x1007),
    ("bfly", 1, 0x1F), ("bfly", 4, 0x181F), ("bfly", 3, 0x1F), ("bfly", 16, 0x1F), ("bfly", 6, 0x1803),
    ("idx", 0, 0x181F), ("idx", 5, 0x181F), ("idx", 7, 0x1807), ("idx", 31, 0x1F), ("idx", 12, 0x1F),
]  # fmt: skip


def source(mode, operand, clamp, lane):
    """The lane that a shuffle reads, by PTX ISA 9.7.9.6."""
    segment, limit = clamp >> 8 & 0x1F, clamp & 0x1F
    low, high = lane & segment, (lane & segment) | (limit & ~segment)
    at = {"up": lane - operand, "down": lane + operand, "bfly": lane ^ operand, "idx": low | (operand & ~segment)}[mode]
    inside = at >= high if mode == "up" else at <= high
    return at if inside else lane


def body(instruction):
    return f"""{{
 .reg .b32 %t, %v, %x, %m, %r, %s; .reg .b64 %a, %o, %w; .reg .pred %q, %out;
 mov.u32 %t, %tid.x; ld.param.u64 %a, [values]; ld.param.u64 %o, [out]; ld.param.u32 %m, [mask];
 mul.wide.u32 %w, %t, 8; add.s64 %a, %a, %w; add.s64 %o, %o, %w; ld.global.v2.u32 {{%v, %x}}, [%a];
 mov.u32 %r, 0xBAD; mov.u32 %s, 2; shr.u32 %t, %m, %t; and.b32 %t, %t, 1; setp.eq.u32 %out, %t, 0;
 @%out bra SKIP;
 setp.ne.u32 %q, %t, %t; {instruction} selp.u32 %s, 1, 0, %q;
SKIP: st.global.v2.u32 [%o], {{%r, %s}}; ret;
}}"""


def build():
    recording = Recording("masks")
    rng = random.Random(1)
    signature = ".u64 values, .u64 out, .u32 mask"
    for i in range(2):
        values = [w for _ in range(32) for w in (rng.randrange(8) if i == 0 else 5, rng.getrandbits(32))]
        if i == 1:
            values[1::2] = [0x80000001] * 32
        recording.buffer(f"values{i}", words(values))
    everyone = list(range(32))
    for name, instruction in INSTRUCTIONS.items():
        recording.kernel(name, signature, body(instruction))
        for mask in MASKS:
            for i in range(2):
                recording.row(name, [pointer(f"values{i}"), pointer("out"), u32(mask)], {"out": 256})
    for mode, operand, clamp in SHUFFLES:
        name = f"shfl.{mode}.{operand}.{clamp:#x}"
        recording.kernel(name, signature, body(f"shfl.sync.{mode}.b32 %r|%q, %x, {operand}, {clamp}, %m;"))
        for mask in MASKS + [0x000000FF, 0xF0000F0F, 0x33333333]:
            lanes = [i for i in everyone if mask >> i & 1]
            if all(mask >> source(mode, operand, clamp, i) & 1 for i in lanes):
                recording.row(name, [pointer("values0"), pointer("out"), u32(mask)], {"out": 256})
    return recording
