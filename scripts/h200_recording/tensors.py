"""Tensor copies: im2col loads and stores, tiles of 1 to 5 dimensions with steps, fills and swizzles, and multicast.

Tensors hold the numbers of their elements. Shared memory is filled with 0xDEADBEEF before a load and written out whole
after it, and a word that tells whether the mbarrier saw the expected bytes.
"""

from .recording import Recording, halves, pointer, u32, words

WORDS = 1536  # of shared memory, written out
U8, U16, U32, F16, F32, BF16 = 0, 1, 2, 6, 7, 9
WORD = {"element": U32, "size": 4}


def tensor(of, dims, element=U16, size=2, swizzle=0, nan_fill=False, steps=None, **box):
    """A dense tensor; `box` is `tile=[…]` or `im2col={…}`."""
    strides = [size * dims[0]]
    for extent in dims[1:-1]:
        strides.append(strides[-1] * extent)
    shape = {"of": of, "element": element, "dims": dims, "strides": strides[: len(dims) - 1]}
    return {"map": {**shape, "steps": steps or [1] * len(dims), "swizzle": swizzle, "nan_fill": nan_fill, **box}}


def im2col(lower, upper, channels, pixels):
    return {"im2col": {"lower": lower, "upper": upper, "channels": channels, "pixels": pixels}}


COORDINATES = ", ".join(f".u32 c{i}" for i in range(5))
OFFSETS = ", ".join(f".u32 o{i}" for i in range(3))
START = """ .reg .b32 %t, %s, %m, %b, %x, %i, %c<5>, %by, %to; .reg .b16 %h<3>; .reg .b64 %map, %o, %g, %w; .reg .pred %p;
 mov.u32 %s, %tid.x; mov.u32 %m, sm; mov.u32 %b, bar; mov.b64 %map, tm; cvta.param.u64 %map, %map; ld.param.u64 %o, [out]; ld.param.u32 %to, [to]; ld.param.u32 %by, [bytes];
 add.u32 %to, %to, %m; mul.wide.u32 %w, %s, 4; add.s64 %g, %o, %w; shl.b32 %t, %s, 2; add.u32 %t, %t, %m;
 ld.param.u32 %c0, [c0]; ld.param.u32 %c1, [c1]; ld.param.u32 %c2, [c2]; ld.param.u32 %c3, [c3]; ld.param.u32 %c4, [c4];
 ld.param.u32 %x, [o0]; cvt.u16.u32 %h0, %x; ld.param.u32 %x, [o1]; cvt.u16.u32 %h1, %x; ld.param.u32 %x, [o2]; cvt.u16.u32 %h2, %x;
"""
SHARED = f" .shared .align 1024 .b8 sm[{4 * WORDS}]; .shared .align 8 .b8 bar[8];\n"


def each_word(label, inside):
    """A loop of 128 threads over shared memory, at `%i`; `%g` follows it in the output."""
    return f"""mov.u32 %i, %t;
{label}: {inside} add.u32 %i, %i, 512; add.s64 %g, %g, 512; sub.u32 %x, %i, %m; setp.lt.u32 %p, %x, {4 * WORDS}; @%p bra {label};
"""


def coordinates(rank):
    return "{" + ", ".join(f"%c{i}" for i in range(rank)) + "}"


def load(rank, mode):
    offsets = ", {" + ", ".join(f"%h{i}" for i in range(rank - 2)) + "}" if mode == "im2col" else ""
    return (
        "{\n" + SHARED + START + each_word("FILL", "st.shared.b32 [%i], 0xDEADBEEF;") + f""" setp.ne.u32 %p, %s, 0; @%p bra READY;
 mbarrier.init.shared::cta.b64 [%b], 1; fence.mbarrier_init.release.cluster;
READY: fence.proxy.async; bar.sync 0; setp.ne.u32 %p, %s, 0; @%p bra WAIT;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %by;
 cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%to], [%map, {coordinates(rank)}], [%b]{offsets};
WAIT: mov.u32 %i, 0;
POLL: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @%p bra THERE; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 1000; @%p bra POLL;
THERE: mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], 0; selp.u32 %x, 1, 0, %p; setp.eq.u32 %p, %s, 0; @%p st.global.u32 [%o+{4 * WORDS}], %x;
 add.s64 %g, %o, %w; """ + each_word("DUMP", "ld.shared.b32 %x, [%i]; st.global.b32 [%g], %x;") + " ret;\n}"
    )  # fmt: skip


def store(rank, mode, reduce=""):
    name = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta{reduce}" if reduce else f"cp.async.bulk.tensor.{rank}d.global.shared::cta"
    return (
        "{\n" + SHARED + START + each_word("FILL", "sub.u32 %x, %i, %m; shr.u32 %x, %x, 1; mad.lo.u32 %x, %x, 0x10001, 0x80018000; st.shared.b32 [%i], %x;")
        + f""" fence.proxy.async; bar.sync 0; setp.ne.u32 %p, %s, 0; @%p bra DONE;
 {name}.{mode}.bulk_group [%map, {coordinates(rank)}], [%to]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE: ret;
}}"""
    )  # fmt: skip


def values(of_rank, given):
    return [u32(v) for v in list(given) + [0] * (of_rank - len(given))]


def add(recording, rank, kind, mode, m, at, offsets=(), to=0, bytes_=0, outs=None, **about):
    """One copy of 128 threads' kernel; `bytes_` is what the mbarrier must expect."""
    parameters = f".align 64 .b8 tm[128], .u64 out, .u32 to, .u32 bytes, {COORDINATES}, {OFFSETS}"
    name = f"{kind} {rank}d {mode}"
    text = load(rank, mode) if kind == "load" else store(rank, mode, ".add" if kind == "reduce" else "")
    recording.kernel(name, parameters, text)
    args = [m, pointer("out"), u32(to), u32(bytes_), *values(5, at), *values(3, offsets)]
    recording.row(name, args, outs or {"out": 4 * WORDS + 4}, block=128, **about)


def add_im2col(recording):
    recording.buffer("u16", halves(range(16384)))
    volume = {3: [16, 9, 4], 4: [16, 7, 6, 3], 5: [16, 6, 5, 4, 2]}
    for rank, dims in volume.items():
        n = rank - 2
        boxes = [
            # lower corner, upper corner, pixels, start (channel, position, image), offsets
            ([0] * n, [0] * n, 24, (0, *[0] * n, 0), [0] * n),
            ([-1] * n, [-1] * n, 24, (0, *[-1] * n, 0), [0] * n),
            ([-1] * n, [-1] * n, 24, (0, *[-1] * n, 0), [2, 1, 2][:n]),
            ([-1, -2, -1][:n], [1, 0, -1][:n], 32, (0, *[2, 1, 0][:n], 1), [0, 2, 1][:n]),
            ([0] * n, [-2] * n, 40, (0, *[1] * n, 1), [1] * n),
            ([-1] * n, [-1] * n, 24, (0, *[0] * n, dims[-1] - 1), [1] * n),
            ([-2] * n, [1] * n, 8, (0, *[-2] * n, -1), [0] * n),
            ([1] * n, [-1] * n, 20, (0, *[1] * n, 0), [0] * n),
        ]
        for lower, upper, pixels, at, offsets in boxes:
            m = tensor("u16", dims, **im2col(lower, upper, 16, pixels))
            add(recording, rank, "load", "im2col", m, at, offsets, bytes_=32 * pixels)
        # Channels from the middle and past the end; steps; swizzles; other types and fills; a start outside the box.
        more = [
            (8, 16, (8, *[0] * n, 0), {}, 0),
            (16, 16, (8, *[0] * n, 0), {}, 128),
            (8, 16, (-8, *[0] * n, 0), {}, 0),
            (16, 16, (0, *[-1] * n, 0), {"steps": [1] + [2] * n + [1]}, 0),
            (16, 12, (0, *[-1] * n, 0), {"steps": [1, 3] + [1] * n}, 0),
            (16, 16, (0, *[-1] * n, 0), {"swizzle": 1}, 256),
            (16, 16, (0, *[-1] * n, 0), {"swizzle": 3}, 1024),
            (16, 16, (0, *[-1] * n, 0), {"element": F16, "nan_fill": True}, 0),
            (16, 16, (0, *[-3] * n, 0), {}, 0),
            (16, 16, (0, *[20] * n, 0), {}, 0),
            (16, 16, (0, *[20] + [0] * (n - 1), 0), {}, 0),
            (8, 16, (4, *[0] * n, 0), {}, 0),
            (8, 16, (0, *[-1] * n, 0), {"swizzle": 2}, 512),
            (16, 16, (0, *[-1] * n, 0), {"element": F16, "nan_fill": True, "steps": [1] + [2] * n + [2]}, 0),
        ]
        for channels, pixels, at, options, to in more:
            m = tensor("u16", dims, **options, **im2col([-1] * n, [-1] * n, channels, pixels))
            add(recording, rank, "load", "im2col", m, at, [1] * n, to, 2 * channels * pixels)
        size = 2
        for extent in dims:
            size *= extent
        stores = [(0, 0, 0), (0, 0, 1), (0, -1, 0), (1, 0, 1), (1, -1, 1), (0, 1, 0), (-1, 0, 0), (-1, -1, -1), (-1, 1, 0)]
        for lower, upper, at, kind in [(*s, "store") for s in stores] + [(0, -1, 1, "reduce")]:
            wide = kind == "reduce"
            m = tensor("out", dims, **(WORD if wide else {}), **im2col([lower] * n, [upper] * n, 16, 20))
            add(recording, rank, kind, "im2col_no_offs", m, (0, *[at] * n, 0), outs={"out": size << wide})


def add_tiles(recording):
    recording.buffer("u32", words(range(4096)))
    recording.buffer("f32", words(range(0x3F800000, 0x3F800000 + 1024)))
    recording.buffer("u8", bytes(i * 7 & 0xFF for i in range(8192)))
    cases = [
        # tensor, element size, box, coordinates
        (dict(dims=[300], of="u16"), 2, [64], [-8]),
        (dict(dims=[300], of="u16"), 2, [64], [260]),
        (dict(dims=[16, 9, 7], of="u16"), 2, [8, 3, 4], [8, -1, 5]),
        (dict(dims=[16, 5, 4, 3], of="u16"), 2, [16, 2, 3, 2], [0, 4, -1, 2]),
        (dict(dims=[16, 4, 3, 3, 2], of="u16"), 2, [8, 2, 2, 2, 2], [4, 1, 2, -1, 1]),
        (dict(dims=[32, 32], of="u32", element=U32, size=4), 4, [8, 8], [28, 30]),
        (dict(dims=[32, 32], of="f32", element=F32, size=4, nan_fill=True), 4, [8, 8], [28, -2]),
        (dict(dims=[64, 32], of="u16", element=BF16, nan_fill=True), 2, [16, 8], [-4, 30]),
        (dict(dims=[64, 32], of="u16", element=F16, nan_fill=True, swizzle=2), 2, [32, 8], [40, 28]),
        (dict(dims=[64, 64], of="u8", element=U8, size=1), 1, [32, 8], [40, 60]),
        (dict(dims=[64, 32], of="u16", steps=[1, 2]), 2, [16, 8], [4, 3]),
        (dict(dims=[64, 32], of="u16", steps=[1, 3]), 2, [16, 8], [4, 3]),
        (dict(dims=[64, 32], of="u16", steps=[1, 3]), 2, [16, 9], [4, 26]),
        (dict(dims=[64, 32], of="u16", steps=[2, 1]), 2, [16, 4], [4, 3]),
        (dict(dims=[16, 9, 7], of="u16", steps=[1, 2, 3]), 2, [16, 5, 6], [0, -1, 2]),
        (dict(dims=[16, 9, 7], of="u16", steps=[1, 2, 4]), 2, [16, 5, 7], [0, 1, -4]),
        (dict(dims=[64, 32], of="u16", steps=[1, 2]), 2, [16, 8], [8, 3]),
        (dict(dims=[64, 32], of="u16", steps=[1, 3]), 2, [16, 9], [8, 26]),
        (dict(dims=[64, 32], of="u16", steps=[2, 1]), 2, [16, 4], [8, 3]),
        (dict(dims=[300], of="u16"), 2, [64], [264]),
        (dict(dims=[16, 4, 3, 3, 2], of="u16"), 2, [8, 2, 2, 2, 2], [8, 1, 2, -1, 1]),
        (dict(dims=[64, 32], of="u16", element=BF16, nan_fill=True), 2, [16, 8], [-8, 30]),
        (dict(dims=[64, 64], of="u8", element=U8, size=1), 1, [32, 8], [48, 60]),
        # Rows narrower than the swizzle pattern.
        (dict(dims=[64, 32], of="u16", swizzle=3), 2, [16, 8], [8, 3]),
        (dict(dims=[64, 32], of="u16", swizzle=3), 2, [24, 8], [8, 3]),
        (dict(dims=[64, 32], of="u16", swizzle=2), 2, [8, 8], [56, 28]),
        (dict(dims=[64, 32], of="u16", swizzle=1), 2, [8, 8], [8, -3]),
        # The first coordinate at every alignment.
        *[(dict(dims=[300], of="u16"), 2, [64], [c]) for c in (1, 2, 16, -4)],
        *[(dict(dims=[32, 32], of="u32", element=U32, size=4), 4, [8, 8], [c, 0]) for c in (1, 2, 4)],
    ]
    for shape, size, box, at in cases:
        steps = shape.get("steps", [1] * len(box))
        bytes_ = size
        for extent, step in zip(box, [1] + steps[1:]):
            bytes_ *= -(-extent // step)
        rank = len(box)
        add(recording, rank, "load", "tile", tensor(**shape, tile=box), at, bytes_=bytes_)
    stores = [
        (dict(), [16, 8], [8, 3]), (dict(), [16, 8], [56, 28]), (dict(), [16, 8], [-8, -3]), (dict(), [16, 8], [4, 3]),
        (dict(steps=[1, 2]), [16, 8], [8, 3]), (dict(swizzle=3), [16, 8], [8, 3]), (dict(swizzle=1), [16, 8], [48, 30]),
    ]  # fmt: skip
    for shape, box, at in stores:
        add(recording, 2, "store", "tile", tensor("out", [64, 32], **shape, tile=box), at, outs={"out": 4096})
    # Sums of words, and one of halves.
    add(recording, 2, "reduce", "tile", tensor("out", [64, 32], **WORD, tile=[16, 8]), [52, 30], outs={"out": 8192})
    add(recording, 2, "reduce", "tile", tensor("out", [64, 32], **WORD, tile=[16, 8], swizzle=3), [8, -2], outs={"out": 8192})
    add(recording, 2, "reduce", "tile", tensor("out", [64, 32], tile=[16, 8]), [8, 3], outs={"out": 4096})


def multicast(ctas, kind):
    """Each CTA of the cluster prepares its mbarrier; one of them copies to the CTAs of `mask`, which wait."""
    copy = {
        "tensor": "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%m], [%map, {%c0, %c1}], [%b], %h0;",
        "bulk": "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%m], [%g], %by, [%b], %h0;",
        "im2col": "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%m], [%map, {%c0, %c1, %c1}], [%b], {%h1}, %h0;",
    }[kind]
    source = "ld.param.u64 %g, [source];" if kind == "bulk" else "mov.b64 %map, tm; cvta.param.u64 %map, %map;"
    return f"""{{
 .reg .b32 %t, %s, %m, %b, %i, %x, %rank, %mask, %issuer, %by, %c<2>; .reg .b16 %h<2>; .reg .b64 %map, %o, %g, %w; .reg .pred %p, %q, %in;
 .shared .align 1024 .b8 sm[512]; .shared .align 8 .b8 bar[8];
 mov.u32 %s, %tid.x; mov.u32 %m, sm; mov.u32 %b, bar; mov.u32 %rank, %cluster_ctarank; ld.param.u32 %issuer, [issuer]; ld.param.u32 %mask, [mask]; cvt.u16.u32 %h0, %mask;
 {source} mov.u32 %by, 512; mov.u32 %c0, 8; mov.u32 %c1, 1; mov.u16 %h1, 1; ld.param.u64 %o, [out]; shl.b32 %t, %s, 2; add.u32 %t, %t, %m;
 st.shared.b32 [%t], 0xDEADBEEF; st.shared.b32 [%t+128], 0xDEADBEEF; st.shared.b32 [%t+256], 0xDEADBEEF; st.shared.b32 [%t+384], 0xDEADBEEF; fence.proxy.async; bar.sync 0;
 setp.ne.u32 %p, %s, 0; shr.u32 %x, %mask, %rank; and.b32 %x, %x, 1; setp.ne.u32 %in, %x, 0; @%p bra READY;
 mbarrier.init.shared::cta.b64 [%b], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 512;
READY: barrier.cluster.arrive; barrier.cluster.wait;
 setp.ne.u32 %q, %rank, %issuer; @%q bra ISSUED; @%p bra ISSUED;
 {copy}
ISSUED: @!%in bra SEEN;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], 0; @!%q bra WAIT;
SEEN: barrier.cluster.arrive; barrier.cluster.wait;
 mbarrier.test_wait.parity.shared::cta.b64 %q, [%b], 0; selp.u32 %x, 1, 0, %q;
 mov.u32 %i, %ctaid.x; mad.lo.u32 %i, %i, 160, %s; mul.wide.u32 %w, %i, 4; add.s64 %o, %o, %w; st.global.b32 [%o+512], %x;
 ld.shared.b32 %x, [%t]; st.global.b32 [%o], %x; ld.shared.b32 %x, [%t+128]; st.global.b32 [%o+128], %x;
 ld.shared.b32 %x, [%t+256]; st.global.b32 [%o+256], %x; ld.shared.b32 %x, [%t+384]; st.global.b32 [%o+384], %x;
 barrier.cluster.arrive; barrier.cluster.wait;
 @%in bra END; @%p bra END;
 // A phase without its bytes stays open: complete it before the CTA's memory goes.
 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 512;
END: ret;
}}"""


def add_multicast(recording):
    masks = {2: [(0, 1), (0, 2), (0, 3), (1, 1), (1, 3)], 4: [(0, 15), (0, 5), (3, 10), (2, 8), (1, 6), (3, 1)]}
    maps = {
        "tensor": tensor("u16", [64, 64], tile=[64, 4]),
        "im2col": tensor("u16", [16, 9, 7], **im2col([0], [-1], 16, 16)),
        "bulk": pointer("u16"),
    }
    for kind, source in maps.items():
        first = ".u64 source" if kind == "bulk" else ".align 64 .b8 tm[128]"
        for ctas, cases in masks.items():
            name = f"multicast {kind} {ctas}"
            text = multicast(ctas, kind)
            recording.kernel(name, f"{first}, .u64 out, .u32 issuer, .u32 mask", text)
            # The clause stands between the parameters and the body.
            recording.kernels[name] = recording.kernels[name].replace(")\n{", f") .reqnctapercluster {ctas}, 1, 1\n{{", 1)
            for issuer, mask in cases:
                # Two clusters: a rank is not a CTA's number.
                args = [source, pointer("out"), u32(issuer), u32(mask)]
                recording.row(name, args, {"out": 640 * ctas * 2}, grid=2 * ctas, case=[ctas, issuer, mask])


def build():
    recording = Recording("tensors")
    add_im2col(recording)
    add_tiles(recording)
    add_multicast(recording)
    return recording
