//! Schedules that were accepted once and computed wrong values, or had findings: one module a root.

use crate::support;

use support::agree;
use tilewright::DType;

/// Loads are shared by the element they read, whatever the order of the loops around.
mod order_of_loops {
    use tilewright::prelude::*;

    /// Sum and maximum of each row.
    #[tile_kernel]
    pub fn stats(x: &Tensor<f32, R, N>, s: &mut Tensor<f32, R>, m: &mut Tensor<f32, R>) {
        let r = program_tile(R);
        let n = whole(N);
        store(s, [r], sum(load(x, [r, n]), n));
        store(m, [r], max(load(x, [r, n]), n));
    }

    /// Softmax of each row.
    #[tile_kernel]
    pub fn softmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]);
        let e = exp(v - max(v, n));
        store(y, [r, n], e / sum(e, n));
    }

    /// Two products of one matrix.
    #[tile_kernel]
    pub fn two(
        a: &Tensor<f32, M, K>,
        b: &Tensor<f32, K, N>,
        c: &mut Tensor<f32, M, N>,
        d: &mut Tensor<f32, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut x = zeros::<f32>([i, j]);
        let mut y = zeros::<f32>([i, j]);
        for k in tiles(K) {
            x = dot(load(a, [i, k]), load(b, [k, j]), x);
            y = dot(load(a, [i, k]) * load(a, [i, k]), load(b, [k, j]), y);
        }
        store(c, [i, j], x);
        store(d, [i, j], y);
    }

    /// A product of two reductions, reduced.
    #[tile_kernel]
    pub fn nested(z: &Tensor<f32, P, 4, 6>, u: &mut Tensor<f32, P>, w: &mut Tensor<f32, P, 4>) {
        let p = program_tile(P);
        let b = whole(4);
        let c = whole(6);
        let v = load(z, [p, b, c]);
        let m = max(v, c);
        store(w, [p, b], m);
        store(u, [p], sum(m * sum(v, c), b));
    }

    schedule! {
        pub rows for stats { tile(r = 4); fits(N <= 8); unroll(n); }
        pub columns = rows { reorder(n, r.t in s.sum); }
        pub tiled for stats { tile(r = 4, n = 4); unroll(n.t); reorder(n.t, r.t in m.max); }
        pub bound for stats { tile(r = 128, n = 4); split(r.t -> rt, rr: 4); bind(rt -> thread.x); unroll(n.t); reorder(n.t, rr in m.max); }
        pub again for softmax { fits(N <= 8); tile(r = 4); recompute(v); fuse(v at n); unroll(n); reorder(n, r.t in e.max); }
        pub plain for two { tile(i = 4, j = 4, k = 4); unroll(k.t); }
        pub crossed = plain { reorder(k.t, i.t, j.t in x); reorder(i.t, k.t, j.t in y); }
        pub fused for nested { tile(p = 24, b = 3); split(p.o -> d3, d4: 32); recompute(v); fuse(v at b); }
        pub turned = fused { reorder(d3, c, p.t, b.o, d4); reorder(b.o, p.t in u.sum); }
    }
}

#[test]
fn loads_are_shared_by_element() {
    use order_of_loops as k;
    let rows: [&[(&str, i64)]; 4] =
        [&[("R", 4), ("N", 8)], &[("R", 13), ("N", 7)], &[("R", 128), ("N", 8)], &[("R", 1), ("N", 1)]];
    agree::<k::stats>(k::stats::KERNEL, None, &[&k::rows, &k::columns, &k::tiled, &k::bound], &rows);
    agree::<k::softmax>(k::softmax::KERNEL, None, &[&k::again], &rows);
    let products: [&[(&str, i64)]; 2] = [&[("M", 8), ("N", 4), ("K", 12)], &[("M", 5), ("N", 7), ("K", 6)]];
    agree::<k::two>(k::two::KERNEL, None, &[&k::plain, &k::crossed], &products);
    agree::<k::nested>(
        k::nested::KERNEL,
        None,
        &[&k::fused, &k::turned],
        &[&[("P", 64)], &[("P", 24)], &[("P", 7)]],
    );
}

/// Threads that repeat each other's work load a tensor before its owner stores to it.
mod in_place {
    use tilewright::prelude::*;

    /// z = x + y (y broadcast along j), then y = 2y.
    #[tile_kernel]
    pub fn scale_and_add(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>, z: &mut Tensor<f32, M, N>) {
        let i = program_tile(M);
        let j = whole(N);
        let v = load(y, [i]);
        store(z, [i, j], v + load(x, [i, j]));
        store(y, [i], v * 2.0);
    }

    /// A sum of each row, added to what is there.
    #[tile_kernel]
    pub fn accumulate(x: &Tensor<f32, M, N>, s: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let n = whole(N);
        store(s, [i], load(s, [i]) + sum(load(x, [i, n]), n));
    }

    /// Each row less its mean; the sum and the stores may be shared out differently.
    #[tile_kernel]
    pub fn centre(x: &mut Tensor<f32, M, N>, m: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let n = whole(N);
        let s = sum(load(x, [i, n]), n);
        store(m, [i], s);
        store(x, [i, n], load(x, [i, n]) - s);
    }

    /// What each row had, collected or stored by one of many threads, beside a sum that all of them need.
    #[tile_kernel]
    pub fn before(
        x: &Tensor<f32, M, N>,
        y: &mut Tensor<f32, M>,
        c: &mut Tensor<f32, M>,
        z: &mut Tensor<f32, M, N>,
    ) {
        let i = program_tile(M);
        let j = whole(N);
        let v = load(y, [i]);
        store(c, [i], v);
        store(z, [i, j], v + load(x, [i, j]));
        store(y, [i], v * 2.0);
    }

    schedule! {
        pub stored on sm_90 for before { tile(i = 8); split(j -> jo, jt: 96); bind(jt -> thread.x); unroll(i in c); }
        pub collected = stored { stage(c: shared, tma); }
        pub row for scale_and_add { tile(i = 1); split(j -> jo, jt: 256); bind(jt -> thread.x); }
        pub warp = row { drop(split(j), bind(jt)); split(j -> jo, jt: 32); bind(jt -> lane.x); }
        pub both for scale_and_add { tile(i = 8); split(j -> jo, jt: 32); bind(jt -> thread.x, i -> thread.y); }
        pub acc_row for accumulate { tile(i = 1); split(n -> no, nt: 256); reduce(s.sum: cta); bind(nt -> thread.x); }
        pub acc_two for accumulate { tile(i = 4); split(n -> no, nt: 64); reduce(s.sum: cta); bind(nt -> thread.x, i -> thread.y); }
        pub parts for accumulate { tile(i = 4, n = 16); split_k(n, 3); reduce(s.sum: cta); bind(n.t -> thread.x); }
        pub centred for centre { tile(i = 2); split(n -> no, nt: 64); reduce(s: cta); bind(nt -> thread.x); }
        pub apart for centre { tile(i = 64); split(n -> no, nt: 2); bind(i -> thread.x); }
    }
}

#[test]
fn replicas_load_before_the_owner_stores() {
    use in_place as k;
    let sizes: [&[(&str, i64)]; 4] =
        [&[("M", 5), ("N", 700)], &[("M", 8), ("N", 256)], &[("M", 1), ("N", 1)], &[("M", 3), ("N", 0)]];
    agree::<k::scale_and_add>(k::scale_and_add::KERNEL, None, &[&k::row, &k::warp, &k::both], &sizes);
    agree::<k::accumulate>(k::accumulate::KERNEL, None, &[&k::acc_row, &k::acc_two, &k::parts], &sizes);
    agree::<k::centre>(k::centre::KERNEL, None, &[&k::centred, &k::apart], &sizes);
    agree::<k::before>(k::before::KERNEL, None, &[&k::stored, &k::collected], &sizes);
}

/// A fragment from global memory is guarded where its tile passes the end of an axis of fixed length.
mod fragments {
    use tilewright::prelude::*;

    /// y = x · wᵀ, three inputs a point.
    #[tile_kernel]
    pub fn project(x: &Tensor<f32, P, 3>, w: &Tensor<f32, C, 3>, y: &mut Tensor<f32, P, C>) {
        let (p, c) = program_tile(P, C);
        let a = whole(3);
        store(y, [p, c], dot(load(x, [p, a]), load(w, [c, a]), zeros::<f32>([p, c])));
    }

    /// 3 taps.
    #[tile_kernel]
    pub fn conv(x: &Tensor<f32, { N + 2 }>, w: &Tensor<f32, 3>, y: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        let r = whole(3);
        store(y, [i], sum(load(x, [i + r]) * load(w, [r]), r));
    }

    /// A sum of sums, of fixed lengths.
    #[tile_kernel]
    pub fn nested(z: &Tensor<f32, P, 4, 6>, u: &mut Tensor<f32, P>) {
        let p = program_tile(P);
        let b = whole(4);
        let c = whole(6);
        let q = sum(load(z, [p, b, c]), c);
        store(u, [p], sum(q, b));
    }

    schedule! {
        pub plain for project { tile(p = 8, c = 8, a = 2); bind(c -> thread.x, p -> thread.y); }
        pub held = plain { fragment(x, w at a.o); }
        pub one = plain { fragment(x at a.o); }
        pub all = plain { drop(tile(a)); fragment(x, w at a); }
        pub staged = plain { stage(x, w at c.o: shared); fragment(x, w at a.o); }
        pub piped = held { pipeline(a.o, 2); }
        pub exact for project { tile(p = 8, c = 8, a = 3); bind(c -> thread.x, p -> thread.y); fragment(x, w at a.o); }
        pub taps for conv { tile(i = 32, r = 2); bind(i -> thread.x); }
        pub taps_held = taps { fragment(x, w at r.o); }
        pub tap = taps { fragment(x, w at r.t); }
        pub apart for nested { tile(b = 3, c = 16); split(p -> d1, d4: 4); fragment(z at b.o); reduce(q: cta); reduce(u.sum: cta); bind(b.o -> thread.x, c.t -> thread.y); }
        pub untiled for nested { tile(b = 3); split(p -> d1, d4: 4); fragment(z at b.o); reduce(q: cta); reduce(u.sum: cta); bind(b.o -> thread.x, c -> thread.y); }
        pub within for nested { tile(p = 4, b = 3, c = 16); fragment(z at b.t); reduce(q: cta); reduce(u.sum: cta); bind(b.o -> thread.x, c.t -> thread.y, p -> thread.z); }
    }
}

#[test]
fn fragments_stay_inside_their_tensors() {
    use fragments as k;
    agree::<k::project>(
        k::project::KERNEL,
        None,
        &[&k::plain, &k::held, &k::one, &k::all, &k::staged, &k::piped, &k::exact],
        &[&[("P", 16), ("C", 24)], &[("P", 13), ("C", 11)], &[("P", 1), ("C", 1)]],
    );
    agree::<k::conv>(
        k::conv::KERNEL,
        None,
        &[&k::taps, &k::taps_held, &k::tap],
        &[&[("N", 384)], &[("N", 143)], &[("N", 1)]],
    );
    agree::<k::nested>(
        k::nested::KERNEL,
        None,
        &[&k::apart, &k::untiled, &k::within],
        &[&[("P", 64)], &[("P", 3)]],
    );
}

/// A loop of one step says that its axis may be empty.
mod bounds {
    use tilewright::prelude::*;

    /// z = x + 1.
    #[tile_kernel]
    pub fn addn(x: &Tensor<f32, M, N>, z: &mut Tensor<f32, M, N>) {
        let i = program_tile(M);
        let j = whole(N);
        store(z, [i, j], load(x, [i, j]) + 1.0);
    }

    /// A sum of each row, of which each element counts one more.
    #[tile_kernel]
    pub fn rowsum(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let n = whole(N);
        store(y, [i], sum(load(x, [i, n]) + 1.0, n));
    }

    /// The largest element of each row, at least -5.
    #[tile_kernel]
    pub fn rowmax(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut m = full::<f32>(-5.0, [i]);
        for n in tiles(N) {
            m = max(m, max(load(x, [i, n]), n));
        }
        store(y, [i], m);
    }

    schedule! {
        pub fits1 for addn { fits(N <= 1); tile(i = 32); bind(i -> thread.x); }
        pub sum1 for rowsum { fits(N <= 1); tile(i = 32); bind(i -> thread.x); }
        pub tiled1 for rowsum { fits(N <= 1); tile(i = 32, n = 4); bind(i -> thread.x); }
        pub staged1 for rowsum { fits(N <= 1); tile(i = 32, n = 1); stage(x at n.o: shared); bind(i -> thread.x); }
        pub max1 for rowmax { fits(N <= 1); tile(i = 32); bind(i -> thread.x); }
        pub sum8 for rowsum { fits(N <= 8); tile(i = 32, n = 8); stage(x at n.o: shared); bind(i -> thread.x); }
        pub ones for rowsum { fits(N <= 8); tile(i = 32, n = 1); split(i.t -> ia, ib: 1); split(n.o -> na, nb, nc: 1, 1); bind(ia -> thread.x, ib -> thread.y); unroll(nb); }
    }
}

#[test]
fn an_axis_that_fits_may_be_empty() {
    use bounds as k;
    let sizes: [&[(&str, i64)]; 4] =
        [&[("M", 5), ("N", 0)], &[("M", 32), ("N", 0)], &[("M", 32), ("N", 1)], &[("M", 5), ("N", 1)]];
    agree::<k::addn>(k::addn::KERNEL, None, &[&k::fits1], &sizes);
    agree::<k::rowsum>(
        k::rowsum::KERNEL,
        None,
        &[&k::sum1, &k::tiled1, &k::staged1, &k::sum8, &k::ones],
        &sizes,
    );
    agree::<k::rowmax>(k::rowmax::KERNEL, None, &[&k::max1], &sizes);
    agree::<k::rowsum>(
        k::rowsum::KERNEL,
        None,
        &[&k::sum8, &k::ones],
        &[&[("M", 33), ("N", 8)], &[("M", 1), ("N", 7)]],
    );
}

/// Values and reductions that lack an axis which the schedule tiles, and accumulators of nested loops.
mod lacking {
    use tilewright::prelude::*;

    /// A factor of no axis.
    #[tile_kernel]
    pub fn scaled(x: &Tensor<f32, M>, p: f32, y: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let q = 1.0 - p;
        store(y, [i], load(x, [i]) * q);
    }

    /// Each row less its maximum.
    #[tile_kernel]
    pub fn row_stat(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let n = whole(N);
        store(y, [i, j], load(x, [i, j]) - max(load(x, [i, n]), n));
    }

    /// A product whose first operand is clamped and scaled.
    #[tile_kernel]
    pub fn clamped(
        a: &Tensor<f32, M, K>,
        s: &Tensor<f32, K>,
        b: &Tensor<f32, K, N>,
        c: &mut Tensor<f32, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            let r = max(load(a, [i, k]), 0.0) * load(s, [k]);
            acc = dot(r, load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    /// A sum over two nested loops, and a maximum over the outer one.
    #[tile_kernel]
    pub fn nested(u: &Tensor<f32, M, K, L>, y: &mut Tensor<f32, M>, z: &mut Tensor<f32, M>) {
        let i = program_tile(M);
        let mut s = full::<f32>(1.0, [i]);
        let mut m = full::<f32>(-100.0, [i]);
        for k in tiles(K) {
            m = max(m, max(load(u, [i, k, 0]), k));
            for l in tiles(L) {
                s += sum(sum(load(u, [i, k, l]), l), k);
            }
        }
        store(y, [i], s);
        store(z, [i], m);
    }

    /// A batch of products.
    #[tile_kernel]
    pub fn batched(a: &Tensor<f32, B, M, K>, w: &Tensor<f32, B, K, N>, c: &mut Tensor<f32, B, M, N>) {
        let (h, i, j) = program_tile(B, M, N);
        let mut acc = zeros::<f32>([h, i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [h, i, k]), load(w, [h, k, j]), acc);
        }
        store(c, [h, i, j], acc);
    }

    schedule! {
        pub q1 for scaled { tile(i = 256); bind(i -> thread.x); }
        pub q2 for scaled { tile(i = 256); split(i -> it, iv: 4); vectorize(iv in y); bind(it -> thread.x); }
        pub stat for row_stat { tile(i = 8, j = 32); bind(j -> thread.x, i -> thread.y); }
        pub stat_shared for row_stat { tile(i = 8, j = 32); split(n -> no, nt: 32); reduce(y.max: cta); bind(nt -> thread.x, j -> thread.x, i -> thread.y); }
        pub plain for clamped { tile(i = 16, j = 16, k = 16); bind(j -> thread.x, i -> thread.y); }
        pub staged = plain { stage(a, b at k: shared); }
        pub once = plain { stage(r: shared); }
        pub loops for nested { tile(i = 64, k = 4, l = 8); bind(i -> thread.x); }
        pub combined for nested { tile(i = 4, k = 4, l = 8); reduce(s: cta); bind(l -> thread.x, i -> thread.y); }
        pub transposed for batched {
            tile(h = 1, i = 64, j = 64, k = 16);
            split(i -> it, ir: 4);
            split(j -> jt, jr: 4);
            stage(a at k: shared, transposed, vector(16));
            stage(w at k: shared, vector(16));
            bind(jt -> thread.x, it -> thread.y);
            reorder(k, ir, jr);
            vectorize(jr);
            vectorize(ir in acc);
        }
        pub padded = transposed { pad(a: 16); pipeline(k, 2); }
    }
}

#[test]
fn values_may_lack_tiled_axes() {
    use lacking as k;
    agree::<k::scaled>(
        k::scaled::KERNEL,
        None,
        &[&k::q1, &k::q2],
        &[&[("M", 512)], &[("M", 100)], &[("M", 0)]],
    );
    agree::<k::row_stat>(
        k::row_stat::KERNEL,
        None,
        &[&k::stat],
        &[&[("M", 16), ("N", 64)], &[("M", 9), ("N", 33)], &[("M", 1), ("N", 1)]],
    );
    agree::<k::clamped>(
        k::clamped::KERNEL,
        None,
        &[&k::plain, &k::staged, &k::once],
        &[
            &[("M", 32), ("N", 16), ("K", 48)],
            &[("M", 17), ("N", 15), ("K", 31)],
            &[("M", 3), ("N", 2), ("K", 0)],
        ],
    );
    agree::<k::nested>(
        k::nested::KERNEL,
        None,
        &[&k::loops],
        &[
            &[("M", 64), ("K", 8), ("L", 16)],
            &[("M", 5), ("K", 7), ("L", 3)],
            &[("M", 5), ("K", 0), ("L", 3)],
        ],
    );
    agree::<k::batched>(
        k::batched::KERNEL,
        None,
        &[&k::transposed, &k::padded],
        &[&[("B", 2), ("M", 64), ("N", 64), ("K", 32)], &[("B", 3), ("M", 33), ("N", 65), ("K", 17)]],
    );
}

/// Shared bytes that nobody wrote are not read: not by wider loads, nor before a pipeline that has no step.
mod unwritten {
    use tilewright::prelude::*;

    /// Normalised rows.
    #[tile_kernel]
    pub fn norm<T: Float>(x: &Tensor<T, R, N>, g: &Tensor<T, N>, y: &mut Tensor<T, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]).cast::<f32>();
        let d = v - sum(v, n) / 7.0;
        let var = sum(d * d, n) / 7.0;
        store(y, [r, n], (d * rsqrt(var + 0.5) * load(g, [n]).cast::<f32>()).cast::<T>());
    }

    /// C = A·B.
    #[tile_kernel]
    pub fn mm(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        let mut acc = zeros::<f32>([i, j]);
        for k in tiles(K) {
            acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        }
        store(c, [i, j], acc);
    }

    schedule! {
        pub odd for norm<f32 | f16 | bf16> { fits(N <= 7); tile(n = 5); stage(x at n.o: shared); }
        pub rows for norm<f32 | f16 | bf16> { fits(N <= 7); tile(r = 4, n = 5); stage(x, g at n.o: shared); bind(r -> thread.x); }
        pub gaps for norm<f16 | bf16> { fits(N <= 8); tile(r = 4, n = 8); stage(x at n.o: shared); pad(x: 2); bind(r -> thread.x); }
        pub values for norm<f32 | f16 | bf16> { fits(N <= 7); tile(r = 1); stage(v, d: shared); }
        pub rings for mm { tile(i = 8, j = 16, k = 8); reorder(i.t, j.t, k.o); stage(a, b at k: shared, cp_async); pipeline(k, 2); fragment(a, b at k.t); pipeline(k.t, 2); }
        pub grid for mm { tile(i = 32, j = 32, k = 8); bind(j -> thread.x); split(i.t -> ia, ib: 8); bind(ia -> block.z); stage(acc: shared); }
    }
}

#[test]
fn shared_memory_is_written_before_it_is_read() {
    use unwritten as k;
    let rows: [&[(&str, i64)]; 3] = [&[("R", 8), ("N", 7)], &[("R", 4), ("N", 5)], &[("R", 1), ("N", 1)]];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        agree::<k::norm>(k::norm::KERNEL, Some(dtype), &[&k::odd, &k::rows, &k::values], &rows);
    }
    agree::<k::norm>(
        k::norm::KERNEL,
        Some(DType::BF16),
        &[&k::gaps],
        &[&[("R", 8), ("N", 8)], &[("R", 3), ("N", 7)]],
    );
    agree::<k::mm>(
        k::mm::KERNEL,
        None,
        &[&k::rings, &k::grid],
        &[
            &[("M", 8), ("N", 16), ("K", 0)],
            &[("M", 17), ("N", 33), ("K", 29)],
            &[("M", 64), ("N", 64), ("K", 32)],
            &[("M", 1), ("N", 1), ("K", 1)],
        ],
    );
}
