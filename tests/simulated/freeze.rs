//! Maxima that stay as the first step leaves them: right whatever the numbers, as tiles for which that is too low are computed again.

use crate::products::{count, ptx, simulators};
use tilewright::{DType, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// Attention; of each row also the logarithm of the sum of its weights.
    #[tile_kernel]
    pub fn attention<T: Float>(
        q: &Tensor<T, M, D>,
        k: &Tensor<T, N, D>,
        v: &Tensor<T, N, D>,
        o: &mut Tensor<f32, M, D>,
        weight: &mut Tensor<f32, M>,
    ) {
        let i = program_tile(M);
        let (d, e) = whole(D, D);
        let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
        let mut l = zeros::<f32>([i]);
        let mut acc = zeros::<f32>([i, e]);
        for j in tiles(N) {
            let s = dot(load(q, [i, d]), load(k, [j, d]), zeros::<f32>([i, j]));
            let top = max(m, max(s, j));
            let p = exp(s - top);
            let alpha = exp(m - top);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [j, e]), acc * alpha);
            m = top;
        }
        store(o, [i, e], acc / l);
        store(weight, [i], m + log(l));
    }

    /// Of each row, the logarithm of the sum of powers, and the mean of squares by these weights.
    #[tile_kernel]
    pub fn moments(x: &Tensor<f32, M, N>, total: &mut Tensor<f32, M>, square: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
        let mut l = zeros::<f32>([i]);
        let mut t = zeros::<f32>([i]);
        for j in tiles(N) {
            let a = load(x, [i, j]);
            let top = max(m, max(a, j));
            let p = exp(a - top);
            let alpha = exp(m - top);
            l = l * alpha + sum(p, j);
            t = t * alpha + sum(p * a * a, j);
            m = top;
        }
        store(total, [i], m + log(l));
        store(square, [i], t / l);
    }

    /// The same with powers of 2, and a logarithm to base 2.
    #[tile_kernel]
    pub fn binary_moments(x: &Tensor<f32, M, N>, total: &mut Tensor<f32, M>, square: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
        let mut l = zeros::<f32>([i]);
        let mut t = zeros::<f32>([i]);
        for j in tiles(N) {
            let a = load(x, [i, j]);
            let top = max(m, max(a, j));
            let p = exp2(a - top);
            let alpha = exp2(m - top);
            l = l * alpha + sum(p, j);
            t = t * alpha + sum(p * a * a, j);
            m = top;
        }
        store(total, [i], m + 1.442695 * log(l));
        store(square, [i], t / l);
    }

    /// Of each row, the mean of values by weights of 8 bits, which have no infinity.
    #[tile_kernel]
    pub fn eights(x: &Tensor<f32, M, N>, v: &Tensor<f32, N>, mean: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
        let mut l = zeros::<f32>([i]);
        let mut t = zeros::<f32>([i]);
        for j in tiles(N) {
            let a = load(x, [i, j]);
            let top = max(m, max(a, j));
            let p = exp2(a - top);
            let alpha = exp2(m - top);
            l = l * alpha + sum(p, j);
            t = t * alpha + sum(p.cast::<f8>().cast::<f32>() * load(v, [j]), j);
            m = top;
        }
        store(mean, [i], t / l);
    }

    /// Attention of each row to the keys before it.
    #[tile_kernel]
    pub fn causal<T: Float>(
        q: &Tensor<T, M, D>,
        k: &Tensor<T, M, D>,
        v: &Tensor<T, M, D>,
        o: &mut Tensor<f32, M, D>,
    ) {
        let i = program_tile(M);
        let (d, e) = whole(D, D);
        let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
        let mut l = zeros::<f32>([i]);
        let mut acc = zeros::<f32>([i, e]);
        for j in tiles(M).below(i + 1) {
            let s = dot(load(q, [i, d]), load(k, [j, d]), zeros::<f32>([i, j]));
            let top = max(m, max(s, j));
            let p = exp(s - top);
            let alpha = exp(m - top);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [j, e]), acc * alpha);
            m = top;
        }
        store(o, [i, e], acc / l);
    }

    schedule! {
        pub exact on sm_90a for attention<f16 | bf16> {
            fits(D <= 64);
            tile(i = 128, j = 32);
            split(i -> iw, im: 64);
            tensor_core(s: wgmma(64, 32));
            tensor_core(acc: wgmma(64, 64));
            stage(q at i: shared, tma);
            stage(k, v at j: shared, tma);
            swizzle(q: 128, k: 128, v: 128);
            pipeline(j, 2);
            produce(j: warpgroup);
            unroll(d.atom in s);
            bind(iw -> warpgroup.x);
            registers(24, 240);
        }
        pub frozen = exact { freeze(m); }
        pub ahead = exact { skew(s); freeze(m); }
        pub ahead_in_turn = ahead { persistent(1); pipeline(j, 3); }
        pub counted = ahead_in_turn { persistent(1, counter); }
        pub counted_sent = counted { stage(o: shared, tma); }
        pub sent = ahead_in_turn { stage(o: shared, tma); persistent(1, serpentine); }
        pub causal_exact on sm_90a for causal<f16 | bf16> = exact {}
        pub causal_frozen on sm_90a for causal<f16 | bf16> = ahead {}
    }
    schedule! {
        pub plain for moments { tile(i = 4, j = 8); bind(i -> thread.y); }
        pub plain_frozen = plain { freeze(m); }
        pub staged = plain { stage(x at j: shared, cp_async, vector(16)); pipeline(j, 2); freeze(m); }
        pub binary for binary_moments = plain {}
        pub binary_frozen for binary_moments = staged {}
        pub eights_exact on sm_89 for eights { tile(i = 4, j = 8); bind(i -> thread.y); }
        pub eights_frozen = eights_exact { freeze(m); }
        pub eights_lanes on sm_89 for eights {
            tile(i = 8, j = 8);
            split(i -> iw, il: 8);
            split(j -> jo, jl: 4);
            bind(iw -> warp.x);
            bind(il -> lane.y, jl -> lane.x);
            reduce(top.max: lane);
            reduce(l.sum: lane);
            reduce(t.sum: lane);
            freeze(m);
        }
    }
}
use kernels as k;

/// How large products with a key are, by its number.
type Sizes = fn(usize) -> f32;

/// Rows of keys that make what a maximum has to cope with: how large products are, by key.
const LARGE: [(&str, Sizes); 6] = [
    ("alike", |_| 1.0),
    ("falling", |n| 60.0 - n as f32),
    ("rising", |n| n as f32),
    ("one far above at the end", |n| if n == 90 { 20000.0 } else { 1.0 }),
    ("infinite", |n| if n == 70 { f32::INFINITY } else { 1.0 }),
    ("no number", |n| if n == 40 { f32::NAN } else { 1.0 }),
];

fn pseudo(n: usize, seed: usize) -> f32 {
    ((n * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0
}

fn attend(
    device: &Device,
    schedule: &dyn AnySchedule,
    (m, n, d): (usize, usize, usize),
    large: Sizes,
) -> Vec<f32> {
    let of = |rows: usize, f: &dyn Fn(usize, usize) -> f32| -> Vec<bf16> {
        (0..rows * d).map(|at| bf16::from_f32(f(at / d, at % d))).collect()
    };
    // The first element of a key is as large as it is to be.
    let q = of(m, &|row, at| if at == 0 { 1.0 } else { pseudo(row * d + at, 1) });
    let k = of(n, &|row, at| if at == 0 { large(row) } else { pseudo(row * d + at, 2) });
    let v = of(n, &|row, at| pseudo(row * d + at, 3));
    let [q, k, v] =
        [(q, m), (k, n), (v, n)].map(|(x, rows)| Buffer::from_slice(device, &x, &[rows, d]).unwrap());
    let mut o = Buffer::<f32>::poisoned(device, &[m, d]).unwrap();
    let mut weight = Buffer::<f32>::poisoned(device, &[m]).unwrap();
    let report = k::attention(&q, &k, &v, &mut o, &mut weight).schedule_dyn(schedule).run().unwrap();
    assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
    o.to_vec().unwrap().into_iter().chain(weight.to_vec().unwrap()).collect()
}

fn alike(a: f32, b: f32) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 0.02 * (1.0 + a.abs())
}

/// Tiles for which the first step's maximum is too low are computed again, infinities and what is no number among them.
#[test]
fn every_row_is_as_without() {
    for size in [(130, 96, 64), (64, 32, 40), (70, 33, 64), (128, 20, 64), (5, 0, 8)] {
        for (name, large) in LARGE {
            let device = Device::sim();
            let expected = attend(&device, &k::exact, size, large);
            for schedule in [&k::frozen as &dyn AnySchedule, &k::ahead, &k::ahead_in_turn, &k::counted] {
                let found = attend(&device, schedule, size, large);
                for (at, (a, b)) in expected.iter().zip(&found).enumerate() {
                    assert!(
                        alike(*a, *b),
                        "{} of keys {name}, {size:?}: {b} at {at}, not {a}",
                        schedule.name()
                    );
                }
            }
        }
    }
}

/// Rows whose first tile has points, and tiles that no row at hand sees.
#[test]
fn limits_leave_tiles_out() {
    for m in [1, 64, 150, 300] {
        for (name, large) in [LARGE[0], LARGE[2], LARGE[3]] {
            let device = Device::sim();
            let d = 64;
            let of = |seed: usize, f: &dyn Fn(usize) -> f32| -> Buffer<bf16> {
                let x = |at: usize| if at.is_multiple_of(d) { f(at / d) } else { pseudo(at, seed) };
                let x: Vec<bf16> = (0..m * d).map(|at| bf16::from_f32(x(at))).collect();
                Buffer::from_slice(&device, &x, &[m, d]).unwrap()
            };
            let (q, k, v) = (of(1, &|_| 1.0), of(2, &large), of(3, &|_| 0.5));
            let run = |schedule: &dyn AnySchedule| {
                let mut o = Buffer::<f32>::poisoned(&device, &[m, d]).unwrap();
                let report = k::causal(&q, &k, &v, &mut o).schedule_dyn(schedule).run().unwrap();
                assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
                o.to_vec().unwrap()
            };
            for (a, b) in run(&k::causal_exact).iter().zip(run(&k::causal_frozen)) {
                assert!(alike(*a, b), "{m} rows, keys {name}: {b}, not {a}");
            }
        }
    }
}

/// The threads that compute have nothing to wait for in a tile without keys, and the producer hears of each.
#[test]
fn a_cta_takes_tiles_without_keys_in_turn() {
    let device = Device::sim();
    let (m, d) = (128 * 300, 8);
    let q = vec![bf16::from_f32(1.0); m * d];
    let q = Buffer::from_slice(&device, &q, &[m, d]).unwrap();
    let none = Buffer::<bf16>::from_slice(&device, &[], &[0, d]).unwrap();
    let mut o = Buffer::<f32>::poisoned(&device, &[m, d]).unwrap();
    let mut weight = Buffer::<f32>::poisoned(&device, &[m]).unwrap();
    for schedule in [&k::ahead_in_turn as &dyn AnySchedule, &k::counted] {
        let launch = k::attention(&q, &none, &none, &mut o, &mut weight);
        let report = launch.schedule_dyn(schedule).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(weight.to_vec().unwrap().iter().all(|total| *total == f32::NEG_INFINITY));
    }
}

/// A CTA has more tiles than words that mark them, and stores those that it computes again once more, by threads and by tensor maps.
#[test]
fn a_cta_computes_some_of_its_tiles_again() {
    let device = Device::sim();
    let (rows, n, d) = (128, 96, 8);
    // Of the simulator, whose multiprocessors have a CTA each.
    let ctas = 4;
    let tiles = 62 * ctas + 3;
    let m = rows * tiles;
    let of = |rows: usize, f: &dyn Fn(usize, usize) -> f32| -> Buffer<bf16> {
        let x: Vec<bf16> = (0..rows * d).map(|at| bf16::from_f32(f(at / d, at % d))).collect();
        Buffer::from_slice(&device, &x, &[rows, d]).unwrap()
    };
    // The last key is far above the first ones for the rows of some tiles, and as good as alone then.
    let again = |tile: usize| tile.is_multiple_of(7) || tile + 1 == tiles;
    let one = |yes: bool| f32::from(u8::from(yes));
    let q = of(m, &|row, at| if at == 0 { one(again(row / rows)) } else { 0.0 });
    let k = of(n, &|row, at| if at == 0 { 500.0 * one(row + 1 == n) } else { 0.0 });
    let v = of(n, &|row, at| if row + 1 == n { at as f32 } else { 1.0 });
    for schedule in [&k::ahead_in_turn as &dyn AnySchedule, &k::sent, &k::counted, &k::counted_sent] {
        let mut o = Buffer::<f32>::poisoned(&device, &[m, d]).unwrap();
        let mut weight = Buffer::<f32>::poisoned(&device, &[m]).unwrap();
        let launch = k::attention(&q, &k, &v, &mut o, &mut weight);
        let report = launch.schedule_dyn(schedule).run().unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
        let (o, weight) = (o.to_vec().unwrap(), weight.to_vec().unwrap());
        for row in 0..m {
            let (first, total) = match again(row / rows) {
                true => (0.0, 500.0),
                false => ((n as f32 - 1.0) / n as f32, (n as f32).ln()),
            };
            assert!(alike(first, o[row * d]), "{}: {} in row {row}", schedule.name(), o[row * d]);
            assert!(alike(total, weight[row]), "{}: {} of row {row}", schedule.name(), weight[row]);
        }
    }
}

/// The same bits in whichever order warps run, whether a tile is computed again or not.
#[test]
fn every_run_has_the_same_bits() {
    for (name, large) in [LARGE[0], LARGE[3]] {
        let mut first: Option<Vec<u32>> = None;
        for (seed, device) in simulators(0..3) {
            let bits: Vec<u32> =
                attend(&device, &k::ahead, (130, 96, 64), large).iter().map(|x| x.to_bits()).collect();
            let first = first.get_or_insert_with(|| bits.clone());
            assert!(*first == bits, "seed {seed}, keys {name}");
        }
    }
}

/// Where a producer has no part in it, and where powers are summed beside their products.
#[test]
fn moments_are_as_without() {
    for (m, n) in [(1, 1), (6, 40), (9, 100), (3, 0)] {
        for (name, large) in LARGE {
            let device = Device::sim();
            let x: Vec<f32> = (0..m * n).map(|at| large(at % n.max(1)) + pseudo(at, 4)).collect();
            let x = Buffer::from_slice(&device, &x, &[m, n]).unwrap();
            let run = |schedule: &dyn AnySchedule, binary: bool| {
                let [mut total, mut square] = [0; 2].map(|_| Buffer::<f32>::poisoned(&device, &[m]).unwrap());
                let report = match binary {
                    false => k::moments(&x, &mut total, &mut square).schedule_dyn(schedule).run(),
                    true => k::binary_moments(&x, &mut total, &mut square).schedule_dyn(schedule).run(),
                };
                let report = report.unwrap();
                assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
                [total.to_vec().unwrap(), square.to_vec().unwrap()].concat()
            };
            let pairs = [
                (&k::plain as &dyn AnySchedule, &k::plain_frozen as &dyn AnySchedule, false),
                (&k::plain, &k::staged, false),
                (&k::binary, &k::binary_frozen, true),
            ];
            for (exact, frozen, binary) in pairs {
                for (a, b) in run(exact, binary).iter().zip(run(frozen, binary)) {
                    assert!(alike(*a, b), "{} of {name}, {m}×{n}: {b}, not {a}", frozen.name());
                }
            }
        }
    }
}

/// Weights become numbers of 8 bits, where what is too large is the largest one: such tiles are computed again. What stays as it is has
/// weights of more bits.
#[test]
fn weights_of_8_bits_are_not_cut_off() {
    let device = Device::sim();
    let n = 40;
    // How far the last point of a row lies above the others, in powers of 2; whether that is a number of 8 bits.
    let rows: [(f32, bool); 8] = [
        (-3.0, true),
        (2.0, true),
        (8.0, true),
        (8.7, true),
        (9.0, false),
        (12.5, false),
        (40.0, false),
        (200.0, false),
    ];
    let x: Vec<f32> =
        rows.iter().flat_map(|(far, _)| (0..n).map(|at| if at + 1 == n { *far } else { 0.0 })).collect();
    let v: Vec<f32> = (0..n).map(|at| pseudo(at, 5)).collect();
    // Each row is a tile of its own, four times.
    let x: Vec<f32> = x.chunks(n).flat_map(|row| row.repeat(4)).collect();
    let m = 4 * rows.len();
    let x = Buffer::from_slice(&device, &x, &[m, n]).unwrap();
    let v_in = Buffer::from_slice(&device, &v, &[n]).unwrap();
    let run = |schedule: &dyn AnySchedule| {
        let mut mean = Buffer::<f32>::poisoned(&device, &[m]).unwrap();
        let report = k::eights(&x, &v_in, &mut mean).schedule_dyn(schedule).run().unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
        mean.to_vec().unwrap()
    };
    let exact = run(&k::eights_exact);
    for schedule in [&k::eights_frozen as &dyn AnySchedule, &k::eights_lanes] {
        for (row, (exact, mean)) in exact.iter().zip(run(schedule)).enumerate() {
            let (far, stays) = rows[row / 4];
            let (exact, mean) = (f64::from(*exact), f64::from(mean));
            // The mean, and what rounding to four bits may do to the weight that is not one.
            let weight = f64::from(far).exp2();
            let sum = (n - 1) as f64 + weight;
            let rest: f64 = v[..n - 1].iter().map(|v| f64::from(*v)).sum();
            let last = f64::from(v[n - 1]);
            let want = (rest + weight * last) / sum;
            let least = 2f64.powi(-10) * (1.0 + weight.max(1.0));
            let off = (weight * last.abs() / 16.0 + n as f64 * least) / sum + 1e-5;
            let name = schedule.name();
            assert!((mean - want).abs() <= off, "{name}: {mean} of 2^{far}, not {want} ± {off}");
            if !stays {
                assert!((mean - exact).abs() <= 1e-6, "{name}: {mean} of 2^{far}, not {exact} as without");
            }
        }
    }
}

/// Steps behind the first have neither maxima nor factors from one to the next.
#[test]
fn the_other_steps_take_no_maximum() {
    let [exact, frozen] = [&k::exact as &dyn AnySchedule, &k::frozen].map(|s| ptx(s, DType::BF16));
    let shuffles = |text: &str| count(text, "shfl.sync.bfly");
    // The loop stands there three times: as it is in the first step and where a tile is computed again.
    assert_eq!(shuffles(&frozen), 2 * shuffles(&exact) + shuffles(&exact) / 2);
    // Warps mark a tile for themselves.
    assert_eq!(count(&frozen, "bar.red"), 0);
}
