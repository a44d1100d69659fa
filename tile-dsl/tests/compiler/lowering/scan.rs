//! Scans: evaluator, interpreter of the nest and lowered kernels agree, whoever holds the digits of the scanned axis.

use super::{
    agree::{check, programs},
    build::Kernels,
    support,
};

/// Extents.
type Sizes<'a> = &'a [&'a [(&'a str, i64)]];

/// Every schedule at every size, in every element type and variant.
fn agree(kernel: &str, schedules: &[&str], sizes: Sizes<'_>) {
    for schedule in schedules {
        for program in programs(kernel, &support::schedule(schedule)) {
            let kernels = Kernels::of(&program);
            for dims in sizes {
                check(&program, &kernels, dims);
            }
        }
    }
}

const ROWS: &str = "\
kernel rows<T>(x: &[T; R, N], y: &mut [T; R, N]) {
    axis r in program_tile(R);
    axis n in whole(N);
    store(y, [r, n], cumsum(load(x, [r, n]), n));
}";

const SIZES: Sizes<'static> = &[
    &[("R", 3), ("N", 64)],
    &[("R", 5), ("N", 61)],
    &[("R", 1), ("N", 1)],
    &[("R", 2), ("N", 33)],
    &[("R", 2), ("N", 17)],
    &[("R", 3), ("N", 0)],
    &[("R", 0), ("N", 5)],
];

#[test]
fn digits_in_any_place() {
    agree(
        ROWS,
        &[
            // In the registers of a thread, in one digit and in several, whatever loop is outermost.
            "fits(N <= 64); tile(r = 4); bind(r -> thread.x)",
            "fits(N <= 64); tile(r = 4); bind(r -> thread.x); split(n -> na, nb, nc: 4, 4); reorder(nc, na, nb)",
            // Lanes, alone and with registers below and above them.
            "fits(N <= 64); tile(r = 2); bind(r -> warp.x); split(n -> na, nl: 32); bind(nl -> lane.x); reduce(y.cumsum: lane)",
            // The lanes of a digit need not be neighbours.
            "fits(N <= 64); tile(r = 8); split(r -> ra, rl: 4); split(n -> na, nl, nv: 8, 2); bind(ra -> warp.x, rl -> lane.x, nl -> lane.y); reduce(y.cumsum: lane)",
            "fits(N <= 64); tile(r = 2); split(n -> na, nb, nc: 8, 4); bind(r -> warp.x, nb -> lane.y, nc -> lane.x); reduce(y.cumsum: lane)",
            // Digits of larger strides on lanes of smaller numbers.
            "fits(N <= 64); tile(r = 2); split(n -> na, nb, nc: 8, 4); bind(r -> warp.x, nb -> lane.x, nc -> lane.y); reduce(y.cumsum: lane)",
            // Warps.
            "fits(N <= 64); tile(r = 1); split(n -> nw, nl: 32); bind(nw -> warp.x, nl -> lane.x); reduce(y.cumsum: cta)",
            "fits(N <= 64); tile(r = 32); split(n -> na, nw: 4); bind(r -> lane.x, nw -> warp.x); reduce(y.cumsum: warp)",
            "fits(N <= 64); tile(r = 32); split(n -> na, nb, nc, nd: 2, 8, 2); bind(r -> lane.x, nb -> warp.x, nc -> warp.y); reduce(y.cumsum: warp)",
            // Lanes of larger strides than warps.
            "fits(N <= 64); tile(r = 1); split(n -> nl, nw: 2); bind(nw -> warp.x, nl -> lane.x); reduce(y.cumsum: cta)",
            // Threads, in full warps and not.
            "fits(N <= 64); tile(r = 2); split(n -> nt, nv: 4); bind(nt -> thread.x, r -> thread.y); reduce(y.cumsum: cta)",
            "fits(N <= 64); tile(r = 2); split(n -> na, nt, nv: 12, 2); bind(nt -> thread.x); reduce(y.cumsum: cta)",
            "fits(N <= 64); tile(r = 1); split(n -> na, nt: 64); bind(nt -> thread.x); reduce(y.cumsum: cta)",
            "fits(N <= 64); tile(r = 2); split(n -> na, nt: 32); bind(nt -> thread.x); reduce(y.cumsum: cta)",
            // Read from shared memory by others than those that hold it.
            "fits(N <= 64); tile(r = 1); split(n -> nt, nv: 4); bind(nt -> thread.x); reduce(y.cumsum: cta); stage(y.cumsum: shared)",
            "fits(N <= 64); tile(r = 2); bind(r -> thread.x); stage(y.cumsum: shared)",
            "fits(N <= 64); tile(r = 2); stage(x at r: shared); split(n -> na, nt: 32); bind(nt -> thread.x); reduce(y.cumsum: cta)",
            "fits(N <= 64); tile(r = 1); split(n -> nt, nv: 4); bind(nt -> thread.x); reduce(y.cumsum: cta); vectorize(nv)",
        ],
        SIZES,
    );
}

/// The greatest and the least so far, of several axes, and of what is computed from them.
const EXTREMES: &str = "\
kernel extremes(x: &[f32; R, N, D], y: &mut [f32; R, N, D], z: &mut [f32; R, D]) {
    axis r in program_tile(R);
    axis n in whole(N);
    axis d in whole(D);
    let v = load(x, [r, n, d]);
    let top = cummax(v, n);
    let low = cummin(top - v, d);
    store(y, [r, n, d], top + low);
    store(z, [r, d], sum(low, n));
}";

#[test]
fn two_axes() {
    let sizes: Sizes<'_> = &[
        &[("R", 3), ("N", 16), ("D", 8)],
        &[("R", 1), ("N", 1), ("D", 5)],
        &[("R", 2), ("N", 13), ("D", 7)],
        &[("R", 2), ("N", 0), ("D", 7)],
        &[("R", 2), ("N", 3), ("D", 0)],
    ];
    agree(
        EXTREMES,
        &[
            "fits(N <= 16, D <= 8); tile(r = 2); bind(r -> thread.x)",
            "fits(N <= 16, D <= 8); tile(r = 1); bind(d -> lane.x); split(n -> na, nb: 4); bind(nb -> lane.y); reduce(top, low, z.sum: lane)",
            "fits(N <= 16, D <= 8); tile(r = 1); bind(n -> thread.x, d -> thread.y); reduce(top, low, z.sum: cta)",
            "fits(N <= 16, D <= 8); tile(r = 2); bind(n -> thread.x); reduce(top, z.sum: cta); stage(top: shared)",
        ],
        sizes,
    );
}

/// Rows of any length: each tile is scanned, and the loop carries what is before it.
const LONG: &str = "\
kernel long<T>(x: &[T; R, N], y: &mut [f32; R, N], total: &mut [f32; R]) {
    axis r in program_tile(R);
    axis n in tiles(N);
    let mut carry = full::<f32>(0.0, [r]);
    for n {
        let v = load(x, [r, n]).cast::<f32>();
        let s = cumsum(v, n) + carry;
        store(y, [r, n], s);
        carry = carry + sum(v, n);
    }
    store(total, [r], carry);
}";

#[test]
fn long_rows() {
    agree(
        LONG,
        &[
            "tile(r = 4, n = 8); bind(r -> thread.x)",
            "tile(r = 1, n = 64); split(n -> nt, nv: 2); bind(nt -> lane.x); reduce(s.cumsum, carry.sum: lane)",
            "tile(r = 1, n = 16); split(n -> nt, nv: 2); bind(nt -> thread.x); reduce(s.cumsum, carry.sum: cta)",
            "tile(r = 1, n = 64); bind(n -> thread.x); reduce(s.cumsum, carry.sum: cta); stage(x at n: shared); pipeline(n, 2)",
            "tile(r = 1, n = 128); split(n -> nt, nv: 2); bind(nt -> thread.x); reduce(s.cumsum, carry.sum: cta); stage(s.cumsum: shared)",
        ],
        &[
            &[("R", 3), ("N", 200)],
            &[("R", 1), ("N", 1)],
            &[("R", 2), ("N", 65)],
            &[("R", 5), ("N", 64)],
            &[("R", 2), ("N", 0)],
        ],
    );
}

/// A tile starts anew where the loop carries nothing.
const TILES: &str = "\
kernel each(x: &[f32; R, N], y: &mut [f32; R, N]) {
    axis r in program_tile(R);
    axis n in tiles(N);
    for n {
        store(y, [r, n], cumsum(load(x, [r, n]), n));
    }
}";

#[test]
fn tiles_start_anew() {
    agree(
        TILES,
        &[
            "tile(r = 4, n = 8); bind(r -> thread.x)",
            "tile(r = 4, n = 8); split(n.o -> a, b: 2); bind(r -> thread.x)",
            "tile(r = 1, n = 32); bind(n -> lane.x); reduce(y.cumsum: lane)",
        ],
        SIZES,
    );
}
