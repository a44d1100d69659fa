//! Copies of rows that values name: wherever the copy is filled, it has what a read of its own would have had.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// Rows of `x`, multiplied by the matrix of their block's expert.
    #[tile_kernel]
    pub fn experts<T: Float>(
        x: &Tensor<T, S, K>,
        w: &Tensor<T, E, K, N>,
        token: &Tensor<i32, Z, I>,
        expert: &Tensor<i32, Z>,
        y: &mut Tensor<f32, Z, I, N>,
    ) {
        let (z, i, j) = program_tile(Z, I, N);
        let t = load(token, [z, i]);
        let mut acc = zeros::<f32>([z, i, j]);
        for k in tiles(K) {
            acc = dot(load(x, [t, k]), load(w, [load(expert, [z]), k, j]), acc);
        }
        store(y, [z, i, j], acc);
    }

    /// A product over rows that are named: rows along the axis of its sums.
    #[tile_kernel]
    pub fn named_rows<T: Float>(
        p: &Tensor<T, M, N>,
        v: &Tensor<T, V, D>,
        at: &Tensor<i64, N>,
        shift: i32,
        y: &mut Tensor<f32, M, D>,
    ) {
        let (i, e) = program_tile(M, D);
        let mut acc = zeros::<f32>([i, e]);
        for n in tiles(N) {
            acc = dot(load(p, [i, n]), load(v, [load(at, [n]).cast::<i32>() + shift, e]), acc);
        }
        store(y, [i, e], acc);
    }

    /// Sums over pages of a cache, up to a length.
    #[tile_kernel]
    pub fn pages(
        q: &Tensor<f32, B, R, D>,
        cache: &Tensor<f32, P, 4, D>,
        page: &Tensor<i32, B, L>,
        len: &Tensor<i32, B>,
        o: &mut Tensor<f32, B, R>,
    ) {
        let (b, r) = program_tile(B, R);
        let (t, d) = whole(4, D);
        let mut acc = zeros::<f32>([b, r]);
        for p in tiles(L).below((load(len, [b]) + 3) / 4) {
            let row = load(cache, [load(page, [b, p]), t, d]);
            acc += sum(sum(sum(load(q, [b, r, d]) * row, d), t), p);
        }
        store(o, [b, r], acc);
    }

    /// A matrix of its own for each block of rows.
    #[tile_kernel]
    pub fn slabs<T: Float>(
        x: &Tensor<T, Z, I, K>,
        w: &Tensor<T, E, K, N>,
        expert: &Tensor<i64, Z>,
        y: &mut Tensor<f32, Z, I, N>,
    ) {
        let (z, i, j) = program_tile(Z, I, N);
        let mut acc = zeros::<f32>([z, i, j]);
        for k in tiles(K) {
            let own = load(w, [load(expert, [z]).cast::<i32>(), k, j]);
            acc = dot(load(x, [z, i, k]), own, acc);
        }
        store(y, [z, i, j], acc);
    }

    /// Sequences behind one another, each from its first row on.
    #[tile_kernel]
    pub fn packed<T: Float>(
        x: &Tensor<T, S, D>,
        first: &Tensor<i32, B>,
        len: &Tensor<i32, B>,
        y: &mut Tensor<f32, B, D>,
    ) {
        let (b, d) = program_tile(B, D);
        let mut acc = zeros::<f32>([b, d]);
        for j in tiles(S).below(load(len, [b])) {
            acc += sum(load(x, [load(first, [b]) + j, d]).cast::<f32>(), j);
        }
        store(y, [b, d], acc);
    }

    /// Neighbours of places, by what is added to a value.
    #[tile_kernel]
    pub fn neighbours(x: &Tensor<f32, V>, at: &Tensor<u8, N>, w: &Tensor<f32, 3>, y: &mut Tensor<f32, N>) {
        let n = program_tile(N);
        let mut acc = zeros::<f32>([n]);
        for r in tiles(3) {
            acc += sum(load(x, [load(at, [n]) + r - 1]) * load(w, [r]), r);
        }
        store(y, [n], acc);
    }

    /// Rows of pages, by two values for each token.
    #[tile_kernel]
    pub fn tokens<T: Float>(
        q: &Tensor<T, B, R, D>,
        cache: &Tensor<T, P, 4, D>,
        page: &Tensor<i32, B, L>,
        len: &Tensor<i32, B>,
        o: &mut Tensor<f32, B, R>,
    ) {
        let (b, r) = program_tile(B, R);
        let d = whole(D);
        let mut acc = zeros::<f32>([b, r]);
        for j in tiles({ 4 * L }).below(load(len, [b])) {
            let row = load(cache, [load(page, [b, j / 4]), j % 4, d]);
            let s = dot(load(q, [b, r, d]), row, zeros::<f32>([b, r, j]));
            acc += sum(s, j);
        }
        store(o, [b, r], acc);
    }

    /// A whole axis of named elements.
    #[tile_kernel]
    pub fn few(x: &Tensor<f32, V>, at: &Tensor<i32, N>, w: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let n = whole(N);
        store(y, [i], sum(load(w, [i, n]) * load(x, [load(at, [n])]), n));
    }

    /// One value names rows of two tensors, and is read by neither copy's readers.
    #[tile_kernel]
    pub fn pairs(x: &Tensor<f32, V, K>, w: &Tensor<f32, V, K>, at: &Tensor<i32, M>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let t = load(at, [i]);
        let mut acc = zeros::<f32>([i]);
        for k in tiles(K) {
            acc += sum(load(x, [t, k]) * load(w, [t + 1, k]), k);
        }
        store(y, [i], acc);
    }

    /// How far each row goes, which is looked up as a staged row is.
    #[tile_kernel]
    pub fn looked_up_lengths(
        len: &Tensor<i32, B>,
        seq: &Tensor<i32, B>,
        x: &Tensor<f32, B, L>,
        y: &mut Tensor<f32, B>,
    ) {
        let b = program_tile(B);
        let mut acc = zeros::<f32>([b]);
        for p in tiles(L).below(load(len, [load(seq, [b])])) {
            acc += sum(load(x, [b, p]), p);
        }
        store(y, [b], acc);
    }

    /// An element of the tensor whose rows are named, at the place of a row in the copy.
    #[tile_kernel]
    pub fn beside_rows(
        x: &Tensor<f32, M, 4>,
        t: &Tensor<i32, M>,
        w: &Tensor<f32, 4>,
        y: &mut Tensor<f32, M>,
        z: &mut Tensor<f32, M>,
    ) {
        let i = program_tile(M);
        let c = load(x, [i, 0]) * 2.0;
        store(z, [i], c);
        let mut acc = zeros::<f32>([i]);
        for k in tiles(4) {
            acc += sum(load(x, [load(t, [i]), k]) * load(w, [k]), k);
        }
        store(y, [i], acc + c);
    }

    schedule! {
        pub lengths_plain for looked_up_lengths { tile(b = 8, p = 8); bind(b -> thread.x); }
        pub lengths_staged for looked_up_lengths { tile(b = 8, p = 8); stage(len at b: shared); bind(b -> thread.x); }
        pub beside_plain for beside_rows { tile(i = 32, k = 4); bind(i -> thread.x); }
        pub beside_staged for beside_rows {
            tile(i = 32, k = 4);
            stage(x at k: shared);
            unroll(k.o);
            unroll(k.t);
            bind(i -> thread.x);
        }
        pub pairs_plain for pairs { tile(i = 8, k = 4); bind(i -> thread.x); }
        pub pairs_rows for pairs { tile(i = 8, k = 4); stage(x, w at k: shared); pipeline(k, 2); bind(i -> thread.x); }
        pub tokens_plain for tokens<f32 | f16> { tile(r = 4, j = 2); bind(r -> thread.x); }
        pub tokens_rows for tokens<f32> {
            fits(D <= 16);
            tile(r = 4, j = 8);
            stage(cache at j: shared, cp_async, vector(16));
            pipeline(j, 2);
            bind(r -> thread.x);
        }
        pub tokens_mma for tokens<f16> {
            fits(D <= 16);
            tile(r = 16, j = 16);
            split(r -> rw, rm: 16);
            tensor_core(s: mma);
            stage(q at r: shared);
            stage(cache at j: shared, cp_async, vector(16));
            pipeline(j, 3);
            bind(rw -> warp.x);
        }
        pub few_plain for few { tile(i = 4); bind(i -> thread.x); }
        pub few_rows for few { fits(N <= 8); tile(i = 4, n = 32); stage(x at i: shared); bind(i -> thread.x); }
        pub experts_plain for experts<f32 | f16> { tile(i = 8, j = 8, k = 4); bind(i -> thread.y, j -> thread.x); }
        pub experts_rows for experts<f32> {
            tile(i = 8, j = 16, k = 8);
            stage(x at k: shared);
            stage(w at k: shared);
            bind(i -> thread.y, j -> thread.x);
        }
        pub experts_turned for experts<f32> {
            tile(i = 8, j = 16, k = 8);
            stage(x at k: shared, transposed);
            stage(w at k: shared, cp_async, vector(16));
            pipeline(k, 2);
            bind(i -> thread.y, j -> thread.x);
        }
        pub experts_ahead for experts<f32> {
            tile(i = 16, j = 16, k = 8);
            stage(x, w at k: shared, cp_async, vector(16));
            pipeline(k, 3);
            bind(i -> thread.y, j -> thread.x);
        }
        pub experts_registers for experts<f32> {
            tile(i = 8, j = 16, k = 8);
            stage(x, w at k: shared, vector(16));
            pipeline(k, 2);
            bind(i -> thread.y, j -> thread.x);
        }
        pub experts_mma for experts<f16> {
            tile(i = 32, j = 32, k = 32);
            split(i -> iw, im: 16);
            tensor_core(acc: mma);
            reorder(iw, k.atom, im, j.atom);
            stage(x, w at k: shared, cp_async, vector(16));
            pad(x: 16, w: 16);
            pipeline(k, 3);
            bind(iw -> warp.x);
        }
        pub experts_persistent = experts_mma { persistent(1); }
        pub rows_plain for named_rows<f32 | f16> { tile(i = 8, e = 8, n = 4); bind(i -> thread.y, e -> thread.x); }
        pub rows_ahead for named_rows<f32> {
            tile(i = 8, e = 16, n = 8);
            stage(v at n: shared, cp_async, vector(16));
            stage(p at n: shared);
            pipeline(n, 2);
            bind(i -> thread.y, e -> thread.x);
        }
        pub rows_mma for named_rows<f16> {
            tile(i = 32, e = 32, n = 32);
            split(i -> iw, im: 16);
            tensor_core(acc: mma);
            reorder(iw, n.atom, im, e.atom);
            stage(p, v at n: shared, cp_async, vector(16));
            pad(p: 16, v: 16);
            pipeline(n, 2);
            bind(iw -> warp.x);
        }
        pub rows_split = rows_mma { split_k(n, 2); }
        pub pages_plain for pages { tile(r = 4, p = 2); bind(r -> thread.x); }
        pub pages_rows for pages {
            fits(D <= 16);
            tile(r = 4, p = 2);
            stage(cache at p: shared, cp_async, vector(16));
            pipeline(p, 2);
            bind(r -> thread.x);
        }
        pub pages_one for pages { fits(D <= 16); tile(r = 4, p = 1); stage(cache at p: shared); pipeline(p, 3); bind(r -> thread.x); }
        pub pages_boxes on sm_90 for pages {
            fits(D <= 16);
            tile(r = 4, p = 1);
            stage(cache at p: shared, tma);
            pipeline(p, 3);
            bind(r -> thread.x);
        }
        pub experts_box on sm_90 for experts<f32> {
            tile(i = 8, j = 16, k = 8);
            stage(x at k: shared, vector(16));
            stage(w at k: shared, tma);
            bind(i -> thread.y, j -> thread.x);
        }
        pub slabs_plain for slabs<f32 | f16> { tile(i = 8, j = 8, k = 4); bind(i -> thread.y, j -> thread.x); }
        pub slabs_staged for slabs<f32> { tile(i = 8, j = 16, k = 8); stage(x, w at k: shared); bind(i -> thread.y, j -> thread.x); }
        pub slabs_boxes on sm_90 for slabs<f32> {
            tile(i = 8, j = 16, k = 8);
            stage(x, w at k: shared, tma);
            pipeline(k, 2);
            bind(i -> thread.y, j -> thread.x);
        }
        pub slabs_wgmma on sm_90a for slabs<f16> {
            tile(i = 64, j = 64, k = 64);
            tensor_core(acc: wgmma(64, 64));
            stage(x, w at k: shared, tma);
            swizzle(x: 128, w: 128);
            pipeline(k, 3);
        }
        pub slabs_roles = slabs_wgmma { produce(k: warp); persistent(1); }
        pub slabs_cluster = slabs_wgmma { produce(k: warp); cluster(i: 2); }
        pub packed_plain for packed<f32 | f16> { tile(d = 32, j = 4); bind(d -> thread.x); }
        pub packed_boxes on sm_90 for packed<f32 | f16> {
            tile(d = 32, j = 8);
            stage(x at j: shared, tma);
            pipeline(j, 3);
            bind(d -> thread.x);
        }
        pub packed_roles = packed_boxes { produce(j: warp); persistent(1); }
        pub neighbours_plain for neighbours { tile(n = 32); bind(n -> thread.x); }
        pub neighbours_rows for neighbours { tile(n = 32); stage(x at r: shared); reorder(r, n.t); bind(n -> thread.x); }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, DType};

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// Places that lead everywhere, before the beginning, behind the end and far away among them.
fn places(count: i64, extent: i64, seed: i64) -> Vec<f64> {
    let of = |n: i64| match (n * 7919 + seed * 104_729) % 11 {
        0 => -1,
        1 => extent,
        2 if n % 3 == 0 => i32::MAX.into(),
        3 if n % 3 == 0 => i32::MIN.into(),
        _ => (n * 31 + seed * 17) % extent.max(1),
    };
    (0..count).map(|n| of(n) as f64).collect()
}

#[test]
fn experts_have_their_own_rows_and_matrices() {
    for (s, kk, n, e, z, i) in
        [(1, 1, 1, 1, 1, 1), (9, 13, 11, 2, 3, 19), (20, 16, 32, 3, 2, 32), (33, 40, 48, 4, 2, 33)]
    {
        let dims = [("S", s), ("K", kk), ("N", n), ("E", e), ("Z", z), ("I", i)];
        let data = [("token", places(z * i, s, 1)), ("expert", places(z, e, 3))];
        let case = Case::with(k::experts::KERNEL, Some(DType::F32), &dims, &data);
        check::<k::experts>(
            &case,
            &[
                &k::experts_plain,
                &k::experts_rows,
                &k::experts_turned,
                &k::experts_ahead,
                &k::experts_registers,
            ],
        );
        case.check_simulator::<k::experts>(&k::experts_box);
        let case = Case::with(k::experts::KERNEL, Some(DType::F16), &dims, &data);
        check::<k::experts>(&case, &[&k::experts_plain, &k::experts_mma, &k::experts_persistent]);
    }
}

#[test]
fn a_value_moves_a_box_of_a_tensor_map() {
    for (z, i, kk, n, e) in [(1, 1, 1, 1, 1), (5, 9, 13, 11, 3), (7, 40, 72, 40, 4), (4, 130, 64, 136, 5)] {
        let dims = [("Z", z), ("I", i), ("K", kk), ("N", n), ("E", e)];
        let data = [("expert", places(z, e, 3))];
        let case = Case::with(k::slabs::KERNEL, Some(DType::F32), &dims, &data);
        check::<k::slabs>(&case, &[&k::slabs_plain, &k::slabs_staged]);
        case.check_simulator::<k::slabs>(&k::slabs_boxes);
        let case = Case::with(k::slabs::KERNEL, Some(DType::F16), &dims, &data);
        for schedule in
            [&k::slabs_plain as &dyn AnySchedule, &k::slabs_wgmma, &k::slabs_roles, &k::slabs_cluster]
        {
            case.check_simulator::<k::slabs>(schedule);
        }
    }
}

#[test]
fn a_box_begins_where_a_value_and_a_form_say() {
    for (s, d, b) in [(1, 1, 1), (40, 21, 6), (64, 64, 9)] {
        let dims = [("S", s), ("D", d), ("B", b)];
        let len = (0..b).map(|n| [s / 2 + 1, 0, 5, -3, s + 9][n as usize % 5] as f64).collect();
        let data = [("first", places(b, s, 6)), ("len", len)];
        for dtype in [DType::F32, DType::F16] {
            let case = Case::with(k::packed::KERNEL, Some(dtype), &dims, &data);
            check::<k::packed>(&case, &[&k::packed_plain]);
            for schedule in [&k::packed_boxes as &dyn AnySchedule, &k::packed_roles] {
                case.check_simulator::<k::packed>(schedule);
            }
        }
    }
}

#[test]
fn rows_along_sums_end_where_the_axis_does() {
    for (m, n, v, d, shift) in
        [(1, 1, 1, 1, 0.0), (9, 21, 5, 11, 1.0), (32, 64, 70, 32, -3.0), (33, 40, 7, 48, 0.0)]
    {
        let dims = [("M", m), ("N", n), ("V", v), ("D", d)];
        let data = [("at", places(n, v, 5))];
        for (dtype, schedules) in [
            (DType::F32, [&k::rows_plain as &dyn AnySchedule, &k::rows_ahead].as_slice()),
            (DType::F16, &[&k::rows_plain, &k::rows_mma, &k::rows_split]),
        ] {
            let case = Case::with(k::named_rows::KERNEL, Some(dtype), &dims, &data).scalar("shift", shift);
            check::<k::named_rows>(&case, schedules);
        }
    }
}

#[test]
fn pages_lie_anywhere() {
    for (b, r, d, l, p) in [(1, 1, 1, 1, 1), (2, 5, 7, 3, 4), (3, 4, 8, 6, 9)] {
        let dims = [("B", b), ("R", r), ("D", d), ("L", l), ("P", p)];
        let lengths = (0..b).map(|n| [0.0, 4.0 * l as f64, 5.0][n as usize % 3]).collect();
        let case =
            Case::with(k::pages::KERNEL, None, &dims, &[("page", places(b * l, p, 2)), ("len", lengths)]);
        check::<k::pages>(&case, &[&k::pages_plain, &k::pages_rows, &k::pages_one]);
        case.check_simulator::<k::pages>(&k::pages_boxes);
    }
}

#[test]
fn several_values_name_a_row() {
    for (b, r, d, l, p) in [(1, 1, 1, 1, 1), (2, 5, 7, 3, 4), (3, 16, 16, 6, 9)] {
        let dims = [("B", b), ("R", r), ("D", d), ("L", l), ("P", p)];
        let lengths: Vec<f64> = (0..b).map(|n| [0.0, 4.0 * l as f64, 5.0][n as usize % 3]).collect();
        let data = [("page", places(b * l, p, 2)), ("len", lengths)];
        let case = Case::with(k::tokens::KERNEL, Some(DType::F32), &dims, &data);
        check::<k::tokens>(&case, &[&k::tokens_plain, &k::tokens_rows]);
        let case = Case::with(k::tokens::KERNEL, Some(DType::F16), &dims, &data);
        check::<k::tokens>(&case, &[&k::tokens_plain, &k::tokens_mma]);
    }
}

#[test]
fn rows_beyond_a_bounded_axis_are_not_looked_up() {
    for (m, n) in [(1, 1), (9, 8), (4, 5)] {
        let case =
            Case::with(k::few::KERNEL, None, &[("M", m), ("N", n), ("V", 7)], &[("at", places(n, 7, 1))]);
        check::<k::few>(&case, &[&k::few_plain, &k::few_rows]);
    }
}

#[test]
fn one_value_names_rows_of_two_tensors() {
    for (m, v, kk) in [(1, 1, 1), (19, 9, 13), (16, 20, 8)] {
        let dims = [("M", m), ("V", v), ("K", kk)];
        let case = Case::with(k::pairs::KERNEL, None, &dims, &[("at", places(m, v, 4))]);
        check::<k::pairs>(&case, &[&k::pairs_plain, &k::pairs_rows]);
    }
}

#[test]
fn limits_are_looked_up_as_before() {
    // Rows of the last tile go to lengths of the first one.
    let len = (0..24).map(|n| if n < 8 { 40.0 } else { 1.0 }).collect();
    let seq = (0..24).map(|n| f64::from(23 - n)).collect();
    let case = Case::with(
        k::looked_up_lengths::KERNEL,
        None,
        &[("B", 24), ("L", 40)],
        &[("len", len), ("seq", seq)],
    );
    check::<k::looked_up_lengths>(&case, &[&k::lengths_plain, &k::lengths_staged]);
}

#[test]
fn a_row_of_a_copy_is_no_row_of_its_tensor() {
    for m in [1, 40, 64] {
        let case = Case::with(k::beside_rows::KERNEL, None, &[("M", m)], &[("t", places(m, m, 3))]);
        check::<k::beside_rows>(&case, &[&k::beside_plain, &k::beside_staged]);
    }
}

#[test]
fn what_leads_outside_is_told_under_each_schedule() {
    use tilewright::{Buffer, Device};
    let device = Device::sim();
    let buffer = |n: usize| Buffer::from_slice(&device, &vec![1.0f32; 5 * n], &[5, n]).unwrap();
    let (x, w) = (buffer(8), buffer(8));
    let at = Buffer::from_slice(&device, &[0, 9, 4], &[3]).unwrap();
    for schedule in [&k::pairs_plain as &dyn AnySchedule, &k::pairs_rows] {
        let mut y = Buffer::<f32>::zeros(&device, &[3]).unwrap();
        let report = k::pairs(&x, &w, &at, &mut y).schedule_dyn(schedule).run().unwrap();
        assert!(!report.outside.is_empty(), "{}", schedule.name());
    }
}

#[test]
fn a_form_beside_the_value_counts() {
    for (n, v) in [(1, 1), (45, 40), (64, 300)] {
        let at = (0..n).map(|n| (n * 37 % 256) as f64).collect();
        let case = Case::with(k::neighbours::KERNEL, None, &[("N", n), ("V", v)], &[("at", at)]);
        check::<k::neighbours>(&case, &[&k::neighbours_plain, &k::neighbours_rows]);
    }
}
