"""`ldmatrix` and `stmatrix`, plain and transposed: which lane's register holds which element.

Loads: shared memory holds distinct 16-bit elements; all registers of all lanes are written out. Stores: distinct registers
go to shared memory, which is written out whole.
"""

import random

from .recording import Recording, pointer, registers, words

BYTES = 2048


def load(count, trans):
    data = registers("x", count)
    stores = " ".join(f"st.global.b32 [%o+{128 * i}], %x{i};" for i in range(count))
    return f"""{{
 .reg .b32 %t, %w, %b, %i, %v, %x<4>; .reg .b64 %a, %o, %z; .reg .pred %p; .shared .align 1024 .b8 sm[{BYTES}];
 mov.u32 %t, %tid.x; ld.param.u64 %a, [lanes]; ld.param.u64 %o, [out]; mul.wide.u32 %z, %t, 4; add.s64 %a, %a, %z; add.s64 %o, %o, %z;
 ld.global.u32 %w, [%a]; mov.u32 %b, sm; add.u32 %w, %w, %b; mov.u32 %i, %t;
FILL: mad.lo.u32 %v, %i, 0x20002, 0x10000; shl.b32 %x0, %i, 2; add.u32 %x0, %x0, %b; st.shared.b32 [%x0], %v;
 add.u32 %i, %i, 32; setp.lt.u32 %p, %i, {BYTES // 4}; @%p bra FILL;
 bar.sync 0; ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {data}, [%w];
 {stores} ret;
}}"""


def store(count, trans):
    data = registers("x", count)
    values = " ".join(f"mad.lo.u32 %x{i}, %t, 0x20002, {0x10000 + 0x400040 * i:#x};" for i in range(count))
    return f"""{{
 .reg .b32 %t, %w, %b, %i, %v, %s, %x<4>; .reg .b64 %a, %o, %z; .reg .pred %p; .shared .align 1024 .b8 sm[{BYTES}];
 mov.u32 %t, %tid.x; ld.param.u64 %a, [lanes]; ld.param.u64 %o, [out]; mul.wide.u32 %z, %t, 4; add.s64 %a, %a, %z; add.s64 %o, %o, %z;
 ld.global.u32 %w, [%a]; mov.u32 %b, sm; add.u32 %w, %w, %b; mov.u32 %i, %t; mov.u32 %v, 0xDEADBEEF;
FILL: shl.b32 %s, %i, 2; add.u32 %s, %s, %b; st.shared.b32 [%s], %v; add.u32 %i, %i, 32; setp.lt.u32 %p, %i, {BYTES // 4}; @%p bra FILL;
 {values}
 bar.sync 0; stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%w], {data};
 bar.sync 0; mov.u32 %i, %t;
DUMP: shl.b32 %s, %i, 2; add.u32 %s, %s, %b; ld.shared.b32 %v, [%s]; st.global.b32 [%o], %v; add.s64 %o, %o, 128;
 add.u32 %i, %i, 32; setp.lt.u32 %p, %i, {BYTES // 4}; @%p bra DUMP;
 ret;
}}"""


def build():
    recording = Recording("matrices")
    rng = random.Random(3)
    for case in range(4):
        # Rows overlap in no case: which of two lanes stores last is undefined.
        rows = list(range(BYTES // 16))
        if case:
            rng.shuffle(rows)
        recording.buffer(f"rows{case}", words(16 * r for r in rows[:32]))
        for count in (1, 2, 4):
            for trans in ("", ".trans"):
                for name, body, size in [("load", load, 128 * count), ("store", store, BYTES)]:
                    kernel = recording.kernel(f"{name}.x{count}{trans}", ".u64 lanes, .u64 out", body(count, trans))
                    recording.row(kernel, [pointer(f"rows{case}"), pointer("out")], {"out": size})
    return recording
