//! Products of warpgroups whose first factor lanes compute: in registers, in whichever order warps run and however late products complete.

use crate::{
    products::{count, ptx, simulators},
    support,
};
use support::Case;
use tilewright::{DType, Kernel, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// Rows scaled by what belongs to their elements, as behind a norm.
    #[tile_kernel]
    pub fn scaled<T: Float>(
        a: &Tensor<T, M, K>,
        g: &Tensor<T, K>,
        b: &Tensor<T, K, N>,
        c: &mut Tensor<f32, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]) * load(g, [k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    /// Two layers in one kernel: what is between them stays in registers.
    #[tile_kernel]
    pub fn layers<T: Float>(
        x: &Tensor<T, M, K>,
        up: &Tensor<T, K, F>,
        down: &Tensor<T, F, N>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let i = program_tile(M);
        let j = whole(N);
        let k = whole(K);
        let mut acc = zeros::<f32>([i, j]);
        for f in tiles(F) {
            let h = dot(load(x, [i, k]), load(up, [k, f]), zeros::<f32>([i, f]));
            acc = dot(max(h, 0.0).cast::<T>(), load(down, [f, j]), acc);
        }
        store(y, [i, j], acc);
    }

    /// Products in tf32 of numbers that are made smaller first.
    #[tile_kernel]
    pub fn halved(a: &Tensor<f32, M, K>, b: &Tensor<f32, N, K>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(tf32(load(a, [i, k]) * 0.5), tf32(load(b, [j, k])), acc);
        }
        store(c, [i, j], acc);
    }

    /// Numbers of 8 bits that are made so in registers.
    #[tile_kernel]
    pub fn narrowed(a: &Tensor<f16, M, K>, b: &Tensor<f8, N, K>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]).cast::<f8>(), load(b, [j, k]), acc);
        }
        store(c, [i, j], acc);
    }

    schedule! {
        pub scaled_plain for scaled<f16 | bf16> { tile(i = 8, j = 8, k = 4); bind(i -> thread.y, j -> thread.x); }
        pub scaled_rows on sm_90a for scaled<f16 | bf16> {
            tile(i = 64, j = 32, k = 64);
            tensor_core(acc: wgmma(64, 32));
            stage(a, b at k: shared, vector(8));
            swizzle(b: 64);
        }
        pub scaled_tma on sm_90a for scaled<f16 | bf16> {
            tile(i = 128, j = 64, k = 64);
            split(i -> iw, im: 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a, b at k: shared, tma);
            swizzle(a: 128, b: 128);
            pipeline(k, 3);
            issue(acc: overwrite);
            unroll(k.atom);
            bind(iw -> warpgroup.x);
        }
        pub scaled_roles = scaled_tma { produce(k: warp); persistent(1); }
        pub scaled_turns on sm_90a for scaled<f16 | bf16> {
            tile(i = 64, j = 64, k = 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a, b at k: shared, tma);
            swizzle(a: 128, b: 128);
            pipeline(k, 3);
            produce(k: warpgroup);
            persistent(1);
            pingpong(2);
        }
        /// From global memory: each lane has its own elements of rows.
        pub scaled_direct on sm_90a for scaled<f16 | bf16> {
            tile(i = 64, j = 64, k = 32);
            tensor_core(acc: wgmma(64, 64));
            stage(b at k: shared, tma);
            swizzle(b: 128);
            pipeline(k, 2);
        }
        pub layers_plain for layers<f16 | bf16> { fits(N <= 64); tile(i = 8, f = 8); bind(i -> thread.y, j -> thread.x); }
        pub layers_wgmma on sm_90a for layers<f16 | bf16> {
            fits(K <= 64, N <= 64);
            tile(i = 64, f = 64);
            tensor_core(h: wgmma(64, 64));
            tensor_core(acc: wgmma(64, 64));
            stage(x at i: shared, tma);
            stage(up, down at f: shared, tma);
            swizzle(x: 128, up: 128, down: 128);
            pipeline(f, 2);
        }
        pub layers_two = layers_wgmma {
            tile(i = 128, f = 32);
            split(i -> iw, im: 64);
            tensor_core(h: wgmma(64, 32));
            swizzle(up: 64);
            issue(h: overwrite);
            bind(iw -> warpgroup.x);
        }
        pub layers_roles = layers_two { produce(f: warpgroup); registers(24, 240); }
        pub layers_persistent = layers_roles { persistent(1); }
        pub halved_plain for halved { tile(i = 8, j = 8, k = 4); bind(i -> thread.y, j -> thread.x); }
        pub halved_wgmma on sm_90a for halved {
            tile(i = 64, j = 24, k = 32);
            tensor_core(acc: wgmma(64, 24));
            stage(a, b at k: shared, vector(16));
            swizzle(b: 128);
            pipeline(k, 2);
        }
        pub narrowed_plain on sm_89 for narrowed { tile(i = 8, j = 8, k = 4); bind(i -> thread.y, j -> thread.x); }
        pub narrowed_wgmma on sm_90a for narrowed {
            tile(i = 64, j = 64, k = 128);
            tensor_core(acc: wgmma(64, 64));
            stage(a at k: shared, tma);
            stage(b at k: shared, tma);
            swizzle(b: 128);
            pipeline(k, 2);
        }
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
fn rows_are_scaled_in_registers() {
    for (m, n, kk) in [(1, 1, 1), (64, 40, 64), (70, 50, 130), (130, 72, 200), (5, 3, 0)] {
        let dims = [("M", m), ("N", n), ("K", kk)];
        for dtype in [DType::F16, DType::BF16] {
            check::<k::scaled>(
                &Case::new(k::scaled::KERNEL, Some(dtype), &dims, 3),
                &[
                    &k::scaled_plain,
                    &k::scaled_rows,
                    &k::scaled_tma,
                    &k::scaled_roles,
                    &k::scaled_turns,
                    &k::scaled_direct,
                ],
            );
        }
    }
}

#[test]
fn a_layer_takes_what_the_one_before_it_leaves_in_registers() {
    for (m, n, kk, f) in [(1, 1, 1, 1), (64, 64, 64, 64), (70, 50, 30, 130), (140, 64, 40, 96), (3, 5, 7, 0)]
    {
        let dims = [("M", m), ("N", n), ("K", kk), ("F", f)];
        for dtype in [DType::F16, DType::BF16] {
            check::<k::layers>(
                &Case::new(k::layers::KERNEL, Some(dtype), &dims, 4),
                &[
                    &k::layers_plain,
                    &k::layers_wgmma,
                    &k::layers_two,
                    &k::layers_roles,
                    &k::layers_persistent,
                ],
            );
        }
    }
}

#[test]
fn words_and_bytes_are_made_in_registers() {
    for (m, n, kk) in [(1, 1, 1), (64, 64, 128), (70, 50, 132), (5, 3, 0)] {
        let dims = [("M", m), ("N", n), ("K", kk)];
        check::<k::halved>(
            &Case::new(k::halved::KERNEL, None, &dims, 3),
            &[&k::halved_plain, &k::halved_wgmma],
        );
        check::<k::narrowed>(
            &Case::new(k::narrowed::KERNEL, None, &dims, 3),
            &[&k::narrowed_plain, &k::narrowed_wgmma],
        );
    }
}

/// Neither the order of warps nor when products complete decides anything.
#[test]
fn seeds_agree() {
    let dims = [("M", 130), ("N", 60), ("K", 40), ("F", 100)];
    let case = Case::new(k::layers::KERNEL, Some(DType::F16), &dims, 4);
    for (_, device) in simulators(0..4) {
        for schedule in [&k::layers_two as &dyn AnySchedule, &k::layers_roles] {
            case.check_on::<k::layers>(schedule, &device);
        }
    }
}

/// One wait for the products of a step, in front of which their registers are filled.
#[test]
fn registers_are_filled_before_the_fence() {
    let text = ptx(&k::scaled_tma, DType::F16);
    let multiply = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16";
    assert_eq!(count(&text, multiply), 4);
    assert_eq!((count(&text, "wgmma.fence"), count(&text, "wgmma.wait_group")), (1, 1));
    let text = ptx(&k::layers_two, DType::BF16);
    assert_eq!(count(&text, "wgmma.fence"), 2);
}
