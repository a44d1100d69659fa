//! Products that are a step ahead: whichever warps run first, however late copies and products complete, over any number of steps.

use crate::{
    products::{count, ptx, simulators},
    support::Case,
};
use tilewright::{DType, Kernel, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// Attention to the keys of a window.
    #[tile_kernel]
    pub fn attention<T: Float>(
        q: &Tensor<T, H, M, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        o: &mut Tensor<f32, H, M, D>,
    ) {
        let (h, i) = program_tile(H, M);
        let (d, e) = whole(D, D);
        let mut m = full::<f32>(-10000.0, [h, i]);
        let mut l = zeros::<f32>([h, i]);
        let mut acc = zeros::<f32>([h, i, e]);
        for j in tiles(N) {
            let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j]));
            let top = max(m, max(s, j) * 0.125);
            let p = exp2(s * 0.125 - top);
            let alpha = exp2(m - top);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [h, j, e]), acc * alpha);
            m = top;
        }
        store(o, [h, i, e], acc / l);
    }

    /// The same to the keys up to the query, within a window.
    #[tile_kernel]
    pub fn windowed<T: Float>(
        q: &Tensor<T, H, M, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        o: &mut Tensor<f32, H, M, D>,
        width: i32,
    ) {
        let (h, i) = program_tile(H, M);
        let (d, e) = whole(D, D);
        let mut m = full::<f32>(-10000.0, [h, i]);
        let mut l = zeros::<f32>([h, i]);
        let mut acc = zeros::<f32>([h, i, e]);
        for j in tiles(N).between(i - width, i + 1) {
            let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j]));
            let top = max(m, max(s, j) * 0.125);
            let p = exp2(s * 0.125 - top);
            let alpha = exp2(m - top);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [h, j, e]), acc * alpha);
            m = top;
        }
        store(o, [h, i, e], acc / l);
    }

    /// Two layers in one kernel, and a bias between them.
    #[tile_kernel]
    pub fn layers<T: Float>(
        x: &Tensor<T, M, K>,
        up: &Tensor<T, K, F>,
        bias: &Tensor<f32, F>,
        down: &Tensor<T, F, N>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let i = program_tile(M);
        let (j, k) = whole(N, K);
        let mut acc = zeros::<f32>([i, j]);
        for f in tiles(F) {
            let h = dot(load(x, [i, k]), load(up, [k, f]), zeros::<f32>([i, f]));
            let g = max(h + load(bias, [f]), 0.0);
            acc = dot(g.cast::<T>(), load(down, [f, j]), acc);
        }
        store(y, [i, j], acc);
    }

    schedule! {
        pub plain for attention<f16 | bf16> { fits(D <= 64); tile(i = 8, j = 8); bind(i -> thread.y); }
        pub ahead on sm_90a for attention<f16 | bf16> {
            fits(D <= 64);
            tile(i = 64, j = 32);
            tensor_core(s: wgmma(64, 32));
            tensor_core(acc: wgmma(64, 64));
            stage(q at i: shared, tma);
            stage(k, v at j: shared, tma);
            swizzle(q: 128, k: 128, v: 128);
            pipeline(j, 2);
            produce(j: warp);
            unroll(d.atom in s);
            skew(s);
        }
        pub two = ahead {
            tile(i = 128, j = 32);
            split(i -> iw, im: 64);
            bind(iw -> warpgroup.x);
            produce(j: warpgroup);
            issue(s: overwrite);
            registers(24, 240);
        }
        pub three_stages = two { pipeline(j, 3); arrive(j: thread); persistent(1); }
        pub in_a_cluster = two { cluster(i: 2); }
        pub window on sm_90a for windowed<f16 | bf16> = two {}
        pub windows_in_turn = window { persistent(1); }
        pub plain_window for windowed<f16 | bf16> = plain {}
    }
    schedule! {
        pub plain_layers for layers<f16 | bf16> { fits(N <= 64); tile(i = 8, f = 8); bind(i -> thread.y, j -> thread.x); }
        pub layers_ahead on sm_90a for layers<f16 | bf16> {
            fits(K <= 64, N <= 64);
            tile(i = 128, f = 32);
            split(i -> iw, im: 64);
            tensor_core(h: wgmma(64, 32));
            tensor_core(acc: wgmma(64, 64));
            stage(x at i: shared, tma);
            stage(up, down at f: shared, tma);
            swizzle(x: 128, up: 64, down: 128);
            pipeline(f, 2);
            produce(f: warpgroup);
            unroll(k.atom in h);
            bind(iw -> warpgroup.x);
            registers(24, 240);
            skew(h);
        }
        pub layers_bias_copied = layers_ahead { stage(bias at f: shared, tma); persistent(1); pipeline(f, 3); }
    }
}
use kernels as k;

fn check<K: Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

#[test]
fn keys_are_a_step_ahead_of_values() {
    for (h, m, n, d) in [(1, 1, 1, 1), (1, 64, 32, 64), (2, 130, 64, 40), (1, 200, 100, 64), (1, 70, 161, 24)]
    {
        let dims = [("H", h), ("M", m), ("N", n), ("D", d)];
        for dtype in [DType::F16, DType::BF16] {
            check::<k::attention>(
                &Case::new(k::attention::KERNEL, Some(dtype), &dims, 3),
                &[&k::plain, &k::ahead, &k::two, &k::three_stages, &k::in_a_cluster],
            );
        }
    }
}

#[test]
fn limits_cut_the_first_and_the_last_steps() {
    for (m, n) in [(1, 1), (64, 64), (140, 140), (200, 90), (130, 400)] {
        let dims = [("H", 1), ("M", m), ("N", n), ("D", 32)];
        let case = Case::new(k::windowed::KERNEL, Some(DType::F16), &dims, 5);
        check::<k::windowed>(&case, &[&k::plain_window, &k::window, &k::windows_in_turn]);
    }
}

#[test]
fn a_layer_is_a_step_ahead_of_the_next_one() {
    for (m, n, kk, f) in [(1, 1, 1, 1), (128, 64, 64, 64), (70, 50, 30, 130), (260, 64, 40, 96), (3, 5, 7, 0)]
    {
        let dims = [("M", m), ("N", n), ("K", kk), ("F", f)];
        for dtype in [DType::F16, DType::BF16] {
            check::<k::layers>(
                &Case::new(k::layers::KERNEL, Some(dtype), &dims, 4),
                &[&k::plain_layers, &k::layers_ahead, &k::layers_bias_copied],
            );
        }
    }
}

/// Neither the order of warps nor when copies and products complete decides anything.
#[test]
fn seeds_agree() {
    for n in [32, 64, 170] {
        let dims = [("H", 1), ("M", 260), ("N", n), ("D", 64)];
        let case = Case::new(k::attention::KERNEL, Some(DType::F16), &dims, 4);
        for (_, device) in simulators(0..4) {
            for schedule in [&k::two as &dyn AnySchedule, &k::three_stages, &k::in_a_cluster] {
                case.check_on::<k::attention>(schedule, &device);
            }
        }
    }
}

/// Both products of a step are on their way together, behind one fence; the second one is waited for in the next step.
#[test]
fn the_products_of_a_step_are_issued_together() {
    let text = ptx(&k::two, DType::BF16);
    assert_eq!(count(&text, "wgmma.fence"), 3, "before the loop, in it, in the last step");
    assert_eq!(count(&text, "wgmma.wait_group.sync.aligned 1;"), 1);
    assert_eq!(count(&text, "wgmma.wait_group.sync.aligned 0;"), 4, "the first value, two steps, the end");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("wgmma.")).collect();
    let waits = lines.iter().position(|line| line.contains("wait_group.sync.aligned 1;")).expect("one");
    let before = lines[..waits].iter().rposition(|line| line.contains("wgmma.fence")).expect("one");
    let commits = lines[before..waits].iter().filter(|line| line.contains("commit_group")).count();
    assert_eq!(commits, 2);
}
