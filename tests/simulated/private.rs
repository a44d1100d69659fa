//! Tiles that a CTA has to itself: values are combined with them in shared memory, and they with the tensor once, in every variant.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// How often each of a few numbers occurs.
    #[tile_kernel]
    pub fn counts(x: &Tensor<i32, N>, h: &mut Tensor<i32, 37>) {
        let i = program_tile(N);
        atomic_add(h, [load(x, [i])], 1);
    }

    /// The same by channel: one dimension by a tile, one by values, moved by two.
    #[tile_kernel]
    pub fn channels(x: &Tensor<u8, N, C>, h: &mut Tensor<u32, C, 19>) {
        let (i, c) = program_tile(N, C);
        atomic_add(h, [c, 2 + load(x, [i, c]).cast::<i32>()], 1);
    }

    /// Extremes of each class, where something is in it.
    #[tile_kernel]
    pub fn extremes(
        x: &Tensor<i32, N>,
        class: &Tensor<i64, N>,
        most: &mut Tensor<i32, 6>,
        least: &mut Tensor<u32, 6>,
    ) {
        let i = program_tile(N);
        let c = load(class, [i]);
        let v = load(x, [i]);
        atomic_max(most, [c], v);
        if v > -5 {
            atomic_min(least, [c], v.cast::<u32>());
        }
    }

    /// Rows added to those of a small table.
    #[tile_kernel]
    pub fn gradient<T: Float>(ids: &Tensor<i32, S>, dy: &Tensor<T, S, D>, table: &mut Tensor<f32, 5, D>) {
        let (s, d) = program_tile(S, D);
        atomic_add(table, [load(ids, [s]), d], load(dy, [s, d]).cast::<f32>());
    }

    /// Columns added up by all programs: places by forms alone, against the order of the axis.
    #[tile_kernel]
    pub fn columns(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, { 2 * N + 3 }>) {
        let (i, j) = program_tile(M, N);
        atomic_add(y, [2 * j + 1], load(x, [i, j]));
    }

    /// Sums of the columns of a product: what its CTAs hold comes together behind it.
    #[tile_kernel]
    pub fn product<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, y: &mut Tensor<f32, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        atomic_add(y, [j], acc);
    }

    schedule! {
        pub counts_threads for counts { tile(i = 64); bind(i -> thread.x); stage(h: shared); }
        pub counts_none for counts { tile(i = 64); bind(i -> thread.x); }
        pub counts_few for counts { tile(i = 48); split(i -> io, il: 8); bind(il -> thread.x); stage(h: shared); }
        pub counts_loop for counts {
            tile(i = 512);
            split(i -> it, iv: 4);
            split(it -> io, ii: 32);
            bind(ii -> thread.x);
            vectorize(iv);
            stage(h: shared);
        }
        pub counts_persistent = counts_loop { persistent(1); }
        pub counts_lanes for counts { tile(i = 64); split(i -> io, il: 32); bind(il -> lane.x); stage(h: shared); }

        pub channels_tiles for channels { tile(i = 16, c = 4); bind(i -> thread.x, c -> thread.y); stage(h: shared); }
        pub channels_all for channels { tile(i = 8, c = 16); split(c -> co, cv: 8); bind(i -> thread.x); unroll(cv); stage(h: shared); order(grouped(2) over i, c); }

        pub extremes_one for extremes { tile(i = 32); bind(i -> thread.x); stage(most: shared); }
        pub extremes_both for extremes { tile(i = 64); split(i -> io, ii: 2); bind(io -> lane.x); unroll(ii); stage(most: shared); stage(least: shared); }

        pub gradient_tiles for gradient<f32 | f16> { tile(s = 16, d = 8); bind(d -> thread.x, s -> thread.y); stage(table: shared); }
        pub gradient_vectors for gradient<f32 | f16> { tile(s = 4, d = 32); split(d -> dt, dv: 4); bind(dt -> thread.x, s -> thread.y); vectorize(dv); stage(table: shared); }

        pub columns_tiles for columns { tile(i = 8, j = 16); bind(j -> thread.x, i -> thread.y); stage(y: shared); }
        pub columns_segments for columns { tile(i = 4, j = 12); segment(j: 20); bind(i -> thread.x); stage(y: shared); }

        pub product_plain for product<f32 | f16 | bf16> { tile(i = 8, j = 8, k = 8); bind(i -> thread.y, j -> thread.x); stage(y: shared); }
    }
    schedule! {
        pub product_mma for product<f16 | bf16> {
            tile(i = 32, j = 32, k = 16);
            split(i -> iw, im: 16);
            tensor_core(acc: mma);
            bind(iw -> warp.x);
            stage(a, b at k: shared, cp_async, vector(16));
            pipeline(k, 3);
            stage(y: shared);
        }
        pub product_roles on sm_90a for product<f16 | bf16> {
            tile(i = 128, j = 64, k = 64);
            split(i -> iw, im: 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a, b at k: shared, tma);
            swizzle(a: 128, b: 128);
            bind(iw -> warpgroup.x);
            pipeline(k, 3);
            produce(k: warp);
            persistent(1);
            stage(y: shared);
        }
        pub product_turns on sm_90a for product<f16 | bf16> {
            tile(i = 64, j = 64, k = 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a, b at k: shared, tma);
            swizzle(a: 128, b: 128);
            pipeline(k, 3);
            produce(k: warpgroup);
            persistent(1);
            pingpong(2);
            stage(y: shared);
        }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, Buffer, DType, Device};

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// Places, many of them alike, some beside the tensor.
fn places(n: i64, extent: i64) -> Vec<f64> {
    let beside = [-1, extent, extent + 1, i64::from(i32::MAX)];
    (0..n).map(|i| (if i % 7 == 3 { beside[i as usize / 7 % 4] } else { i * i % extent }) as f64).collect()
}

#[test]
fn numbers_are_counted_by_each_cta() {
    for n in [1, 77, 512, 1300] {
        let case = Case::with(k::counts::KERNEL, None, &[("N", n)], &[("x", places(n, 37))]);
        check::<k::counts>(
            &case,
            &[&k::counts_threads, &k::counts_few, &k::counts_loop, &k::counts_persistent, &k::counts_lanes],
        );
    }
}

#[test]
fn dimensions_by_tiles_and_by_values_meet() {
    for (n, c) in [(1, 1), (19, 5), (40, 16), (33, 21)] {
        let x: Vec<f64> = (0..n * c).map(|i| (i * 7 % 18) as f64).collect();
        let case = Case::with(k::channels::KERNEL, None, &[("N", n), ("C", c)], &[("x", x)]);
        check::<k::channels>(&case, &[&k::channels_tiles, &k::channels_all]);
    }
}

#[test]
fn extremes_of_classes_without_points_stay() {
    for n in [1, 50, 129] {
        let case = Case::with(k::extremes::KERNEL, None, &[("N", n)], &[("class", places(n, 6))]);
        check::<k::extremes>(&case, &[&k::extremes_one, &k::extremes_both]);
    }
}

#[test]
fn rows_meet_in_a_small_table() {
    for dtype in [DType::F32, DType::F16] {
        for (s, d) in [(1, 1), (35, 21), (64, 96)] {
            let dims = [("S", s), ("D", d)];
            let case = Case::with(k::gradient::KERNEL, Some(dtype), &dims, &[("ids", places(s, 5))]);
            check::<k::gradient>(&case, &[&k::gradient_tiles, &k::gradient_vectors]);
        }
    }
}

#[test]
fn places_by_forms_have_a_tile_as_long_as_they_reach() {
    for (m, n) in [(1, 1), (19, 33), (16, 40)] {
        let case = Case::with(k::columns::KERNEL, None, &[("M", m), ("N", n)], &[]);
        check::<k::columns>(&case, &[&k::columns_tiles, &k::columns_segments]);
    }
}

#[test]
fn columns_of_a_product_meet_behind_it() {
    for (m, n, kk) in [(1, 1, 1), (40, 33, 50), (130, 70, 72), (256, 128, 128)] {
        let dims = [("M", m), ("N", n), ("K", kk)];
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let case = Case::with(k::product::KERNEL, Some(dtype), &dims, &[]);
            check::<k::product>(&case, &[&k::product_plain]);
            if dtype != DType::F32 {
                case.check_nest(&k::product_mma);
                for schedule in [&k::product_mma as &dyn AnySchedule, &k::product_roles, &k::product_turns] {
                    case.check_simulator::<k::product>(schedule);
                }
            }
        }
    }
}

/// What the CTA adds goes to shared memory: the tensor sees each of its elements once a tile.
#[test]
fn a_tile_is_added_once() {
    let device = Device::sim();
    let x: Vec<i32> = (0..4096).map(|i| i % 37).collect();
    let x = Buffer::from_slice(&device, &x, &[4096]).unwrap();
    let atomics = |schedule: &dyn AnySchedule| {
        let mut h = Buffer::zeros(&device, &[37]).unwrap();
        let launch = k::counts(&x, &mut h).schedule_dyn(schedule).timed().run().unwrap();
        let counters = launch.counters.expect("the simulator counts");
        (h.to_vec().unwrap(), counters.global_atomic.bytes, counters.shared_atomic.bytes)
    };
    let (plain, of_all, none) = atomics(&k::counts_none);
    let (own, of_tiles, shared) = atomics(&k::counts_loop);
    assert_eq!(plain, own);
    assert_eq!((of_all, none), (4 * 4096, 0));
    assert_eq!((of_tiles, shared), (4 * 37 * 8, 4 * 4096));
}
