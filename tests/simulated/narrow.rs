//! Narrow types: products of integers of eight bits by CUDA cores and by tensor cores, weights of four bits, random bits.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// Each element is dropped with probability p, by random bits of its place.
    #[tile_kernel]
    pub fn dropout(x: &Tensor<f32, { 4 * N }>, p: f32, seed: i32, y: &mut Tensor<f32, { 4 * N }>) {
        let i = program_tile(N);
        let w = whole(4);
        let keep = uniform(random(seed, i, w)) >= p;
        store(y, [4 * i + w], select(keep, load(x, [4 * i + w]) / (1.0 - p), 0.0));
    }

    /// All words of a counter that is no axis, with a seed without sign.
    #[tile_kernel]
    pub fn words(seed: u32, at: &Tensor<i32, N>, y: &mut Tensor<u32, N, 4>, one: &mut Tensor<u32, N>) {
        let i = program_tile(N);
        let w = whole(4);
        let n = load(at, [i]);
        store(y, [i, w], random(seed, n, w));
        store(one, [i], random(7, n.cast::<u32>(), 2) ^ seed);
    }

    /// A matrix of eight bits times a vector, with a scale for each row.
    #[tile_kernel]
    pub fn matvec8(
        w: &Tensor<i8, N, K>,
        x: &Tensor<i8, K>,
        ws: &Tensor<f32, N>,
        xs: f32,
        y: &mut Tensor<f32, N>,
    ) {
        let j = program_tile(N);
        let mut acc = zeros::<i32>([j]);
        for k in tiles(K) {
            acc = dot(load(w, [j, k]), load(x, [k]), acc);
        }
        store(y, [j], acc.cast::<f32>() * load(ws, [j]) * xs);
    }

    /// A product of matrices of eight bits, both in rows of what is summed, with a scale for each row of both.
    #[tile_kernel]
    pub fn matmul8(
        x: &Tensor<i8, M, K>,
        w: &Tensor<i8, N, K>,
        xs: &Tensor<f32, M>,
        ws: &Tensor<f32, N>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<i32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(x, [i, k]), load(w, [j, k]), acc);
        }
        store(y, [i, j], acc.cast::<f32>() * load(xs, [i]) * load(ws, [j]));
    }

    /// A factor without sign, and one in columns of what is summed; the sums as they are.
    #[tile_kernel]
    pub fn mixed(a: &Tensor<u8, M, K>, b: &Tensor<i8, K, N>, y: &mut Tensor<i32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = full::<i32>(1000000000, [i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(y, [i, j], acc);
    }

    schedule! {
        pub dropout_plain for dropout { tile(i = 32); bind(i -> thread.x); }
        pub dropout_wide for dropout { tile(i = 64); bind(i -> thread.x); vectorize(w); }
        pub dropout_lanes for dropout { tile(i = 32); bind(i -> thread.y, w -> thread.x); }
        pub words_plain for words { tile(i = 32); bind(i -> thread.x); }
        pub words_wide for words { tile(i = 32); bind(i -> thread.x); vectorize(w); }
        pub matvec8_plain for matvec8 { tile(j = 32, k = 16); bind(j -> thread.x); }
        pub matvec8_warp for matvec8 {
            tile(j = 4, k = 512);
            split(k.t -> kl, kv: 16);
            reduce(acc: lane);
            bind(j -> warp.x, kl -> lane.x);
            vectorize(kv);
        }
        pub matmul8_plain for matmul8 { tile(i = 8, j = 16, k = 8); bind(j -> thread.x, i -> thread.y); }
        pub matmul8_mma for matmul8 {
            tile(i = 32, j = 32, k = 64);
            split(i -> iw, im: 16);
            split(j -> jw, jm: 16);
            tensor_core(acc: mma);
            reorder(iw, jw, k.atom, im, jm);
            stage(x, w at k: shared, cp_async, vector(16));
            swizzle(x: 64, w: 64);
            pipeline(k, 2);
            bind(iw -> warp.y, jw -> warp.x);
        }
        pub matmul8_held for matmul8 {
            tile(i = 32, j = 32, k = 64);
            split(i -> iw, im: 16);
            split(j -> jw, jm: 32);
            tensor_core(acc: mma);
            reorder(iw, jw, k.atom, im, jm);
            stage(x, w at k: shared, vector(16));
            pad(x: 16, w: 16);
            fragment(x, w at k.atom);
            pipeline(k, 2);
            pipeline(k.atom, 2);
            bind(iw -> warp.y, jw -> warp.x);
            vectorize(j.pair);
        }
        pub matmul8_wgmma on sm_90a for matmul8 {
            tile(i = 64, j = 48, k = 128);
            tensor_core(acc: wgmma(64, 48));
            stage(x, w at k: shared, tma);
            swizzle(x: 128, w: 128);
            pipeline(k, 3);
            unroll(k.atom);
        }
        pub mixed_plain for mixed { tile(i = 4, j = 32, k = 8); bind(j -> thread.x, i -> thread.y); }
        pub mixed_mma for mixed {
            tile(i = 32, j = 32, k = 32);
            split(i -> iw, im: 16);
            tensor_core(acc: mma);
            stage(a, b at k: shared);
            bind(iw -> warp.x);
        }
        pub mixed_wgmma on sm_90a for mixed {
            tile(i = 64, j = 24, k = 64);
            tensor_core(acc: wgmma(64, 24));
            stage(a at k: shared);
            stage(b at k: shared, transposed);
            swizzle(a: 64, b: 64);
            pipeline(k, 2);
        }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, DType, Kernel};

fn check<K: Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// All numbers of a type of eight bits, its extremes often.
fn bytes(dtype: DType, n: i64) -> Vec<f64> {
    let number = |i: i64| match i % 5 {
        0 => dtype.least(),
        1 => dtype.greatest(),
        _ => dtype.wrap(i * 40_503 + 17 * (i / 7)),
    };
    (0..n).map(|i| number(i) as f64).collect()
}

fn scales(n: i64) -> Vec<f64> {
    (0..n).map(|i| [1.0, 0.5, -2.0, 0.125][i as usize % 4]).collect()
}

#[test]
fn elements_are_dropped_alike_everywhere() {
    for n in [1, 31, 64, 200] {
        let x: Vec<f64> = (0..4 * n).map(|i| i as f64 - 7.0).collect();
        let case = Case::with(k::dropout::KERNEL, None, &[("N", n)], &[("x", x)]);
        let case = case.scalar("p", 0.25).scalar("seed", -77.0);
        check::<k::dropout>(&case, &[&k::dropout_plain, &k::dropout_wide, &k::dropout_lanes]);
    }
}

#[test]
fn random_words_are_those_of_the_counter() {
    for n in [1, 37] {
        let at = (0..n).map(|i| [0, -1, i, i32::MIN.into(), 1 << 30][i as usize % 5] as f64).collect();
        let case = Case::with(k::words::KERNEL, None, &[("N", n)], &[("at", at)]);
        let case = case.scalar("seed", 4_000_000_000.0);
        check::<k::words>(&case, &[&k::words_plain, &k::words_wide]);
    }
}

#[test]
fn rows_of_eight_bits_times_a_vector() {
    for (n, depth) in [(1, 1), (5, 37), (9, 0), (4, 512), (6, 1040)] {
        let given = [("w", bytes(DType::I8, n * depth)), ("x", bytes(DType::I8, depth)), ("ws", scales(n))];
        let case = Case::with(k::matvec8::KERNEL, None, &[("N", n), ("K", depth)], &given);
        check::<k::matvec8>(&case, &[&k::matvec8_plain, &k::matvec8_warp]);
    }
}

#[test]
fn products_of_eight_bits() {
    for (m, n, depth) in [(1, 1, 1), (5, 7, 0), (32, 32, 64), (33, 31, 65), (70, 50, 208), (64, 48, 256)] {
        let (x, w) = (bytes(DType::I8, m * depth), bytes(DType::I8, n * depth));
        let given = [("x", x), ("w", w), ("xs", scales(m)), ("ws", scales(n))];
        let case = Case::with(k::matmul8::KERNEL, None, &[("M", m), ("N", n), ("K", depth)], &given);
        let all: [&dyn AnySchedule; 4] =
            [&k::matmul8_plain, &k::matmul8_mma, &k::matmul8_held, &k::matmul8_wgmma];
        check::<k::matmul8>(&case, &all);
    }
}

/// Sums that wrap around, of factors of which one has no sign.
#[test]
fn products_of_mixed_signs() {
    for (m, n, depth) in [(1, 1, 1), (5, 7, 33), (32, 32, 32), (65, 25, 100)] {
        let given = [("a", bytes(DType::U8, m * depth)), ("b", bytes(DType::I8, n * depth))];
        let case = Case::with(k::mixed::KERNEL, None, &[("M", m), ("N", n), ("K", depth)], &given);
        check::<k::mixed>(&case, &[&k::mixed_plain, &k::mixed_mma, &k::mixed_wgmma]);
    }
}
