//! `fits`: the bound says how much is held; loops at run time end with the extent, and values are right at every extent.

use crate::product;

use product::matmul;
use tilewright::{AnySchedule, Variant, prelude::*};

#[tile_kernel]
fn rowmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], max(load(x, [r, n]), n));
}

/// Sums of tiles that are carried: a step without points would change them.
#[tile_kernel]
fn carried(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut s = full::<f32>(0.0, [r]);
    for n in tiles(N) {
        s = sum(load(x, [r, n]), n) - s;
    }
    store(y, [r], s);
}

schedule! {
    rows_free for rowmax { tile(r = 32); bind(r -> thread.x); }
    rows_1k = rows_free { fits(N <= 1024); }
    rows_1m = rows_free { fits(N <= 1000000); }
    rows_most = rows_free { fits(N <= 2147418111); }
}

schedule! {
    tiles_free for rowmax { tile(r = 4, n = 32); reduce(y.max: cta); bind(n.t -> thread.x); stage(x at n: shared); pipeline(n, 3); }
    tiles_1m = tiles_free { fits(N <= 1000000); }
}

schedule! {
    /// A thread's steps lie beside each other: those of most threads are beyond the row.
    inner_1k for rowmax { fits(N <= 1024); tile(r = 4); split(n -> nt, nr: 32); reduce(y.max: cta); bind(nt -> thread.x); }
    /// Steps of the outer loop are beyond the bound.
    inside_out for rowmax { fits(N <= 100); tile(r = 4, n = 128); split(n.o -> no, nw: 2); reduce(y.max: cta); bind(nw -> thread.x); }
}

schedule! {
    steps_free for carried { tile(r = 32, n = 16); bind(r -> thread.x); }
    steps_1m = steps_free { fits(N <= 1000000); }
}

schedule! {
    product_free for matmul<f32> {
        tile(i = 16, j = 16, k = 16);
        stage(a, b at k: shared);
        pipeline(k, 2);
        bind(i -> thread.y, j -> thread.x);
    }
    product_1m = product_free { fits(K <= 1000000); }
    parts_free = product_free { split_k(k, 3); }
    parts_1m = parts_free { fits(K <= 1000000); }
    produced_free on sm_90 for matmul<f32> {
        tile(i = 16, j = 16, k = 16);
        stage(a, b at k: shared, tma);
        pipeline(k, 3);
        produce(k: warp);
        persistent(1);
        bind(i -> thread.y, j -> thread.x);
    }
    produced_1m = produced_free { fits(K <= 1000000); }
    alternating_free = produced_free { alternate(k); }
    alternating_1m = alternating_free { fits(K <= 1000000); }
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 23) as f32 - 11.0).collect()
}

const VARIANTS: [Variant; 2] = [Variant::Aligned, Variant::General];

/// Instructions of launches of a kernel of rows, whose values are checked.
fn rows(schedule: &dyn AnySchedule, extent: usize, variant: Variant, row: &dyn Fn(&[f32]) -> f32) -> u64 {
    let device = Device::sim();
    let x = numbers(9 * extent);
    let data = Buffer::from_slice(&device, &x, &[9, extent]).unwrap();
    let mut y = Buffer::<f32>::poisoned(&device, &[9]).unwrap();
    let report = match schedule.kernel() {
        "rowmax" => rowmax(&data, &mut y).schedule_dyn(schedule).variant(variant).run(),
        _ => carried(&data, &mut y).schedule_dyn(schedule).variant(variant).run(),
    };
    let report = report.unwrap_or_else(|e| panic!("{} at {extent}: {e}", schedule.name()));
    let expected: Vec<f32> = (0..9).map(|r| row(&x[r * extent..][..extent])).collect();
    assert_eq!(y.to_vec().unwrap(), expected, "{} at {extent}, {variant}", schedule.name());
    report.counters.unwrap().instructions.warp
}

/// With a bound it takes as long as without, up to what is set up once.
fn alike(free: u64, bounded: u64, what: &str) {
    assert!(
        bounded <= free + free / 10 + 40,
        "{what}: {bounded} instructions of warps, {free} without a bound"
    );
}

#[test]
fn rows_take_as_long_as_they_are() {
    let greatest = |row: &[f32]| row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for variant in VARIANTS {
        for extent in [0, 1, 8, 31, 32, 33, 100] {
            let free = rows(&rows_free, extent, variant, &greatest);
            for schedule in [&rows_1k as &dyn AnySchedule, &rows_1m, &rows_most] {
                alike(free, rows(schedule, extent, variant, &greatest), schedule.name());
            }
            let free = rows(&tiles_free, extent, variant, &greatest);
            alike(free, rows(&tiles_1m, extent, variant, &greatest), "tiles_1m");
            rows(&inner_1k, extent, variant, &greatest);
            rows(&inside_out, extent, variant, &greatest);
        }
    }
}

#[test]
fn what_is_carried_takes_as_long_as_there_are_tiles() {
    let alternating = |row: &[f32]| row.chunks(16).fold(0.0, |s, tile| tile.iter().sum::<f32>() - s);
    for variant in VARIANTS {
        for extent in [0, 8, 16, 17, 48] {
            let free = rows(&steps_free, extent, variant, &alternating);
            alike(free, rows(&steps_1m, extent, variant, &alternating), "steps_1m");
        }
    }
}

#[test]
fn products_take_as_long_as_their_sums_are() {
    let device = Device::sim();
    let pairs: [[&dyn AnySchedule; 2]; 4] = [
        [&product_free, &product_1m],
        [&parts_free, &parts_1m],
        [&produced_free, &produced_1m],
        [&alternating_free, &alternating_1m],
    ];
    for k in [0, 4, 16, 20, 52] {
        let (a, b) = (numbers(40 * k), numbers(k * 20));
        let at = |i: usize, j: usize| (0..k).map(|p| a[i * k + p] * b[p * 20 + j]).sum::<f32>();
        let expected: Vec<f32> = (0..800).map(|n| at(n / 20, n % 20)).collect();
        let x = Buffer::from_slice(&device, &a, &[40, k]).unwrap();
        let y = Buffer::from_slice(&device, &b, &[k, 20]).unwrap();
        for pair in pairs {
            for variant in VARIANTS {
                let taken = pair.map(|schedule| {
                    let mut c = Buffer::<f32>::poisoned(&device, &[40, 20]).unwrap();
                    let report = matmul(&x, &y, &mut c).schedule_dyn(schedule).variant(variant).run();
                    let report = report.unwrap_or_else(|e| panic!("{} at {k}: {e}", schedule.name()));
                    assert_eq!(c.to_vec().unwrap(), expected, "{} at {k}, {variant}", schedule.name());
                    report.counters.unwrap().instructions.warp
                });
                alike(taken[0], taken[1], pair[1].name());
            }
        }
    }
}

/// A launch keeps to the bound.
#[test]
fn a_longer_row_is_refused() {
    let device = Device::sim();
    let x = Buffer::<f32>::zeros(&device, &[1, 1025]).unwrap();
    let mut y = Buffer::<f32>::poisoned(&device, &[1]).unwrap();
    let error = rowmax(&x, &mut y).schedule(rows_1k).run().expect_err("longer than the bound").to_string();
    assert!(error.contains("1024") && error.contains("1025"), "{error}");
}
