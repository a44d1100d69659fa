//! Products of 8-bit numbers whose first factor is computed from another product's sums: lanes have it by twos and multiply it by fours.

use crate::{
    products::{count, simulators},
    support,
};
use support::Case;
use tilewright::{Kernel, Variant, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// Two layers in one kernel, all in eight bits. Tensor cores read such numbers in rows along what is summed.
    #[tile_kernel]
    pub fn layers(
        x: &Tensor<f8, M, K>,
        up: &Tensor<f8, F, K>,
        down: &Tensor<f8, N, F>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let i = program_tile(M);
        let j = whole(N);
        let k = whole(K);
        let mut acc = zeros::<f32>([i, j]);
        for f in tiles(F) {
            let h = dot(load(x, [i, k]), load(up, [f, k]), zeros::<f32>([i, f]));
            let w = max(h, 0.0).cast::<f8>();
            acc = dot(w, load(down, [j, f]), acc);
        }
        store(y, [i, j], acc);
    }

    /// The same without a name for what is between them, and in the other order.
    #[tile_kernel]
    pub fn unnamed(
        x: &Tensor<f8, M, K>,
        up: &Tensor<f8, F, K>,
        down: &Tensor<f8, N, F>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let i = program_tile(M);
        let j = whole(N);
        let k = whole(K);
        let mut acc = zeros::<f32>([i, j]);
        for f in tiles(F) {
            let h = dot(load(up, [f, k]), load(x, [i, k]), zeros::<f32>([i, f]));
            acc = dot(load(down, [j, f]), max(h, 0.0).cast::<f8>(), acc);
        }
        store(y, [i, j], acc);
    }

    /// Two products take it, a sum reads it, and it is stored; a bias belongs to its columns.
    #[tile_kernel]
    pub fn gates(
        x: &Tensor<f8, M, K>,
        up: &Tensor<f8, F, K>,
        bias: &Tensor<f32, F>,
        left: &Tensor<f8, N, F>,
        right: &Tensor<f8, E, F>,
        hidden: &mut Tensor<f8, M, F>,
        sums: &mut Tensor<f32, M>,
        y: &mut Tensor<f32, M, N>,
        z: &mut Tensor<f32, M, E>,
    ) {
        let i = program_tile(M);
        let (j, e) = whole(N, E);
        let k = whole(K);
        let mut a = zeros::<f32>([i, j]);
        let mut b = zeros::<f32>([i, e]);
        let mut l = zeros::<f32>([i]);
        for f in tiles(F) {
            let h = dot(load(x, [i, k]), load(up, [f, k]), zeros::<f32>([i, f]));
            let w = max(h + load(bias, [f]), 0.0).cast::<f8>();
            a = dot(w, load(left, [j, f]), a);
            b = dot(w, load(right, [e, f]), b);
            l = l + sum(w.cast::<f32>(), f);
            store(hidden, [i, f], w);
        }
        store(sums, [i], l);
        store(y, [i, j], a);
        store(z, [i, e], b);
    }

    /// The same in sixteen bits: lanes have by twos what they multiply.
    #[tile_kernel]
    pub fn halves(
        x: &Tensor<f16, M, K>,
        up: &Tensor<f16, F, K>,
        down: &Tensor<f16, F, N>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let i = program_tile(M);
        let j = whole(N);
        let k = whole(K);
        let mut acc = zeros::<f32>([i, j]);
        for f in tiles(F) {
            let h = dot(load(x, [i, k]), load(up, [f, k]), zeros::<f32>([i, f]));
            let w = max(h, 0.0).cast::<f16>();
            acc = dot(w, load(down, [f, j]), acc);
        }
        store(y, [i, j], acc);
    }

    schedule! {
        pub halves_skewed on sm_90a for halves {
            fits(K <= 64, N <= 64);
            tile(i = 64, f = 64);
            tensor_core(h: wgmma(64, 64));
            tensor_core(acc: wgmma(64, 64));
            stage(x at i: shared, tma);
            stage(up, down at f: shared, tma);
            swizzle(x: 128, up: 128, down: 128);
            pipeline(f, 3);
            issue(h: overwrite);
            unroll(k.atom);
            unroll(f.acc);
            produce(f: warp);
            skew(h);
        }
        pub layers_plain on sm_89 for layers { fits(N <= 64); tile(i = 8, f = 8); bind(i -> thread.y, j -> thread.x); }
        pub layers_wgmma on sm_90a for layers {
            fits(K <= 64, N <= 64);
            tile(i = 64, f = 64);
            tensor_core(h: wgmma(64, 64));
            tensor_core(acc: wgmma(64, 64));
            stage(x at i: shared, tma);
            stage(up, down at f: shared, tma);
            swizzle(x: 64, up: 64, down: 64);
            pipeline(f, 2);
        }
        /// Lanes have the operand's digits first, and then those of the sums.
        pub layers_from_behind on sm_90a for layers {
            fits(K <= 64, N <= 64);
            tile(i = 64, f = 64);
            tensor_core(acc: wgmma(64, 64));
            tensor_core(h: wgmma(64, 64));
            stage(x at i: shared, tma);
            stage(up, down at f: shared, tma);
            swizzle(x: 64, up: 64, down: 64);
            pipeline(f, 2);
        }
        /// As many points as one instruction takes.
        pub layers_32 = layers_wgmma { tile(f = 32); tensor_core(h: wgmma(64, 32)); swizzle(down: 32); }
        /// No power of two.
        pub layers_96 = layers_wgmma { tile(f = 96); tensor_core(h: wgmma(64, 96)); swizzle(down: 32); }
        /// Four instructions of three groups of columns each: those of an exchange are of two of them.
        pub layers_24 = layers_96 { tensor_core(h: wgmma(64, 24)); }
        /// An instruction a group.
        pub layers_8 = layers_wgmma { tensor_core(h: wgmma(64, 8)); }
        pub layers_256 = layers_wgmma { tile(f = 256); tensor_core(h: wgmma(64, 256)); swizzle(down: 128); }
        pub layers_two = layers_wgmma {
            tile(i = 128);
            split(i -> iw, im: 64);
            issue(h: overwrite);
            unroll(f.acc);
            bind(iw -> warpgroup.x);
        }
        /// A thread has rows of two instructions.
        pub layers_rows = layers_wgmma { tile(i = 128); }
        pub layers_roles = layers_two { produce(f: warpgroup); registers(24, 240); }
        pub layers_skewed = layers_roles { pipeline(f, 3); unroll(k.atom); skew(h); }
        pub layers_persistent = layers_skewed { persistent(1); }
        pub layers_shared = layers_wgmma { stage(w: shared); }
        pub unnamed_plain on sm_89 for unnamed { fits(N <= 64); tile(i = 8, f = 8); bind(i -> thread.y, j -> thread.x); }
        pub unnamed_wgmma on sm_90a for unnamed {
            fits(K <= 64, N <= 64);
            tile(i = 64, f = 64);
            tensor_core(h: wgmma(64, 64));
            tensor_core(acc: wgmma(64, 64));
            stage(x at i: shared, tma);
            stage(up, down at f: shared, tma);
            swizzle(x: 64, up: 64, down: 64);
            pipeline(f, 2);
        }
        pub unnamed_two = unnamed_wgmma {
            tile(i = 128, f = 96);
            split(i -> iw, im: 64);
            tensor_core(h: wgmma(64, 96));
            swizzle(down: 32);
            issue(h: overwrite);
            unroll(f.acc);
            bind(iw -> warpgroup.x);
        }
        pub gates_plain on sm_89 for gates {
            fits(N <= 64, E <= 64);
            tile(i = 8, f = 8);
            bind(i -> thread.y);
        }
        pub gates_wgmma on sm_90a for gates {
            fits(K <= 64, N <= 64, E <= 32);
            tile(i = 64, f = 64);
            tensor_core(h: wgmma(64, 64));
            tensor_core(a: wgmma(64, 64));
            tensor_core(b: wgmma(64, 32));
            stage(x at i: shared, tma);
            stage(up, left, right at f: shared, tma);
            swizzle(x: 64, up: 64, left: 64, right: 64);
            pipeline(f, 2);
        }
    }
}
use kernels as k;

const LAYERS: &[&dyn AnySchedule] = &[
    &k::layers_plain,
    &k::layers_wgmma,
    &k::layers_from_behind,
    &k::layers_32,
    &k::layers_96,
    &k::layers_24,
    &k::layers_8,
    &k::layers_256,
    &k::layers_two,
    &k::layers_rows,
    &k::layers_roles,
    &k::layers_skewed,
    &k::layers_persistent,
    &k::layers_shared,
];

fn check<K: Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// Tiles of what is summed that divide it and that do not, one, none.
const SIZES: [[i64; 4]; 6] =
    [[1, 1, 1, 1], [64, 64, 64, 64], [70, 50, 30, 130], [140, 64, 40, 192], [129, 9, 64, 257], [3, 5, 7, 0]];

#[test]
fn a_layer_takes_bytes_that_the_one_before_it_leaves_by_twos() {
    for (seed, [m, n, kk, f]) in (1..).zip(SIZES) {
        let dims = [("M", m), ("N", n), ("K", kk), ("F", f)];
        check::<k::layers>(&Case::new(k::layers::KERNEL, None, &dims, seed), LAYERS);
        check::<k::unnamed>(
            &Case::new(k::unnamed::KERNEL, None, &dims, seed),
            &[&k::unnamed_plain, &k::unnamed_wgmma, &k::unnamed_two],
        );
    }
}

/// What is carried to the products is computed while those of the step before have their registers.
#[test]
fn registers_of_products_on_their_way_are_left_alone() {
    for (seed, [m, n, kk, f]) in (1..).zip(SIZES) {
        let dims = [("M", m), ("N", n), ("K", kk), ("F", f)];
        check::<k::halves>(&Case::new(k::halves::KERNEL, None, &dims, seed), &[&k::halves_skewed]);
        check::<k::layers>(&Case::new(k::layers::KERNEL, None, &dims, seed), &[&k::layers_skewed]);
    }
}

#[test]
fn others_read_it_too() {
    for (seed, [m, n, kk, f]) in (1..).zip(SIZES) {
        let dims = [("M", m), ("N", n), ("K", kk), ("F", f), ("E", n.min(32))];
        check::<k::gates>(
            &Case::new(k::gates::KERNEL, None, &dims, seed),
            &[&k::gates_plain, &k::gates_wgmma],
        );
    }
}

/// Bytes of what is between the layers, as they are to be: a row of `up` says which number it is, and a row of `down` picks it.
fn picked(device: &Device, schedule: &dyn AnySchedule, m: usize, numbers: &[f32]) -> Vec<f32> {
    let (kk, n) = (32, 64);
    let f = numbers.len();
    let byte = f8::from_f32;
    // The first factor of a row is one of a few scales; so is each number one of its column and of its row.
    let scale = |i: usize| [1.0, 2.0, 0.5, 4.0][i % 4];
    let x: Vec<f8> = (0..m * kk).map(|at| byte(if at % kk == 0 { scale(at / kk) } else { 0.0 })).collect();
    let up: Vec<f8> =
        (0..f * kk).map(|at| if at % kk == 0 { byte(numbers[at / kk]) } else { byte(0.0) }).collect();
    let mut all = Vec::new();
    for first in (0..f).step_by(n) {
        let down: Vec<f8> =
            (0..n * f).map(|at| byte(if at % f == first + at / f { 1.0 } else { 0.0 })).collect();
        let x = Buffer::from_slice(device, &x, &[m, kk]).unwrap();
        let up = Buffer::from_slice(device, &up, &[f, kk]).unwrap();
        let down = Buffer::from_slice(device, &down, &[n, f]).unwrap();
        let mut y = Buffer::<f32>::poisoned(device, &[m, n]).unwrap();
        k::layers(&x, &up, &down, &mut y).schedule_dyn(schedule).run().unwrap();
        all.push(y.to_vec().unwrap());
    }
    let row = |i: usize| all.iter().flat_map(move |y| y[i * n..][..n].iter().copied()).take(f);
    (0..m).flat_map(row).collect()
}

/// Every number of eight bits, at every place of a tile, the greatest ones of which are too great when they are scaled.
#[test]
fn every_byte_comes_to_its_place() {
    let device = Device::sim();
    let numbers: Vec<f32> =
        (0..192).map(|n| f8::from_bits((n * 83 % 127) as u8).to_f32() * (-1f32).powi(n / 127)).collect();
    let wanted: Vec<f32> = (0..130)
        .flat_map(|i| numbers.iter().map(move |x| f8::from_f32((x * [1.0, 2.0, 0.5, 4.0][i % 4]).max(0.0))))
        .map(|x| x.to_f32())
        .collect();
    for schedule in LAYERS {
        let found = picked(&device, *schedule, 130, &numbers);
        let wrong = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        assert_eq!(wrong.map(|at| (at / 192, at % 192, found[at], wanted[at])), None, "{}", schedule.name());
    }
}

/// What is no number stays in its row, and comes to all of that.
#[test]
fn no_number_stays_none() {
    let device = Device::sim();
    for schedule in LAYERS {
        let (m, n, kk, f) = (66, 8, 32, 96);
        let (mut x, one) = (vec![f8::from_f32(0.0); m * kk], f8::from_f32(1.0));
        x[3 * kk] = f8::NAN;
        x[65 * kk + 31] = f8::NAN;
        let x = Buffer::from_slice(&device, &x, &[m, kk]).unwrap();
        let up = Buffer::from_slice(&device, &vec![one; f * kk], &[f, kk]).unwrap();
        let down = Buffer::from_slice(&device, &vec![one; n * f], &[n, f]).unwrap();
        let mut y = Buffer::<f32>::poisoned(&device, &[m, n]).unwrap();
        k::layers(&x, &up, &down, &mut y).schedule_dyn(*schedule).run().unwrap();
        for (at, y) in y.to_vec().unwrap().into_iter().enumerate() {
            assert_eq!(y.is_nan(), [3, 65].contains(&(at / n)), "{}: {at}, {y}", schedule.name());
        }
    }
}

/// Neither the order of warps nor when products complete decides anything.
#[test]
fn seeds_agree() {
    let dims = [("M", 130), ("N", 60), ("K", 40), ("F", 200)];
    let case = Case::new(k::layers::KERNEL, None, &dims, 4);
    for (_, device) in simulators(0..4) {
        for schedule in [&k::layers_two as &dyn AnySchedule, &k::layers_roles, &k::layers_skewed] {
            case.check_on::<k::layers>(schedule, &device);
        }
    }
}

/// A shuffle a register of the operand, two products or one; nothing of it passes through shared memory.
#[test]
fn lanes_exchange_words() {
    let ptx = |schedule| tilewright::ptx(schedule, None, Variant::Exact).expect("it compiles").text;
    let text = ptx(&k::layers_wgmma as &dyn AnySchedule);
    let exchanged = |text: &str| count(text, "7199, -1;");
    assert_eq!((exchanged(&text), count(&text, "st.shared")), (8, 0));
    assert_eq!(count(&text, "cvt.rn.satfinite.e4m3x2.f32"), 16);
    // Rounded and put together by twos before, taken apart never.
    assert_eq!(count(&text, "prmt.b32"), 8);
    let text = ptx(&k::gates_wgmma);
    assert_eq!(exchanged(&text), 8);
    let text = ptx(&k::unnamed_wgmma);
    assert_eq!((exchanged(&text), count(&text, "prmt.b32")), (8, 8));
    // Of a tile of what is summed, both products are a group: one fence, one wait.
    assert_eq!((count(&text, "wgmma.fence"), count(&text, "wgmma.wait_group")), (2, 2));
}
