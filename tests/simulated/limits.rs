//! Limits of axes: points beyond them do nothing, tiles without points are left out, and every executor agrees.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// Of each row, the sum up to its own place.
    #[tile_kernel]
    pub fn prefixes(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        let j = whole(N).below(i + 1);
        store(y, [i], sum(load(x, [j]), j));
    }

    /// The greatest of the window before each place; of none it is the least number.
    #[tile_kernel]
    pub fn windows(x: &Tensor<i32, N>, width: i32, y: &mut Tensor<i32, N>) {
        let i = program_tile(N);
        let j = whole(N).between(i - width, i);
        store(y, [i], max(load(x, [j]), j));
    }

    /// What lies between two places that are loaded.
    #[tile_kernel]
    pub fn ranges(x: &Tensor<f32, M, N>, from: &Tensor<i32, M>, to: &Tensor<i32, M>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut total = zeros::<f32>([i]);
        for j in tiles(N).between(load(from, [i]), load(to, [i])) {
            total += sum(load(x, [i, j]), j);
        }
        store(y, [i], total);
    }

    /// A product with the part of `a` below its diagonal.
    #[tile_kernel]
    pub fn triangular<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K).below(i + 1) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    /// The lower part of a matrix; the rest stays as it was.
    #[tile_kernel]
    pub fn lower(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
        let i = program_tile(M);
        for j in tiles(N).below(i + 1) {
            store(y, [i, j], load(x, [i, j]) * 2.0);
        }
    }

    /// Recurrences see the tiles that have points alone: how many these are, the last of them, and a sum that fades.
    #[tile_kernel]
    pub fn tiles_of_rows(
        x: &Tensor<f32, M, N>,
        to: &Tensor<i32, M>,
        count: &mut Tensor<f32, M>,
        faded: &mut Tensor<f32, M>,
    ) {
        let i = program_tile(M);
        let mut steps = zeros::<f32>([i]);
        let mut state = zeros::<f32>([i]);
        for j in tiles(N).between(i / 2, load(to, [i])) {
            steps = steps + 1.0;
            state = state * 0.5 + sum(load(x, [i, j]), j);
        }
        store(count, [i], steps);
        store(faded, [i], state);
    }

    /// Causal attention with a sliding window, whole rows at once.
    #[tile_kernel]
    pub fn windowed<T: Float>(
        q: &Tensor<T, H, N, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        window: i32,
        o: &mut Tensor<T, H, N, D>,
    ) {
        let (h, i) = program_tile(H, N);
        let (d, e) = whole(D, D);
        let j = whole(N).between(i - window + 1, i + 1);
        let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j]));
        let p = exp(s - max(s, j));
        let sums = dot(p.cast::<T>(), load(v, [h, j, e]), zeros::<f32>([h, i, e]));
        store(o, [h, i, e], (sums / sum(p, j)).cast::<T>());
    }

    /// Sequences one behind the other, tile by tile: `first` is where that of a token begins.
    #[tile_kernel]
    pub fn packed<T: Float>(
        q: &Tensor<T, H, N, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        first: &Tensor<i32, N>,
        o: &mut Tensor<T, H, N, D>,
    ) {
        let (h, i) = program_tile(H, N);
        let (d, e) = whole(D, D);
        let mut m = full::<f32>(f32::NEG_INFINITY, [h, i]);
        let mut l = zeros::<f32>([h, i]);
        let mut acc = zeros::<f32>([h, i, e]);
        for j in tiles(N).between(load(first, [i]), i + 1) {
            let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j]));
            let top = max(m, max(s, j));
            let p = exp2(s - top);
            let alpha = exp2(m - top);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [h, j, e]), acc * alpha);
            m = top;
        }
        store(o, [h, i, e], (acc / l).cast::<T>());
    }

    /// A weighted sum of as many elements as a value says, by half; the weights are the factor that knows nothing of rows.
    #[tile_kernel]
    pub fn halves(w: &Tensor<f32, N>, x: &Tensor<f32, M, N>, len: &Tensor<i32, M>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let n = load(len, [i]);
        let half = (n + 1) / 2;
        let j = whole(N).below(half);
        store(y, [i], dot(load(w, [j]), load(x, [i, j]), zeros::<f32>([i])));
    }

    schedule! {
        pub halves_plain for halves { tile(i = 8, j = 4); bind(i -> thread.x); }
        pub prefixes_plain for prefixes { tile(i = 8, j = 4); bind(i -> thread.x); }
        pub prefixes_lanes for prefixes { tile(i = 4); split(j -> jo, jl: 32); bind(i -> warp.x, jl -> lane.x); reduce(y.sum: lane); }
        pub prefixes_inner for prefixes { tile(i = 16, j = 8); bind(i -> thread.x); unroll(j); }
        pub windows_plain for windows { tile(i = 8, j = 4); bind(i -> thread.x); }
        pub windows_staged for windows { tile(i = 16, j = 8); bind(i -> thread.x); stage(x at j: shared); pipeline(j, 3); }
        pub ranges_plain for ranges { tile(i = 8, j = 4); bind(i -> thread.x); }
        pub ranges_staged for ranges { tile(i = 16, j = 8); bind(i -> thread.x); stage(x at j: shared, cp_async); pipeline(j, 2); }
        pub ranges_lanes for ranges { tile(i = 4, j = 64); split(j -> jo, jl: 32); bind(i -> warp.x, jl -> lane.x); reduce(total: lane); }
        /// One row and one point at a time: a limit cuts no tile.
        pub ranges_single for ranges { tile(i = 1, j = 1); }
        pub prefixes_single for prefixes { tile(i = 1, j = 1); }
        pub triangular_plain for triangular<f32 | f16> { tile(i = 8, j = 8, k = 4); bind(i -> thread.y, j -> thread.x); }
        pub triangular_staged for triangular<f32 | f16> { tile(i = 16, j = 16, k = 8); stage(a, b at k: shared, cp_async, vector(16)); pipeline(k, 3); bind(i -> thread.y, j -> thread.x); }
        pub triangular_split for triangular<f32 | f16> { tile(i = 16, j = 16, k = 8); split_k(k, 3); bind(i -> thread.y, j -> thread.x); }
        pub triangular_persistent for triangular<f32 | f16> { tile(i = 16, j = 16, k = 8); stage(a, b at k: shared, cp_async, vector(16)); pipeline(k, 3); persistent(1); bind(i -> thread.y, j -> thread.x); }
        pub lower_plain for lower { tile(i = 8, j = 4); bind(i -> thread.x); }
        pub lower_wide for lower { tile(i = 4, j = 16); bind(i -> thread.y, j.t -> thread.x); }
        pub tiles_plain for tiles_of_rows { tile(i = 8, j = 4); bind(i -> thread.x); }
        pub tiles_wide for tiles_of_rows { tile(i = 32, j = 8); bind(i -> thread.x); stage(x at j: shared); pipeline(j, 2); }
    }

    schedule! {
        pub windowed_plain for windowed<f32 | f16> { fits(D <= 16, N <= 32); tile(i = 8); bind(i -> thread.x); }
        pub packed_plain for packed<f32 | f16> { fits(D <= 16); tile(i = 8, j = 4); bind(i -> thread.x); }
        pub packed_staged for packed<f32 | f16> { fits(D <= 16); tile(i = 16, j = 8); stage(k, v at j: shared, cp_async, vector(16)); pipeline(j, 2); bind(i -> thread.x); }
        /// Both products on tensor cores.
        pub packed_mma for packed<f16> {
            fits(D <= 16);
            tile(i = 32, j = 32);
            split(i -> iw, im: 16);
            tensor_core(s: mma);
            tensor_core(acc: mma);
            reorder(iw, d.atom, j.atom, im in s);
            reorder(iw, j.acc, e.atom, im in acc);
            stage(q at i: shared);
            stage(k, v at j: shared, cp_async, vector(16));
            pad(q: 16, k: 16, v: 16);
            pipeline(j, 2);
            bind(iw -> warp.x);
        }
    }
}

use kernels as k;
use support::Case;
use tile_dsl::tile::Kernel as TileKernel;
use tilewright::{AnySchedule, DType, Stage, Variant, emit};

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

#[test]
fn sums_end_at_their_own_place() {
    for n in [1, 5, 16, 77] {
        let case = Case::new(k::prefixes::KERNEL, None, &[("N", n)], 1);
        check::<k::prefixes>(
            &case,
            &[&k::prefixes_plain, &k::prefixes_lanes, &k::prefixes_inner, &k::prefixes_single],
        );
    }
}

#[test]
fn windows_may_be_empty() {
    for (n, width) in
        [(1, 1.0), (40, 0.0), (40, 5.0), (33, 100.0), (16, -3.0), (20, 2147483647.0), (20, -2147483648.0)]
    {
        let case = Case::new(k::windows::KERNEL, None, &[("N", n)], 2).scalar("width", width);
        for schedule in [&k::windows_plain as &dyn AnySchedule, &k::windows_staged] {
            case.check_nest(schedule);
            // The interpreter of kernels has scalars in f32.
            if width.abs() < 1e6 {
                case.check_kernel(schedule);
            }
            case.check_simulator::<k::windows>(schedule);
        }
    }
}

/// Places where ranges begin and end: empty ones, reversed ones, some beside the axis, all of it.
fn places(n: i64, extent: i64, seed: i64) -> Vec<f64> {
    let place = |i: i64| match (i * 5 + seed) % 11 {
        0 => -3,
        1 => extent + 2,
        2 => i64::from(i32::MAX),
        3 => i64::from(i32::MIN),
        _ => (i * i + seed * 7) % (extent + 1),
    };
    (0..n).map(|i| place(i) as f64).collect()
}

#[test]
fn ranges_are_loaded() {
    for (m, n) in [(1, 1), (13, 40), (32, 64), (5, 200)] {
        for seed in 0..4 {
            let given = [("from", places(m, n / 2, seed)), ("to", places(m, n, seed + 3))];
            let case = Case::with(k::ranges::KERNEL, None, &[("M", m), ("N", n)], &given);
            check::<k::ranges>(
                &case,
                &[&k::ranges_plain, &k::ranges_staged, &k::ranges_lanes, &k::ranges_single],
            );
        }
    }
}

#[test]
fn tiles_of_one_point_have_no_masks() {
    let loops = |schedule: &dyn AnySchedule| {
        let text = emit(schedule, None, Variant::Exact, Stage::Kernel).expect("it lowers");
        text.lines().filter(|line| line.trim().starts_with("for ")).count()
    };
    assert_eq!(loops(&k::ranges_single), 1);
    assert_eq!(loops(&k::prefixes_single), 1);
}

#[test]
fn triangles_are_multiplied() {
    for dtype in [DType::F32, DType::F16] {
        for (m, n, depth) in [(1, 1, 1), (13, 21, 9), (48, 32, 48), (40, 8, 100)] {
            let dims = [("M", m), ("N", n), ("K", depth)];
            let case = Case::new(k::triangular::KERNEL, Some(dtype), &dims, 3);
            let all: [&dyn AnySchedule; 4] = [
                &k::triangular_plain,
                &k::triangular_staged,
                &k::triangular_split,
                &k::triangular_persistent,
            ];
            check::<k::triangular>(&case, &all);
        }
    }
}

#[test]
fn stores_end_at_the_diagonal() {
    for (m, n) in [(1, 1), (13, 40), (32, 16)] {
        let case = Case::new(k::lower::KERNEL, None, &[("M", m), ("N", n)], 4);
        check::<k::lower>(&case, &[&k::lower_plain, &k::lower_wide]);
    }
}

#[test]
fn the_factor_that_limits_are_about_is_masked() {
    for (m, n) in [(1, 1), (13, 40)] {
        let case =
            Case::with(k::halves::KERNEL, None, &[("M", m), ("N", n)], &[("len", places(m, 2 * n, 1))]);
        check::<k::halves>(&case, &[&k::halves_plain]);
    }
    let kernel = TileKernel::from_bytes(k::halves::KERNEL).unwrap().to_string();
    assert!(
        kernel.contains("dot(load(w, [j]), select(iota(j) < half, load(x, [i, j]), 0.0_f32)"),
        "{kernel}"
    );
}

#[test]
fn recurrences_see_tiles_with_points() {
    for (m, n) in [(1, 1), (13, 40), (40, 32)] {
        for seed in 0..3 {
            let dims = [("M", m), ("N", n)];
            let case = Case::with(k::tiles_of_rows::KERNEL, None, &dims, &[("to", places(m, n, seed))]);
            check::<k::tiles_of_rows>(&case, &[&k::tiles_plain, &k::tiles_wide]);
        }
    }
}

#[test]
fn attention_within_windows() {
    for dtype in [DType::F32, DType::F16] {
        for (n, window) in [(1, 1.0), (21, 4.0), (32, 100.0)] {
            let dims = [("H", 2), ("N", n), ("D", 16)];
            let case = Case::new(k::windowed::KERNEL, Some(dtype), &dims, 5).scalar("window", window);
            check::<k::windowed>(&case, &[&k::windowed_plain]);
        }
    }
}

#[test]
fn attention_of_packed_sequences() {
    for dtype in [DType::F32, DType::F16] {
        for n in [1, 21, 64] {
            let first: Vec<f64> = (0..n).map(|i| (i / 9 * 9) as f64).collect();
            let dims = [("H", 2), ("N", n), ("D", 16)];
            let case = Case::with(k::packed::KERNEL, Some(dtype), &dims, &[("first", first)]);
            check::<k::packed>(&case, &[&k::packed_plain, &k::packed_staged]);
            if dtype == DType::F16 {
                check::<k::packed>(&case, &[&k::packed_mma]);
            }
        }
    }
}
