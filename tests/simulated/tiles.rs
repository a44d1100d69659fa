//! Copies that a producer makes once a tile, for the next one while this one ends; and rounds of tiles that turn.

use crate::{products::simulators, support::Case};
use tilewright::{DType, Kernel, prelude::*};

mod kernels {
    use tilewright::prelude::*;

    /// Attention to the keys up to the query.
    #[tile_kernel]
    pub fn causal<T: Float>(
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
        for j in tiles(N).below(i + 1) {
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

    /// A product, and what its tile had is added at the end.
    #[tile_kernel]
    pub fn residual<T: Float>(
        x: &Tensor<T, M, K>,
        w: &Tensor<T, K, N>,
        old: &Tensor<T, M, N>,
        y: &mut Tensor<f32, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(x, [i, k]), load(w, [k, j]), acc);
        }
        store(y, [i, j], acc + load(old, [i, j]).cast::<f32>());
    }

    schedule! {
        pub plain for causal<f16 | bf16> { fits(D <= 64); tile(i = 8, j = 8); bind(i -> thread.y); }
        pub ahead on sm_90a for causal<f16 | bf16> {
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
            produce(i: warpgroup);
            unroll(d.atom in s);
            bind(iw -> warpgroup.x);
            issue(s: overwrite);
            registers(24, 240);
            skew(s);
        }
        pub tile_after_tile = ahead { persistent(1); }
        pub rounds = ahead { persistent(1, serpentine); order(reversed); }
        pub two_tiles = ahead { produce(i: warpgroup, stages(2)); persistent(1, serpentine); arrive(i: thread); }
        pub three_tiles = ahead { produce(i: warpgroup, stages(3)); persistent(2); }
        pub one_product_after_the_other = two_tiles { drop(skew(s)); }
        pub computed_again = two_tiles { freeze(m); }
        pub in_a_cluster = rounds { cluster(i: 2); }
        pub copied_by_those_that_compute = rounds { drop(produce(i)); }
    }
    schedule! {
        pub by_hand for residual<f16 | bf16> { tile(i = 8, j = 8, k = 8); bind(i -> thread.y, j -> thread.x); }
        pub at_the_end on sm_90 for residual<f16 | bf16> {
            tile(i = 64, j = 32, k = 32);
            split(i -> iw, im: 32);
            tensor_core(acc: mma);
            stage(x, w at k: shared, tma);
            stage(old at j: shared, tma);
            pipeline(k, 3);
            produce(k: warp);
            produce(j: warp);
            bind(iw -> warp.x);
        }
        pub in_turn = at_the_end { persistent(1); produce(j: warp, stages(2)); }
        pub in_rounds = in_turn { persistent(1, serpentine); order(grouped(2)); }
    }
}
use kernels as k;

fn check<K: Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

const CAUSAL: &[&dyn AnySchedule] = &[
    &k::plain,
    &k::ahead,
    &k::tile_after_tile,
    &k::rounds,
    &k::two_tiles,
    &k::three_tiles,
    &k::one_product_after_the_other,
    &k::computed_again,
    &k::in_a_cluster,
    &k::copied_by_those_that_compute,
];

#[test]
fn tiles_of_any_length_follow_one_another() {
    for (h, m, n, d) in [(1, 1, 1, 1), (3, 260, 260, 64), (2, 390, 130, 24)] {
        let dims = [("H", h), ("M", m), ("N", n), ("D", d)];
        check::<k::causal>(&Case::new(k::causal::KERNEL, Some(DType::BF16), &dims, 3), CAUSAL);
    }
}

#[test]
fn what_is_read_behind_the_loop_is_there() {
    for (m, n, kk) in [(1, 1, 1), (64, 32, 32), (200, 136, 72), (130, 400, 40), (70, 40, 0)] {
        let dims = [("M", m), ("N", n), ("K", kk)];
        check::<k::residual>(
            &Case::new(k::residual::KERNEL, Some(DType::F16), &dims, 4),
            &[&k::by_hand, &k::at_the_end, &k::in_turn, &k::in_rounds],
        );
    }
}

/// Neither the order of warps nor when copies and products complete decides anything.
#[test]
fn seeds_agree() {
    let dims = [("H", 3), ("M", 390), ("N", 390), ("D", 64)];
    let case = Case::new(k::causal::KERNEL, Some(DType::F16), &dims, 4);
    for (_, device) in simulators(0..4) {
        for schedule in [
            &k::rounds as &dyn AnySchedule,
            &k::two_tiles,
            &k::one_product_after_the_other,
            &k::computed_again,
            &k::in_a_cluster,
        ] {
            case.check_on::<k::causal>(schedule, &device);
        }
    }
    let dims = [("M", 330), ("N", 136), ("K", 72)];
    let case = Case::new(k::residual::KERNEL, Some(DType::BF16), &dims, 4);
    for (_, device) in simulators(0..4) {
        case.check_on::<k::residual>(&k::in_rounds, &device);
    }
}
