//! Indices that are values: gathers, scatters and stores under conditions, in every variant on the simulator, at sizes that no
//! tile divides, with indices beside the tensor.

mod support;

mod kernels {
    use tilewright::prelude::*;

    /// Rows of a table.
    #[tile_kernel]
    pub fn embed<T: Float>(ids: &Tensor<i32, S>, table: &Tensor<T, V, D>, y: &mut Tensor<T, S, D>) {
        let (s, d) = program_tile(S, D);
        store(y, [s, d], load(table, [load(ids, [s]), d]));
    }

    /// Rows put where slots say.
    #[tile_kernel]
    pub fn append<T: Float>(k: &Tensor<T, S, H, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<T, L, H, D>) {
        let (s, h, d) = program_tile(S, H, D);
        store(cache, [unique(load(slot, [s])), h, d], load(k, [s, h, d]));
    }

    /// The loss of each row, and 0 where the label is -100.
    #[tile_kernel]
    pub fn cross_entropy<T: Float>(x: &Tensor<T, S, V>, label: &Tensor<i32, S>, y: &mut Tensor<f32, S>) {
        let s = program_tile(S);
        let n = whole(V);
        let v = load(x, [s, n]).cast::<f32>();
        let m = max(v, n);
        let t = load(label, [s]);
        let hit = load(x, [s, t]).cast::<f32>();
        store(y, [s], select(t == -100, 0.0, m + log(sum(exp(v - m), n)) - hit));
    }

    /// Columns in another order, the first of them further on by a scalar.
    #[tile_kernel]
    pub fn permuted(x: &Tensor<f32, M, N>, at: &Tensor<i32, N>, first: i32, y: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        store(y, [i, j], load(x, [i, load(at, [j]) + first - 1]));
    }

    /// Elements that are large enough, of a window that begins where a value says.
    #[tile_kernel]
    pub fn large(x: &Tensor<f32, M, N>, first: &Tensor<i32, M>, y: &mut Tensor<f32, M, 7>) {
        let i = program_tile(M);
        let n = whole(7);
        let v = load(x, [i, n + load(first, [i])]);
        if v > 0.25 {
            store(y, [i, n], v * 2.0);
        }
    }

    /// Where each of the eight greatest of a row is, and how great; equal ones in their order.
    #[tile_kernel]
    pub fn top(x: &Tensor<f32, S, E>, w: &mut Tensor<f32, S, 8>, at: &mut Tensor<i32, S, 8>) {
        let s = program_tile(S);
        let (e, f) = whole(E, E);
        let rank = sum(
            select(
                load(x, [s, f]) > load(x, [s, e]),
                1,
                select((load(x, [s, f]) == load(x, [s, e])) & (f < e), 1i32, 0i32),
            ),
            f,
        );
        if rank < 8 {
            store(w, [s, unique(rank)], load(x, [s, e]));
            store(at, [s, unique(rank)], e);
        }
    }

    schedule! {
        pub embed_plain for embed<f32 | f16> { tile(s = 3, d = 8); bind(d -> thread.x, s -> thread.y); }
        pub embed_wide = embed_plain { tile(d = 64); drop(bind(s, d)); split(d -> dt, dv: 4); bind(dt -> thread.x, s -> thread.y); vectorize(dv); }
        pub embed_loop for embed<f32 | f16> { tile(s = 2, d = 16); bind(s -> thread.x); unroll(d); }
        pub append_plain for append<f32 | bf16> { tile(s = 2, h = 1, d = 8); bind(d -> thread.x, s -> thread.y); }
        pub append_wide for append<f32 | bf16> { tile(s = 4, h = 2, d = 16); split(d -> dt, dv: 4); bind(dt -> thread.x, h -> thread.y, s -> thread.z); vectorize(dv); }
        pub loss_rows for cross_entropy<f32 | f16> { tile(s = 2); recompute(v); fuse(v at n); bind(s -> thread.x); }
        pub loss_lanes for cross_entropy<f32 | f16> { tile(s = 2); split(n -> no, nl: 32); bind(s -> warp.x, nl -> lane.x); recompute(v); fuse(v at n); reduce(m, y.sum: lane); }
        pub permuted_plain for permuted { tile(i = 2, j = 16); bind(j -> thread.x, i -> thread.y); }
        pub permuted_rows for permuted { tile(i = 4, j = 8); bind(j -> thread.x); unroll(i); }
        pub large_rows for large { tile(i = 8); bind(i -> thread.x); }
        pub large_lanes for large { tile(i = 2); bind(n -> thread.x, i -> thread.y); }
        pub top_rows for top { tile(s = 4); bind(s -> thread.x); recompute(rank); fuse(rank at e); }
        pub top_threads for top { fits(E <= 32); tile(s = 2); bind(s -> thread.y); split(e -> eo, et: 8); bind(et -> thread.x); unroll(eo); unroll(f); }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, DType};

/// Places in a dimension, and beside it: none, one behind its end, and as far as 32 bits reach.
fn places(n: i64, extent: i64) -> Vec<f64> {
    let beside = [-1, extent, extent + 1, i64::from(i32::MAX), i64::from(i32::MIN)];
    (0..n)
        .map(|i| if i % 4 == 3 { beside[(i / 4 % 5) as usize] } else { i * 5 % extent.max(1) } as f64)
        .collect()
}

/// Distinct ones.
fn slots(n: i64, extent: i64) -> Vec<f64> {
    (0..n).map(|i| if i % 5 == 4 { -1 - i } else { (i * 7 + 3) % (extent | 1).max(n | 1) } as f64).collect()
}

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

#[test]
fn rows_of_a_table() {
    for dtype in [DType::F32, DType::F16] {
        for (s, v, d) in [(13, 11, 21), (64, 50, 128), (1, 1, 4)] {
            let dims = [("S", s), ("V", v), ("D", d)];
            let case = Case::with(k::embed::KERNEL, Some(dtype), &dims, &[("ids", places(s, v))]);
            check::<k::embed>(&case, &[&k::embed_plain, &k::embed_wide, &k::embed_loop]);
        }
    }
}

#[test]
fn rows_put_into_slots() {
    for dtype in [DType::F32, DType::BF16] {
        for (s, l, h, d) in [(13, 29, 3, 5), (8, 64, 2, 16)] {
            let dims = [("S", s), ("L", l), ("H", h), ("D", d)];
            let case = Case::with(k::append::KERNEL, Some(dtype), &dims, &[("slot", slots(s, l))]);
            check::<k::append>(&case, &[&k::append_plain, &k::append_wide]);
        }
    }
}

#[test]
fn labels_that_are_left_out() {
    for dtype in [DType::F32, DType::F16] {
        for (s, v) in [(9, 37), (4, 64)] {
            let labels = (0..s).map(|i| if i % 3 == 1 { -100.0 } else { (i * 5 % v) as f64 }).collect();
            let case = Case::with(
                k::cross_entropy::KERNEL,
                Some(dtype),
                &[("S", s), ("V", v)],
                &[("label", labels)],
            );
            check::<k::cross_entropy>(&case, &[&k::loss_rows, &k::loss_lanes]);
        }
    }
}

#[test]
fn columns_in_another_order() {
    for (m, n) in [(5, 19), (4, 16)] {
        let case = Case::with(k::permuted::KERNEL, None, &[("M", m), ("N", n)], &[("at", places(n, n))]);
        check::<k::permuted>(&case, &[&k::permuted_plain, &k::permuted_rows]);
    }
}

#[test]
fn what_is_large_of_a_window() {
    for (m, n) in [(11, 19), (8, 3)] {
        let first = (0..m).map(|i| (i * 3 - 4) as f64).collect();
        let case = Case::with(k::large::KERNEL, None, &[("M", m), ("N", n)], &[("first", first)]);
        check::<k::large>(&case, &[&k::large_rows, &k::large_lanes]);
    }
}

#[test]
fn the_greatest_of_short_rows() {
    for (s, e) in [(5, 19), (4, 8), (3, 5)] {
        let x = (0..s * e).map(|i| (i * 7 % 11) as f64).collect();
        let case = Case::with(k::top::KERNEL, None, &[("S", s), ("E", e)], &[("x", x)]);
        check::<k::top>(&case, &[&k::top_rows, &k::top_threads]);
    }
}
